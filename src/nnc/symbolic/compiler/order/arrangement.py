"""An order that is changed stretch by stretch: what a change costs is counted within the stretch alone.

A value that the stretch touches begins or ends to live elsewhere only if it did so inside of it, so bytes alive outside
of it stay as they are. A search asks this some hundred times for each program, most of them in vain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from nnc.symbolic.compiler.order.live_bytes import Span, shared_bytes
from nnc.symbolic.compiler.order.uses import Profile, Uses
from nnc.symbolic.records import ExecKey, TensorKey


class Rearranged(NamedTuple):
    """Other execs from `start` on: the lives of what they touch, and the bytes at each of their steps."""

    start: int
    execs: Sequence[ExecKey]
    lives: Mapping[TensorKey, Span]
    alive: list[int]
    during: list[int]


class Arrangement:
    """An order with the lives of its roots; `alive` are bytes of values, `during` with scratch and shared memory."""

    def __init__(self, order: Sequence[ExecKey], uses: Uses) -> None:
        profile = Profile(order, uses)
        self.uses, self.order, self.lives = uses, profile.order, profile.lives
        self.alive: list[int] = (profile.bytes.through + profile.bytes.born).tolist()
        self.during: list[int] = profile.bytes.during.tolist()
        self._measure()

    def stretch(self, start: int, execs: Sequence[ExecKey]) -> Rearranged:
        """The bytes if the order were `execs` from `start` on, which are those that are there."""
        uses, lives = self.uses, self._lives_in(start, execs)
        changes = [0] * (len(execs) + 1)
        for root, (first, last) in lives.items():
            before, behind = self.lives[root]
            nbytes = uses.nbytes[root]
            if first != before:
                changes[first - start] += nbytes
                changes[before - start] -= nbytes
            if last != behind:
                changes[last + 1 - start] -= nbytes
                changes[behind + 1 - start] += nbytes
        alive = [now + change for now, change in zip(self.alive[start:], accumulate(changes[:-1]), strict=False)]
        during = [
            there + uses.scratch.get(key, 0) - (self._shared(step, key, lives) if uses.pairs[key] else 0)
            for step, (key, there) in enumerate(zip(execs, alive, strict=True), start)
        ]
        return Rearranged(start, execs, lives, alive, during)

    def lowers(self, stretch: Rearranged) -> bool:
        """Whether neither the peak grows by it nor the number of steps at the peak."""
        now = self.during[stretch.start : stretch.start + len(stretch.during)]
        return max(stretch.during) <= self.peak and stretch.during.count(self.peak) <= now.count(self.peak)

    def put(self, stretch: Rearranged) -> None:
        """Let the order be so."""
        place = slice(stretch.start, stretch.start + len(stretch.execs))
        self.lives.update(stretch.lives)
        self.order[place], self.alive[place], self.during[place] = stretch.execs, stretch.alive, stretch.during
        self._measure()

    def _measure(self) -> None:
        self.peak = max(self.during, default=0)
        self.at_peak = self.during.index(self.peak) if self.during else 0

    def _lives_in(self, start: int, execs: Sequence[ExecKey]) -> dict[TensorKey, Span]:
        """The lives of the roots that begin or end to live in a stretch, as they are with these execs there."""
        stop = start + len(execs)
        first, last = dict[TensorKey, int](), dict[TensorKey, int]()
        for step, key in enumerate(execs, start):
            for root in self.uses.touched(key):
                first.setdefault(root, step)
                last[root] = step
        spans = dict[TensorKey, Span]()
        for root, begin in first.items():
            before, behind = self.lives[root]
            if before >= start or behind < stop:
                spans[root] = (begin if before >= start else before, last[root] if behind < stop else behind)
        return spans

    def _shared(self, step: int, key: ExecKey, lives: Mapping[TensorKey, Span]) -> int:
        nbytes = self.uses.nbytes.__getitem__
        return shared_bytes(self.uses.pairs[key], nbytes, lambda root: (lives.get(root) or self.lives[root],), step)
