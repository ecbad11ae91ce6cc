"""Depthwise convolution: one filter per channel, or groups of a few: lanes of a vector are neighbouring channels.

    forward, data gradient:  y[n, r, q, c] = sum over taps t of p[n, pixel(r, q) + tap(t), c] * w[t, c] + bias[c]
    weight gradient:         w'[k, c] = sum_{n, o} x[n, o*stride + k*dilation - before, c] * g[n, o, c]

The first is a correlation (correlation_plan.py) whose channels do not mix, or mix within small groups of a vector; its
items are (image, block of rows). It reads the image where it is, with fewer taps along its borders; where the borders
are wide, or elements are converted, a strip with its zero border. Where code is small taps are a loop, over those that
are inside. The items of the second are vectors of channels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from operator import itemgetter

from nnc.classes import dataclass
from nnc.codegen.frame.epilogue import Epilogue
from nnc.codegen.frame.kernel import Generator, PhaseWriter, WithoutMemory, WithSizes, ceiling, even_block, phase
from nnc.codegen.frame.strip import Strip
from nnc.codegen.ir.builder import F32, Builder, LocalVariable, Module, Scalar, Type, Value
from nnc.codegen.ir.native_kernel import Phase, aligned
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.kernels.convolutions.correlation_plan import Core, CorrelationProblem
from nnc.codegen.kernels.convolutions.depthwise_taps import (
    Pair,
    Rectangle,
    Span,
    is_direct,
    rectangles,
    spans,
    step_of,
)
from nnc.core.values.derived import Read, known

# Outputs at a time: weights of few taps are in registers too, those of many are read anew for each tile.
TILE_COLUMNS, MANY_TAPS_COLUMNS, FEW_TAPS = 4, 8, 9
# One image is cut into at least this many items.
LEAST_ITEMS = 8
NANOSECONDS_PER_VECTOR = 0.5
# Channels of groups, and products of a sum, that are written out: tiles of the filters of one group alone leave lanes
# empty (3 x 3, 32 groups of 4 at 56 x 56: 1131 us, so 347). Groups of 8 gain nothing.
NARROW_GROUPS, MOST_NARROW = (2, 4), 36


def is_depthwise(problem: CorrelationProblem) -> bool:
    """True when every channel of the image makes one channel of y."""
    alone = problem.depth == problem.filters == problem.group_channels == 1
    return alone and problem.groups > 1 and problem.weights.group_stride == 1


def is_narrow(problem: CorrelationProblem) -> bool:
    """True when every vector of channels has those of several groups, and their sums are few enough to write out."""
    p, w = problem, problem.weights
    square = p.depth == p.filters == p.group_channels and p.groups > 1 and p.scalar == F32
    small = p.depth in NARROW_GROUPS and p.depth * len(w.bases) <= MOST_NARROW
    return square and small and (w.lane_stride, w.group_stride) == (1, p.filters) and not p.panel


@dataclass(frozen=True, slots=True)
class Depthwise(WithSizes):
    """The correlation of a problem that `is_depthwise` or `is_narrow`.

    Operands: image, weights, bias when there is one, extras of the epilogue, y.
    """

    problem: CorrelationProblem
    epilogue: Epilogue | None = None

    def opened(self, read: Read, target: TargetDescription) -> Depthwise:
        """What `CorrelationProblem.opened` says; how many outputs are on the border is part of the code."""
        planned = replace(self.problem, block_rows=self.block_rows(target))
        return replace(self, problem=planned.opened(read))

    def workspace(self, target: TargetDescription) -> int:
        """Always 0: what is kept is a worker's own."""
        return 0

    def scratch(self, target: TargetDescription) -> int:
        """A strip of one image."""
        if is_direct(self.problem, target):
            return 0
        return 0 if self.problem.is_inside else aligned(self.strip(target).bytes)

    def packing(self, target: TargetDescription) -> None:
        """None: weights are read where they are."""

    def alternatives(self, target: TargetDescription) -> dict[str, Generator]:
        """None."""
        return {}

    def block_rows(self, target: TargetDescription) -> int:
        """Output rows of an item; those of a strip fit a quarter of the second-level cache."""
        p = self.problem
        if p.block_rows:
            return p.block_rows
        if is_direct(p, target):
            return even_block(p.rows, ceiling(p.rows, ceiling(LEAST_ITEMS, p.batch)), 1, p.batch)
        row_bytes = p.padded * p.channels * p.work.size
        fitting = (target.machine.level_two_bytes // 4 // row_bytes - p.reach) // p.row_step + 1
        return min(p.rows, max(fitting, 1))

    def strip(self, target: TargetDescription) -> Strip:
        """What an item reads."""
        p, lanes = self.problem, target.lanes(8 * self.problem.work.size)
        height = (self.block_rows(target) - 1) * p.row_step + p.reach
        return Strip(p.scalar, lanes, p.height, p.width, p.channels, p.left, p.padded, height)

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """One phase."""
        p = self.problem
        strip, rows = self.strip(module.target), self.block_rows(module.target)
        items = p.batch * ceiling(p.rows, rows)
        with phase(module, name) as writer:
            _Correlation(p, strip, rows, writer, self.epilogue).write()
        return (Phase(name, items, NANOSECONDS_PER_VECTOR * p.products / strip.lanes),)


# Outputs [first, last) of a row, so many at a time.
_Outputs = tuple[int, int, int]


def _tiles(first: int, last: int, tile: int) -> list[_Outputs]:
    """Outputs [first, last), `tile` at a time: those of whole tiles, and a rest of less than one.

    A rest that is not known is done in halves, fourths, and so on.
    """
    tiles: list[_Outputs] = []
    while tile and (not known(last - first) or first < last):
        whole = first + (last - first) // tile * tile
        if not known(whole) or first < whole:
            tiles.append((first, whole, tile))
        first, tile = whole, tile // 2 if not known(last - first) else last - whole
    return tiles


@dataclass(frozen=True, slots=True)
class _Vector:
    """A vector of channels: its weights by tap and channel of a group, its bias, and what the epilogue reads."""

    channel: Value
    mask: Value | None
    weights: Mapping[Pair, Sequence[Value]]
    start: Value
    extras: Sequence[Value]


class _Correlation:
    """Writes the loops of a depthwise correlation."""

    def __init__(
        self, problem: CorrelationProblem, strip: Strip, rows: int, writer: PhaseWriter, epilogue: Epilogue | None
    ) -> None:
        self.p = problem
        self.epilogue = epilogue
        first = 3 if problem.bias else 2
        count = len(epilogue.extras) if epilogue else 0
        self.extras = [writer.argument(first + index) for index in range(count)]
        self.y = writer.argument(first + count)
        self.strip = strip
        self.rows = rows
        self.w = writer
        self.b: Builder = writer.b
        self.kind = Type(problem.work, strip.lanes)
        self.read = self.kind.of(problem.scalar)

    def write(self) -> None:
        """for item: fill its strip, if there is one; for core: for vector of channels: for row"""
        b, p, w = self.b, self.p, self.w
        blocks, direct, looped = ceiling(p.rows, self.rows), is_direct(p, b.target), rectangles(p, b.target)
        with b.loop(w.begin, w.end) as item:
            number, row = item // blocks, item % blocks * self.rows
            image = b.offset(w.argument(0), number * (p.height * p.width * p.channels), p.scalar)
            if not direct:
                image = self._strip(image, row)
            y = b.offset(self.y, number * p.y_image, p.scalar)
            for place, core in enumerate(p.cores):
                corner = b.offset(y, core.start, p.scalar)
                high = b.least(row + self.rows, core.rows)
                with b.loop(0, p.channels, self.kind.lanes) as channel:
                    vector = self._vector(() if looped else core.taps, channel)
                    if looped:
                        self._looped(vector, core, looped[place], (image, corner), (row, high))
                    elif direct:
                        self._direct(vector, core, image, corner, (row, high))
                    else:
                        self._padded(vector, core, image, corner, (row, high))

    def _strip(self, picture: Value, row: Value) -> Value:
        b, p = self.b, self.p
        first = row * p.row_step
        if p.is_inside:
            return b.offset(picture, first * (p.width * p.channels), p.scalar)
        self.strip.fill(b, picture, first - p.top, self.w.scratch)
        return self.w.scratch

    def _vector(self, taps: Sequence[tuple[int, int, int]], channel: Value) -> _Vector:
        """What is read once for a vector of channels."""
        b, p, lanes = self.b, self.p, self.kind.lanes
        mask = b.mask(p.channels - channel, lanes) if p.channels % lanes else None
        source = self.w.argument(1)
        weights = {
            tap[:2]: [
                b.cast(b.load(source, channel + (p.weights.bases[tap[2]] + start), self.read, mask), p.work)
                for start in range(0, p.depth * p.weights.depth_stride, p.weights.depth_stride)
            ]
            for tap in taps
        }
        start = b.zero(self.kind)
        if p.bias:
            start = b.cast(b.load(self.w.argument(2), channel, self.read, mask), p.work)
        extras = self.epilogue.read(b, self.extras, channel, self.kind, mask) if self.epilogue else []
        return _Vector(channel, mask, weights, start, extras)

    def _padded(self, v: _Vector, core: Core, image: Value, corner: Value, rows: tuple[Value, Value]) -> None:
        """Rows [low, high) of an image with its border, of which row `low` is the first."""
        b, p = self.b, self.p
        with b.loop(0, rows[1] - rows[0]) as row:
            left = b.offset(image, row * (p.row_step * p.padded * p.channels) + v.channel, p.work)
            right = b.offset(corner, (rows[0] + row) * p.y_row + v.channel, p.scalar)
            taps = tuple(v.weights)
            self._columns(v, self._tiles(0, core.columns, taps), left, right, p.padded, taps)

    def _looped(
        self, v: _Vector, core: Core, weights: Rectangle, places: tuple[Value, Value], rows: tuple[Value, Value]
    ) -> None:
        """Rows [low, high): for column: for tap row: for tap column that is inside, in the order of `_totals`."""
        b, p, (image, corner) = self.b, self.p, places
        down, right = spans(p, core)
        source = b.offset(self.w.argument(1), v.channel + weights.base, p.scalar)
        with b.loop(*rows) as row, b.loop(0, core.columns) as column:
            total = b.variable(v.start)
            with self._taps(down, row) as (i, line), self._taps(right, column) as (j, pixel):
                place = (line * p.width + pixel) * p.channels + v.channel
                weight = b.load(source, i * weights.down + j * weights.across, self.read, v.mask)
                total.set(b.fma(b.load(image, place, self.kind, v.mask), weight, total.get()))
            result = self.epilogue.apply(b, total.get(), v.extras) if self.epilogue else total.get()
            b.store(result, corner, row * p.y_row + column * p.y_column + v.channel, v.mask)

    @contextmanager
    def _taps(self, span: Span, output: Value) -> Iterator[tuple[Value, Value]]:
        """for tap of a span that is inside: its number, and what it reads along the axis"""
        b, step, count = self.b, step_of(span.offsets), len(span.offsets)
        start = output * span.step + (span.offsets[0] - span.before)
        first = b.greatest(start * -1 + (step - 1), 0) // step
        last = b.least(b.greatest(start * -1 + (span.size + step - 1), 0) // step, count)
        with b.loop(first, last) as number:
            yield number, start + number * step

    def _direct(self, v: _Vector, core: Core, image: Value, corner: Value, rows: tuple[Value, Value]) -> None:
        """Rows [low, high): those whose taps are all inside, and one by one those on the border."""
        b, p = self.b, self.p
        down, right = spans(p, core)
        first, last = down.interior
        with b.loop(b.greatest(rows[0], first), b.least(rows[1], last)) as row:
            self._row(v, right, image, corner, row, frozenset(down.offsets))
        for number in down.outside:
            with b.when(b.both(b.compare("<=", rows[0], number), b.compare(">", rows[1], number))):
                self._row(v, right, image, corner, b.constant(number), down.inside(number))

    def _row(
        self, v: _Vector, span: Span, image: Value, corner: Value, row: Value, kernel_rows: frozenset[int]
    ) -> None:
        """One row of outputs, with the taps of the kernel rows that are inside."""
        b, p = self.b, self.p
        above = (row * p.row_step - p.top) * p.width - p.left
        left = b.offset(image, above * p.channels + v.channel, p.work)
        right = b.offset(corner, row * p.y_row + v.channel, p.scalar)
        taps = [tap for tap in v.weights if tap[0] in kernel_rows]
        first, last = span.interior
        self._columns(v, self._tiles(first, last, taps), left, right, p.width, taps)
        for column in span.outside:
            inside = span.inside(column)
            here = [tap for tap in taps if tap[1] in inside]
            self._columns(v, [(column, column + 1, 1)], left, right, p.width, here)

    def _tiles(self, first: int, last: int, taps: Sequence[Pair]) -> list[_Outputs]:
        """Outputs [first, last) of a row, some at a time."""
        many = self.p.depth == 1 and len(taps) > FEW_TAPS
        return _tiles(first, last, MANY_TAPS_COLUMNS if many else TILE_COLUMNS)

    def _columns(
        self, v: _Vector, tiles: list[_Outputs], left: Value, right: Value, across: int, taps: Sequence[Pair]
    ) -> None:
        """Outputs of a row; image rows are `across` pixels apart."""
        b, p = self.b, self.p
        for first, last, count in tiles:
            with b.loop(first, last, count) as column:
                place = b.offset(left, column * (p.column_step * p.channels), p.work)
                # Neighbouring outputs share inputs, so all are read before the first output is written.
                totals = self._totals(v, count, place, across, taps)
                for step, total in enumerate(totals):
                    if self.epilogue is not None:
                        total = self.epilogue.apply(b, total, v.extras)
                    b.store(b.cast(total, p.scalar), right, (column + step) * p.y_column, v.mask)

    def _totals(self, v: _Vector, count: int, place: Value, across: int, taps: Sequence[Pair]) -> list[Value]:
        """The sums of `count` outputs, kernel row by kernel row: a row of inputs and the sums are in registers."""
        b, p = self.b, self.p
        totals = [v.start] * count
        for down, row in groupby(taps, itemgetter(0)):
            right = [over for _, over in row]
            pixels = sorted({step * p.column_step + over for step in range(count) for over in right})
            line = b.offset(place, down * across * p.channels, p.work)
            few = self.kind.lanes < p.depth
            loaded = [] if few else [b.load(line, pixel * p.channels, self.kind, v.mask) for pixel in pixels]
            for k in range(p.depth):
                values = [self._spread(vector, k) for vector in loaded]
                if few:
                    values = [self._single(line, pixel * p.channels + k - v.channel % p.depth) for pixel in pixels]
                inputs = dict(zip(pixels, values, strict=True))
                for over in right:
                    weights, shifted = (
                        v.weights[down, over][k],
                        range(over, over + count * p.column_step, p.column_step),
                    )
                    totals = [
                        b.fma(inputs[vector], weights, total) for vector, total in zip(shifted, totals, strict=True)
                    ]
        return totals

    def _single(self, line: Value, index: Value) -> Value:
        """One channel in all lanes, which are those of one group: a register holds fewer than a group has."""
        return self.b.splat(self.b.load(line, index, Type(self.p.work)), self.kind.lanes)

    def _spread(self, loaded: Value, k: int) -> Value:
        """out[lane] = channel k of the group of that lane's channel"""
        b, depth, lanes = self.b, self.p.depth, self.kind.lanes
        if depth == 1:
            return loaded
        return b.shuffle(loaded, loaded, [lane // depth * depth + k for lane in range(lanes)])


@dataclass(frozen=True, slots=True)
class DepthwiseWeightGradient(WithoutMemory):
    """Operands: x, g, w'."""

    scalar: Scalar
    batch: int
    sizes: Pair
    channels: int
    kernel: Pair
    outputs: Pair
    strides: Pair
    before: Pair
    dilations: Pair

    def alternatives(self, target: TargetDescription) -> dict[str, Generator]:
        """None."""
        return {}

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """One phase."""
        lanes = module.target.lanes(8 * self.scalar.size)
        items = ceiling(self.channels, lanes)
        with phase(module, name) as writer:
            _WeightGradient(self, lanes, writer).write()
        products = self.batch * self.outputs[0] * self.outputs[1] * self.kernel[0] * self.kernel[1]
        return (Phase(name, items, NANOSECONDS_PER_VECTOR * items * products),)

    def inside(self, axis: int, tap: int) -> Pair:
        """Outputs [first, last) along an axis whose input at kernel position `tap` is inside the image."""
        shift = tap * self.dilations[axis] - self.before[axis]
        first = min(max(0, ceiling(-shift, self.strides[axis])), self.outputs[axis])
        last = min(self.outputs[axis], ceiling(self.sizes[axis] - shift, self.strides[axis]))
        return first, max(first, last)


class _WeightGradient:
    """Writes the loops of a depthwise weight gradient."""

    def __init__(self, problem: DepthwiseWeightGradient, lanes: int, writer: PhaseWriter) -> None:
        self.p = problem
        self.w = writer
        self.b: Builder = writer.b
        self.kind = Type(problem.scalar, lanes)

    def write(self) -> None:
        """for vector of channels: for image: for kernel row: for row of g that meets it"""
        b, p, w, lanes = self.b, self.p, self.w, self.kind.lanes
        x_image, g_image = (sizes[0] * sizes[1] * p.channels for sizes in (p.sizes, p.outputs))
        with b.loop(w.begin, w.end) as item:
            channel = item * lanes
            mask = b.mask(p.channels - channel, lanes) if p.channels % lanes else None
            sums = [[b.variable(b.zero(self.kind)) for _ in range(p.kernel[1])] for _ in range(p.kernel[0])]
            with b.loop(0, p.batch) as number:
                x = b.offset(w.argument(0), number * x_image + channel, p.scalar)
                g = b.offset(w.argument(1), number * g_image + channel, p.scalar)
                for tap, row_sums in enumerate(sums):
                    self._rows(x, g, tap, row_sums, mask)
            for tap, row_sums in enumerate(sums):
                for column, total in enumerate(row_sums):
                    place = (tap * p.kernel[1] + column) * p.channels
                    b.store(total.get(), w.argument(2), channel + place, mask)

    def _rows(self, x: Value, g: Value, tap: int, sums: Sequence[LocalVariable], mask: Value | None) -> None:
        """All output rows that one kernel row meets: columns inside for all kernel columns at once, then the rest."""
        b, p = self.b, self.p
        first, last = p.inside(0, tap)
        ranges = [p.inside(1, column) for column in range(p.kernel[1])]
        low, high = max(first for first, _ in ranges), min(last for _, last in ranges)
        low = min(low, high)
        with b.loop(first, last) as row:
            source = row * p.strides[0] + (tap * p.dilations[0] - p.before[0])
            x_row = b.offset(x, source * (p.sizes[1] * p.channels), p.scalar)
            g_row = b.offset(g, row * (p.outputs[1] * p.channels), p.scalar)
            with b.loop(low, high) as column:
                self._add(x_row, g_row, column, dict(enumerate(sums)), mask)
            for number, (begin, end) in enumerate(ranges):
                for start, stop in ((begin, min(low, end)), (max(high, begin), end)):
                    with b.loop(start, stop) as column:
                        self._add(x_row, g_row, column, {number: sums[number]}, mask)

    def _add(self, x: Value, g: Value, column: Value, sums: dict[int, LocalVariable], mask: Value | None) -> None:
        b, p = self.b, self.p
        factor = b.load(g, column * p.channels, self.kind, mask)
        for number, total in sums.items():
            source = column * p.strides[1] + (number * p.dilations[1] - p.before[1])
            total.set(b.fma(b.load(x, source * p.channels, self.kind, mask), factor, total.get()))
