"""Blocks in order of time, into a list of gaps that grow together again, from the first step on or from the peak out.

The walk from the first step is what an allocator at run time would do. The walk from the peak stacks what is alive at
the fullest step without a gap, then goes forward and backward from there; the two sides never meet, and where lives
are nested, as in training, nothing is lost. The cost is the blocks times the gaps at one moment.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable

from nnc.planning.instance import Effort, Instance, Solution, Solver
from nnc.planning.solvers.normalize import totals

Chooser = Callable[[list[int], list[int], int, int], int]
Event = tuple[int, int, int, int]
CHECK_EVERY = 32


def sweep_first_fit(instance: Instance, effort: Effort) -> Solution:
    """From the first step on, each block into the lowest gap that holds it."""
    return Solution(_from_start(instance, _lowest_gap, effort))


def sweep_best_fit(instance: Instance, effort: Effort) -> Solution:
    """From the first step on, each block into the tightest gap that holds it, the lowest of equal ones."""
    return Solution(_from_start(instance, _tightest_gap, effort))


def peak_best_fit(keys: str) -> Solver:
    """From the peak out, each block into the tightest gap; the peak is stacked by `keys`, as in `skyline.rank`.

    Only W (the longest life lowest) and Z (the largest lowest) make sense here.
    """

    def solver(instance: Instance, effort: Effort) -> Solution:
        return Solution(_from_peak(instance, keys, _tightest_gap, effort))

    return solver


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


def _from_start(instance: Instance, choose: Chooser, effort: Effort) -> list[int] | None:
    offsets = [0] * instance.count
    events = _events(range(instance.count), instance.lower, instance.upper, instance.size)
    return offsets if _walk(instance, events, 0, offsets, choose, effort) else None


def _from_peak(instance: Instance, keys: str, choose: Chooser, effort: Effort) -> list[int] | None:
    """Time runs backward on the early side: a life `[lower, upper)` becomes `[-upper, -lower)`."""
    lower, upper, size = instance.lower, instance.upper, instance.size
    held = totals(instance)
    peak = held.index(max(held))
    offsets = [0] * instance.count
    ground = 0
    standing = [i for i in range(instance.count) if lower[i] <= peak < upper[i]]
    columns = {"W": [lower[i] - upper[i] for i in standing], "Z": [-size[i] for i in standing]}
    for *_, i in sorted(zip(*(columns[key] for key in keys), standing, strict=True)):
        offsets[i] = -(-ground // instance.alignment[i]) * instance.alignment[i]
        ground = offsets[i] + size[i]
    alive = set(standing)
    late = [i for i in range(instance.count) if lower[i] > peak]
    events = _events(late, lower, upper, size, alive)
    if not _walk(instance, events, ground, offsets, choose, effort):
        return None
    early = [i for i in range(instance.count) if upper[i] <= peak]
    births, deaths = [-moment for moment in upper], [-moment for moment in lower]
    events = _events(early, births, deaths, size, alive)
    return offsets if _walk(instance, events, ground, offsets, choose, effort) else None


def _events(
    born: Iterable[int], births: list[int], deaths: list[int], size: list[int], alive: Iterable[int] = ()
) -> list[Event]:
    """`(moment, is birth, -size, block)` in order: deaths first at each moment, then the larger births first."""
    chosen = list(born)
    events = [(deaths[i], 0, 0, i) for i in (*chosen, *alive)]
    events += [(births[i], 1, -size[i], i) for i in chosen]
    events.sort()
    return events


def _walk(
    instance: Instance, events: list[Event], ground: int, offsets: list[int], choose: Chooser, effort: Effort
) -> bool:
    """Give every block that is born an offset; below `ground` everything is taken, above it is one gap without end.

    False when the deadline came first: a moment at which very many blocks live makes every event slow.
    """
    size, alignment = instance.size, instance.alignment
    starts, ends = [ground], [ground + 2 * sum(size) + sum(alignment)]
    for turn, (_, birth, _, i) in enumerate(events):
        if turn % CHECK_EVERY == 0 and effort.expired:
            return False
        if birth:
            offsets[i] = _take(starts, ends, size[i], alignment[i], choose)
        else:
            _give(starts, ends, offsets[i], offsets[i] + size[i])
    return True


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
