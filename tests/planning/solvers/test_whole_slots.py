from __future__ import annotations

from bisect import bisect_left, insort
from itertools import combinations
from random import Random

import pytest

from nnc.planning import Block, Interference, Problem, faults, solve
from nnc.planning.instance import Effort, Instance
from nnc.planning.solvers.whole_slots import FreeSlots, slots


def test_a_block_takes_the_smallest_free_slot_that_holds_it() -> None:
    """Of the slots of 8 and 4 bytes the last block takes the second; nothing holds 9 bytes."""
    instance = Instance([0, 0, 1, 1], [1, 1, 2, 2], [8, 4, 3, 9], [1, 1, 1, 1])
    assert slots(instance, Effort()).offsets == [0, 8, 8, 12]


def test_free_slots_are_those_of_a_sorted_list() -> None:
    """More sizes than a word has bits, so that the smallest that holds a size is often in a later word."""
    draw = Random(1)
    sizes = draw.sample(range(1, 10**6), 3_000)
    free, listed = FreeSlots(sizes), list[tuple[int, int]]()
    for turn in range(3_000):
        if draw.random() < 0.5:
            free.give(size := draw.choice(sizes), turn)
            insort(listed, (size, turn))
        else:
            size = draw.randrange(1_100_000)
            place = bisect_left(listed, (size, 0))
            assert free.take(size) == (listed.pop(place) if place < len(listed) else None)


@pytest.mark.parametrize("seed", range(30))
def test_without_time_there_is_a_valid_plan_of_anything(seed: int) -> None:
    """Pinned blocks, companions, several memories, mixed alignment, with and without an explicit interference."""
    draw = Random(seed)
    blocks = []
    for i in range(draw.randrange(1, 20)):
        lower, alignment = draw.randrange(9), draw.choice((1, 2, 4, 6))
        pin = 12 * draw.randrange(9) if i == 3 else None
        memory = draw.choice(("host", "device"))
        blocks.append(Block(str(i), draw.randrange(30), lower, lower + draw.randrange(6), alignment, pin, memory))
    pairs = [pair for pair in combinations(range(len(blocks)), 2) if draw.random() < 0.5]
    for interference in (None, Interference.of_pairs(len(blocks), pairs)):
        problem = Problem(tuple(blocks), interference)
        apart = [
            (i, j)
            for i, j in ((0, 1), (4, 5))
            if j < len(blocks) and blocks[i].memory == blocks[j].memory and not problem.interfere(i, j)
        ]
        problem = Problem(tuple(blocks), interference, tuple(apart))
        plan = solve(problem, time_limit=0.0)
        assert faults(problem, plan) == ()
        assert {name for name in plan.solver.split("+") if name} <= {"slots", "portfolio"}
