"""The lowest place first: of all blocks that could go lowest on the skyline, the first in an order; then again.

    floor[s] = height of what stands in section s        offset[i] = max(floor[s] for s in the life of i)

No block is ever put under another, so one height per section is the whole state. Orders are named by their keys:
T the fullest section of a life, W its length, A size times length, Z the size, all largest first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heapreplace

from nnc.planning.instance import Effort, Instance, Solution, Solver
from nnc.planning.solvers.normalize import totals

CHUNK = 256
CHECK_EVERY = 1024


class Ranges:
    """Numbers over which to ask for the largest of a range, and raise a range to one above all in it.

    Two levels: the numbers, and the largest of each chunk of `CHUNK` of them.
    """

    def __init__(self, values: list[int]) -> None:
        self.values = values
        self.chunks = [max(values[start : start + CHUNK]) for start in range(0, len(values), CHUNK)]

    def highest(self, start: int, stop: int) -> int:
        """`max(values[start:stop])`."""
        first, last = start // CHUNK + 1, stop // CHUNK
        if first >= last:
            return max(self.values[start:stop])
        edges = max(self.values[start : first * CHUNK])
        if last * CHUNK < stop:
            edges = max(edges, max(self.values[last * CHUNK : stop]))
        return max(edges, max(self.chunks[first:last]))

    def raise_to(self, start: int, stop: int, value: int) -> None:
        """Set `values[start:stop]`, all of which are at most `value`, to `value`."""
        self.values[start:stop] = [value] * (stop - start)
        for chunk in range(start // CHUNK, (stop - 1) // CHUNK + 1):
            if self.chunks[chunk] < value:
                self.chunks[chunk] = value


def rank(
    instance: Instance,
    keys: str,
    *,
    in_steps: bool = False,
    noise: Sequence[int] | None = None,
    loads: Sequence[int] | None = None,
) -> list[int]:
    """Blocks in the order of the letters `keys` (T, W, A, Z), largest first, then earlier births.

    W and A count sections, or the steps of the problem. T is the largest load of a section, `loads` instead of bytes
    where given. Every key of block `i` is multiplied by `noise[i]`.
    """
    lives = [upper - lower for lower, upper in zip(instance.lower, instance.upper, strict=True)]
    width = (instance.lifetime if in_steps else []) or lives
    columns: dict[str, Callable[[], list[int]]] = {
        "T": lambda: fullest(instance, loads),
        "W": lambda: width,
        "A": lambda: [size * length for size, length in zip(instance.size, width, strict=True)],
        "Z": lambda: instance.size,
    }
    factors = noise or [1] * instance.count
    negated = [[-value * by for value, by in zip(columns[key](), factors, strict=True)] for key in keys]
    return [entry[-1] for entry in sorted(zip(*negated, instance.lower, range(instance.count), strict=True))]


def fullest(instance: Instance, loads: Sequence[int] | None = None) -> list[int]:
    """For each block the largest load of a section of its life: the bytes alive there, or one of `loads`."""
    ranges = Ranges(list(loads or totals(instance)))
    return [ranges.highest(lower, upper) for lower, upper in zip(instance.lower, instance.upper, strict=True)]


def skyline(keys: str) -> Solver:
    """The solver that takes, of the blocks that can go lowest, the first in the order `keys`."""

    def solver(instance: Instance, effort: Effort) -> Solution:
        return Solution(_build(instance, rank(instance, keys), effort))

    return solver


def _build(instance: Instance, order: list[int], effort: Effort) -> list[int] | None:
    """Solution wait in a heap; they only grow, so the least one that is still true is the least of all."""
    floor = Ranges([0] * instance.steps)
    lower = [instance.lower[i] for i in order]
    upper = [instance.upper[i] for i in order]
    alignment = [instance.alignment[i] for i in order]
    offsets = [0] * instance.count
    heap = [(0, place) for place in range(instance.count)]
    heapify(heap)
    turn = 0
    while heap:
        turn += 1
        if turn % CHECK_EVERY == 0 and effort.expired:
            return None
        offset, place = heap[0]
        start, stop = lower[place], upper[place]
        now = -(-floor.highest(start, stop) // alignment[place]) * alignment[place]
        if now > offset:
            heapreplace(heap, (now, place))
            continue
        heappop(heap)
        offsets[order[place]] = offset
        floor.raise_to(start, stop, offset + instance.size[order[place]])
    return offsets
