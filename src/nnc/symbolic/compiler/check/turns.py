"""Where the values of a loop's body lie in each iteration, so that each is checked as if it stood alone.

block of slot s in iteration t = memory slots.memory(s, t), and in iteration t + period the same again
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import count
from math import lcm

from nnc.symbolic.compiler.place.liveness import LiveRanges
from nnc.symbolic.compiler.place.slots import Slot, Slots
from nnc.symbolic.records import TensorKey

# Cycles of 2, 3, 4 and 6 slots are back where they began within 12 iterations; longer ones are looked at no further.
MOST_TURNS = 12


def turns(
    slots: Slots,
    lives: LiveRanges,
    offsets: Mapping[int, int],
    address: Callable[[Slot], int | None],
    elsewhere: Collection[TensorKey],
    trips: int | None,
) -> Iterator[tuple[Mapping[int, int], Collection[TensorKey]]]:
    """The offsets of all blocks, by identity, in each iteration that differs, and who lies outside its slot there.

    In the first iteration these are the roots `elsewhere`, in the place of their initial value. `address` tells where
    a memory lies: None for one that moves itself, which is beside all others. `trips` are all iterations that there
    are. Where the branches taken say which slot has which memory, slots are as in the first iteration: apart.
    """
    beyond = count(1 << 62, 1 << 40)
    begins = [address(memory) for memory in range(len(slots.sizes))]
    known = [next(beyond) if begin is None else begin for begin in begins]
    period = 1 if slots.passed else lcm(*(len(slots.cycle(slot)) for slot in range(len(slots.sizes))))
    last = min(period + bool(elsewhere), MOST_TURNS)
    for turn in range(last if trips is None else min(last, max(trips, 1))):
        placed = {id(lives.of[root]): known[slots.memory(slot, turn)] for root, slot in slots.of.items()}
        yield {**offsets, **placed}, () if turn else elsewhere
