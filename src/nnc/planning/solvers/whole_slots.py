"""A plan in one pass over any instance, for when there is no time: whole slots are handed on from block to block.

A slot is `[start, start + size)`. A block that is born takes the smallest free slot that holds it, or else a new one on
top of all; when it dies the slot is free again, whole. Pinned blocks, companions and an explicit interference keep
bytes of their own for good. The cost is `O(n log n)`, and no arena is worse than all blocks side by side.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from heapq import heappop, heappush
from math import lcm

from nnc.planning.instance import Effort, Instance, Solution

WORD = 1024  # a thousand words of a thousand bits tell a million sizes apart


def slots(instance: Instance, effort: Effort) -> Solution:
    """The smallest free slot for each block, in order of birth; the clock is not looked at."""
    offsets = [instance.pinned.get(i, 0) for i in range(instance.count)]
    top = max((offset + instance.size[i] for i, offset in instance.pinned.items()), default=0)
    grouped = {i for group in instance.groups for i in group}
    for group in instance.groups:
        if group[0] not in instance.pinned:
            top = _stack(instance, group, top, offsets)
    alone = [i for i in range(instance.count) if i not in grouped and i not in instance.pinned]
    if instance.rows is None:
        _hand_on(instance, alone, top, offsets)
    else:
        for i in alone:
            top = _stack(instance, (i,), top, offsets)
    return Solution(offsets)


def _stack(instance: Instance, group: tuple[int, ...], top: int, offsets: list[int]) -> int:
    """Put the group on `top` of all that is placed; where it ends."""
    alignment = lcm(*(instance.alignment[i] for i in group))
    offset = -(-top // alignment) * alignment
    for i in group:
        offsets[i] = offset
    return offset + max(instance.size[i] for i in group)


def _hand_on(instance: Instance, blocks: list[int], top: int, offsets: list[int]) -> None:
    """Births and deaths in order, deaths first."""
    unit = lcm(*{instance.alignment[i] for i in blocks})
    top = -(-top // unit) * unit
    free = FreeSlots(-(-instance.size[i] // unit) * unit for i in blocks)
    held: dict[int, tuple[int, int]] = {}
    events = [(instance.upper[i], 0, i) for i in blocks] + [(instance.lower[i], 1, i) for i in blocks]
    for _, birth, i in sorted(events):
        if not birth:
            free.give(*held.pop(i))
            continue
        taken = free.take(instance.size[i])
        if taken is None:
            size = -(-instance.size[i] // unit) * unit
            taken = (size, top)
            top += size
        held[i] = taken
        offsets[i] = taken[1]


class FreeSlots:
    """Slots of known sizes; the smallest that holds a size, the lowest of these, in about the same time for any number.

    Bit `rank % WORD` of `words[rank // WORD]` says that slots of the size of this rank are free, and bit `w` of
    `summary` that word `w` has bits. A sorted list of a million slots took 290 seconds to keep sorted.
    """

    def __init__(self, sizes: Iterable[int]) -> None:
        self.sizes = sorted(set(sizes))
        self.starts: list[list[int]] = [[] for _ in self.sizes]
        self.words = [0] * (len(self.sizes) // WORD + 1)
        self.summary = 0

    def give(self, size: int, start: int) -> None:
        """The slot is free from now on."""
        rank = bisect_left(self.sizes, size)
        heappush(self.starts[rank], start)
        self.words[rank // WORD] |= 1 << rank % WORD
        self.summary |= 1 << rank // WORD

    def take(self, size: int) -> tuple[int, int] | None:
        """`(size, start)` of the slot, which is free no longer."""
        least = bisect_left(self.sizes, size)
        word = least // WORD
        bits = self.words[word] >> least % WORD << least % WORD
        if not bits:
            later = self.summary >> (word + 1) << (word + 1)
            if not later:
                return None
            word = (later & -later).bit_length() - 1
            bits = self.words[word]
        rank = word * WORD + (bits & -bits).bit_length() - 1
        start = heappop(self.starts[rank])
        if not self.starts[rank]:
            self.words[word] ^= 1 << rank % WORD
            if not self.words[word]:
                self.summary ^= 1 << word
        return self.sizes[rank], start
