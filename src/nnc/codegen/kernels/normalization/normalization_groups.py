"""Norms over groups of channels, and of channels alone: x[outer, rows, groups, width], statistics over rows and width.

    group norm       [batch, height · width, groups, channels of a group]
    instance norm    [batch, height · width, channels, 1]

Formulas are those of `nnc/ops/normalization`. An item is a bundle of whole groups of one outer index: their channels
lie side by side, so that rows are read by whole vectors however narrow a group is. Rows are cut into parts that stay in
the cache, whose two numbers of each channel are combined by Chan's formula, over the parts and then over a group's
channels. Where there are few bundles, parts are items: parts, their combination, results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial

from nnc.classes import dataclass
from nnc.codegen.frame.kernel import PhaseWriter, WithSizes, ceiling, phase
from nnc.codegen.frame.sums import FlushedSums, in_runs, is_long
from nnc.codegen.ir import mathematics
from nnc.codegen.ir.builder import Builder, Module, Scalar, Type, Value
from nnc.codegen.ir.expression import computed
from nnc.codegen.ir.native_kernel import Phase, aligned
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.kernels.normalization.normalization_columns import (
    ACCUMULATORS,
    DEVICE_ITEMS,
    DEVICE_PART_ELEMENTS,
    NANOSECONDS_PER_VECTOR,
    PARTS,
    summed_rows,
)
from nnc.core.values.derived import Read, smallest

# Channels of a bundle, where groups are not wider: two lines of a cache in f32. A part's elements fill half a cache.
BUNDLE, PART_ELEMENTS = 32, 4096
# So many bundles keep workers busy without cutting rows.
MANY_BUNDLES = 8
# What the results are computed with: numbers of each channel, before those of the parts.
TABLES = 4

Vectors = list[Value]
Masks = Sequence[Value | None]


@dataclass(frozen=True, slots=True)
class GroupNormalization(WithSizes):
    """x[outer, rows, groups, width]; a parameter of group g and place c is number g · along[0] + c · along[1].

    Operands of the norm: x, scale and bias where there are any; y, mean where it is `centered`, r. Of its data
    gradient: g, x, the saved mean and r, scale where there is one; y.
    """

    gradient: bool
    centered: bool
    scalar: Scalar
    outer: int
    rows: int
    groups: int
    width: int
    epsilon: float
    scale: bool = False
    bias: bool = False
    along: tuple[int, int] = (0, 0)
    most_parts: int = PARTS
    part_elements: int = PART_ELEMENTS

    def on(self, target: TargetDescription) -> GroupNormalization:
        """The same in as many parts as keep a target busy."""
        if not target.threads:
            return self
        return replace(self, most_parts=DEVICE_ITEMS, part_elements=DEVICE_PART_ELEMENTS)

    def opened(self, read: Read, target: TargetDescription) -> GroupNormalization:
        """The outer index and rows are read; groups and their width are features."""
        return replace(self, outer=read(self.outer), rows=read(self.rows))

    @property
    def bundled(self) -> int:
        """Groups of a bundle."""
        return max(1, min(self.groups, BUNDLE // self.width))

    @property
    def bundles(self) -> int:
        """Bundles of one outer index."""
        return ceiling(self.groups, self.bundled)

    @property
    def channels(self) -> int:
        """Channels of a bundle."""
        return self.bundled * self.width

    @property
    def length(self) -> int:
        """Rows of one part."""
        work = ceiling(self.rows * self.channels, self.part_elements)
        return ceiling(self.rows, smallest(smallest(self.most_parts, work), self.rows))

    @property
    def parts(self) -> int:
        """How many parts the rows are cut into."""
        return ceiling(self.rows, self.length)

    @property
    def split(self) -> bool:
        """Whether parts are items."""
        return self.outer * self.bundles < MANY_BUNDLES and self.parts > 1

    @property
    def held(self) -> int:
        """Numbers that are kept of a bundle: two of each channel and part, and the tables."""
        return (2 * self.parts + TABLES) * self.channels

    def workspace(self, target: TargetDescription) -> int:
        """What is kept of all bundles, where several workers do one."""
        norm = self.on(target)
        return aligned(norm.outer * norm.bundles * norm.held * computed(self.scalar).size) if norm.split else 0

    def scratch(self, target: TargetDescription) -> int:
        """What is kept of a bundle; of one that is cut, the means that its channels have."""
        norm = self.on(target)
        return aligned((norm.channels if norm.split else norm.held) * computed(self.scalar).size)

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """Bundles, or parts of bundles, bundles, and parts of them again."""
        norm = self.on(module.target)
        vectors = norm.outer * norm.rows * ceiling(norm.groups * norm.width, module.target.lanes(32))
        cost, items = vectors * NANOSECONDS_PER_VECTOR, norm.outer * norm.bundles
        if not norm.split:
            with phase(module, name) as w, w.b.loop(w.begin, w.end) as item:
                _Bundle(norm, w).all_of(item)
            return (Phase(name, items, 4 * cost),)
        symbols = f"{name}_parts", f"{name}_whole", f"{name}_results"
        for symbol, write in zip(symbols, (_Bundle.moments_of, _Bundle.whole_of, _Bundle.results_of), strict=True):
            with phase(module, symbol) as w, w.b.loop(w.begin, w.end) as item:
                write(_Bundle(norm, w), item)
        combination = Phase(symbols[1], items, items * norm.held * NANOSECONDS_PER_VECTOR)
        cut = items * norm.parts
        return (Phase(symbols[0], cut, 2 * cost), combination, Phase(symbols[2], cut, 2 * cost))


class _Bundle:
    """Writes what is done with one bundle."""

    def __init__(self, norm: GroupNormalization, w: PhaseWriter) -> None:
        self.norm, self.w = norm, w
        self.b: Builder = w.b
        self.stored, self.scalar = norm.scalar, computed(norm.scalar)
        self.number = Type(self.scalar)
        self.lanes = self.b.target.lanes(8 * self.scalar.size)
        self.vectors = min(ACCUMULATORS, ceiling(norm.channels, self.lanes))
        self.block = self.vectors * self.lanes
        # Operands: x or g, x; the saved statistics and scale and bias, or the other way round; y.
        self.statistics = 1 + norm.centered
        self.parameters = 2 + self.statistics if norm.gradient else 1
        self.y = self.parameters + norm.scale + norm.bias
        self.memory = w.scratch
        self.outer = self.group = self.first = self.b.constant(0)

    def all_of(self, item: Value) -> None:
        """A bundle that one worker does."""
        self._at(item)
        self._spread_means()
        with self.b.loop(0, self.norm.parts) as part:
            self._moments(part)
        self._whole()
        with self.b.loop(0, self.norm.parts) as part:
            self._results(part)

    def moments_of(self, item: Value) -> None:
        """The numbers of one part of a bundle."""
        part = self._at_part(item)
        self._spread_means()
        self._moments(part)

    def whole_of(self, item: Value) -> None:
        """The statistics of a bundle, and its tables."""
        self._at(item)
        self._share(item)
        self._whole()

    def results_of(self, item: Value) -> None:
        """The results of one part of a bundle."""
        self._results(self._at_part(item))

    def _at(self, bundle: Value) -> None:
        self.outer, inner = bundle // self.norm.bundles, bundle % self.norm.bundles
        self.group = inner * self.norm.bundled
        self.first = self.group * self.norm.width

    def _at_part(self, item: Value) -> Value:
        bundle = item // self.norm.parts
        self._at(bundle)
        self._share(bundle)
        return item % self.norm.parts

    def _share(self, bundle: Value) -> None:
        """What is kept of a bundle is there for all workers."""
        shared = self.w.argument(self.y + 1 + (0 if self.norm.gradient else self.statistics))
        self.memory = self.b.offset(shared, bundle * self.norm.held, self.scalar)

    def _blocks(self, body: Callable[[Value, Masks], None]) -> None:
        """body(channel, masks) of each block of a bundle's channels."""
        norm, b = self.norm, self.b
        ragged = norm.groups % norm.bundled != 0
        end = b.least(norm.groups * norm.width - self.first, norm.channels) if ragged else b.constant(norm.channels)
        masked = ragged or norm.channels % self.block != 0
        with b.loop(0, norm.channels, self.block) as channel:
            starts = range(0, self.block, self.lanes)
            body(channel, [b.mask(end - channel - start, self.lanes) if masked else None for start in starts])

    def _line(self, operand: int, row: Value, channel: Value, masks: Masks) -> Vectors:
        """A row's vectors of an operand like x."""
        loaded = self._vectors(self._place(operand, row, channel), self.b.constant(0), masks, self.stored)
        return [self.b.cast(value, self.scalar) for value in loaded]

    def _place(self, operand: int, row: Value, channel: Value) -> Value:
        index = (self.outer * self.norm.rows + row) * (self.norm.groups * self.norm.width) + (self.first + channel)
        return self.b.offset(self.w.argument(operand), index, self.stored)

    def _table(self, which: int) -> Value:
        return self.b.offset(self.memory, which * self.norm.channels, self.scalar)

    def _slot(self, part: Value, which: int) -> Value:
        """Where number `which` of each channel of a part is."""
        return self.b.offset(self._table(TABLES + which), part * (2 * self.norm.channels), self.scalar)

    def _kept(self, pointer: Value, channel: Value, masks: Masks) -> Vectors:
        return self._vectors(pointer, channel, masks, self.scalar)

    def _vectors(self, pointer: Value, channel: Value, masks: Masks, scalar: Scalar) -> Vectors:
        kind = Type(scalar, self.lanes)
        return [self.b.load(pointer, channel + number * self.lanes, kind, mask) for number, mask in enumerate(masks)]

    def _keep(self, values: Vectors, pointer: Value, channel: Value, masks: Masks) -> None:
        for number, (value, mask) in enumerate(zip(values, masks, strict=True)):
            self.b.store(value, pointer, channel + number * self.lanes, mask)

    def _bounds(self, part: Value) -> tuple[Value, Value]:
        low = part * self.norm.length
        return low, self.b.least(low + self.norm.length, self.norm.rows)

    def _rows_of(self, part: Value) -> Value:
        low, high = self._bounds(part)
        return self.b.splat(self.b.cast(high - low, self.scalar), self.lanes)

    def _sums(self, part: Value, count: int, terms: Callable[[Value], list[Vectors]]) -> list[Vectors]:
        kind = Type(self.scalar, self.lanes)
        return summed_rows(self.b, kind, self.vectors, self._bounds(part), self.norm.length, count, terms)

    def _moments(self, part: Value) -> None:
        """Of each channel of a part: mean and sum of squared deviations, sum of squares; sums of g and g · (x - m)."""
        of_block = self._products if self.norm.gradient else self._deviations

        def body(channel: Value, masks: Masks) -> None:
            for which, values in enumerate(of_block(part, channel, masks)):
                self._keep(values, self._slot(part, which), channel, masks)

        self._blocks(body)

    def _spread_means(self) -> None:
        """A gradient's saved mean of each group for its channels, which are read by vectors: the worker's own."""
        if not self.norm.gradient or not self.norm.centered:
            return
        with self._each_group() as group:
            mean = self.b.load(self.w.argument(2), self._statistic(group), self.number)
            with self.b.loop(0, self.norm.width) as place:
                self.b.store(mean, self.w.scratch, group * self.norm.width + place)

    def _deviations(self, part: Value, channel: Value, masks: Masks) -> list[Vectors]:
        """Two passes over what the cache holds, one of the root-mean-square norm."""
        means: Vectors = []
        if self.norm.centered:
            sums = self._sums(part, 1, lambda row: [self._line(0, row, channel, masks)])
            means = [total / self._rows_of(part) for total in sums[0]]

        def squares(row: Value) -> list[Vectors]:
            values = self._line(0, row, channel, masks)
            if means:
                values = [value - mean for value, mean in zip(values, means, strict=True)]
            return [[value * value for value in values]]

        return [*([means] if means else []), *self._sums(part, 1, squares)]

    def _products(self, part: Value, channel: Value, masks: Masks) -> list[Vectors]:
        means = self._kept(self.w.scratch, channel, masks) if self.norm.centered else []

        def terms(row: Value) -> list[Vectors]:
            g, x = self._line(0, row, channel, masks), self._line(1, row, channel, masks)
            if not means:
                return [[a * v for a, v in zip(g, x, strict=True)]]
            return [g, [a * (v - m) for a, v, m in zip(g, x, means, strict=True)]]

        return self._sums(part, len(means[:1]) + 1, terms)

    def _each_group(self) -> AbstractContextManager[Value]:
        groups, most = self.norm.groups, self.norm.bundled
        return self.b.loop(0, self.b.least(groups - self.group, most) if groups % most else most)

    def _statistic(self, group: Value) -> Value:
        """Which of the saved numbers is that of a group of the bundle."""
        return self.outer * self.norm.groups + (self.group + group)

    def _whole(self) -> None:
        """The tables, from the numbers of all parts."""
        gradient = self.norm.gradient
        self._blocks(self._whole_moments if self.norm.centered and not gradient else self._whole_sums)
        with self._each_group() as group:
            (self._finish_gradient if gradient else self._finish)(group)

    def _of_part(self, part: Value, *, which: int, channel: Value, masks: Masks) -> Vectors:
        return self._kept(self._slot(part, which), channel, masks)

    def _over_parts(self, terms: Callable[[Value], Vectors]) -> Vectors:
        """The sum over all parts of terms(part)."""
        zero = self.b.zero(Type(self.scalar, self.lanes))
        slots = [self.b.variable(zero) for _ in range(self.vectors)]
        with self.b.loop(0, self.norm.parts) as part:
            for slot, value in zip(slots, terms(part), strict=True):
                slot.set(slot.get() + value)
        return [slot.get() for slot in slots]

    def _whole_moments(self, channel: Value, masks: Masks) -> None:
        """m = sum n_p m_p / n; sum of squares = sum (s_p + n_p (m_p - m)²)"""
        of_part = partial(self._of_part, channel=channel, masks=masks)

        def shares(part: Value) -> Vectors:
            share = self._rows_of(part) / self.norm.rows
            return [share * own for own in of_part(part, which=0)]

        means = self._over_parts(shares)

        def squares(part: Value) -> Vectors:
            count, own, inside = self._rows_of(part), of_part(part, which=0), of_part(part, which=1)
            away = [m - whole for m, whole in zip(own, means, strict=True)]
            return [s + count * (d * d) for s, d in zip(inside, away, strict=True)]

        self._keep(self._over_parts(squares), self._table(1), channel, masks)
        self._keep(means, self._table(0), channel, masks)

    def _whole_sums(self, channel: Value, masks: Masks) -> None:
        """The sums of all parts, behind what is kept of means."""
        count = 1 + (self.norm.gradient and self.norm.centered)
        for which in range(count):
            numbers = partial(self._of_part, which=which, channel=channel, masks=masks)
            self._keep(self._over_parts(numbers), self._table(1 + which), channel, masks)

    def _over_group(self, count: int, terms: Callable[[Value], list[Value]]) -> list[Value]:
        """Sums of `count` terms over the places of a group."""
        b, width = self.b, self.norm.width
        sums = FlushedSums.start(b, b.zero(self.number), count, flushed=is_long(self.number, width))
        with in_runs(b, 0, width, 1, [sums]) as place:
            for variable, value in zip(sums.sums, terms(place), strict=True):
                variable.set(variable.get() + value)
        sums.flush()
        return [b.cast(total.get(), self.scalar) for total in sums.totals]

    def _entry(self, which: int, group: Value, place: Value) -> Value:
        return self.b.load(self._table(which), group * self.norm.width + place, self.number)

    def _parameter(self, operand: int, group: Value, place: Value) -> Value:
        by_group, by_place = self.norm.along
        index = (self.group + group) * by_group + place * by_place
        return self.b.cast(self.b.load(self.w.argument(operand), index, Type(self.stored)), self.scalar)

    def _tabulate(self, group: Value, place: Value, values: Sequence[Value]) -> None:
        for which, value in enumerate(values):
            self.b.store(value, self._table(which), group * self.norm.width + place)

    def _finish(self, group: Value) -> None:
        """m and r of a group; of each channel m, r · scale, and bias."""
        b, norm = self.b, self.norm
        saved: list[Value] = []
        if norm.centered:
            saved = [self._over_group(1, lambda place: [self._entry(0, group, place)])[0] / norm.width]

        def squares(place: Value) -> list[Value]:
            inside = self._entry(1, group, place)
            away = self._entry(0, group, place) - saved[0] if saved else None
            return [inside if away is None else inside + away * away * norm.rows]

        variance = self._over_group(1, squares)[0] / norm.rows / norm.width
        inverse = mathematics.reciprocal_square_root(b, variance + norm.epsilon)
        for number, value in enumerate([*saved, inverse], self.y + 1):
            b.store(value, self.w.argument(number), self._statistic(group))
        with b.loop(0, norm.width) as place:
            factor = inverse * self._parameter(1, group, place) if norm.scale else inverse
            bias = [self._parameter(2, group, place)] if norm.bias else []
            self._tabulate(group, place, [saved[0] if saved else inverse, factor, *bias])

    def _finish_gradient(self, group: Value) -> None:
        """With u = g · scale: of each channel m, r · scale, r² · mean (u · x̂), and r · mean u."""
        b, norm = self.b, self.norm
        saved = [b.load(self.w.argument(2 + k), self._statistic(group), self.number) for k in range(self.statistics)]
        inverse = saved[-1]

        def terms(place: Value) -> list[Value]:
            sums = [self._entry(1 + which, group, place) for which in range(1 + norm.centered)]
            return [total * self._parameter(self.parameters, group, place) for total in sums] if norm.scale else sums

        *plain, product = (total / norm.rows / norm.width for total in self._over_group(1 + norm.centered, terms))
        slope = inverse * (inverse * (inverse * product))
        with b.loop(0, norm.width) as place:
            factor = inverse * self._parameter(self.parameters, group, place) if norm.scale else inverse
            self._tabulate(group, place, [saved[0], factor, slope, *(inverse * mean for mean in plain)])

    def _results(self, part: Value) -> None:
        """y, element by element: what is read is read before y, which may lie in its place."""
        rule = self._gradient_rule if self.norm.gradient else self._forward_rule

        def body(channel: Value, masks: Masks) -> None:
            of_row = rule(channel, masks)
            with self.b.loop(*self._bounds(part)) as row:
                start = self._place(self.y, row, channel)
                for number, (value, mask) in enumerate(zip(of_row(row), masks, strict=True)):
                    self.b.store(self.b.cast(value, self.stored), start, number * self.lanes, mask)

        self._blocks(body)

    def _forward_rule(self, channel: Value, masks: Masks) -> Callable[[Value], Vectors]:
        norm = self.norm
        mean, factor, bias = (self._kept(self._table(which), channel, masks) for which in range(3))

        def rule(row: Value) -> Vectors:
            values = self._line(0, row, channel, masks)
            if norm.centered:
                values = [x - m for x, m in zip(values, mean, strict=True)]
            values = [x * f for x, f in zip(values, factor, strict=True)]
            return [x + shift for x, shift in zip(values, bias, strict=True)] if norm.bias else values

        return rule

    def _gradient_rule(self, channel: Value, masks: Masks) -> Callable[[Value], Vectors]:
        norm = self.norm
        mean, factor, slope, plain = (self._kept(self._table(which), channel, masks) for which in range(4))

        def rule(row: Value) -> Vectors:
            g, x = self._line(0, row, channel, masks), self._line(1, row, channel, masks)
            if not norm.centered:
                return [a * f - v * s for a, f, v, s in zip(g, factor, x, slope, strict=True)]
            values = zip(g, factor, x, mean, slope, plain, strict=True)
            return [a * f - p - (v - m) * s for a, f, v, m, s, p in values]

        return rule
