"""A chain run backwards in little memory: the best there is where what is kept stays until used (dynamic programming).

    forward    segments 1 … n: segment i reads c[i-1] of the one before, and makes c[i] and the rest that group i reads
    backward   groups n … 1: group i reads what segment i made, and what steps behind the turn made

    best(i, j) = the least work for each peak, to run groups j … i + 1 when c[i] is all there is of the forward part
               = the least over k in i + 1 … j of: run segments i + 1 … k, keep c[k], and best(k, j); then
                 either group k, for which all that it reads was kept, and best(i, k - 1);  or best(i, k)

Source: Beaumont et al. 2019, "Optimal checkpointing for heterogeneous chains".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from nnc.classes import dataclass
from nnc.symbolic.compiler.repeat.pareto import pareto_front
from nnc.symbolic.compiler.repeat.schedule import NEVER, Program, ReplaySchedule, Root, Step

# The fewest and the most segments of a chain: shorter ones are no chains, and longer ones take too long.
FEWEST, MOST = 3, 40
# The most positions that are tried as the turn between the two parts, those with the most bytes alive.
TURNS = 32


@dataclass(frozen=True, slots=True)
class ChainPart:
    """A way to run a part of a chain: bytes at its peak, its work, and its steps, or the parts that it consists of."""

    peak: int
    work: int
    steps: tuple[Step, ...] = ()
    parts: tuple[ChainPart, ...] = ()

    def runs(self) -> Iterator[Step]:
        """All steps in order."""
        waiting = [self]
        while waiting:
            part = waiting.pop()
            yield from part.steps
            waiting.extend(reversed(part.parts))


# Parts of rising peaks and falling work.
Front = tuple[ChainPart, ...]
NOTHING: Front = (ChainPart(0, 0),)


@dataclass(frozen=True, slots=True)
class Chain:
    """A program as a chain: steps of segment and of group i, the roots that the group needs, and c[i], if there is one.

    Number 0 stands for what is in front of the first segment: c[0] are the inputs, which stay if they are `kept`.
    """

    segments: Sequence[tuple[Step, ...]]
    points: Sequence[frozenset[Root]]
    needs: Sequence[frozenset[Root]]
    groups: Sequence[tuple[Step, ...]]
    kept: bool


def chain_schedules(program: Program) -> list[tuple[Step, ...]]:
    """The runs of a chain for ever higher peaks and ever less work; none for what is no chain."""
    turns = ReplaySchedule(program, range(len(program.reads))).bytes.through.argsort(kind="stable")[::-1][:TURNS]
    chains = [chain for turn in turns if (chain := _chain_of(program, int(turn))) is not None]
    if not chains:
        return []
    chain = max(chains, key=lambda chain: len(chain.segments))
    if not FEWEST < len(chain.segments) <= MOST + 1:
        return []
    return [tuple(part.runs()) for part in _Solver(program, chain).best(0, len(chain.segments) - 1, kept=chain.kept)]


# ---- dynamic programming


class _Solver:
    """Fronts and bytes of a chain, each found once."""

    def __init__(self, program: Program, chain: Chain) -> None:
        self.program = program
        self.chain = chain
        self.fronts: dict[tuple[int, int, bool], Front] = {}
        self.peaks: dict[tuple[int, frozenset[Root], frozenset[Root]], int] = {}
        self.carried, self.turns = self._backward()

    def best(self, start: int, stop: int, *, kept: bool) -> Front:
        """The front of groups `stop` … `start + 1`; the checkpoint of `start` is there behind them if it is `kept`."""
        if start == stop:
            return NOTHING
        if (start, stop, kept) not in self.fronts:
            candidates = [
                part
                for middle in range(start + 1, stop + 1)
                for whole in (True, False)
                if whole or middle < stop
                for part in self._split(start, middle, stop, kept=kept, whole=whole)
            ]
            self.fronts[start, stop, kept] = _lowest(candidates)
        return self.fronts[start, stop, kept]

    def _split(self, start: int, middle: int, stop: int, *, kept: bool, whole: bool) -> Front:
        """With a checkpoint at `middle`, and with the `whole` of what its group needs."""
        chain = self.chain
        point = chain.points[middle] if middle < stop else frozenset[Root]()
        needs = chain.needs[middle] if whole else frozenset[Root]()
        behind = kept or not whole or middle > start + 1
        held = self._bytes(chain.points[start]) if behind else 0
        sweep = self._sweep(start, middle, stop, point | needs, kept=behind)
        inner = self.best(middle, stop, kept=point <= needs) if middle < stop else NOTHING
        around = held + self._bytes(needs - point)
        raised = tuple(ChainPart(part.peak + around, part.work, (), (part,)) for part in inner)
        first = _joined((sweep,), raised)
        if not whole:
            return _joined(first, self.best(start, middle, kept=kept))
        turn = self.turns[middle]
        group = ChainPart(turn.peak + (held if kept or middle > start + 1 else 0), turn.work, turn.steps)
        return _joined(_joined(first, (group,)), self.best(start, middle - 1, kept=kept))

    def _sweep(self, start: int, middle: int, stop: int, left: frozenset[Root], *, kept: bool) -> ChainPart:
        """Segments `start + 1` … `middle` in front of group `stop`; `left` are the roots that stay of the last one."""
        points, numbers = self.chain.points, range(start + 1, middle + 1)
        held = self._bytes(points[start]) if kept else 0
        peak = 0
        for number in numbers:
            first, after = number == start + 1, left if number == middle else points[number]
            local = self._segment_peak(number, after | points[start] if first and kept else after)
            peak = max(peak, local + (0 if first else held))
        steps = tuple(step for number in numbers for step in self.chain.segments[number])
        return ChainPart(peak + self.carried[stop], sum(self.program.work[step] for step in steps), steps)

    def _segment_peak(self, number: int, after: frozenset[Root]) -> int:
        key = (number, self.chain.points[number - 1], after)
        if key not in self.peaks:
            self.peaks[key] = _local_peak(self.program, self.chain.segments[number], key[1], after)
        return self.peaks[key]

    def _backward(self) -> tuple[list[int], list[ChainPart]]:
        """Bytes that backward steps have left in front of each group, and each group with its peak."""
        program, chain = self.program, self.chain
        made: set[Root] = set()
        readers = [{root for step in group for root in program.reads[step]} for group in chain.groups]
        carried, turns = [0] * len(chain.groups), [ChainPart(0, 0)] * len(chain.groups)
        for number in range(len(chain.groups) - 1, 0, -1):
            later = set[Root]().union(*readers[1:number])
            there = frozenset(root for root in made if root in later | readers[number] or program.lasting[root])
            made |= {root for step in chain.groups[number] for root in program.writes[step]}
            after = frozenset(root for root in made if root in later or program.lasting[root])
            carried[number] = self._bytes(there)
            peak = _local_peak(program, chain.groups[number], there | chain.needs[number], after)
            turns[number] = ChainPart(peak, 0, chain.groups[number])
        return carried, turns

    def _bytes(self, roots: Iterable[Root]) -> int:
        return sum(self.program.nbytes[root] for root in roots)


def _local_peak(program: Program, steps: Sequence[Step], there: Collection[Root], after: Collection[Root]) -> int:
    """The peak of steps run once, from roots that are there to those that stay; other roots take no bytes."""
    local = _local(program, steps, there, after)
    return ReplaySchedule(local, range(len(steps))).peak


def _local(program: Program, steps: Sequence[Step], there: Collection[Root], after: Collection[Root]) -> Program:
    """The steps, none of which runs again, as a program of what they touch: a chain asks for hundreds of parts."""
    made = {root for step in steps for root in program.writes[step] if program.maker[root] != NEVER}
    touched = (root for step in steps for root in (*program.reads[step], *program.writes[step]))
    own = made.union(there)
    number_of = {root: number for number, root in enumerate(dict.fromkeys((*touched, *there)))}
    place_of = {step: place for place, step in enumerate(steps)}
    return Program(
        reads=[tuple([number_of[root] for root in program.reads[step]]) for step in steps],
        again=[()] * len(steps),
        writes=[tuple([number_of[root] for root in program.writes[step]]) for step in steps],
        pairs=[tuple([(number_of[old], number_of[new]) for old, new in program.pairs[step]]) for step in steps],
        scratch=[program.scratch[step] for step in steps],
        work=[0] * len(steps),
        repeatable=[False] * len(steps),
        before=[()] * len(steps),
        nbytes=[program.nbytes[root] if root in own else 0 for root in number_of],
        maker=[place_of[program.maker[root]] if root in made else NEVER for root in number_of],
        lasting=[root in after for root in number_of],
        overwritten={},
    )


def _joined(first: Front, then: Front) -> Front:
    """One part behind the other, for each peak with the least work."""
    parts: list[ChainPart] = []
    peak = max(first[0].peak, then[0].peak)
    front, back = _last_within(first, peak, 0), _last_within(then, peak, 0)
    while True:
        earlier, later = first[front], then[back]
        parts.append(ChainPart(peak, earlier.work + later.work, (), (earlier, later)))
        higher = [part.peak for part in (*first[front + 1 : front + 2], *then[back + 1 : back + 2])]
        if not higher:
            return tuple(parts)
        peak = min(higher)
        front, back = _last_within(first, peak, front), _last_within(then, peak, back)


def _last_within(front: Front, peak: int, number: int) -> int:
    """The number of the last part up to a peak, at or behind one that is known."""
    while number + 1 < len(front) and front[number + 1].peak <= peak:
        number += 1
    return number


def _lowest(parts: Iterable[ChainPart]) -> Front:
    """The parts that no other one is better than, by rising peaks."""
    return pareto_front(parts, lambda part: (part.peak, part.work))


# ---- finding the chain


def _chain_of(program: Program, turn: Step) -> Chain | None:
    """The finest chain with this turn; None where a step before the turn must not run again."""
    # What steps write parts of stays where it is, whoever runs again.
    own = [[root for root in roots if root not in program.pieces] for roots in program.writes]
    made = [root for step in range(turn) for root in own[step] if program.nbytes[root]]
    if not made or not all(program.repeatable[:turn]) or not all(map(program.may_return, made)):
        return None
    cuts = _cuts(program, turn)
    while True:
        ends = [*cuts, turn]
        number_of = {
            root: number
            for number, (start, end) in enumerate(pairwise([0, *ends]), 1)
            for step in range(start, end)
            for root in own[step]
        }
        across = _read_across(program, turn, number_of, len(ends))
        if not across:
            break
        cuts = {end: root for number, (end, root) in enumerate(cuts.items(), 1) if number not in across}
    segments = [(), *(tuple(range(start, end)) for start, end in pairwise([0, *ends]))]
    groups: list[list[Step]] = [[] for _ in segments]
    for step, number in _group_numbers(program, turn, number_of, len(ends)):
        groups[number].append(step)
    needs = [frozenset(root for step in group for root in program.reads[step] if root in number_of) for group in groups]
    given = {root for step in range(turn) for root in program.again[step] if root not in number_of}
    points = [frozenset(given), *(frozenset({root}) for root in cuts.values()), frozenset[Root]()]
    kept = any(not given.isdisjoint(program.reads[step]) for step in range(turn, len(program.reads)))
    return Chain(segments, points, needs, [tuple(group) for group in groups], kept)


def _cuts(program: Program, turn: Step) -> dict[Step, Root]:
    """Steps in front of which a single value of the steps before is needed for the rest up to the turn; that value."""
    last = {root: step for step in range(turn) for root in program.again[step]}
    alive: set[Root] = set()
    cuts = {}
    for step in range(turn - 1):
        made = (root for root in program.writes[step] if root not in program.pieces)
        alive.update(root for root in made if last.get(root, NEVER) > step)
        alive.difference_update([root for root in program.again[step] if last[root] == step])
        if len(alive) == 1:
            cuts[step + 1] = next(iter(alive))
    return cuts


def _group_numbers(
    program: Program, turn: Step, number_of: Mapping[Root, int], highest: int
) -> Iterator[tuple[Step, int]]:
    """Steps behind the turn, each in the group of the earliest segment that was read so far."""
    number = highest
    for step in range(turn, len(program.reads)):
        number = min([number, *(number_of[root] for root in program.reads[step] if root in number_of)])
        yield step, number


def _read_across(program: Program, turn: Step, number_of: Mapping[Root, int], highest: int) -> range:
    """Cuts between a group and a later segment that it reads as well, of the first such group."""
    for step, number in _group_numbers(program, turn, number_of, highest):
        latest = max((number_of[root] for root in program.reads[step] if root in number_of), default=number)
        if latest > number:
            return range(number, latest)
    return range(0)
