"""Blocks one by one in a fixed order, each to a place that is free over its life; the order is the whole idea.

This family takes everything a problem can say: pinned blocks come first, companions move as one, and interference
may be an explicit graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import lcm

from nnc.errors import PlanningError
from nnc.planning import arrays
from nnc.planning.instance import Effort, Instance, Solution, Solver
from nnc.planning.solvers.normalize import conflicts, degrees, totals

Order = Callable[[Instance], list[int]]
LARGEST_FOR_LISTS = 6_000
CHECK_EVERY = 32


def by_size(instance: Instance) -> list[int]:
    """Larger first, then earlier births."""
    return sorted(range(instance.count), key=lambda i: (-instance.size[i], instance.lower[i], i))


def by_breadth(instance: Instance) -> list[int]:
    """Steps from the fullest down; the blocks alive there from the largest down."""
    alive = totals(instance)
    at_step: list[list[int]] = [[] for _ in alive]
    for i in by_size(instance):
        fullest = max(range(instance.lower[i], instance.upper[i]), key=lambda step: (alive[step], -step), default=None)
        if fullest is not None:
            at_step[fullest].append(i)
    order = [i for step in sorted(range(len(alive)), key=lambda step: (-alive[step], step)) for i in at_step[step]]
    return order + [i for i in by_size(instance) if instance.lower[i] == instance.upper[i]]


def by_conflicts(instance: Instance) -> list[int]:
    """Most interference first, then larger."""
    degree = degrees(instance)
    return sorted(range(instance.count), key=lambda i: (-degree[i], -instance.size[i], i))


def by_area(instance: Instance) -> list[int]:
    """Largest `size * life` first."""
    return sorted(
        range(instance.count),
        key=lambda i: (-instance.size[i] * (instance.upper[i] - instance.lower[i]), instance.lower[i], i),
    )


def by_width(instance: Instance) -> list[int]:
    """Longest life first, then larger."""
    return sorted(range(instance.count), key=lambda i: (instance.lower[i] - instance.upper[i], -instance.size[i], i))


def by_birth(instance: Instance) -> list[int]:
    """Earliest birth first, then larger."""
    return sorted(range(instance.count), key=lambda i: (instance.lower[i], -instance.size[i], i))


def first_fit(order: Order) -> Solver:
    """The solver that puts each block, in `order`, at the lowest free place.

    The pairs that interfere may be too many to list in time: where there is a deadline it leaves such instances alone.
    """

    def solver(instance: Instance, effort: Effort) -> Solution:
        if instance.count > LARGEST_FOR_LISTS:
            if arrays.AVAILABLE and instance.rows is None and _uniform(instance):
                return Solution(arrays.first_fit_in_arrays(instance, order(instance), effort.deadline))
            if effort.deadline is not None:
                return Solution(None)
        return Solution(place(instance, order(instance), conflicts(instance, effort), effort, tightest=False))

    return solver


def best_fit(order: Order) -> Solver:
    """The solver that puts each block, in `order`, into the tightest free gap between placed blocks."""

    def solver(instance: Instance, effort: Effort) -> Solution:
        return Solution(place(instance, order(instance), conflicts(instance, effort), effort, tightest=True))

    return solver


def _uniform(instance: Instance) -> bool:
    """Whether sums of sizes and pinned offsets are aligned for every block, so that alignment needs no thought."""
    common = lcm(*set(instance.alignment))
    return not any(number % common for number in (*instance.size, *instance.pinned.values()))


def place(
    instance: Instance,
    order: Sequence[int],
    neighbours: list[list[int]],
    effort: Effort,
    *,
    tightest: bool,
    kept: int = 0,
    before: Sequence[int] = (),
) -> list[int] | None:
    """Every block at a free place, in `order`, after the pinned ones; companions are placed with their first.

    The first `kept` of the order are where they are in `before`, which an order with the same beginning gave.

    `None` at the deadline.
    Raises `PlanningError` if two pinned blocks share bytes.
    """
    offsets = [-1] * instance.count
    for i, offset in instance.pinned.items():
        offsets[i] = offset
    _check_pinned(instance, offsets, neighbours)
    partners = {i: group for group in instance.groups for i in group}
    for i in order[:kept]:
        for member in partners.get(i, (i,)):
            offsets[member] = before[member]
    for turn, i in enumerate(order[kept:], kept):
        if turn % CHECK_EVERY == 0 and effort.expired:
            return None
        if offsets[i] >= 0:
            continue
        group = partners.get(i, (i,))
        offset = _lowest(instance, group, offsets, neighbours, tightest=tightest)
        for member in group:
            offsets[member] = offset
    return offsets


def _check_pinned(instance: Instance, offsets: list[int], neighbours: list[list[int]]) -> None:
    for i, bottom in instance.pinned.items():
        for j in neighbours[i]:
            if 0 <= offsets[j] < bottom + instance.size[i] and bottom < offsets[j] + instance.size[j]:
                raise PlanningError("pinned blocks", got=f"{i} and {j} on the same bytes", need="places apart")


def _lowest(
    instance: Instance, group: tuple[int, ...], offsets: list[int], neighbours: list[list[int]], *, tightest: bool
) -> int:
    """The lowest, or the tightest, multiple of the group's alignment at which no member meets a placed block.

    A placed block `[bottom, top)` forbids the offsets `bottom - size < offset < top` to a member of `size` bytes.
    """
    size = instance.size
    forbidden = [
        (bottom - size[i], bottom + size[j]) for i in group for j in neighbours[i] if (bottom := offsets[j]) >= 0
    ]
    forbidden.sort()
    alignment = lcm(*(instance.alignment[i] for i in group))
    offset, best, slack = 0, -1, -1
    for before, top in forbidden:
        if before >= offset:
            if not tightest:
                return offset
            if best < 0 or before - offset < slack:
                best, slack = offset, before - offset
        if top > offset:
            offset = -(-top // alignment) * alignment
    return best if best >= 0 else offset


ORDERS: dict[str, Order] = {
    "size": by_size,
    "breadth": by_breadth,
    "conflicts": by_conflicts,
    "area": by_area,
    "width": by_width,
    "birth": by_birth,
}
