"""What to compute again, and in which order: a descent from the peak of a program to ever smaller peaks.

At the position of the peak there are values that wait for their next reader. A reader that may run before the peak, or
a maker that may run behind it, is moved there, which costs nothing. Else a value is let go of and computed again later:
the move of the lowest price is made which does not raise the peak and leaves less above the level.

    price = work of the chain that computes the value again / (bytes freed · positions above the level without them)
    level = SHARE · peak;   bytes freed = bytes of the value - bytes of what lives longer for the chain

How far a chain reaches back is part of the move: what it reads is kept, or computed again itself. From time to time
repeats that the peak does not need any more are taken out. Programs that are chains are solved as such (`chain`), and
around the points that are found for a small program other moves are tried until they lead to nothing better. Nothing is
random, and nothing depends on any limit.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from math import inf
from time import perf_counter

import numpy as np

from nnc.classes import dataclass
from nnc.symbolic.compiler.order.live_bytes import Bytes
from nnc.symbolic.compiler.repeat.chain import chain_schedules
from nnc.symbolic.compiler.repeat.edit import Trial, edited, moved
from nnc.symbolic.compiler.repeat.pareto import pareto_front
from nnc.symbolic.compiler.repeat.schedule import Program, ReplaySchedule, Root, Step

SHARE = 0.95
# Values of less than this share of the peak are left alone.
SMALLEST_SHARE = 1 / 2048
# Repeats are thinned out when the peak has fallen to this share of that after the last time.
THINNED_SHARE = 0.95
# A descent ends after this many moves, or where repeats take this many times the work of the program.
MOST_MOVES = 4000
MOST_WORK = 4
# Chains are followed at first up to this multiple of the lowest price.
REACH = 32.0
# The number of largest values that are looked at for a better order.
MOST_REORDERED = 16
# The most steps of a program that is searched around the descent, and the number of tries.
MOST_EXPLORED = 128
TRIES = 1000


@dataclass(frozen=True, slots=True, eq=False)
class Point:
    """Runs of a program, with the peak in bytes and the work of repeats that follow from them."""

    steps: tuple[Step, ...]
    peak: int
    extra: int

    @staticmethod
    def of(schedule: ReplaySchedule | Trial) -> Point:
        """The point of a schedule, or of one that was tried."""
        return Point(tuple(schedule.steps), schedule.peak, schedule.extra)


@dataclass(frozen=True, slots=True, eq=False)
class _Chain:
    """Steps that make a value again: so many of `makers`. `work` is theirs, and `saved` that of their next repeats.

    These are so many of `later`, which are positions. `kept` are bytes that live over the peak for the chain alone.
    """

    makers: list[Step]
    length: int
    later: list[int]
    repeats: int
    work: int
    saved: int
    kept: int


@dataclass(frozen=True, slots=True, eq=False)
class Move:
    """Run a chain in front of a position, and at will in place of the next repeats of its steps."""

    price: float
    chain: _Chain
    position: int
    replaces: bool

    def on(self, now: ReplaySchedule, position: int) -> Trial | None:
        """The schedule after the move, with the chain in front of this position."""
        gone = self.chain.later[: self.chain.repeats] if self.replaces else ()
        return edited(now, gone, position, sorted(self.chain.makers[: self.chain.length]))


def recompute(program: Program, deadline: float = inf) -> tuple[Point, ...]:
    """Points of falling peaks and rising work; the first computes nothing again.

    Behind the deadline, a time of `perf_counter`, nothing more is looked for.
    """
    points = descend(program, deadline)
    if perf_counter() < deadline:
        points += [Point.of(ReplaySchedule(program, steps)) for steps in chain_schedules(program)]
    return lowest(explore(program, points, deadline) if len(program.reads) <= MOST_EXPLORED else points)


def lowest(points: Iterable[Point]) -> tuple[Point, ...]:
    """The points that no other one is better than, by work."""
    return pareto_front(points, lambda point: (point.extra, point.peak))


# ---- descent


def descend(program: Program, deadline: float = inf) -> list[Point]:
    """Points of falling peaks; the first computes nothing again."""
    now = ReplaySchedule(program, range(len(program.reads)))
    points = [Point.of(now)]
    thinned = now.peak
    for _ in range(MOST_MOVES):
        trial = _next(now) if perf_counter() < deadline else None
        if trial is None or trial.extra > MOST_WORK * sum(program.work):
            break
        now = trial.schedule()
        if now.peak < points[-1].peak:
            if now.peak <= THINNED_SHARE * thinned:
                now = thin(now)
                thinned = now.peak
            points.append(Point.of(now))
    return points


def _next(now: ReplaySchedule) -> Trial | None:
    """The schedule after the first change that helps: another order, or the move of the lowest price."""
    level = int(now.peak * SHARE)
    load = _load(now.bytes.during, level)
    trials = chain(
        _reordered(now), (move.on(now, move.position) for reach in (REACH, inf) for move in _moves(now, reach))
    )
    for trial in trials:
        if trial is not None and trial.peak <= now.peak and _load(trial.during, level) < load:
            return trial
    return None


def _reordered(now: ReplaySchedule) -> Iterator[Trial | None]:
    """With the next reader of a value that waits at the peak moved in front of it, or its maker moved behind it.

    Nine of ten moves would raise the peak where it is: what waits there for them is more than what does not any more.
    """
    here = now.bytes.at_peak
    for value in _values_at_peak(now)[:MOST_REORDERED]:
        reader, birth = now.steps[value.after], value.birth
        if not now.repeats[value.after] and _made_at(now, value.after) <= _ended_at(now, value.after):
            earliest = max((now.runs(step)[0] + 1 for step in now.program.before[reader]), default=0)
            if earliest <= here:
                yield moved(now, value.after, here)
                yield moved(now, value.after, earliest)
        if value.before == birth and not now.repeats[birth] and _ended_at(now, birth, 1) <= _made_at(now, birth):
            yield moved(now, birth, value.after)


def _ended_at(now: ReplaySchedule, position: int, versions: float = inf) -> int:
    """Bytes of what a run reads last of all, of roots that have at most so many versions.

    Of several a run reads another one where it is moved behind its making, and the first does not live on.
    """
    reads = now.program.runs[now.steps[position]][now.repeats[position]].reads
    lives = ((root, now.lives(root)) for root in reads)
    ended = (root for root, spans in lives if len(spans) <= versions and any(last == position for _, last in spans))
    return sum(map(now.program.nbytes.__getitem__, ended))


def _made_at(now: ReplaySchedule, position: int) -> int:
    """Bytes of what a run makes and others read."""
    makes = now.program.runs[now.steps[position]][now.repeats[position]].makes
    lives = ((root, life) for root in makes for life in now.lives(root))
    return sum(now.program.nbytes[root] for root, (birth, last) in lives if birth == position < last)


def _load(during: Bytes, level: int) -> int:
    """Bytes above the level, over all positions."""
    return int(np.maximum(during - level, 0).sum())


def _moves(now: ReplaySchedule, reach: float = inf) -> list[Move]:
    """What can be done at the peak, cheapest first; chains end where they cost `reach` times the cheapest move."""
    moves: list[Move] = []
    cheapest = inf
    for value in _values_at_peak(now):
        if not now.program.may_return(value.root):
            continue
        for move in _moves_of(now, value, reach * cheapest):
            cheapest = min(cheapest, move.price)
            moves.append(move)
    return sorted(moves, key=lambda move: move.price)


@dataclass(frozen=True, slots=True)
class _WaitingMove:
    """A value that is alive at the peak and not in use: where it was made, used last and is used next.

    `steps` are the positions in between that are above the level.
    """

    root: Root
    birth: int
    before: int
    after: int
    steps: int


def _values_at_peak(now: ReplaySchedule) -> list[_WaitingMove]:
    """Values that wait at the peak, largest first."""
    here = now.bytes.at_peak
    above = np.concatenate(([0], np.cumsum(now.bytes.during > int(now.peak * SHARE))))
    waiting = []
    smallest = now.peak * SMALLEST_SHARE
    for root in now.program.largest:
        if now.program.nbytes[root] <= smallest:
            break
        if not now.numbered.spans(root, here):
            continue
        for birth, last in now.lives(root):
            if birth < here < last:
                before, after = now.numbered.reads_around(root, here)
                before = max(birth, before)
                steps = int(above[after] - above[before + 1])
                if after > here and steps:
                    waiting.append(_WaitingMove(root, birth, before, after, steps))
    return waiting


def _moves_of(now: ReplaySchedule, value: _WaitingMove, highest: float) -> Iterator[Move]:
    """Ways to have a value again in front of its next reader."""
    nbytes = now.program.nbytes[value.root]
    for again in _chains(now, value.root, value.after):
        if again.work - again.saved > highest * value.steps * nbytes:
            return
        freed = value.steps * (nbytes - again.kept)
        if freed > 0:
            if again.repeats:
                yield Move((again.work - again.saved) / freed, again, value.after, replaces=True)
            yield Move(again.work / freed, again, value.after, replaces=False)


def _chains(now: ReplaySchedule, root: Root, at: int) -> Iterator[_Chain]:
    """Chains that make a root again in front of a position, each reaching one layer further back than the last one."""
    program, here = now.program, now.bytes.at_peak
    makers, later = [program.maker[root]], list[int]()
    work, saved, kept = program.work[makers[0]], 0, 0
    seen, known, layer = {root}, {*makers}, makers[:]
    while layer:
        ended = [(other, last) for other, last in _inputs(now, layer, at, seen) if last < at]
        waiting = sum(program.nbytes[other] for other, last in ended if last < here)
        yield _Chain(makers, len(makers), later, len(later), work, saved, kept + waiting)
        layer = []
        for other, last in ended:
            maker = program.maker[other]
            if not program.may_return(other):
                kept += program.nbytes[other] if last < here else 0
            elif maker not in known:
                known.add(maker)
                layer.append(maker)
                repeat = _next_repeat(now, maker, at)
                later.extend(repeat)
                work += program.work[maker]
                saved += program.work[maker] if repeat else 0
        makers.extend(layer)


def _inputs(now: ReplaySchedule, layer: Sequence[Step], at: int, seen: set[Root]) -> Iterator[tuple[Root, int]]:
    """Roots not seen before that the steps read when they run again, with the end of the version there is."""
    for step in layer:
        for other in now.program.again[step]:
            if other not in seen:
                seen.add(other)
                lives = now.lives(other)
                yield other, lives[0 if len(lives) == 1 else now.version(other, at)][1]


def _next_repeat(now: ReplaySchedule, maker: Step, at: int) -> list[int]:
    """The next repeat of a step at or behind a position, if there is one."""
    place = bisect_left(now.runs(maker), at, lo=1)
    return now.runs(maker)[place : place + 1]


# ---- local search


def thin(now: ReplaySchedule) -> ReplaySchedule:
    """Without the repeats, largest first, that it takes no higher peak to be without."""
    work = now.program.work
    repeated = {step for step, again in zip(now.steps, now.repeats, strict=True) if again}
    for step in sorted(repeated, key=lambda step: (-work[step], step)):
        number = 1
        while number < len(now.runs(step)):
            gone = _unread_without(now, now.runs(step)[number])
            trial = None if _is_needed(now, step, gone) else edited(now, gone)
            if trial is not None and trial.peak <= now.peak:
                now = trial.schedule()
            else:
                number += 1
    return now


def _is_needed(now: ReplaySchedule, step: Step, gone: Collection[int]) -> bool:
    """Whether values of a step would raise the peak if they lived on to where the runs that are `gone` make them again.

    That is known without the edit for nine of ten repeats: in front of these runs all that is saved is what they read.
    """
    program, nbytes, first = now.program, now.program.nbytes, min(gone)
    repeat = max(position for position in gone if now.steps[position] == step)
    reads = {root for position in gone for root in program.runs[now.steps[position]][True].reads}
    saved = sum(
        nbytes[root] for root in reads if any(birth < first and last in gone for birth, last in now.lives(root))
    )
    for root in program.runs[step][True].makes:
        lives, version = now.lives(root), now.version(root, repeat + 1)
        between = now.bytes.during[lives[version - 1][1] + 1 : first]
        is_read = lives[version][1] > repeat
        if is_read and len(between) and int(between.max()) + nbytes[root] - saved > now.peak:
            return True
    return False


def explore(program: Program, points: Sequence[Point], deadline: float = inf) -> list[Point]:
    """The points, and what edits of some of them lead to: each that is better than all others is edited in turn."""
    front = {point.peak: point for point in reversed(lowest(points))}
    waiting = deque(front.values())
    tries = 0
    while waiting and tries < TRIES and perf_counter() < deadline:
        now = ReplaySchedule(program, waiting.popleft().steps)
        for trial in _edits(now):
            tries += 1
            if all(trial.peak < entry.peak or trial.extra < entry.extra for entry in front.values()):
                better = Point.of(trial)
                front[better.peak] = better
                waiting.append(better)
    return list(front.values())


def _edits(now: ReplaySchedule) -> Iterator[Trial]:
    """One move at the peak, in front of its reader or of all that repeats for this reader; or one repeat less."""
    for move in _moves(now):
        for position in dict.fromkeys((move.position, _front(now, move.position))):
            if (trial := move.on(now, position)) is not None:
                yield trial
    for position, again in enumerate(now.repeats):
        if again and (trial := edited(now, _unread_without(now, position))) is not None:
            yield trial


def _front(now: ReplaySchedule, position: int) -> int:
    """Where the repeats right in front of a position begin."""
    while position and now.repeats[position - 1]:
        position -= 1
    return position


def _unread_without(now: ReplaySchedule, position: int) -> set[int]:
    """The position, and those of repeats that nobody would read then."""
    gone, waiting = {position}, [position]
    while waiting:
        reader = waiting.pop()
        for root in now.program.again[now.steps[reader]]:
            births = now.events(root).births
            maker = births[now.version(root, reader)] if births else -1
            if maker >= 0 and now.repeats[maker] and maker not in gone and gone.issuperset(_readers(now, maker)):
                gone.add(maker)
                waiting.append(maker)
    return gone


def _readers(now: ReplaySchedule, position: int) -> Iterator[int]:
    """Positions that read what the run at a position makes."""
    for root in now.program.writes[now.steps[position]]:
        if now.program.may_return(root):
            births, reads = now.events(root).births, now.events(root).reads
            place = bisect_left(births, position) + 1
            first = bisect_left(reads, position + 1)
            stop = bisect_left(reads, births[place] + 1) if place < len(births) else len(reads)
            yield from reads[first:stop]
