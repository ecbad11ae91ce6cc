"""What to compute again: a descent from the peak of a program to ever smaller peaks, each at as little work as found.

At the step of the peak, each value that is alive and not in use there could be let go of. Of these moves the one of
the lowest price is tried on the whole program, and kept when the peak does not rise and less lies above the level.

    price = work of the chain that computes the value again / (bytes freed · steps above the level without them)
    level = SHARE · peak;   bytes freed = bytes of the value - bytes that the chain keeps alive instead

A value that is computed again further on anyhow, and moves ahead, costs no work. Nothing is random, and the path does
not depend on any limit.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection
from dataclasses import dataclass
from itertools import accumulate
from math import inf

from nnc.symbolic.compile.replay import NEVER, Choice, Gap, Program, Replay, Root, Step, Value, replay

SHARE = 0.95
# Values of less than this share of the peak are left alone.
SMALLEST_SHARE = 1 / 2048
# So many programs are tried before the descent ends.
MOST_TRIES = 1500


@dataclass(frozen=True, slots=True, eq=False)
class Point:
    """A choice with the peak in bytes and the work done again that follow from it."""

    choice: Choice
    peak: int
    extra: int


@dataclass(frozen=True, slots=True)
class Move:
    """Let go of a value in a gap; of one that was computed again in it, if `again`."""

    gap: Gap
    again: bool

    def applied(self, choice: Choice) -> Choice:
        """The choice after this move."""
        if self.again:
            return Choice(choice.dropped, choice.transient | {self.gap})
        return Choice(choice.dropped | {self.gap}, choice.transient)


def descend(program: Program) -> tuple[Point, ...]:
    """Points of falling peaks; the first computes nothing again."""
    choice = program.first_choice()
    now = replay(program, choice)
    assert now is not None
    points = [Point(choice, now.peak, now.extra)]
    if not now.during:
        return tuple(points)
    refused: set[Move] = set()
    view = _View(program, now, choice)
    for _ in range(MOST_TRIES):
        move = view.cheapest(refused)
        if move is None:
            break
        then = replay(program, move.applied(choice))
        if then is None or then.peak > now.peak or _load(then, view.level) >= view.load:
            refused.add(move)
            continue
        choice, now = move.applied(choice), then
        view = _View(program, now, choice)
        if now.peak < points[-1].peak:
            refused.clear()
            points.append(Point(choice, now.peak, now.extra))
    return tuple(points)


def _load(now: Replay, level: int) -> int:
    """Bytes above the level, over all steps."""
    return sum(alive - level for alive in now.during if alive > level)


class _View:
    """A replay as seen from its peak: which moves there are, and what each would cost."""

    def __init__(self, program: Program, now: Replay, choice: Choice) -> None:
        self.program = program
        self.now = now
        self.choice = choice
        peak = now.peak
        self.here = now.during.index(peak)
        self.smallest = peak * SMALLEST_SHARE
        self.level = int(peak * SHARE)
        self.load = _load(now, self.level)
        self.above = [0, *accumulate(int(alive > self.level) for alive in now.during)]
        self.versions: dict[Root, list[Value]] = {}
        for value in now.values:
            self.versions.setdefault(value.root, []).append(value)

    def cheapest(self, refused: Collection[Move]) -> Move | None:
        """The move of the lowest price; of equal ones that of the largest value."""
        nbytes, here = self.program.nbytes, self.here
        alive = [value for value in self.now.values if value.birth < here < value.last]
        large = [value for value in alive if nbytes[value.root] > self.smallest]
        best, price = None, inf
        for value in sorted(large, key=lambda value: (-nbytes[value.root], value.root)):
            move = self._move(value)
            if move is None or move in refused:
                continue
            asked = self._price(value, price)
            if asked < price:
                best, price = move, asked
        return best

    def _move(self, value: Value) -> Move | None:
        """How to let go of the value in the gap around the peak; None where that cannot be, or is so already."""
        program, root = self.program, value.root
        if program.maker[root] == NEVER or program.lasting[root] or not value.reads or value.reads[-1] <= self.here:
            return None
        if value.reads[bisect_left(value.reads, self.here)] == self.here:
            return None
        gap, closed = self._gap(root, self.here)
        if gap is None:
            return None
        if value.gap is None and gap not in self.choice.dropped:
            return Move(gap, again=False)
        if value.gap == gap and closed and gap not in self.choice.transient:
            return Move(gap, again=True)
        return None

    def _gap(self, root: Root, at: int) -> tuple[Gap | None, bool]:
        """The gap of a root around a position, and whether a use closes it."""
        uses = self.program.uses[root]
        index = bisect_left(uses, at, key=self.now.position.__getitem__)
        return ((uses[index - 1], root) if index else None), index < len(uses)

    def _price(self, value: Value, limit: float) -> float:
        """Work per byte and step; infinite where the value cannot be had again, or only above the limit."""
        place = bisect_left(value.reads, self.here)
        before = value.reads[place - 1] if place else value.birth
        after = value.reads[place]
        steps = self.above[after] - self.above[before + 1]
        nbytes = self.program.nbytes[value.root]
        work, kept = self._chain(value.root, after, limit * steps * nbytes)
        return inf if work > limit * steps * nbytes or nbytes <= kept else work / (steps * (nbytes - kept))

    def _chain(self, root: Root, at: int, limit: float) -> tuple[float, int]:
        """Work to have a root again at a position, and bytes that are alive at the peak for that alone."""
        program = self.program
        work, kept = 0.0, 0
        seen, makers, waiting = {root}, set[Step](), [root]
        while waiting and work <= limit:
            one = waiting.pop()
            maker = program.maker[one]
            if maker in makers:
                continue
            if maker == NEVER or not program.repeatable[maker]:
                return inf, 0
            makers.add(maker)
            if one == root or not self._comes_later(one, at):
                work += program.work[maker]
            for other in program.again[maker]:
                if other in seen:
                    continue
                seen.add(other)
                there = self._there(other, at)
                if there is None:
                    waiting.append(other)
                elif there.last < self.here:
                    kept += program.nbytes[other]
        return work, kept

    def _there(self, root: Root, at: int) -> Value | None:
        """The value of a root that can be read at a position."""
        return next((value for value in self.versions.get(root, ()) if value.birth < at <= value.gone), None)

    def _comes_later(self, root: Root, at: int) -> bool:
        """Is the root computed again behind `at`, in a gap around `at`?"""
        gap, closed = self._gap(root, at)
        if not closed or gap is None or gap in self.choice.transient:
            return False
        return any(value.gap == gap and value.birth >= at for value in self.versions[root])
