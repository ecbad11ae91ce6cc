"""The best order of a stretch of execs: exact, by best-first search over the sets of execs that are done.

bytes alive depend only on which execs are done, so a state is a set;  cost of a path = largest bytes at any step
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nnc.symbolic.compiler.order.uses import Uses
from nnc.symbolic.ir import ExecKey, TensorKey

# So many sets of finished execs are looked at before a stretch is given up.
STATES = 600


@dataclass(frozen=True, slots=True)
class _Root:
    """`users` of the stretch touch it; `alive` before the stretch; it `ends` when nobody needs it behind."""

    users: int
    nbytes: int
    alive: bool
    ends: bool


@dataclass(frozen=True, slots=True)
class _Touch:
    """One exec of the stretch: the bits of those before it, its roots, and which of these may share memory."""

    before: int
    roots: tuple[_Root, ...]
    pairs: tuple[tuple[int, int], ...]
    scratch: int


def best_stretch(
    order: Sequence[ExecKey], start: int, stop: int, uses: Uses, before: Mapping[ExecKey, set[ExecKey]], peak: int
) -> tuple[ExecKey, ...]:
    """`order[start:stop]` rearranged to stay as far below `peak` bytes as it can; empty when nothing below is found."""
    keys = order[start:stop]
    touches = _touches(order, start, stop, uses, before)
    full = (1 << len(keys)) - 1
    waiting: list[tuple[int, int, int, int, tuple[int, ...]]] = [(0, 0, 0, _alive_before(order, start, uses), ())]
    seen: set[int] = set()
    while waiting and len(seen) < STATES:
        highest, _, done, alive, path = heapq.heappop(waiting)
        if done == full:
            return tuple(keys[place] for place in path)
        if done in seen:
            continue
        seen.add(done)
        for place, touch in enumerate(touches):
            bit = 1 << place
            if done & bit or touch.before & ~done or done | bit in seen:
                continue
            during, after = _run(touch, bit, done, alive)
            if during < peak:
                heapq.heappush(waiting, (max(highest, during), -len(path), done | bit, after, (*path, place)))
    return ()


def _alive_before(order: Sequence[ExecKey], start: int, uses: Uses) -> int:
    """Bytes that the execs in front of the stretch leave behind for it and for later."""
    later = {root for key in order[start:] for root in uses.touched(key)} | uses.kept
    return sum(uses.nbytes[root] for root in {root for key in order[:start] for root in uses.touched(key)} & later)


def _run(touch: _Touch, bit: int, done: int, alive: int) -> tuple[int, int]:
    """Bytes alive during the exec and behind it."""
    grown = freed = shared = 0
    born, dies = [], []
    for root in touch.roots:
        fresh = not root.alive and not root.users & done
        last = root.ends and not root.users & ~(done | bit)
        grown += root.nbytes if fresh else 0
        freed += root.nbytes if last else 0
        born.append(fresh)
        dies.append(last)
    for source, target in touch.pairs:
        if dies[source] and born[target]:
            shared += touch.roots[source].nbytes
            dies[source] = born[target] = False
    return alive + grown + touch.scratch - shared, alive + grown - freed


def _touches(
    order: Sequence[ExecKey], start: int, stop: int, uses: Uses, before: Mapping[ExecKey, set[ExecKey]]
) -> list[_Touch]:
    keys = order[start:stop]
    bits = {key: 1 << place for place, key in enumerate(keys)}
    users: dict[TensorKey, int] = {}
    for key in keys:
        for root in uses.touched(key):
            users[root] = users.get(root, 0) | bits[key]
    earlier = {root for key in order[:start] for root in uses.touched(key)} & users.keys()
    later = {root for key in order[stop:] for root in uses.touched(key)} & users.keys()
    roots = {
        root: _Root(mask, uses.nbytes[root], root in earlier, root not in later and root not in uses.kept)
        for root, mask in users.items()
    }
    touches = []
    for key in keys:
        touched = uses.touched(key)
        places = {root: place for place, root in enumerate(touched)}
        first = sum(bits[source] for source in before[key] if source in bits)
        pairs = tuple((places[source], places[target]) for source, target in uses.pairs[key])
        touches.append(_Touch(first, tuple(roots[root] for root in touched), pairs, uses.scratch.get(key, 0)))
    return touches
