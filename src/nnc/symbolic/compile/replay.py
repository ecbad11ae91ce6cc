"""A program whose execs may run more than once: which values are let go of, and what follows from that.

    gap  = (step, root): from the step on, which uses the root, until the next step of the order that uses it
    replay(program, choice) = the order, with each value that is let go of computed again before it is needed

A value that is computed again in a gap stays until the end of the gap, unless the gap is transient: then it serves the
step alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

# Positions of a step in the order, and of a root among the roots of a program.
Step = int
Root = int
Gap = tuple[Step, Root]
NEVER = -1
LOST = -2


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """Execs in order, as numbers. Per step: roots read, roots read when it runs again, roots written, pairs (in, out)
    that may share memory, scratch bytes, work, and whether it may run again. Per root: bytes, the step that makes it
    (NEVER: it is there from the start, or is made piece by piece), and whether it lives to the end.

    `overwritten` are the roots whose memory is somebody else's behind a step. Per step and per root, `touched` and
    `uses` are what it reads or writes and who does.
    """

    reads: Sequence[tuple[Root, ...]]
    again: Sequence[tuple[Root, ...]]
    writes: Sequence[tuple[Root, ...]]
    pairs: Sequence[tuple[tuple[Root, Root], ...]]
    scratch: Sequence[int]
    work: Sequence[int]
    repeatable: Sequence[bool]
    nbytes: Sequence[int]
    maker: Sequence[Step]
    lasting: Sequence[bool]
    overwritten: Mapping[Step, tuple[Root, ...]]
    touched: Sequence[tuple[Root, ...]] = field(init=False)
    uses: Sequence[Sequence[Step]] = field(init=False)

    def __post_init__(self) -> None:
        both = zip(self.reads, self.writes, strict=True)
        touched = tuple(tuple(dict.fromkeys((*one, *two))) for one, two in both)
        uses: list[list[Step]] = [[] for _ in self.nbytes]
        for step, roots in enumerate(touched):
            for root in roots:
                uses[root].append(step)
        object.__setattr__(self, "touched", touched)
        object.__setattr__(self, "uses", uses)

    def first_choice(self) -> Choice:
        """Every value is kept up to its last use."""
        ends = enumerate(self.uses)
        return Choice(
            frozenset((use[-1], root) for root, use in ends if self.maker[root] != NEVER and not self.lasting[root])
        )


@dataclass(frozen=True, slots=True)
class Choice:
    """Gaps in which values are let go of, and those in which a value computed again is let go of again."""

    dropped: frozenset[Gap]
    transient: frozenset[Gap] = frozenset()


@dataclass(slots=True, eq=False)
class Value:
    """A root as one run of its maker left it: the positions of its birth, of its last use, and where it is let go of.

    `gap` is the gap that it was computed again in; `reads` are the positions of its readers.
    """

    root: Root
    birth: int
    last: int
    gone: int = NEVER
    gap: Gap | None = None
    reads: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True, eq=False)
class Replay:
    """Steps in the order in which they run, and whether each runs again; the values that each reads and writes."""

    steps: list[Step]
    repeats: list[bool]
    reads: list[tuple[int, ...]]
    writes: list[tuple[int, ...]]
    values: list[Value]
    position: list[int]
    during: list[int]
    extra: int

    @property
    def peak(self) -> int:
        """max over positions of the bytes alive."""
        return max(self.during, default=0)


def replay(program: Program, choice: Choice) -> Replay | None:
    """The program under a choice; None where a value is needed again that nothing can make any more."""
    run = _Run(program, choice)
    for step in range(len(program.reads)):
        if not run.advance(step):
            return None
    return run.finish()


class _Run:
    """One walk over the order. `current` is per root the value that may be read: NEVER none, LOST none ever again."""

    def __init__(self, program: Program, choice: Choice) -> None:
        self.program = program
        self.choice = choice
        self.current = [NEVER] * len(program.nbytes)
        self.latest = [NEVER] * len(program.nbytes)
        self.values: list[Value] = []
        self.steps: list[Step] = []
        self.repeats: list[bool] = []
        self.reads: list[tuple[int, ...]] = []
        self.writes: list[tuple[int, ...]] = []
        self.position: list[int] = []
        self.fresh: list[Root] = []
        self.extra = 0
        for root, maker in enumerate(program.maker):
            if maker == NEVER:
                self.current[root] = len(self.values)
                self.values.append(Value(root, 0, 0))

    def advance(self, step: Step) -> bool:
        """Run a step of the order, behind what must run again for it; False when that is not possible."""
        program, current = self.program, self.current
        self.fresh.clear()
        for root in program.reads[step]:
            if current[root] < 0 and not self._make(root, step):
                return False
        self.position.append(len(self.steps))
        self._emit(step, program.reads[step], repeats=False)
        for root in self.fresh:
            gap = (self.latest[root], root)
            if self.latest[root] == program.uses[root][-1] or gap in self.choice.transient:
                self._let_go(root, NEVER)
        for root in program.touched[step]:
            self.latest[root] = step
            if (step, root) in self.choice.dropped:
                self._let_go(root, NEVER)
        for root in program.overwritten.get(step, ()):
            self._let_go(root, LOST)
        return True

    def _make(self, wanted: Root, step: Step) -> bool:
        """Run again what `wanted` needs, in the order in which it ran first."""
        program, current = self.program, self.current
        makers: set[Step] = set()
        waiting = [wanted]
        while waiting:
            root = waiting.pop()
            maker = program.maker[root]
            if current[root] == LOST or not 0 <= maker < step or not program.repeatable[maker]:
                return False
            if maker not in makers:
                makers.add(maker)
                waiting.extend(other for other in program.again[maker] if current[other] < 0)
        for maker in sorted(makers):
            self._emit(maker, program.again[maker], repeats=True)
        return True

    def _emit(self, step: Step, read: tuple[Root, ...], *, repeats: bool) -> None:
        program, current, values = self.program, self.current, self.values
        here = len(self.steps)
        reads = tuple([current[root] for root in read])
        for value in reads:
            values[value].last = here
            values[value].reads.append(here)
        writes = []
        for root in program.writes[step]:
            if program.maker[root] == NEVER:
                value = current[root]
                values[value].last = here
            else:
                value = len(values)
                values.append(Value(root, here, here, here, (self.latest[root], root) if repeats else None))
                if not repeats or current[root] < 0:
                    current[root] = value
                    values[value].gone = NEVER
                    if repeats:
                        self.fresh.append(root)
            writes.append(value)
        self.steps.append(step)
        self.repeats.append(repeats)
        self.reads.append(reads)
        self.writes.append(tuple(writes))
        if repeats:
            self.extra += program.work[step]

    def _let_go(self, root: Root, mark: int) -> None:
        value = self.current[root]
        if value >= 0:
            self.values[value].gone = len(self.steps) - 1
            self.current[root] = mark

    def finish(self) -> Replay:
        """Lives to the end, and the bytes at each position."""
        program, values, end = self.program, self.values, len(self.steps)
        for root, value in enumerate(self.current):
            if value >= 0:
                values[value].gone = end
                if program.lasting[root]:
                    values[value].last = end
        during = _bytes_alive(program, values, end)
        for here, step in enumerate(self.steps):
            during[here] += program.scratch[step]
            if program.pairs[step]:
                during[here] -= self._shared(here, step)
        return Replay(self.steps, self.repeats, self.reads, self.writes, values, self.position, during, self.extra)

    def _shared(self, here: int, step: Step) -> int:
        """Bytes of outputs that take over the memory of inputs which end here."""
        pairs = self.program.pairs[step]
        values, shared = self.values, 0
        read = self.program.again[step] if self.repeats[here] else self.program.reads[step]
        sources = {
            root: values[value]
            for root, value in zip(read, self.reads[here], strict=True)
            if values[value].last == here
        }
        targets = {
            root: values[value]
            for root, value in zip(self.program.writes[step], self.writes[here], strict=True)
            if values[value].birth == here
        }
        for source, target in pairs:
            if source in sources and target in targets:
                del sources[source], targets[target]
                shared += self.program.nbytes[source]
        return shared


def _bytes_alive(program: Program, values: Collection[Value], end: int) -> list[int]:
    change = [0] * (end + 2)
    nbytes = program.nbytes
    for value in values:
        change[value.birth] += nbytes[value.root]
        change[value.last + 1] -= nbytes[value.root]
    return list(accumulate(change))[:end]
