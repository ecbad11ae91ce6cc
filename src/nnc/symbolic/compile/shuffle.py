"""Random local search for an order with a lower peak; the random numbers and the work are fixed, so the result is too.

move around the peak, in a stretch [start, stop) of the order:
    put off   the first exec, with all that depend on it, goes behind the others
    hurry     the last exec, with all that it depends on, goes in front of the others
a move stays when neither the peak nor the number of steps at it grows
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from nnc.symbolic.compile.needs import Needs, bytes_by_step
from nnc.symbolic.ir import ExecKey

Before = Mapping[ExecKey, set[ExecKey]]
Order = tuple[ExecKey, ...]

SEED = 0
REACH = 48
# So many steps are looked at in all, and so many moves are tried.
WORK = 60_000
MOVES = 400


def search_order(order: Order, needs: Needs, before: Before, enough: int) -> Order:
    """`order`, rearranged as long as its peak is above `enough` bytes and there is work left."""
    generator = random.Random(SEED)
    during = bytes_by_step(order, needs)
    best = _cost(during)
    for _ in range(min(WORK // max(len(order), 1), MOVES)):
        if best[0] <= enough:
            break
        peak = during.index(best[0])
        start = max(peak - generator.randrange(REACH), 0)
        stop = min(peak + 1 + generator.randrange(REACH), len(order))
        part = order[start:stop]
        moved = _put_off(part, before) if generator.randrange(2) else _hurry(part, before)
        if moved == part:
            continue
        trial = (*order[:start], *moved, *order[stop:])
        found = bytes_by_step(trial, needs)
        if _cost(found) <= best:
            order, during, best = trial, found, _cost(found)
    return order


def _cost(during: Sequence[int]) -> tuple[int, int]:
    peak = max(during, default=0)
    return peak, during.count(peak)


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
