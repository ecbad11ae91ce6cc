"""A plan in one pass over any instance, for when there is no time: whole slots are handed on from block to block.

A slot is `[start, start + size)`. A block that is born takes the smallest free slot that holds it, or else a new one on
top of all; when it dies the slot is free again, whole. Pinned blocks, companions and an explicit interference keep
bytes of their own for good. The cost is `O(n log n)`, and no arena is worse than all blocks side by side.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from math import lcm

from nnc.planning.instance import Effort, Instance, Solution


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
    """Births and deaths in order, deaths first; `free` holds `(size, start)` and is sorted."""
    unit = lcm(*{instance.alignment[i] for i in blocks})
    top = -(-top // unit) * unit
    free: list[tuple[int, int]] = []
    held: dict[int, tuple[int, int]] = {}
    events = [(instance.upper[i], 0, i) for i in blocks] + [(instance.lower[i], 1, i) for i in blocks]
    for _, birth, i in sorted(events):
        if not birth:
            insort(free, held.pop(i))
            continue
        place = bisect_left(free, (instance.size[i], 0))
        if place < len(free):
            held[i] = free.pop(place)
        else:
            size = -(-instance.size[i] // unit) * unit
            held[i] = (size, top)
            top += size
        offsets[i] = held[i][1]
