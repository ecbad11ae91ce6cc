"""A program whose execs may run more than once, as the sequence of its runs: what lives when follows from that.

    version    a root as one run of its maker left it; read by all that read the root behind it, up to the next version
    life       from the run that makes a version to the last one that reads it
    bytes      those of the lives, and what a run alone needs: scratch, and outputs that nobody reads when it is again

A root that lives to the end has one version, the first.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from nnc.symbolic.compiler.order.live_bytes import LiveBytes, Span, shared_bytes

# Positions of a step in the order, and of a root among the roots of a program.
Step = int
Root = int
NEVER = -1


class StepRun(NamedTuple):
    """One run of a step: roots that it reads and of which it makes a version, and bytes that only the run needs.

    The first run also reads those of which it writes pieces. Its own are scratch, and what nobody reads of a repeat.
    """

    reads: tuple[Root, ...]
    makes: tuple[Root, ...]
    own: int


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """Execs in order, as numbers.

    Per step: roots read, roots read when it runs again, roots written, pairs (in, out) that may share memory, scratch
    bytes, work, whether it may run again, and steps that must run before it. Per root: bytes, the step that makes it
    (NEVER: it is there from the start, or is made piece by piece), and whether it lives to the end.

    `overwritten` is per root the step behind which its memory is somebody else's. `pieces` are made piece by piece, and
    `parts` are the bytes of those that a step makes.
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
    parts: Mapping[Step, int] = field(default_factory=dict)
    pieces: frozenset[Root] = field(init=False)
    # Per step what its first run and a repeat read, make and need: asked for a thousand times per step in a descent.
    runs: tuple[tuple[StepRun, StepRun], ...] = field(init=False)

    def __post_init__(self) -> None:
        written = (root for roots in self.writes for root in roots)
        object.__setattr__(self, "pieces", frozenset(root for root in written if self.maker[root] == NEVER))
        runs = tuple((self._run(step, again=False), self._run(step, again=True)) for step in range(len(self.reads)))
        object.__setattr__(self, "runs", runs)

    def may_return(self, root: Root) -> bool:
        """May the root be made a second time, to be read in place of the first?"""
        maker = self.maker[root]
        return maker != NEVER and self.repeatable[maker] and not self.lasting[root]

    def _run(self, step: Step, *, again: bool) -> StepRun:
        written = self.writes[step]
        pieces = () if again else tuple(root for root in written if self.maker[root] == NEVER)
        made = tuple(root for root in written if self.maker[root] != NEVER and not (again and self.lasting[root]))
        whole = [root for root in written if self.lasting[root] and self.maker[root] != NEVER]
        unread = sum(self.nbytes[root] for root in whole) + self.parts.get(step, 0) if again else 0
        return StepRun((*(self.again if again else self.reads)[step], *pieces), made, self.scratch[step] + unread)

    def shared_bytes(self, step: Step, lives: Callable[[Root], Iterable[Span]], at: int) -> int:
        """Bytes of outputs of a run at this position that take over the memory of inputs which end there."""
        return shared_bytes(self.pairs[step], self.nbytes.__getitem__, lives, at)


@dataclass(frozen=True, slots=True)
class Events:
    """Of one root: positions of the runs that make a version (NEVER: there from the start), and of those that read."""

    births: Sequence[int]
    reads: Sequence[int]

    def lives(self, last: int) -> list[Span]:
        """The life of each version; that of the first lasts to `last` at least."""
        if len(self.births) == 1:
            birth = max(self.births[0], 0)
            end = self.reads[-1] if self.reads else birth
            # Nine of ten roots, a thousand times each in a descent: comparisons take a third of the time of `max`.
            end = end if end > birth else birth
            return [(birth, end if end > last else last)]
        found = []
        for number, birth in enumerate(self.births):
            stop = self.births[number + 1] if number + 1 < len(self.births) else None
            place = len(self.reads) if stop is None else bisect_right(self.reads, stop)
            end = max(self.reads[place - 1], birth) if place else birth
            found.append((max(birth, 0), max(end, 0) if number else max(end, last, 0)))
        return found


class ReplaySchedule:
    """The runs of a program: `steps` in order, which of them `repeats` an earlier one, and events and lives per root.

    `runs` are per step the positions where it runs.
    """

    def __init__(self, program: Program, steps: Sequence[Step]) -> None:
        self.program = program
        self.steps = steps
        self.repeats: list[bool] = []
        self.runs: list[list[int]] = [[] for _ in program.reads]
        births: list[list[int]] = [[NEVER] if maker == NEVER else [] for maker in program.maker]
        reads: list[list[int]] = [[] for _ in program.maker]
        own = []
        for position, step in enumerate(steps):
            runs = self.runs[step]
            again = bool(runs)
            self.repeats.append(again)
            runs.append(position)
            run = program.runs[step][again]
            own.append(run.own)
            for root in run.reads:
                reads[root].append(position)
            for root in run.makes:
                births[root].append(position)
        for root in program.pieces:
            births[root] = reads[root][:1]
        self.events = [Events(*both) for both in zip(births, reads, strict=True)]
        self.lives = [self.lives_of(root, events, len(steps)) for root, events in enumerate(self.events)]
        self.extra = sum(program.work[step] for step, again in zip(steps, self.repeats, strict=True) if again)
        pairs, lives = program.pairs, self.lives.__getitem__
        shared = [program.shared_bytes(step, lives, at) if pairs[step] else 0 for at, step in enumerate(steps)]
        self.bytes = LiveBytes(zip(program.nbytes, self.lives, strict=True), own, shared)
        self.peak = self.bytes.peak

    def lives_of(self, root: Root, events: Events, count: int) -> list[Span]:
        """The lives of a root with these events among `count` runs."""
        return events.lives(count - 1 if self.program.lasting[root] else NEVER)

    def version(self, root: Root, position: int) -> int:
        """The number of the version that a run at this position reads."""
        return max(bisect_left(self.events[root].births, position) - 1, 0)
