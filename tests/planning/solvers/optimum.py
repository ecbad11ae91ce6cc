"""Small instances and their smallest arena by brute force: every order of the blocks, each at its lowest place."""

from __future__ import annotations

from itertools import permutations
from random import Random

from nnc.planning import Block, Problem
from nnc.planning.instance import Effort, Instance
from nnc.planning.solvers.greedy import place
from nnc.planning.solvers.normalize import conflicts, normalize


def optimum(instance: Instance) -> int:
    """The smallest arena over all orders; a plan that cannot sink is the first fit of its blocks by offset."""
    neighbours = conflicts(instance)
    orders = permutations(range(instance.count))
    return min(instance.arena(place(instance, order, neighbours, Effort(), tightest=False) or []) for order in orders)


def random_instance(seed: int, most: int) -> Instance:
    """The largest part of a problem with at most `most` blocks of mixed alignment."""
    draw = Random(seed)
    blocks = []
    for i in range(draw.randrange(1, most + 1)):
        lower, alignment = draw.randrange(5), draw.choice((1, 1, 2, 3, 4))
        size = alignment * draw.randrange(1, 9)
        blocks.append(Block(str(i), size, lower, lower + draw.randrange(1, 5), alignment))
    return max((part.instance for part in normalize(Problem(tuple(blocks)))), key=lambda each: each.count)
