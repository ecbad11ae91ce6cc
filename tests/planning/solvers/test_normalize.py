from __future__ import annotations

import pytest

from nnc.errors import PlanningError
from nnc.planning import Block, Interference, Problem
from nnc.planning.instance import COMPANIONS, EXPLICIT, PINNED, Instance
from nnc.planning.solvers.normalize import conflicts, normalize, overlap_rows, sections, totals


def test_only_maximal_sections_are_kept() -> None:
    """Births at 0, 5 and 7, then deaths: one section; another after the birth at 40."""
    assert sections([0, 5, 7, 40], [50, 30, 20, 60]) == ([0, 0, 0, 1], [2, 1, 1, 2])


def test_lifetimes_are_those_of_the_problem() -> None:
    problem = Problem((Block("a", 1, 0, 40), Block("b", 1, 9, 12), Block("c", 1, 50, 60)))
    assert [part.instance.lifetime for part in normalize(problem)] == [[40, 3], [10]]


def test_empty_blocks_are_dropped() -> None:
    problem = Problem((Block("a", 0, 0, 9), Block("b", 4, 3, 3), Block("c", 4, 1, 2)))
    (part,) = normalize(problem)
    assert part.blocks == [2]
    assert part.instance == Instance([0], [1], [4], [1], lifetime=[1])


def test_time_is_cut_where_nothing_lives_across() -> None:
    problem = Problem((Block("a", 1, 0, 4), Block("b", 2, 9, 12), Block("c", 3, 3, 6), Block("d", 4, 6, 8)))
    assert [(part.blocks, part.instance.lower, part.instance.upper) for part in normalize(problem)] == [
        ([0, 2], [0, 0], [1, 1]),
        ([3], [0], [1]),
        ([1], [0], [1]),
    ]


def test_memories_are_planned_apart() -> None:
    problem = Problem((Block("a", 1, 0, 4), Block("b", 2, 0, 4, memory="device")))
    assert [(part.memory, part.blocks) for part in normalize(problem)] == [("host", [0]), ("device", [1])]


def test_needs_are_carried_over_in_the_numbers_of_the_part() -> None:
    blocks = (
        Block("x", 8, 0, 9, memory="device"),
        Block("a", 8, 0, 2, offset=8),
        Block("b", 8, 2, 4),
        Block("c", 8, 0, 2),
    )
    problem = Problem(blocks, Interference.of_pairs(4, [(1, 3), (2, 3)]), ((1, 2),))
    part = normalize(problem)[1]
    assert part.instance.pinned == {0: 8, 1: 8}
    assert part.instance.groups == ((0, 1),)
    assert part.instance.rows == (0b100, 0b100, 0b011)
    assert part.instance.needs == {PINNED, COMPANIONS, EXPLICIT}
    assert conflicts(part.instance) == [[2], [2], [0, 1]]


def test_a_companion_pinned_to_an_offset_that_does_not_suit_the_other_is_an_error() -> None:
    problem = Problem((Block("a", 8, 0, 2, offset=4), Block("b", 8, 2, 4, alignment=8)), companions=((0, 1),))
    with pytest.raises(PlanningError):
        normalize(problem)


def test_totals_and_conflicts_of_lives() -> None:
    instance = Instance([0, 1, 2], [2, 3, 4], [5, 6, 7], [1, 1, 1])
    assert totals(instance) == [5, 11, 13, 7]
    assert conflicts(instance) == [[1], [0, 2], [1]]


def test_an_explicit_graph_that_lives_explain_is_dropped() -> None:
    """The exact search is then open to it; with one pair more it is not."""
    blocks = tuple(Block(str(i), 4, i, i + 2) for i in range(5))
    lives = Interference.of_lives(blocks)
    assert overlap_rows([block.lower for block in blocks], [block.upper for block in blocks]) == lives.rows
    assert all(part.instance.plain for part in normalize(Problem(blocks, lives)))
    wider = Interference.of_pairs(5, [*lives.pairs(), (0, 4)])
    assert [part.instance.needs for part in normalize(Problem(blocks, wider))] == [{EXPLICIT}]
