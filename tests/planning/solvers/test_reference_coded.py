from __future__ import annotations

from nnc.planning import Block, Problem, faults, solve
from nnc.planning.instance import Effort, Instance
from nnc.planning.solvers.reference_coded import reference_coded


def offsets(instance: Instance) -> list[int] | None:
    return reference_coded(instance, Effort()).offsets


def test_a_chain_needs_two_buffers() -> None:
    """x(4) -> a(2) -> b(4) -> c(2): x and b tie at 4, b has more interference; x goes before it, a and c share 2."""
    assert offsets(Instance([0, 1, 2, 3], [2, 3, 4, 5], [4, 2, 4, 2], [1] * 4)) == [0, 4, 0, 4]


def test_the_nearest_edge_wins_and_an_edge_between_blocks_beats_the_dummies() -> None:
    """d [4, 5) fits between a and b, after the death of c, and after that of b's neighbour e: a and b are nearest."""
    instance = Instance([0, 6, 0, 4], [4, 8, 2, 5], [8, 8, 4, 3], [1] * 4)
    assert offsets(instance) == [0, 0, 8, 0]


def test_the_size_left_of_a_buffer_is_used_above_its_first_block() -> None:
    """a(8) is followed by b(3) and c(4) at once: both lie in a's bytes."""
    instance = Instance([0, 2, 2], [2, 4, 4], [8, 3, 4], [1] * 3)
    assert offsets(instance) == [0, 4, 0]


def test_companions_are_placed_as_one() -> None:
    blocks = (Block("in", 4, 0, 2), Block("body", 6, 1, 4), Block("out", 4, 3, 5), Block("extra", 5, 4, 6))
    problem = Problem(blocks, companions=((0, 2),))
    plan = solve(problem, solver="reference_coded")
    assert plan.offsets[0] == plan.offsets[2]
    assert faults(problem, plan) == ()


def test_everybody_gets_a_second_look_after_a_new_buffer() -> None:
    """b does not fit beside a; once c has opened a buffer that dies before b, b reuses it."""
    instance = Instance([0, 1, 0], [4, 2, 1], [4, 4, 4], [1] * 3)
    assert offsets(instance) == [0, 4, 4]
