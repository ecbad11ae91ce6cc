"""The one place of the planner that uses NumPy, and only where it is installed: placing very many blocks in an order."""

from __future__ import annotations

from collections.abc import Iterable

try:
    import numpy
except ImportError:
    numpy = None  # type: ignore[assignment]  # absent: the callers use their lists


def first_fit(lower: list[int], upper: list[int], size: list[int], order: Iterable[int]) -> list[int] | None:
    """`offset[i]` = the lowest place free over the life of `i`, blocks taken in `order`; `None` without NumPy.

    The placed blocks are kept sorted by offset in arrays, so a step costs a few passes over them in native code.
    """
    if numpy is None:
        return None
    births, deaths, bottoms, tops = (numpy.empty(len(size), dtype=numpy.int64) for _ in range(4))
    offsets = [0] * len(size)
    for placed, i in enumerate(order):
        met = numpy.flatnonzero((births[:placed] < upper[i]) & (deaths[:placed] > lower[i]))
        ends = numpy.maximum.accumulate(tops[met])
        wide = ends[:-1] + size[i] <= bottoms[met[1:]]
        if not len(met) or bottoms[met[0]] >= size[i]:
            offset = 0
        elif wide.any():
            offset = int(ends[int(wide.argmax())])
        else:
            offset = int(ends[-1])
        place = int(numpy.searchsorted(bottoms[:placed], offset))
        for column, value in ((births, lower[i]), (deaths, upper[i]), (bottoms, offset), (tops, offset + size[i])):
            column[place + 1 : placed + 1] = column[place:placed]
            column[place] = value
        offsets[i] = offset
    return offsets
