"""Gradients of convolutions by their weights, as products of groups of threads that are summed over pixels in parts.

w'[m, f] = sum over pixels p of x[pixel(p) + offset(m)] * g[p, f], m = (tap, channel)

An item is a tile of w' over the pixels of one part; a second phase adds up the parts, in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from nnc.classes import dataclass
from nnc.codegen.device.groups.columns import GroupColumns, columns_of
from nnc.codegen.device.groups.shared_memory import barrier, thread_of
from nnc.codegen.device.groups.tiles import CORRELATION_COSTS, SIDE, THREADS, Element, TileSums, places_of, shares_of
from nnc.codegen.frame.kernel import PhaseWriter, ceiling, phase
from nnc.codegen.frame.tile import nanoseconds
from nnc.codegen.ir.builder import Module, Scalar, Type, Value
from nnc.codegen.ir.native_kernel import Phase
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.kernels.convolutions.weight_gradient import WeightGradient
from nnc.core.values.derived import known

# Parts that are read before they are added.
TOGETHER = 4


@dataclass(frozen=True, slots=True)
class GroupWeightGradient:
    """The kernel of a problem, whose sums are cut into `parts` of `length` pixels."""

    problem: WeightGradient
    parts: int
    length: int

    threads, paired = THREADS, False

    @classmethod
    def of(cls, problem: WeightGradient, target: TargetDescription) -> GroupWeightGradient | None:
        """The kernel; None where sizes are read, and of nothing."""
        sizes = (problem.batch, *problem.sizes, *problem.outputs)
        if target.threads < 2 or not all(map(known, sizes)) or not problem.pixels or not problem.weights:
            return None
        parts = problem.parts(target)
        return cls(problem, parts, ceiling(problem.pixels, parts))

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """One phase, or two where sums are cut."""
        p = self.problem
        height, width = shares_of(
            module.target, p.work, p.groups, p.rows, p.group_filters, self.length, CORRELATION_COSTS
        )
        down, across = ceiling(p.rows, SIDE * height), ceiling(p.group_filters, SIDE * width)
        tiles = down * across * p.groups
        with phase(module, f"{name}_sums") as w:
            writer = _TileOfWeights(w, self, height, width)
            with w.b.loop(w.begin, w.end) as item:
                part, tile = w.b.divided(item, tiles, tiles * self.parts)
                group, place = w.b.divided(tile, down * across, tiles)
                writer.write(part, group, place // across, place % across)
        cost = nanoseconds(module.target, p.work, 1.0 * p.pixels * p.rows * p.group_filters * p.groups)
        sums = Phase(f"{name}_sums", tiles * self.parts, cost)
        return (sums,) if self.parts == 1 else (sums, self._total(module, f"{name}_total"))

    def _total(self, module: Module, name: str) -> Phase:
        """w' = sum of the parts."""
        p = self.problem
        columns = columns_of(p.weights)
        with phase(module, name) as w:
            b, kind = w.b, Type(p.work)
            group = GroupColumns.of(b, columns, p.work)
            memory, result = w.argument(3), w.argument(2)
            with b.loop(w.begin, w.end) as item:
                weight = item * columns + group.column
                inside = b.compare("<", weight, p.weights)
                at = b.choose(inside, weight, 0)
                (mine,) = group.combined(
                    (b.constant(0), b.constant(self.parts)), b.zero(kind), 1,
                    lambda part: [b.load(memory, part * p.weights + at, kind)], "add", together=TOGETHER, flushed=False,
                )  # fmt: skip
                total = group.folded(mine, "add")
                with b.when(b.both(b.compare("==", group.row, 0), inside)):
                    b.store(total, result, weight)
                barrier(b)
        return Phase(name, ceiling(p.weights, columns), 1.0 * p.weights * self.parts)


class _TileOfWeights:
    """Writes a tile of w' over one part of the pixels."""

    def __init__(self, w: PhaseWriter, kernel: GroupWeightGradient, height: int, width: int) -> None:
        self.w, self.b, self.kernel, self.p = w, w.b, kernel, kernel.problem
        self.height, self.width, self.thread = height, width, thread_of(w.b)

    def write(self, part: Value, group: Value, down: Value, across: Value) -> None:
        """One tile; its sums begin in memory of the part, if there are several."""
        b, p, kernel = self.b, self.p, self.kernel
        first, filters, start = down * (SIDE * self.height), across * (SIDE * self.width), part * kernel.length
        end = b.least(start + kernel.length, p.pixels)
        image = b.offset(self.w.argument(0), group * p.group_channels, p.scalar)
        slopes = b.offset(self.w.argument(1), group * p.group_filters, p.scalar)
        sums = TileSums(b, self.thread, p.work, kernel.length, self.height, self.width)
        kinds = p.scalar, p.work
        totals = sums.of(
            PixelSteps(self.thread, kinds, image, first, SIDE * self.height, start, partial(self._tap, end)),
            PixelSteps(self.thread, kinds, slopes, filters, SIDE * self.width, start, partial(self._slope, end)),
        )
        target = self.w.argument(3 if kernel.parts > 1 else 2)
        base = part * p.weights + group * p.group_filters
        for line, registers in zip(sums.rows, totals, strict=True):
            row = first + line
            with b.when(b.compare("<", row, p.rows)):
                for place, register in zip(sums.columns, registers, strict=True):
                    column = filters + place
                    with b.when(b.compare("<", column, p.group_filters)):
                        b.store(register.get(), target, base + row * p.filters + column)

    def _slope(self, end: Value, filter_: Value, pixel: Value) -> Element:
        """An element of g for a pixel before `end`."""
        b, p = self.b, self.p
        inside = b.both(b.compare("<", filter_, p.group_filters), b.compare("<", pixel, end))
        return pixel * p.filters + filter_, inside

    def _tap(self, end: Value, row: Value, pixel: Value) -> Element:
        """What row m of the taps reads of x for a pixel before `end`: outside of the image it is outside."""
        b, p, rows = self.b, self.p, self.p.rows + SIDE * self.height
        tap, channel = b.divided(row, p.group_channels, rows)
        tap_row, tap_column = b.divided(tap, p.kernel[1], rows)
        over, column = b.divided(pixel, p.outputs[1], 2 * p.pixels)
        number, line_of_image = b.divided(over, p.outputs[0], 2 * p.pixels)
        y = line_of_image * p.strides[0] + tap_row * p.dilations[0] - p.before[0]
        x = column * p.strides[1] + tap_column * p.dilations[1] - p.before[1]
        inside = b.both(b.compare("<", row, p.rows), b.compare("<", pixel, end))
        for place, size in ((y, p.sizes[0]), (x, p.sizes[1])):
            inside = b.both(inside, b.both(b.compare(">=", place, 0), b.compare("<", place, size)))
        return ((number * p.sizes[0] + y) * p.sizes[1] + x) * p.channels + channel, inside


@dataclass(frozen=True, slots=True)
class PixelSteps:
    """`lines` channels or filters from `first` on, for each pixel from `start` on a step; `element` finds each."""

    thread: Value
    kinds: tuple[Scalar, Scalar]
    source: Value
    first: Value
    lines: int
    start: Value
    element: Callable[[Value, Value], Element]

    def places(self) -> Iterator[tuple[Value, Value]]:
        """Neighbours read lines that lie side by side."""
        return places_of(self.thread, self.lines, along_k=False)

    def elements(self, start: Value) -> list[Element]:
        """This thread's elements of the slice."""
        return [self.element(self.first + line, self.start + start + step) for line, step in self.places()]
