from __future__ import annotations

import pytest

from nnc.errors import PlanningError
from nnc.planning import Block, Interference, Problem


@pytest.mark.parametrize(
    ("fields", "got"),
    [
        ({"size": -1, "lower": 0, "upper": 1}, "size=-1"),
        ({"size": 1, "lower": 2, "upper": 1}, "life=[2, 1)"),
        ({"size": 1, "lower": 0, "upper": 1, "alignment": 0}, "alignment=0"),
        ({"size": 1, "lower": 0, "upper": 1, "alignment": 4, "offset": 6}, "offset=6"),
        ({"size": 1, "lower": 0, "upper": 1, "offset": -1}, "offset=-1"),
    ],
)
def test_a_block_that_cannot_be_is_refused(fields: dict[str, int], got: str) -> None:
    with pytest.raises(PlanningError) as caught:
        Block("x", **fields)
    assert caught.value.subject == "block x"
    assert caught.value.got == got


def test_a_block_reserves_its_size_rounded_up_to_its_alignment() -> None:
    assert Block("x", 65, 0, 1, alignment=64).reserved == 128
    assert Block("x", 64, 0, 1, alignment=64).reserved == 64
    assert Block("x", 0, 0, 1, alignment=64).reserved == 0


def test_interference_is_symmetric_and_lists_each_pair_once() -> None:
    graph = Interference.of_pairs(4, [(2, 0), (1, 3), (0, 2)])
    assert list(graph.pairs()) == [(0, 2), (1, 3)]
    assert list(graph.neighbours(0)) == [2]
    assert graph.rows == (0b0100, 0b1000, 0b0001, 0b0010)


@pytest.mark.parametrize("rows", [(0b10, 0b00), (0b01, 0b00), (0b100, 0b00)])
def test_rows_that_are_no_graph_are_refused(rows: tuple[int, ...]) -> None:
    with pytest.raises(PlanningError):
        Interference(rows)


def test_pairs_beyond_the_blocks_are_refused() -> None:
    with pytest.raises(PlanningError):
        Interference.of_pairs(2, [(0, 2)])


def test_lives_that_only_touch_do_not_interfere() -> None:
    problem = Problem((Block("a", 1, 0, 2), Block("b", 1, 2, 3), Block("c", 1, 1, 3), Block("d", 1, 1, 2, memory="x")))
    assert not problem.interfere(0, 1)
    assert problem.interfere(0, 2)
    assert problem.interfere(1, 2)
    assert not problem.interfere(0, 3)
    assert problem.memories == ("host", "x")


def test_the_graph_of_lives_is_what_a_problem_assumes() -> None:
    blocks = (Block("a", 1, 0, 2), Block("b", 1, 1, 3), Block("c", 0, 0, 3), Block("d", 1, 2, 2), Block("e", 1, 2, 4))
    assert list(Interference.of_lives(blocks).pairs()) == [(0, 1), (1, 4)]


@pytest.mark.parametrize(
    "companions",
    [((0, 5),), ((0, 2), (2, 3)), ((0, 1),), ((0, 3),), ((0, 4),)],
    ids=["unknown", "in two groups", "interfering", "two memories", "two pins"],
)
def test_companions_that_cannot_be_are_refused(companions: tuple[tuple[int, ...], ...]) -> None:
    blocks = (
        Block("a", 1, 0, 2, offset=0),
        Block("b", 1, 1, 2),
        Block("c", 1, 2, 3),
        Block("d", 1, 2, 3, memory="x"),
        Block("e", 1, 3, 4, offset=8),
    )
    with pytest.raises(PlanningError):
        Problem(blocks, companions=companions)


def test_an_interference_of_another_size_is_refused() -> None:
    with pytest.raises(PlanningError):
        Problem((Block("a", 1, 0, 1),), interference=Interference.of_pairs(2, []))
