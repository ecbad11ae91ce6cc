"""A limit on memory: the order of execs, what shares memory, and what is computed again, chosen to stay below it.

    trail   = points of falling peaks and rising work, from several orders (`recompute`); no limit has a part in it
    chosen  = the point of the least work whose plan, made by the planner and checked, takes no more than the limit

A larger limit therefore never costs more work, and the least of all plans is the least limit that can be met.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from nnc.errors import MemoryLimitError, UsageError
from nnc.symbolic.compiler.order.choose import several_orders
from nnc.symbolic.compiler.order.uses import Uses
from nnc.symbolic.compiler.repeat.pareto import pareto_front
from nnc.symbolic.compiler.repeat.program import Numbered, number
from nnc.symbolic.compiler.repeat.recompute import Point, recompute
from nnc.symbolic.compiler.repeat.schedule import ReplaySchedule
from nnc.symbolic.compiler.repeat.write import write_schedule
from nnc.symbolic.ir import Duplicate, ExecKey, SymbolicGraph, TensorKey

C = TypeVar("C")


@dataclass(frozen=True, slots=True)
class Budget:
    """What a limit costs: execs that run again, and floating-point operations with them and without (`nnc.ops.work`).

    `work_ratio` = (work + extra_work) / work.
    """

    limit: int
    work: int
    extra_work: int
    repeated: int

    @property
    def work_ratio(self) -> float:
        """Work with what runs again, over the work without."""
        return (self.work + self.extra_work) / self.work if self.work else 1.0

    def __str__(self) -> str:
        return f"limit {self.limit} B, {self.repeated} execs again, work × {self.work_ratio:.3f}"


@dataclass(frozen=True, slots=True, eq=False)
class Compilation:
    """What a compilation found out: the execs that are needed, what they touch, and what is written over what.

    A plan is never more than `slack` bytes below the peak that is foretold for it: what bodies may find around them.
    Where the graph is a copy of what a caller asked for, `copied` says what the caller's symbols are in it.
    """

    graph: SymbolicGraph
    execs: Sequence[ExecKey]
    uses: Uses
    carries: Mapping[TensorKey, TensorKey]
    slack: int
    copied: Mapping[TensorKey, TensorKey] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Plans(Generic[C]):
    """How a copy of the graph is compiled up to a number of bytes, what is compiled without a limit, and what to say.

    `arena` are the bytes of a compiled program, and `at_peak` its largest tensors at the peak.
    """

    unlimited: C
    compile_copy: Callable[[Duplicate, int | None], C]
    arena: Callable[[C], int]
    at_peak: Callable[[C], str]


@dataclass(frozen=True, slots=True, eq=False)
class Option:
    """A point of a trail, and the order and the compilation that it belongs to."""

    point: Point
    numbered: Numbered
    of: Compilation

    def written(self) -> tuple[Duplicate, int]:
        """A copy of the graph that runs as the point says, and how many execs run again."""
        schedule = ReplaySchedule(self.numbered.program, self.point.steps)
        copy = self.of.graph.duplicate()
        order = tuple(copy.execs[key] for key in self.numbered.order)
        roots = tuple(copy.tensors[key] for key in self.numbered.roots)
        write_schedule(copy.graph, Numbered(self.numbered.program, order, roots), schedule)
        if self.of.copied is not None:
            tensors = {key: copy.tensors[own] for key, own in self.of.copied.items()}
            copy = copy._replace(tensors=tensors)
        return copy, sum(schedule.repeats)


def checked_limit(limit: int) -> int:
    """The bytes of a limit; UsageError for what is no number of bytes."""
    try:
        nbytes = operator.index(limit)
    except TypeError:
        nbytes = -1
    if nbytes < 0 or isinstance(limit, bool):
        raise UsageError("memory_limit", got=f"{limit!r}", need="bytes, an integer ≥ 0", fix="round it down with int()")
    return nbytes


def options(compilations: Iterable[Compilation]) -> tuple[Option, ...]:
    """What there is to choose from: ever more work, for ever lower peaks."""
    found: list[Option] = []
    for one in compilations:
        for order in several_orders(one.graph, one.execs, one.uses, one.carries):
            numbered = number(one.graph, order, one.uses, one.carries)
            found.extend(Option(point, numbered, one) for point in recompute(numbered.program))
    return pareto_front(found, lambda option: (option.point.extra, option.point.peak))


def within(compilations: Iterable[Compilation], limit: int, plans: Plans[C]) -> tuple[C, Duplicate, Budget]:
    """The program compiled to at most `limit` bytes of arena, the copy of the graph that it runs, and what that costs.

    MemoryLimitError with the least limit that can be met, and with what is alive at its peak.
    """
    found = options(compilations)
    for option in found:
        if option.point.peak > limit + option.of.slack:
            continue
        copy, repeated = option.written()
        try:
            compiled = plans.compile_copy(copy, limit)
        except MemoryLimitError:
            continue
        return compiled, copy, Budget(limit, sum(option.numbered.program.work), option.point.extra, repeated)
    raise _infeasible(limit, found, plans)


def _infeasible(limit: int, found: Sequence[Option], plans: Plans[C]) -> MemoryLimitError:
    """The smallest of all plans; those that cannot be below one that is known are not made."""
    least = plans.unlimited
    for option in reversed(found):
        if option.point.peak - option.of.slack < plans.arena(least):
            copy, _ = option.written()
            least = min(least, plans.compile_copy(copy, None), key=plans.arena)
    error = MemoryLimitError(
        "compile",
        got=f"memory_limit={limit}",
        need=f"at least {plans.arena(least)} bytes: at the peak are " + plans.at_peak(least),
        fix="raise the limit, use a smaller batch",
    )
    error.smallest = plans.arena(least)
    return error
