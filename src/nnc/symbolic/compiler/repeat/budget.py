"""A limit on memory: the order of execs, what shares memory, and what is computed again, chosen to stay below it.

    trail   = points of falling peaks and rising work, from several orders (`recompute`); no limit has a part in it
    chosen  = the point of the least work whose plan, made by the planner and checked, takes no more than the limit

A larger limit therefore never costs more work, and the least of all plans is the least limit that is promised.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field
from math import inf
from time import perf_counter
from typing import Generic, TypeVar

from nnc.classes import dataclass
from nnc.core.settings import SETTINGS
from nnc.errors import MemoryLimitError, OutOfMemoryError
from nnc.symbolic.compiler.order.choose import several_orders
from nnc.symbolic.compiler.order.uses import Uses
from nnc.symbolic.compiler.place.memory import PLACES
from nnc.symbolic.compiler.repeat.pareto import pareto_front
from nnc.symbolic.compiler.repeat.program import Numbered, number
from nnc.symbolic.compiler.repeat.recompute import Point
from nnc.symbolic.compiler.repeat.schedule import ReplaySchedule
from nnc.symbolic.compiler.repeat.trails import trail
from nnc.symbolic.compiler.repeat.write import write_schedule
from nnc.symbolic.ir import Duplicate, SymbolicGraph
from nnc.symbolic.records import ExecKey, TensorKey

C = TypeVar("C")

# Plans for the smallest limit are made until so many in a row are no smaller: of nine networks none had its smallest
# behind, and DenseNet-121 with 8 images made 18 more, each in 2 to 3 s.
PLANS_IN_VAIN = 4


@dataclass(frozen=True, slots=True)
class Budget:
    """What a limit costs: execs that run again, and floating-point operations with them and without (`nnc.ops.work`).

    `work_ratio` = (work + extra_work) / work. So many bytes of a device are `offloaded` to the host, which counts as
    work too, by what their copies take, or left in a file; so much of `extra_work` is `offload_work`. `offload_seconds`
    are those of copies there and back, at the rate that the device or the file's folder was measured at.
    """

    limit: int
    work: int
    extra_work: int
    repeated: int
    offloaded: int = 0
    offload_seconds: float = 0.0
    offload_work: int = 0

    @property
    def work_ratio(self) -> float:
        """Work with what runs again, over the work without."""
        return (self.work + self.extra_work) / self.work if self.work else 1.0

    def __str__(self) -> str:
        moved = f", {self.offloaded} B offloaded" if self.offloaded else ""
        moved += f" ({self.offload_seconds:.3f} s)" if self.offload_seconds else ""
        return f"limit {self.limit} B, {self.repeated} execs again{moved}, work × {self.work_ratio:.3f}"


@dataclass(frozen=True, slots=True, eq=False)
class Compilation:
    """What a compilation found out: the execs that are needed, what they touch, and what is written over what.

    A plan is never more than `slack` bytes below the peak that is foretold for it: what bodies may find around them.
    Without repeats the plan takes `arena` bytes, on one stream. The execs `first` come before all others.

    Where the graph is a copy of what a caller asked for, `copied` says what the caller's symbols are in it. So many
    execs run `again` in bodies of the copy, which is `extra` work, as is what `offloaded` bytes take, in all so many
    `offload_seconds`.
    """

    graph: SymbolicGraph
    execs: Sequence[ExecKey]
    uses: Uses
    carries: Mapping[TensorKey, TensorKey]
    slack: int
    arena: int
    first: Collection[ExecKey] = ()
    copied: Mapping[TensorKey, TensorKey] | None = None
    again: int = 0
    extra: int = 0
    # The parts of `arena` by kind of memory.
    arenas: Mapping[str, int] = field(default_factory=dict)
    offloaded: int = 0
    offload_seconds: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Plans(Generic[C]):
    """How a copy of the graph is compiled up to a number of bytes, with so much effort of the planner, what is compiled
    without a limit, and what to say.

    `arena` are the bytes of a compiled program, and `at_peak` its largest tensors at the peak. Where no plan without
    repeats comes near the limit, `unlimited` is made without a search, and `searched` makes it with one.
    """

    unlimited: C
    searched: Callable[[], C]
    compile_copy: Callable[[Duplicate, int | None, int], C]
    arena: Callable[[C], int]
    at_peak: Callable[[C], str]


@dataclass(frozen=True, slots=True, eq=False)
class Option:
    """A point of a trail, the order and the compilation that it belongs to, and the peak of what comes of it."""

    point: Point
    numbered: Numbered
    of: Compilation
    peak: int

    @property
    def extra(self) -> int:
        """Work of what runs again."""
        return self.of.extra + self.point.extra

    @property
    def least(self) -> int:
        """No plan takes fewer bytes."""
        return min(self.peak, self.point.peak) - self.of.slack

    def budget(self, limit: int) -> Budget:
        """What a limit costs."""
        program, steps = self.numbered.program, self.point.steps
        again = self.of.again + len(steps) - len(program.work)
        return Budget(
            limit,
            sum(program.work) - self.of.extra,
            self.extra,
            again,
            self.of.offloaded,
            self.of.offload_seconds,
            self.of.extra if self.of.offloaded else 0,
        )

    def written(self) -> Duplicate:
        """A copy of the graph that runs as the point says."""
        copy = self.of.graph.duplicate()
        schedule = ReplaySchedule(self.numbered.program, self.point.steps)
        write_schedule(copy.graph, self.numbered.moved(copy), schedule)
        if self.of.copied is not None:
            tensors = {key: copy.tensors[own] for key, own in self.of.copied.items()}
            copy = copy._replace(tensors=tensors)
        return copy


def options(compilations: Iterable[Compilation]) -> tuple[Option, ...]:
    """What there is to choose from: ever more work, for ever lower peaks."""
    options: list[Option] = []
    seconds = SETTINGS.repeating_seconds
    deadline = inf if seconds is None else perf_counter() + seconds
    for compilation in compilations:
        for order in several_orders(
            compilation.graph, compilation.execs, compilation.uses, compilation.carries, compilation.first
        ):
            numbered = number(compilation.graph, order, compilation.uses, compilation.carries, compilation.first)
            # Each may take half of the time that is left, as nobody knows how many come.
            points = trail(numbered.program, (perf_counter() + deadline) / 2)
            # Bodies may find memory around them that the program knows nothing of.
            less = points[0].peak - compilation.arena if compilation.slack else 0
            options.extend(Option(point, numbered, compilation, point.peak - less) for point in points)
    return pareto_front(options, lambda option: (option.extra, option.peak))


def within(compilations: Iterable[Compilation], limit: int, plans: Plans[C]) -> tuple[C, Duplicate, Budget]:
    """The program compiled to at most `limit` bytes of arena, the copy of the graph that it runs, and what that costs.

    MemoryLimitError with the least arena that was found, and with what is alive at its peak: a search of every copy
    for ever less would find one that is some thousandths smaller (U-Net).
    """
    front = options(compilations)
    for option in front:
        if option.least > limit:
            continue
        copy = option.written()
        try:
            compiled = plans.compile_copy(copy, limit, PLACES)
        except OutOfMemoryError:
            raise
        except MemoryLimitError:
            continue
        return compiled, copy, option.budget(limit)
    raise _infeasible(limit, front, plans)


def _promising(quick: Sequence[tuple[int, Option]]) -> list[Option]:
    """Of plans made without a search, the smallest, and the one that is least above the bytes that none is below.

    Of UNet's twelve for the smallest limit the second is planned at its bound, 347 MB, and no other below 349.
    """
    if not quick:
        return []
    smallest = min(quick, key=lambda row: row[0])
    closest = min(quick, key=lambda row: row[0] / max(row[1].least, 1))
    return [row[1] for row in dict.fromkeys((closest, smallest))]


def _infeasible(limit: int, front: Sequence[Option], plans: Plans[C]) -> MemoryLimitError:
    """The smallest of all plans; those that cannot be below one that is known are not made.

    The last is searched by the planner, which is the longest work, as often none of the others can be below it then.
    These are made without a search first, and the `_promising` ones are searched.
    """
    least = plans.unlimited
    if front and front[-1].least < plans.arena(least):
        least = min(least, plans.compile_copy(front[-1].written(), None, PLACES), key=plans.arena)
    quick: list[tuple[int, Option]] = []
    in_vain = 0
    for option in reversed(front[:-1]):
        if option.least >= plans.arena(least):
            continue
        if in_vain == PLANS_IN_VAIN:
            break
        made = plans.compile_copy(option.written(), None, 0)
        in_vain = in_vain + 1 if quick and plans.arena(made) >= min(nbytes for nbytes, _ in quick) else 0
        quick.append((plans.arena(made), option))
        least = min(least, made, key=plans.arena)
    for option in _promising(quick):
        if option.least < plans.arena(least):
            least = min(least, plans.compile_copy(option.written(), None, PLACES), key=plans.arena)
    # What concatenations save in place is no more than a half.
    if 2 * plans.arena(least) >= plans.arena(plans.unlimited):
        least = min(least, plans.searched(), key=plans.arena)
    error = MemoryLimitError(
        "compile",
        got=f"memory_limit={limit}",
        need=f"at least {plans.arena(least)} bytes: at the peak are " + plans.at_peak(least),
        fix="raise the limit, use a smaller batch"
        + (
            " or give the search longer (repeating_seconds of the settings)"
            if SETTINGS.repeating_seconds is not None
            else ""
        ),
    )
    error.smallest, error.unlimited = plans.arena(least), plans.arena(plans.unlimited)
    return error
