"""A program whose execs may run more than once, as the sequence of its runs: what lives when follows from that.

    version    a root as one run of its maker left it; read by all that read the root behind it, up to the next version
    life       from the run that makes a version to the last one that reads it
    during[p]  bytes of the lives around p + scratch - bytes of outputs that take over an input which ends at p

A root that lives to the end has one version, the first.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

# Positions of a step in the order, and of a root among the roots of a program.
Step = int
Root = int
Span = tuple[int, int]
Bytes = NDArray[np.int64]
NEVER = -1


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """Execs in order, as numbers.

    Per step: roots read, roots read when it runs again, roots written, pairs (in, out) that may share memory, scratch
    bytes, work, whether it may run again, and steps that must run before it. Per root: bytes, the step that makes it
    (NEVER: it is there from the start, or is made piece by piece), and whether it lives to the end.

    `overwritten` is per root the step behind which its memory is somebody else's. `pieces` are made piece by piece.
    """

    reads: Sequence[tuple[Root, ...]]
    again: Sequence[tuple[Root, ...]]
    writes: Sequence[tuple[Root, ...]]
    pairs: Sequence[tuple[tuple[Root, Root], ...]]
    scratch: Sequence[int]
    work: Sequence[int]
    repeatable: Sequence[bool]
    before: Sequence[Collection[Step]]
    nbytes: Sequence[int]
    maker: Sequence[Step]
    lasting: Sequence[bool]
    overwritten: Mapping[Root, Step]
    pieces: frozenset[Root] = field(init=False)

    def __post_init__(self) -> None:
        written = (root for roots in self.writes for root in roots)
        object.__setattr__(self, "pieces", frozenset(root for root in written if self.maker[root] == NEVER))

    def may_return(self, root: Root) -> bool:
        """May the root be made a second time, to be read in place of the first?"""
        maker = self.maker[root]
        return maker != NEVER and self.repeatable[maker] and not self.lasting[root]

    def roots_read(self, step: Step, *, again: bool) -> tuple[Root, ...]:
        """Roots that a run reads, and those there of which the first run writes its pieces."""
        if again:
            return self.again[step]
        pieces = tuple(root for root in self.writes[step] if self.maker[root] == NEVER)
        return (*self.reads[step], *pieces) if pieces else self.reads[step]

    def roots_made(self, step: Step, *, again: bool) -> tuple[Root, ...]:
        """Roots of which a run makes a version."""
        made = self.writes[step]
        return tuple(root for root in made if self.maker[root] != NEVER and not (again and self.lasting[root]))

    def own_bytes(self, step: Step, *, again: bool) -> int:
        """Bytes that only the run itself needs: scratch, and outputs that nobody reads when it runs again."""
        unread = sum(self.nbytes[root] for root in self.writes[step] if self.lasting[root]) if again else 0
        return self.scratch[step] + unread


@dataclass(frozen=True, slots=True)
class Events:
    """Of one root: positions of the runs that make a version (NEVER: there from the start), and of those that read."""

    births: Sequence[int]
    reads: Sequence[int]

    def lives(self, last: int) -> list[Span]:
        """The life of each version; that of the first lasts to `last` at least."""
        if len(self.births) == 1:
            birth = self.births[0]
            return [(max(birth, 0), max(self.reads[-1] if self.reads else birth, birth, last, 0))]
        found = []
        for number, birth in enumerate(self.births):
            stop = self.births[number + 1] if number + 1 < len(self.births) else None
            place = len(self.reads) if stop is None else bisect_right(self.reads, stop)
            end = max(self.reads[place - 1], birth) if place else birth
            found.append((max(birth, 0), max(end, 0) if number else max(end, last, 0)))
        return found


class ReplaySchedule:
    """The runs of a program: `steps` in order, which of them `repeats` an earlier one, and events and lives per root.

    `runs` are per step the positions where it runs; `through` are bytes alive at a position and at the one before.
    """

    def __init__(self, program: Program, steps: Sequence[Step]) -> None:
        self.program = program
        self.steps = steps
        self.repeats: list[bool] = []
        self.runs: list[list[int]] = [[] for _ in program.reads]
        births: list[list[int]] = [[NEVER] if maker == NEVER else [] for maker in program.maker]
        reads: list[list[int]] = [[] for _ in program.maker]
        for position, step in enumerate(steps):
            again = bool(self.runs[step])
            self.repeats.append(again)
            self.runs[step].append(position)
            for root in program.roots_read(step, again=again):
                reads[root].append(position)
            for root in program.roots_made(step, again=again):
                births[root].append(position)
        for root in program.pieces:
            births[root] = reads[root][:1]
        self.events = [Events(*both) for both in zip(births, reads, strict=True)]
        self.lives = [self.lives_of(root, events, len(steps)) for root, events in enumerate(self.events)]
        self.extra = sum(program.work[step] for step, again in zip(steps, self.repeats, strict=True) if again)
        self._count()

    def lives_of(self, root: Root, events: Events, count: int) -> list[Span]:
        """The lives of a root with these events among `count` runs."""
        return events.lives(count - 1 if self.program.lasting[root] else NEVER)

    def _count(self) -> None:
        program, count = self.program, len(self.steps)
        change, born = [0] * (count + 1), [0] * (count + 1)
        for nbytes, lives in zip(program.nbytes, self.lives, strict=True):
            for birth, last in lives if nbytes else ():
                change[birth] += nbytes
                change[last + 1] -= nbytes
                born[birth] += nbytes
        self.alive: Bytes = np.cumsum(np.array(change, np.int64))[:count]
        self.through: Bytes = self.alive - np.array(born[:count], np.int64)
        own = [program.own_bytes(step, again=again) for step, again in zip(self.steps, self.repeats, strict=True)]
        self.own: Bytes = np.array(own, np.int64)
        self.shared: Bytes = np.zeros(count, np.int64)
        for at, step in enumerate(self.steps):
            if program.pairs[step]:
                self.shared[at] = shared_bytes(program, step, at, self.lives.__getitem__)
        self.during: Bytes = self.alive + self.own - self.shared
        self.peak = int(self.during.max(initial=0))

    def version(self, root: Root, position: int) -> int:
        """The number of the version that a run at this position reads."""
        return max(bisect_left(self.events[root].births, position) - 1, 0)


def shared_bytes(program: Program, step: Step, at: int, lives: Callable[[Root], Collection[Span]]) -> int:
    """Bytes of outputs of the run at a position that take over the memory of inputs which end there."""
    shared, taken = 0, set[Root]()
    for source, target in program.pairs[step]:
        if source in taken or target in taken:
            continue
        if any(last == at for _, last in lives(source)) and any(birth == at for birth, _ in lives(target)):
            taken |= {source, target}
            shared += program.nbytes[source]
    return shared
