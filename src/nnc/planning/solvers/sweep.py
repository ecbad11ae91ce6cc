"""Blocks in order of birth, into a list of gaps that grow together again: what an allocator at run time would do.

The cost is the blocks times the gaps at one moment, a few for networks: 10^5 blocks take a fraction of a second.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

from nnc.planning.instance import Effort, Instance, Layout

Chooser = Callable[[list[int], list[int], int, int], int]


def first_fit(instance: Instance, effort: Effort) -> Layout:
    """Each block into the lowest gap that holds it."""
    return Layout(_sweep(instance, _lowest_gap))


def best_fit(instance: Instance, effort: Effort) -> Layout:
    """Each block into the tightest gap that holds it, the lowest of equal ones."""
    return Layout(_sweep(instance, _tightest_gap))


def _lowest_gap(starts: list[int], ends: list[int], size: int, alignment: int) -> int:
    for gap, start in enumerate(starts):
        if ends[gap] - start >= size and -(-start // alignment) * alignment + size <= ends[gap]:
            return gap
    raise AssertionError("the last gap has no end")


def _tightest_gap(starts: list[int], ends: list[int], size: int, alignment: int) -> int:
    best, tightest = len(starts) - 1, ends[-1]
    for gap, start in enumerate(starts):
        length = ends[gap] - start
        if size <= length < tightest and -(-start // alignment) * alignment + size <= ends[gap]:
            best, tightest = gap, length
    return best


def _sweep(instance: Instance, choose: Chooser) -> list[int]:
    """Deaths before births at each step, larger births first; the gaps are sorted and the last one has no end."""
    lower, upper, size = instance.lower, instance.upper, instance.size
    events = [(upper[i], 0, 0, i) for i in range(instance.count)]
    events += [(lower[i], 1, -size[i], i) for i in range(instance.count)]
    offsets = [0] * instance.count
    starts, ends = [0], [2 * sum(size) + sum(instance.alignment)]
    for _, birth, _, i in sorted(events):
        if birth:
            offsets[i] = _take(starts, ends, size[i], instance.alignment[i], choose)
        else:
            _give(starts, ends, offsets[i], offsets[i] + size[i])
    return offsets


def _take(starts: list[int], ends: list[int], size: int, alignment: int, choose: Chooser) -> int:
    gap = choose(starts, ends, size, alignment)
    start, end = starts[gap], ends[gap]
    offset = -(-start // alignment) * alignment
    pieces = [(left, right) for left, right in ((start, offset), (offset + size, end)) if left < right]
    starts[gap : gap + 1] = [left for left, _ in pieces]
    ends[gap : gap + 1] = [right for _, right in pieces]
    return offset


def _give(starts: list[int], ends: list[int], start: int, end: int) -> None:
    """Put `[start, end)` back and let it grow together with the gaps beside it."""
    gap = bisect_left(starts, start)
    first = gap
    if gap and ends[gap - 1] == start:
        first, start = gap - 1, starts[gap - 1]
    if gap < len(starts) and starts[gap] == end:
        gap, end = gap + 1, ends[gap]
    starts[first:gap] = [start]
    ends[first:gap] = [end]
