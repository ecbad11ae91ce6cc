"""Exact search for the smallest arena: branch and bound at one capacity after the other, with restarts.

A search that goes wrong early does not recover, and one that goes right needs few more nodes than there are blocks.
So each is short, and the next one differs: another order of the blocks, and after the first rotation some noise in it;
of many blocks in the first one too, as quicker solvers have tried orders without.
From then on every second order puts those first that live in sections where nodes died, the most deadly section first.
Every rotation may try more nodes than the one before, so that in the end the optimum is found and proven.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from itertools import cycle
from math import gcd
from operator import add
from random import Random

from nnc.classes import dataclass
from nnc.planning.instance import Effort, ExpiredError, Instance, Solution
from nnc.planning.native import compiled
from nnc.planning.solvers import branch_and_bound
from nnc.planning.solvers.branch_and_bound import FOUND, FULL, REFUTED
from nnc.planning.solvers.normalize import totals
from nnc.planning.solvers.search_tree import SearchTree, extend, make_tree, plant
from nnc.planning.solvers.skyline import rank, skyline

# Keys as in `skyline.rank`, and whether W and A count the steps of the problem or the sections that remain of them. Of
# 46 dense problems each key alone solves 16 to 20 within 2,000 nodes, all of them 28.
ORDERS = (("TAW", True), ("TWA", True), ("TZ", True), ("WAT", True), ("TAW", False), ("TWA", False), ("WAT", False))
# And of many blocks: of 28 searches of that of 1,256 (below) the first of these find its bound in 12, the others in 2
# to 7; the fifth key above in 1.
ORDERS_OF_MANY = (
    ("WAT", False), ("TAW", True), ("WAT", True), ("TWA", True), ("WAT", False), ("TZ", True), ("TWA", False),
)  # fmt: skip
ROTATIONS = 24
# Per block, in a search of the first rotation: one that goes right has 1.05 to 1.9 a block. Of many blocks it is half
# of that: a training step of 1,256 (tests/planning/data) takes 27,000 to 57,000 nodes so, and two of four seeds none of
# 53,000 otherwise. Of 30 planted problems, which are smaller, 18 are solved in 150,000 nodes with 1, 3 and 10.
NODES = 3
MANY = 1000
# Percent by which keys are off, at most, after the first rotation: 18 of these 30 with 15 and 30, 17 with 60. Without
# noise, and 12,000 nodes, 24 of the 46 above are solved, with noise 29.
NOISE = 30
# And of many blocks, from the first rotation on: that training step is planned at its bound by 14 of 40 searches with
# 10, of 12 with 3, of 8 with 1, of 7 with 30, and of none of 7 without.
NOISE_OF_MANY = 10
# And blocks that come to lean on others, per node. In searches of ResNet-50's step at its smallest limit there are
# 1,600 to 30,000 a node, of which 2,000 nodes took 2 to 8 s and bettered nothing. Of many blocks one a node, and twice
# as many with each rotation: searches of Inception-v2's step that find its bound have 160 to 450 in all, those that do
# not 1,000 soon after they go wrong, and half of their time was spent behind that.
LEANS = 64
SMALL = 24  # so few blocks are searched before the loop is compiled
# Nodes between looks at the clock, times the work of one: a look at each block, and at all pairs of neighbours of one.
# 5 to 20 ms. A tenth of it was two nodes of Inception-v2's step, and the calls alone a seventh of its search.
STRIDE = 10_000_000
MOST_NOTES = 1 << 26


@dataclass(slots=True)
class Incumbent:
    """The smallest plan so far takes `arena` bytes, and none takes less than `proven`, all in multiples of `unit`.

    `offsets` is `None` as long as that plan is somebody else's.
    """

    effort: Effort
    unit: int
    proven: int
    arena: int
    offsets: list[int] | None = None
    nodes: int = 0

    @property
    def goal(self) -> int:
        """The arena to try for: the target, or the least that is not refuted."""
        return max(self.effort.target, self.proven)

    @property
    def left(self) -> int:
        """How many nodes may still be tried."""
        return branch_and_bound.NEVER if self.effort.places is None else max(self.effort.places - self.nodes, 0)

    def is_over(self) -> bool:
        """Whether nothing smaller is wanted, possible or affordable."""
        return self.arena <= self.goal or self.left == 0 or self.effort.expired


def search(instance: Instance, effort: Effort) -> Solution:
    """The smallest arena that searches with growing limits of nodes find; `proven` is the bound that they prove."""
    incumbent = _first(instance, effort)
    # The tree counts in words of 64 bits.
    if incumbent.is_over() or sum(instance.size) + max(instance.alignment) >= branch_and_bound.NEVER:
        return Solution(incumbent.offsets, incumbent.proven)
    tree = make_tree(instance, effort)
    draw = Random(effort.seed)
    rungs, learns = cycle((1, 2, 3)), cycle((False, True))
    is_large = instance.count > MANY
    limit = NODES * instance.count // (2 if is_large else 1)
    for rotation in range(ROTATIONS):
        grow = compiled(branch_and_bound.grow) if rotation or instance.count > SMALL else None
        leans = min(1 << rotation, LEANS) if is_large else LEANS
        for turn, (keys, in_steps) in enumerate(ORDERS_OF_MANY if is_large else ORDERS):
            order = rank(instance, keys, in_steps=in_steps)
            if rotation or is_large:
                noise = _noise(draw, instance.count, NOISE_OF_MANY if is_large else NOISE)
                order = _varied(instance, keys, in_steps, noise, tree if next(learns) else None)
            loop = grow or branch_and_bound.grow
            tree.most_leans = leans * limit
            _try(incumbent, tree, loop, order, limit, incumbent.goal)
            # Each search of many blocks takes its time: a step between follows every second one.
            if not (is_large and turn % 2):
                _try_between(incumbent, tree, loop, order, limit, next(rungs))
            if incumbent.is_over():
                return Solution(incumbent.offsets, incumbent.proven)
        limit += limit // 2
        tree.sections.deaths[:] = array("q", (count // 2 for count in tree.sections.deaths))
    return Solution(incumbent.offsets, incumbent.proven)


def _first(instance: Instance, effort: Effort) -> Incumbent:
    """What is known before the search: the best plan of others, or else a plan of its own."""
    unit, bound = gcd(*instance.size, *instance.alignment), max(totals(instance), default=0)
    if effort.known:
        return Incumbent(effort, unit, bound, effort.known)
    offsets = skyline("TWA")(instance, Effort(deadline=effort.deadline)).offsets
    if offsets is None:
        raise ExpiredError
    return Incumbent(effort, unit, bound, instance.arena(offsets), offsets)


def _noise(draw: Random, count: int, most: int) -> list[int]:
    """A factor for the keys of each block, in percent, off by `most` at most."""
    return [draw.randint(100 - most, 100 + most) for _ in range(count)]


def _varied(instance: Instance, keys: str, in_steps: bool, noise: list[int], tree: SearchTree | None) -> list[int]:
    """An order with noise, led by where nodes of the tree died.

    Alone, these orders solve three of 17 planted problems that the keys do not in the same time, and miss two others.
    """
    if tree is None:
        return rank(instance, keys, in_steps=in_steps, noise=noise)
    return rank(instance, f"T{keys}", in_steps=in_steps, noise=noise, loads=tree.sections.deaths)


def _try_between(
    incumbent: Incumbent, tree: SearchTree, grow: Callable[..., int], order: list[int], limit: int, rung: int
) -> None:
    """After the goal, as no capacity is easier for being larger, one of three steps from half way up to the best.

    Each is a chance of its own, and every plan that is found moves the steps. Where a capacity was asked for, a plan
    between is worth less, and only the first step is tried.
    """
    down = (incumbent.arena - incumbent.goal) * rung // 6
    between = (incumbent.arena - max(down, 1)) // incumbent.unit * incumbent.unit
    is_wanted = incumbent.goal == incumbent.proven or rung == 1
    if is_wanted and not incumbent.is_over() and between > incumbent.goal:
        _try(incumbent, tree, grow, order, limit, between)


def _try(
    incumbent: Incumbent, tree: SearchTree, grow: Callable[..., int], order: list[int], limit: int, capacity: int
) -> None:
    """One search within `capacity`, in strides between looks at the clock."""
    plant(tree, order, capacity)
    blocks = tree.blocks
    most, stride = (
        min(limit, incumbent.left),
        1 + STRIDE // (blocks.count + (len(blocks.neighbours) // blocks.count) ** 2),
    )
    while (
        tree.nodes < most
        and tree.leans < tree.most_leans
        and not incumbent.effort.expired
        and len(tree.undo.block_notes) < MOST_NOTES
    ):
        ended = grow(tree, min(tree.nodes + stride, most))
        if ended == FULL:
            extend(tree)
        elif ended == FOUND:
            incumbent.offsets = list(tree.places.offset)
            incumbent.arena = max(map(add, tree.places.offset, tree.blocks.size))
            break
        elif ended == REFUTED:
            incumbent.proven = max(incumbent.proven, capacity + incumbent.unit)
            break
    incumbent.nodes += max(tree.nodes, tree.leans // LEANS)
