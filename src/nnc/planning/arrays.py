"""The one place of the planner that uses NumPy, and only where it is installed: very many blocks in a given order."""

from __future__ import annotations

from collections.abc import Iterable
from time import perf_counter
from typing import TYPE_CHECKING

from nnc.errors import PlanningError
from nnc.planning.instance import Instance

try:
    import numpy
except ImportError:
    numpy = None  # type: ignore[assignment]  # absent: the callers use their lists

if TYPE_CHECKING:
    Column = numpy.ndarray[tuple[int], numpy.dtype[numpy.signedinteger]]

AVAILABLE = numpy is not None
CHECK_EVERY = 1024


def first_fit_in_arrays(instance: Instance, order: Iterable[int], deadline: float | None) -> list[int] | None:
    """`offset[i]` = the lowest place free over the life of `i`, blocks taken in `order`; `None` at the deadline.

    Pinned blocks come first, companions are placed with the first of them. Sizes and pinned offsets must be multiples
    of every alignment. The placed blocks are kept sorted by offset in arrays, so a step is a few passes in native code.
    """
    count = instance.count
    births, deaths = (numpy.empty(count, dtype=numpy.int32) for _ in range(2))
    bottoms, tops = (numpy.empty(count, dtype=numpy.int64) for _ in range(2))
    offsets = [-1] * count
    partners = {i: group for group in instance.groups for i in group}
    placed = 0
    for turn, i in enumerate((*instance.pinned, *order)):
        if turn % CHECK_EVERY == 0 and deadline is not None and perf_counter() > deadline:
            return None
        if offsets[i] >= 0:
            continue
        group = (i,) if i in instance.pinned else partners.get(i, (i,))
        lows, ends = [], []
        for member in group:
            alive = births[:placed] < instance.upper[member]
            met = numpy.flatnonzero(alive & (deaths[:placed] > instance.lower[member]))
            lows.append(bottoms[met] - instance.size[member])
            ends.append(tops[met])
        offset = _lowest(*_by_low(lows, ends)) if i not in instance.pinned else instance.pinned[i]
        if i in instance.pinned and bool(((lows[0] < offset) & (offset < ends[0])).any()):
            raise PlanningError("pinned blocks", got=f"block {i} on bytes of another", need="places apart")
        for member in group:
            offsets[member] = offset
            place = int(numpy.searchsorted(bottoms[:placed], offset))
            _insert(births, place, placed, instance.lower[member])
            _insert(deaths, place, placed, instance.upper[member])
            _insert(bottoms, place, placed, offset)
            _insert(tops, place, placed, offset + instance.size[member])
            placed += 1
    return offsets


def _insert(column: Column, place: int, length: int, value: int) -> None:
    column[place + 1 : length + 1] = column[place:length]
    column[place] = value


def _by_low(lows: list[Column], ends: list[Column]) -> tuple[Column, Column]:
    """What is forbidden to the members of a group, as one list of open intervals `(low, end)` sorted by `low`."""
    if len(lows) == 1:
        return lows[0], ends[0]
    low = numpy.concatenate(lows)
    order = numpy.argsort(low, kind="stable")
    return low[order], numpy.concatenate(ends)[order]


def _lowest(low: Column, end: Column) -> int:
    """The lowest offset from 0 on that is in none of the open intervals."""
    if not len(low) or low[0] >= 0:
        return 0
    reach = numpy.maximum.accumulate(end)
    free = reach[:-1] <= low[1:]
    return int(reach[int(free.argmax())]) if free.any() else int(reach[-1])
