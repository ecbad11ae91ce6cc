"""The one place of the planner that uses NumPy, and only where it is installed: very many blocks in a given order."""

from __future__ import annotations

from collections.abc import Iterable
from time import perf_counter

try:
    import numpy
except ImportError:
    numpy = None  # type: ignore[assignment]  # absent: the callers use their lists

AVAILABLE = numpy is not None
CHECK_EVERY = 1024


def first_fit(
    lower: list[int], upper: list[int], size: list[int], order: Iterable[int], deadline: float | None
) -> list[int] | None:
    """`offset[i]` = the lowest place free over the life of `i`, blocks taken in `order`; `None` at the deadline.

    The placed blocks are kept sorted by offset in arrays, so a step is a few passes over them in native code.
    """
    births, deaths = (numpy.empty(len(size), dtype=numpy.int32) for _ in range(2))
    bottoms, tops = (numpy.empty(len(size), dtype=numpy.int64) for _ in range(2))
    offsets = [0] * len(size)
    for placed, i in enumerate(order):
        if placed % CHECK_EVERY == 0 and deadline is not None and perf_counter() > deadline:
            return None
        met = numpy.flatnonzero((births[:placed] < upper[i]) & (deaths[:placed] > lower[i]))
        ends = numpy.maximum.accumulate(tops[met])
        wide = ends[:-1] + size[i] <= bottoms[met[1:]]
        if not len(met) or bottoms[met[0]] >= size[i]:
            offset = 0
        else:
            offset = int(ends[int(wide.argmax())]) if wide.any() else int(ends[-1])
        place = int(numpy.searchsorted(bottoms[:placed], offset))
        for column, value in ((births, lower[i]), (deaths, upper[i]), (bottoms, offset), (tops, offset + size[i])):
            column[place + 1 : placed + 1] = column[place:placed]
            column[place] = value
        offsets[i] = offset
    return offsets
