from __future__ import annotations

from random import Random

from nnc.planning import Block, Problem, faults, solve
from nnc.planning.instance import Effort, Instance
from nnc.planning.solvers.greedy import by_size, place
from nnc.planning.solvers.local import local_search
from nnc.planning.solvers.normalize import conflicts

TRAP = Instance([0, 2, 0, 3, 1], [2, 5, 3, 5, 4], [5, 4, 3, 3, 2], [1] * 5)


def test_it_is_never_worse_than_its_first_order() -> None:
    first = TRAP.arena(place(TRAP, by_size(TRAP), conflicts(TRAP), Effort(), tightest=False))
    found = local_search(TRAP, Effort()).offsets
    assert found is not None
    assert TRAP.arena(found) <= first


def test_one_seed_gives_one_plan() -> None:
    assert local_search(TRAP, Effort(seed=4)) == local_search(TRAP, Effort(seed=4))


def test_an_order_with_the_same_beginning_gives_the_same_plan() -> None:
    draw = Random(0)
    for _ in range(200):
        count = draw.randrange(4, 20)
        lower = [draw.randrange(20) for _ in range(count)]
        upper = [first + draw.randrange(1, 9) for first in lower]
        sizes, alignment = [draw.randrange(1, 99) for _ in range(count)], [draw.choice((1, 4, 8)) for _ in range(count)]
        instance = Instance(lower, upper, sizes, alignment, pinned={0: 8}, groups=((1, 3),))
        neighbours, order = conflicts(instance), draw.sample(range(count), count)
        before = place(instance, order, neighbours, Effort(), tightest=False)
        assert before is not None
        kept = draw.randrange(count)
        rest = draw.sample(order[kept:], count - kept)
        trial = order[:kept] + rest
        assert place(instance, trial, neighbours, Effort(), tightest=False, kept=kept, before=before) == place(
            instance, trial, neighbours, Effort(), tightest=False
        )


def test_it_moves_around_a_pinned_block() -> None:
    blocks = [Block("fixed", 4, 2, 3, offset=4)]
    blocks += [
        Block(str(i), size, lower, upper) for i, (lower, upper, size) in enumerate([(0, 4, 4), (0, 2, 6), (3, 6, 6)])
    ]
    problem = Problem(tuple(blocks))
    plan = solve(problem, solver="local_search")
    assert faults(problem, plan) == ()
    assert plan.arena_bytes == 10
