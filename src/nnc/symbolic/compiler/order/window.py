"""The best order of a stretch of execs: exact, by best-first search over the sets of execs that are done.

bytes alive depend only on which execs are done, so a state is a set;  cost of a path = largest bytes at any step
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping

from nnc.classes import dataclass
from nnc.symbolic.compiler.order.live_bytes import Span, shared_bytes
from nnc.symbolic.compiler.order.uses import Profile
from nnc.symbolic.records import ExecKey, TensorKey

# The most sets of finished execs that are looked at before a stretch is given up.
STATES = 600
# The life of a root at one exec, which is at 0: whether it is fresh there, and whether it is the last one there.
_LIVES: dict[tuple[bool, bool], tuple[Span]] = {
    (fresh, last): ((0 if fresh else -1, 0 if last else 1),) for fresh in (False, True) for last in (False, True)
}


# The users of a root in the stretch, its bytes, whether it is alive before the stretch, and whether it ends when nobody
# needs it behind. A tuple, as it is taken apart some 10^5 times for a stretch.
_Root = tuple[int, int, bool, bool]


@dataclass(frozen=True, slots=True)
class _Touch:
    """One exec of the stretch: the bits of those before it, its roots, and which of these may share memory."""

    before: int
    roots: tuple[_Root, ...]
    pairs: tuple[tuple[int, int], ...]
    scratch: int


def best_stretch(
    profile: Profile, start: int, stop: int, before: Mapping[ExecKey, set[ExecKey]], peak: int
) -> tuple[ExecKey, ...]:
    """Steps [start, stop) rearranged to stay as far below `peak` bytes as they can; empty if nothing below is found."""
    keys = profile.order[start:stop]
    touches = _touches(profile, start, stop, before)
    full, there = (1 << len(keys)) - 1, int(profile.bytes.through[start])
    steps = [(place, 1 << place, touch.before, touch) for place, touch in enumerate(touches)]
    waiting: list[tuple[int, int, int, int, tuple[int, ...]]] = [(0, 0, 0, there, ())]
    seen: set[int] = set()
    while waiting and len(seen) < STATES:
        highest, _, done, alive, path = heapq.heappop(waiting)
        if done == full:
            return tuple(keys[place] for place in path)
        if done in seen:
            continue
        seen.add(done)
        missing = full & ~done
        for place, bit, first, touch in steps:
            if not missing & bit or first & missing or done | bit in seen:
                continue
            during, after = _run(touch, bit, done, alive)
            if during < peak:
                heapq.heappush(waiting, (max(highest, during), -len(path), done | bit, after, (*path, place)))
    return ()


def _run(touch: _Touch, bit: int, done: int, alive: int) -> tuple[int, int]:
    """Bytes alive during the exec and behind it."""
    grown = freed = 0
    lives: list[tuple[Span]] = []
    waiting = ~(done | bit)
    for users, nbytes, is_alive, ends in touch.roots:
        fresh = not is_alive and not users & done
        last = ends and not users & waiting
        if fresh:
            grown += nbytes
        if last:
            freed += nbytes
        lives.append(_LIVES[fresh, last])
    shared = 0
    if touch.pairs and grown and freed:
        shared = shared_bytes(touch.pairs, lambda place: touch.roots[place][1], lives.__getitem__, 0)
    return alive + grown + touch.scratch - shared, alive + grown - freed


def _touches(profile: Profile, start: int, stop: int, before: Mapping[ExecKey, set[ExecKey]]) -> list[_Touch]:
    uses, keys = profile.uses, profile.order[start:stop]
    bits = {key: 1 << place for place, key in enumerate(keys)}
    users: dict[TensorKey, int] = {}
    for key in keys:
        for root in profile.uses.touched(key):
            users[root] = users.get(root, 0) | bits[key]
    stop = start + len(keys)
    lives = ((root, mask, *profile.lives[root]) for root, mask in users.items())
    roots = {root: (mask, uses.nbytes[root], first < start, last < stop) for root, mask, first, last in lives}
    touches = []
    for key in keys:
        touched = profile.uses.touched(key)
        places = {root: place for place, root in enumerate(touched)}
        first = sum(bits[source] for source in before[key] if source in bits)
        pairs = tuple((places[source], places[target]) for source, target in uses.pairs[key])
        touches.append(_Touch(first, tuple(roots[root] for root in touched), pairs, uses.scratch.get(key, 0)))
    return touches
