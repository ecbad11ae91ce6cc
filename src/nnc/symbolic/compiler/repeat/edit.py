"""What an edit of a schedule would cost, from the schedule that is there: only roots that it touches live otherwise.

some runs go, others come in front of a position;  bytes' = bytes, stretched, with the lives of touched roots anew

Most trials are refused for their peak: they count bytes during each run alone, and what those consist of is counted
when an edit is made.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
from typing import TypeVar

import numpy as np

from nnc.classes import dataclass
from nnc.symbolic.compiler.order.live_bytes import Bytes, LiveBytes, Span
from nnc.symbolic.compiler.repeat.schedule import NEVER, Events, NumberedRuns, ReplaySchedule, Root, Step

R = TypeVar("R")


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """An edited schedule as far as its costs go: its runs, bytes during each, their peak, and the work of repeats."""

    steps: Sequence[Step]
    during: Bytes
    peak: int
    extra: int
    edit: _Edit

    def schedule(self) -> ReplaySchedule:
        """The edited schedule: counted anew is only what the edit touches."""
        edit = self.edit
        repeats = edit.changed(edit.old.repeats, [edit.again] * len(edit.fresh))
        costs = (edit.live_bytes(self.during), self.extra)
        return ReplaySchedule.of(edit.program, self.steps, repeats, edit.numbered(), costs)


def edited(
    schedule: ReplaySchedule, gone: Collection[int], position: int = 0, steps: Sequence[Step] = ()
) -> Trial | None:
    """Without the repeats at the positions `gone`, and with `steps` run again in front of `position`.

    None where a root would be read whose memory is somebody else's by then.
    """
    return _Edit(schedule, gone, position, steps, again=True).trial()


def moved(schedule: ReplaySchedule, place: int, position: int) -> Trial | None:
    """With the first run of a step, which is at `place`, in front of `position`.

    None where a step would run in front of one that must come before it, or read what is not there.
    """
    step, before = schedule.steps[place], schedule.program.before
    passed = schedule.steps[place + 1 : position]
    if any(schedule.runs(earlier)[0] >= position for earlier in before[step]):
        return None
    if any(other == step or step in before[other] for other in passed):
        return None
    return _Edit(schedule, (place,), position, (step,), again=False).trial()


class _Edit:
    """`gone` and `position` are positions in the old schedule, `start` is that of the fresh runs in the new one."""

    def __init__(
        self, old: ReplaySchedule, gone: Collection[int], position: int, steps: Sequence[Step], *, again: bool
    ) -> None:
        self.old = old
        self.again = again
        self.program = old.program
        self.gone = sorted(gone)
        self.position = position
        self.fresh = steps
        self.start = position - bisect_left(self.gone, position)
        self.steps = self.changed(old.steps, steps)
        self.lives: dict[Root, list[Span]] = {}
        self.events: dict[Root, Events] = {}
        # What fresh runs read within a life that stays as it is, and where.
        self.read_within: dict[Root, Sequence[int]] = {}

    def changed(self, values: Sequence[R], fresh: Sequence[R]) -> list[R]:
        """Values per position, without those that are gone and with fresh ones."""
        edited = [*values[: self.position], *fresh, *values[self.position :]]
        for place in reversed(self.gone):
            del edited[place + (len(fresh) if place >= self.position else 0)]
        return edited

    def trial(self) -> Trial | None:
        """The costs of the edit."""
        old, program = self.old, self.program
        edges = [0] * (len(self.steps) + 2)
        places = set(range(self.start, self.start + len(self.fresh)))
        if not self._find_lives():
            return None
        for root, after in self.lives.items():
            nbytes, before = program.nbytes[root], self._moved_lives(root)
            for birth, last in before:
                edges[birth] -= nbytes
                edges[last + 1] += nbytes
            for birth, last in after:
                edges[birth] += nbytes
                edges[last + 1] -= nbytes
            places.update(place for life in (*before, *after) for place in life)
        around = int(old.bytes.through[self.position]) if self.fresh else 0
        alone = [around + program.runs[step][self.again].own for step in self.fresh]
        during = self._stretched(old.bytes.during, alone) + np.cumsum(edges[: len(self.steps)])
        self.shared = self._stretched(old.bytes.shared, [0] * len(self.fresh))
        for at in places:
            if at < len(self.steps) and program.pairs[self.steps[at]]:
                shared = program.shared_bytes(self.steps[at], self._lives, at)
                during[at] += self.shared[at] - shared
                self.shared[at] = shared
        added = sum(program.work[step] for step in self.fresh)
        saved = sum(program.work[old.steps[place]] for place in self.gone)
        return Trial(self.steps, during, int(during.max(initial=0)), old.extra + added - saved, self)

    def _find_lives(self) -> bool:
        """Find the new `events` and `lives` of roots that live otherwise; False where one would be read in vain."""
        old, (reads, births) = self.old, self._fresh_events()
        removed, displaced = self._touched_by_removed(), self._displaced()
        for root in reads.keys() | births.keys() | removed | displaced:
            fresh = reads.get(root, ())
            if root not in births and root not in displaced and self._lives_on(root, fresh, root in removed):
                self.read_within[root] = fresh
                continue
            events = self._events(root, births.get(root, ()), fresh)
            if self._is_read_in_vain(root, events):
                return False
            self.events[root], self.lives[root] = events, old.lives_of(root, events, len(self.steps))
        return True

    def _lives_on(self, root: Root, fresh: Sequence[int], is_removed: bool) -> bool:
        """Whether a root lives as it did: what is added and what goes are reads within a life (nine of ten roots)."""
        if not is_removed:
            return any(birth < self.position <= last for birth, last in self.old.lives(root))
        numbered = self.old.numbered
        life = numbered.only_life(root)
        if life is None or root in self.program.pieces or not numbered.events[root].reads:
            return False
        birth, last = life
        if birth in self.gone or last in self.gone:
            return False
        return not fresh or birth < self.position <= last

    def live_bytes(self, during: Bytes) -> LiveBytes:
        """The parts of the bytes `during` each run."""
        old, program = self.old, self.program
        own = self._stretched(old.bytes.own, [program.runs[step][self.again].own for step in self.fresh])
        born = self._stretched(old.bytes.born, [0] * len(self.fresh))
        for root in self.events:
            for birth, _ in old.lives(root):
                if birth not in self.gone:
                    born[self._moved(birth)] -= program.nbytes[root]
            for birth, _ in self.lives[root]:
                born[birth] += program.nbytes[root]
        return LiveBytes(during - born - own + self.shared, born, own, self.shared)

    def numbered(self) -> NumberedRuns:
        """The runs after the edit, by the numbers they had; fresh ones have numbers behind all others."""
        was, most = self.old.numbered, len(self.old.numbered.place) - 1
        order = self.changed(was.order, range(most, most + len(self.fresh)))
        place = [NEVER] * (most + len(self.fresh) + 1)
        for position, number in enumerate(order):
            place[number] = position
        numbers = (*order, NEVER)
        events, runs = [*was.events], [*was.runs]
        within = {root: self._events(root, (), reads) for root, reads in self.read_within.items()}
        for root, event in (self.events | within).items():
            births, reads = ([numbers[at] for at in places] for places in (event.births, event.reads))
            events[root] = Events(births, reads)
        for step in {*self.fresh, *(self.old.steps[at] for at in self.gone)}:
            kept = [self._moved(at) for at in self.old.runs(step) if at not in self.gone]
            fresh = [at for at, other in enumerate(self.fresh, self.start) if other == step]
            runs[step] = [order[at] for at in sorted([*kept, *fresh])]
        return NumberedRuns(order, place, events, runs)

    # ---- positions

    def _moved(self, position: int) -> int:
        """Where the first run at or behind an old position is now."""
        later = len(self.fresh) if position >= self.position else 0
        return position + later - bisect_left(self.gone, position) if self.gone else position + later

    def _ended(self, position: int) -> int:
        """Where the last run at or before an old position is now."""
        later = len(self.fresh) if position >= self.position else 0
        return position + later - bisect_right(self.gone, position) if self.gone else position + later

    def _stretched(self, values: Bytes, fresh: Sequence[int]) -> Bytes:
        """Values per position, without those that are gone and with fresh ones."""
        # `np.delete` and `np.insert` take ten times as long as slices.
        if self.gone:
            starts, ends = (0, *(place + 1 for place in self.gone)), (*self.gone, len(values))
            values = np.concatenate([values[start:end] for start, end in zip(starts, ends, strict=True)])
        return np.concatenate((values[: self.start], np.array(fresh, np.int64), values[self.start :]))

    # ---- roots

    def _fresh_events(self) -> tuple[dict[Root, list[int]], dict[Root, list[int]]]:
        """Reads and births of the fresh runs, per root."""
        reads: dict[Root, list[int]] = {}
        births: dict[Root, list[int]] = {}
        for place, step in enumerate(self.fresh, self.start):
            run = self.program.runs[step][self.again]
            for root in run.reads:
                reads.setdefault(root, []).append(place)
            for root in run.makes:
                births.setdefault(root, []).append(place)
        return reads, births

    def _touched_by_removed(self) -> set[Root]:
        """What runs that are gone read and made."""
        program, old = self.program, self.old
        runs = (program.runs[old.steps[place]][old.repeats[place]] for place in self.gone)
        return set[Root]().union(*[(*run.reads, *run.makes) for run in runs])

    def _displaced(self) -> set[Root]:
        """What is written over by a step that moves, and what is there from the start where another run is first now.

        That lives from the first run on, whichever it is.
        """
        program = self.program
        lost = () if self.again else (root for root, step in program.overwritten.items() if step in self.fresh)
        first = (self.fresh and self.position == 0) or self.gone[:1] == [0]
        there = (root for root, births in enumerate(program.maker) if births == NEVER) if first else ()
        return {*lost, *there}

    def _events(self, root: Root, births: Sequence[int], reads: Sequence[int]) -> Events:
        """The events of a root with those that are added, without those that are gone."""
        was, gone = self.old.events(root), self.gone
        moved = self._moved
        born = [place if place == NEVER else moved(place) for place in was.births if place not in gone]
        read = sorted([*[moved(place) for place in was.reads if place not in gone], *reads])
        return Events(read[:1] if root in self.program.pieces else sorted([*born, *births]), read)

    def _is_read_in_vain(self, root: Root, events: Events) -> bool:
        """Would the root be read in front of the first version, or behind the step that writes over it?"""
        if not events.reads:
            return False
        if events.births and events.reads[0] < events.births[0]:
            return True
        step = self.program.overwritten.get(root)
        return step is not None and events.reads[-1] > self._first_run(step)

    def _first_run(self, step: Step) -> int:
        """Where a step runs first."""
        return self.start if not self.again and step in self.fresh else self._moved(self.old.runs(step)[0])

    def _lives(self, root: Root) -> list[Span]:
        if root not in self.lives:
            self.lives[root] = self._moved_lives(root)
        return self.lives[root]

    def _moved_lives(self, root: Root) -> list[Span]:
        """The old lives of a root where its runs are now; one whose only run is gone ends before it begins."""
        return [(self._moved(birth), self._ended(last)) for birth, last in self.old.lives(root)]
