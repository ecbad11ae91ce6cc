"""Branches: steps that touch no memory of each other run side by side, each on one worker, not one after another.

    a1 → a2 → a3        worker 0: a1 a2 a3
    b1 → b2             worker 1: b1 b2              then all meet once

A small step is not worth cutting into chunks, and behind a step that is cut all meet. Where a stretch of the program
falls apart into branches, they are shared out to workers by what they cost, the costly ones first, and the stretch
becomes one step whose items are the shares: where that takes less time, by estimate. Which worker runs a step never
changes what it computes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from itertools import takewhile

from nnc.classes import dataclass
from nnc.codegen.ir.native_kernel import AddressRange

# Steps that are looked at together; how far to go on where nothing was found; above what cost a step is better cut.
STRETCH, STRIDE, MOST_NANOSECONDS = 64, 16, 50_000.0
# What a meeting of all workers takes, and what a stretch must gain: nanoseconds, and a part of its time.
MEETING_NANOSECONDS, LEAST_NANOSECONDS, LEAST_PART = 1000.0, 1000.0, 0.2


@dataclass(frozen=True, slots=True)
class Task:
    """What a step touches, its nanoseconds on one worker, and whether the caller runs it alone.

    One of many that follow each other `in_turn` belongs to no branch.
    """

    reads: tuple[AddressRange, ...]
    writes: tuple[AddressRange, ...]
    cost: float
    alone: bool
    in_turn: bool = False

    @property
    def may_branch(self) -> bool:
        """Whether it may be no better cut."""
        return self.cost <= MOST_NANOSECONDS and not self.in_turn

    def nanoseconds(self, workers: int) -> float:
        """About what it takes where it is."""
        return self.cost if self.alone else self.cost / workers + MEETING_NANOSECONDS

    def meets(self, other: Task) -> bool:
        """True when one writes what the other reads or writes."""
        return _touch(self.writes, other.reads) or _touch(self.writes, other.writes) or _touch(self.reads, other.writes)


def _touch(left: Sequence[AddressRange], right: Sequence[AddressRange]) -> bool:
    return any(a.overlaps(b) for a in left for b in right)


@dataclass(frozen=True, slots=True)
class Stretch:
    """Tasks [first, last), and those of each worker in order; without shares, they stay as they are."""

    first: int
    last: int
    shares: tuple[tuple[int, ...], ...] = ()


def stretches(tasks: Sequence[Task], workers: int) -> Iterator[Stretch]:
    """The whole program, cut into stretches; those without shares are of one task each."""
    first = untried = 0
    while first < len(tasks):
        stretch = None
        if not tasks[first].may_branch:
            untried = first + 1
        elif first >= untried and workers > 1:
            stretch = _best(tasks, first, workers)
            untried = first + STRIDE
        yield stretch or Stretch(first, first + 1)
        first = stretch.last if stretch else first + 1


def _best(tasks: Sequence[Task], first: int, workers: int) -> Stretch | None:
    """The stretch from `first` on that gains most."""
    window = list(takewhile(lambda task: task.may_branch, tasks[first : first + STRETCH]))
    if sum(task.nanoseconds(workers) for task in window) <= MEETING_NANOSECONDS + LEAST_NANOSECONDS:
        return None
    meetings = _meetings(window)
    parts = _BranchParts()
    best, most, before = 0, 0.0, 0.0
    for index, task in enumerate(window):
        parts.add(index, task, meetings[index])
        before += task.nanoseconds(workers)
        gain = before - parts.nanoseconds(workers)
        if gain > max(most, LEAST_NANOSECONDS, LEAST_PART * before):
            best, most = index + 1, gain
    if not most:
        return None
    parts = _BranchParts()
    for index in range(best):
        parts.add(index, window[index], meetings[index])
    return Stretch(first, first + best, parts.shares(first, workers))


def _meetings(window: Sequence[Task]) -> list[list[int]]:
    """For each task the earlier ones that touch a byte which one of the two writes: a sweep over memory."""
    touched = [(span, index, False) for index, task in enumerate(window) for span in task.reads]
    touched += [(span, index, True) for index, task in enumerate(window) for span in task.writes]
    meetings: list[list[int]] = [[] for _ in window]
    alive: list[tuple[AddressRange, int, bool]] = []
    for span, index, writes in sorted(touched, key=lambda row: row[0].begin):
        alive = [row for row in alive if row[0].end > span.begin]
        for other, earlier, wrote in alive:
            if (writes or wrote) and other.overlaps(span):
                meetings[max(index, earlier)].append(min(index, earlier))
        alive.append((span, index, writes))
    return meetings


@dataclass(slots=True)
class _BranchParts:
    """Tasks that are connected by memory which one of them writes, by the first of them."""

    members: dict[int, list[int]] = field(default_factory=dict)
    costs: dict[int, float] = field(default_factory=dict)
    part_of: dict[int, int] = field(default_factory=dict)

    def add(self, index: int, task: Task, met: Iterable[int]) -> None:
        """One task more, which connects the parts of those that it meets."""
        parts = sorted({self.part_of[earlier] for earlier in met if earlier != index})
        row = [member for part in parts for member in self.members.pop(part)]
        cost = sum(self.costs.pop(part) for part in parts)
        into = min(parts, default=index)
        self.members[into] = [*row, index]
        self.costs[into] = cost + task.cost
        self.part_of.update(dict.fromkeys(self.members[into], into))

    def nanoseconds(self, workers: int) -> float:
        """About what they take side by side, at best."""
        return max(*self.costs.values(), sum(self.costs.values()) / workers) + MEETING_NANOSECONDS

    def shares(self, first: int, workers: int) -> tuple[tuple[int, ...], ...]:
        """The parts, the costly ones first, each to the worker that has least so far; tasks counted from `first`."""
        loads = [0.0] * min(workers, len(self.costs))
        divided: list[list[int]] = [[] for _ in loads]
        for part in sorted(self.costs, key=lambda part: (-self.costs[part], part)):
            least = loads.index(min(loads))
            loads[least] += self.costs[part]
            divided[least] += [first + index for index in self.members[part]]
        return tuple(tuple(sorted(share)) for share in divided)
