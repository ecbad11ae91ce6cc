"""Random local search for an order with a lower peak; the random numbers and the work are fixed, so the result is too.

move around the peak, in a stretch [start, stop) of the order:
    put off   the first exec, with all that depend on it, goes behind the others
    hurry     the last exec, with all that it depends on, goes in front of the others
a move stays when neither the peak nor the number of steps at it grows
"""

from __future__ import annotations

import random
from collections.abc import Mapping

from nnc.symbolic.compiler.order.arrangement import Arrangement
from nnc.symbolic.compiler.order.uses import Uses
from nnc.symbolic.records import ExecKey

Before = Mapping[ExecKey, set[ExecKey]]
Order = tuple[ExecKey, ...]

SEED = 0
REACH = 48
MOVES = 400


def search_order(order: Order, uses: Uses, before: Before, enough: int) -> Order:
    """`order`, rearranged as long as its peak is above `enough` bytes and there are moves left."""
    generator = random.Random(SEED)
    now = Arrangement(order, uses)
    # A third of the moves are tried again on the same order.
    refused = set[tuple[int, Order]]()
    for _ in range(MOVES):
        if now.peak <= enough:
            break
        start = max(now.at_peak - generator.randrange(REACH), 0)
        stop = min(now.at_peak + 1 + generator.randrange(REACH), len(order))
        part = tuple(now.order[start:stop])
        moved = _put_off(part, before) if generator.randrange(2) else _hurry(part, before)
        start, moved = _changed(start, part, moved)
        if not moved or (start, moved) in refused:
            continue
        stretch = now.stretch(start, moved)
        if now.lowers(stretch):
            now.put(stretch)
            refused.clear()
        else:
            refused.add((start, moved))
    return tuple(now.order)


def _changed(start: int, part: Order, moved: Order) -> tuple[int, Order]:
    """The stretch without what stays in place at both ends: where it starts, and what is there then."""
    stop = len(part)
    while stop and part[stop - 1] == moved[stop - 1]:
        stop -= 1
    first = next((place for place in range(stop) if part[place] != moved[place]), stop)
    return start + first, moved[first:stop]


def _put_off(part: Order, before: Before) -> Order:
    late = {part[0]}
    for key in part[1:]:
        if not late.isdisjoint(before[key]):
            late.add(key)
    return (*(key for key in part if key not in late), *(key for key in part if key in late))


def _hurry(part: Order, before: Before) -> Order:
    early = {part[-1]}
    for key in reversed(part):
        if key in early:
            early |= before[key]
    return (*(key for key in part if key in early), *(key for key in part if key not in early))
