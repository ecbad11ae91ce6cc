"""A program whose execs may run more than once, as the sequence of its runs: what lives when follows from that.

    version    a root as one run of its maker left it; read by all that read the root behind it, up to the next version
    life       from the run that makes a version to the last one that reads it
    bytes      those of the lives, and what a run alone needs: scratch, and outputs that nobody reads when it is again

A root that lives to the end has one version, the first.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field
from typing import NamedTuple

from nnc.classes import dataclass
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
    # Roots by falling bytes.
    largest: tuple[Root, ...] = field(init=False)

    def __post_init__(self) -> None:
        written = (root for roots in self.writes for root in roots)
        object.__setattr__(self, "pieces", frozenset(root for root in written if self.maker[root] == NEVER))
        runs = tuple((self._run(step, again=False), self._run(step, again=True)) for step in range(len(self.reads)))
        object.__setattr__(self, "runs", runs)
        largest = sorted(range(len(self.nbytes)), key=lambda root: -self.nbytes[root])
        object.__setattr__(self, "largest", tuple(largest))

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
        lives = []
        for number, birth in enumerate(self.births):
            stop = self.births[number + 1] if number + 1 < len(self.births) else None
            place = len(self.reads) if stop is None else bisect_right(self.reads, stop)
            end = max(self.reads[place - 1], birth) if place else birth
            lives.append((max(birth, 0), max(end, 0) if number else max(end, last, 0)))
        return lives


@dataclass(frozen=True, slots=True, eq=False)
class NumberedRuns:
    """Runs by numbers that they keep when others come and go, so that an edit renews only what it touches.

    `order` are the numbers by position, `place` the positions by number (those of runs that are gone mean nothing, and
    the last one is NEVER, at its own index). `events` are those of roots and `runs` those of steps, in numbers.
    """

    order: Sequence[int]
    place: Sequence[int]
    events: Sequence[Events]
    runs: Sequence[Sequence[int]]

    def spans(self, root: Root, position: int) -> bool:
        """Is a root made in front of a position, and read behind it?"""
        place, events = self.place, self.events[root]
        return bool(events.reads) and place[events.births[0]] < position < place[events.reads[-1]]

    def only_life(self, root: Root) -> Span | None:
        """The life of a root that is made once, as nine of ten are, without a list of all positions; else None."""
        place, events = self.place, self.events[root]
        if len(events.births) != 1:
            return None
        birth = max(place[events.births[0]], 0)
        return birth, max(place[events.reads[-1]], birth) if events.reads else birth

    def reads_around(self, root: Root, position: int) -> tuple[int, int]:
        """The last read of a root in front of a position, and the first at or behind it; NEVER for none."""
        place, reads = self.place, self.events[root].reads
        number = bisect_left(reads, position, key=place.__getitem__)
        before = place[reads[number - 1]] if number else NEVER
        return before, place[reads[number]] if number < len(reads) else NEVER

    def events_of(self, root: Root) -> Events:
        """The events of a root in positions."""
        place, events = self.place, self.events[root]
        return Events([place[birth] for birth in events.births], [place[read] for read in events.reads])

    def runs_of(self, step: Step) -> list[int]:
        """The positions where a step runs."""
        return [self.place[run] for run in self.runs[step]]


class ReplaySchedule:
    """The runs of a program: `steps` in order, which of them `repeats` an earlier one, and what lives when.

    `numbered` are the same runs by numbers. Positions follow from these where they are asked for.
    """

    def __init__(self, program: Program, steps: Sequence[Step]) -> None:
        repeats: list[bool] = []
        runs: list[list[int]] = [[] for _ in program.reads]
        births: list[list[int]] = [[NEVER] if maker == NEVER else [] for maker in program.maker]
        reads: list[list[int]] = [[] for _ in program.maker]
        own = []
        for position, step in enumerate(steps):
            again = bool(runs[step])
            repeats.append(again)
            runs[step].append(position)
            run = program.runs[step][again]
            own.append(run.own)
            for root in run.reads:
                reads[root].append(position)
            for root in run.makes:
                births[root].append(position)
        for root in program.pieces:
            births[root] = reads[root][:1]
        events = [Events(*both) for both in zip(births, reads, strict=True)]
        places = range(len(steps))
        self._hold(program, steps, repeats, NumberedRuns(places, (*places, NEVER), events, runs))
        self.extra = sum(program.work[step] for step, again in zip(steps, repeats, strict=True) if again)
        pairs, lives = program.pairs, self.lives
        shared = [program.shared_bytes(step, lives, at) if pairs[step] else 0 for at, step in enumerate(steps)]
        self.bytes = LiveBytes.counted(zip(program.nbytes, map(lives, range(len(events))), strict=True), own, shared)

    @classmethod
    def of(
        cls,
        program: Program,
        steps: Sequence[Step],
        repeats: Sequence[bool],
        numbered: NumberedRuns,
        costs: tuple[LiveBytes, int],
    ) -> ReplaySchedule:
        """The runs whose bytes, and work of repeats, are known."""
        made = cls.__new__(cls)
        made._hold(program, steps, repeats, numbered)
        made.bytes, made.extra = costs
        return made

    def _hold(self, program: Program, steps: Sequence[Step], repeats: Sequence[bool], numbered: NumberedRuns) -> None:
        self.program = program
        self.steps = steps
        self.repeats = repeats
        self.numbered = numbered
        self._events: dict[Root, Events] = {}
        self._lives: dict[Root, list[Span]] = {}
        self._runs: dict[Step, list[int]] = {}

    @property
    def peak(self) -> int:
        """max over positions of the bytes alive."""
        return self.bytes.peak

    def events(self, root: Root) -> Events:
        """When a root is made and read."""
        if root not in self._events:
            self._events[root] = self.numbered.events_of(root)
        return self._events[root]

    def lives(self, root: Root) -> list[Span]:
        """The lives of the versions of a root."""
        lives = self._lives.get(root)
        if lives is None:
            life, last = self.numbered.only_life(root), len(self.steps) - 1
            if life is None:
                lives = self.lives_of(root, self.events(root), len(self.steps))
            else:
                lives = [(life[0], max(life[1], last)) if self.program.lasting[root] else life]
            self._lives[root] = lives
        return lives

    def runs(self, step: Step) -> list[int]:
        """The positions where a step runs."""
        if step not in self._runs:
            self._runs[step] = self.numbered.runs_of(step)
        return self._runs[step]

    def lives_of(self, root: Root, events: Events, count: int) -> list[Span]:
        """The lives of a root with these events among `count` runs."""
        return events.lives(count - 1 if self.program.lasting[root] else NEVER)

    def version(self, root: Root, position: int) -> int:
        """The number of the version that a run at this position reads."""
        if len(self.numbered.events[root].births) == 1:
            return 0
        return max(bisect_left(self.events(root).births, position) - 1, 0)
