"""Norms with statistics of each column, over all rows: parts of the rows, their combination, one pass of results.

Formulas are those of `nnc/ops/normalization`. Parts keep (count, mean, sum of squared deviations) and are
combined by Chan's formula, so that a large mean costs no digits; how many parts there are depends on the shape alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain

from nnc.classes import dataclass
from nnc.codegen.frame.kernel import PhaseWriter, WithoutScratch, WithSizes, ceiling, phase
from nnc.codegen.frame.sums import FlushedSums, in_runs, is_long
from nnc.codegen.ir import mathematics
from nnc.codegen.ir.builder import Builder, Module, Scalar, Type, Value
from nnc.codegen.ir.expression import computed
from nnc.codegen.ir.native_kernel import Phase, aligned
from nnc.codegen.ir.target import TargetDescription
from nnc.core.values.derived import Read, smallest

ACCUMULATORS = 4
PARTS, PART_ELEMENTS = 32, 8192
# On a device, whose items are blocks of so many columns.
DEVICE_ITEMS, DEVICE_COLUMNS, DEVICE_PART_ELEMENTS = 1024, 32, 2048
AHEAD_BYTES = 4096
NANOSECONDS_PER_VECTOR = 1.0

Terms = Callable[[Value, Value | None], list[Value]]


@dataclass(frozen=True, slots=True)
class ColumnNormalization(WithoutScratch, WithSizes):
    """rows x columns, statistics of each column: batch norm's training step, or the data gradient of such a norm.

    Operands of the step: x, scale, bias, mean, variance; y, mean', variance', saved mean, saved r. Of the gradient:
    g, x, saved mean, saved r, and scale where there is one; y, and with `sums` the gradients of scale and bias.
    """

    gradient: bool
    scalar: Scalar
    rows: int
    columns: int
    epsilon: float
    momentum: float = 0.0
    scale: bool = True
    sums: bool = False
    most_parts: int = PARTS
    part_elements: int = PART_ELEMENTS

    def on(self, target: TargetDescription) -> ColumnNormalization:
        """The same in as many parts as keep a target busy."""
        if not target.threads:
            return self
        parts = ceiling(DEVICE_ITEMS, ceiling(self.columns, DEVICE_COLUMNS))
        return replace(self, most_parts=parts, part_elements=DEVICE_PART_ELEMENTS)

    def opened(self, read: Read, target: TargetDescription) -> ColumnNormalization:
        """Rows are read; columns are features."""
        return replace(self, rows=read(self.rows))

    @property
    def length(self) -> int:
        """Rows of one part."""
        work = ceiling(self.rows * self.columns, self.part_elements)
        parts = smallest(smallest(self.most_parts, work), self.rows)
        return ceiling(self.rows, parts)

    @property
    def parts(self) -> int:
        """How many parts the rows are cut into."""
        return ceiling(self.rows, self.length)

    def workspace(self, target: TargetDescription) -> int:
        """Two numbers per part and column, then two per column."""
        return aligned((self.on(target).parts + 1) * 2 * self.columns * computed(self.scalar).size)

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """Parts, their combination, results; an item is a block of columns of one part, of all parts, of one part."""
        problem, vectors = self.on(module.target), self.rows * ceiling(self.columns, module.target.lanes(32))
        names = f"{name}_parts", f"{name}_whole", f"{name}_results"
        with phase(module, names[0]) as w:
            blocks = _Columns(problem, w).parts()
        with phase(module, names[1]) as w:
            _Columns(problem, w).combine()
        with phase(module, names[2]) as w:
            _Columns(problem, w).results()
        cost = vectors * NANOSECONDS_PER_VECTOR
        combination = Phase(names[1], blocks, problem.parts * blocks * NANOSECONDS_PER_VECTOR)
        items = problem.parts * blocks
        return (Phase(names[0], items, 2 * cost), combination, Phase(names[2], items, 2 * cost))


class _Columns:
    """Writes one phase of a column norm."""

    def __init__(self, problem: ColumnNormalization, writer: PhaseWriter) -> None:
        self.problem = problem
        self.w = writer
        self.b: Builder = writer.b
        self.stored = problem.scalar
        self.scalar = computed(problem.scalar)
        self.lanes = self.b.target.lanes(8 * self.scalar.size)
        self.vectors = min(ACCUMULATORS, ceiling(problem.columns, self.lanes))
        self.block = self.vectors * self.lanes
        self.blocks = ceiling(problem.columns, self.block)
        self.memory = writer.argument(5 + problem.scale + 2 * problem.sums if problem.gradient else 10)

    def _masks(self, column: Value) -> list[Value | None]:
        rest = self.problem.columns - column
        if self.problem.columns % self.block == 0:
            return [None] * self.vectors
        return [self.b.mask(rest - j * self.lanes, self.lanes) for j in range(self.vectors)]

    def _line(self, operand: int, row: Value, column: Value, masks: Sequence[Value | None]) -> list[Value]:
        """The block's vectors of one row of an operand like x."""
        kind = Type(self.stored, self.lanes)
        place = self.b.offset(self.w.argument(operand), row * self.problem.columns + column, self.stored)
        return [self.b.cast(self.b.load(place, j * self.lanes, kind, m), self.scalar) for j, m in enumerate(masks)]

    def _statistic(self, pointer: Value, column: Value, masks: Sequence[Value | None]) -> list[Value]:
        """The block's vectors of one number per column."""
        kind = Type(self.scalar, self.lanes)
        place = self.b.offset(pointer, column, self.scalar)
        return [self.b.load(place, j * self.lanes, kind, mask) for j, mask in enumerate(masks)]

    def _save(self, values: Sequence[Value], pointer: Value, column: Value, masks: Sequence[Value | None]) -> None:
        place = self.b.offset(pointer, column, self.scalar)
        for j, (value, mask) in enumerate(zip(values, masks, strict=True)):
            self.b.store(value, place, j * self.lanes, mask)

    def _put(self, values: Sequence[Value], pointer: Value, place: Value, masks: Sequence[Value | None]) -> None:
        """The block's vectors of a line of an operand like x."""
        start = self.b.offset(pointer, place, self.stored)
        for j, (value, mask) in enumerate(zip(values, masks, strict=True)):
            self.b.store(self.b.cast(value, self.stored), start, j * self.lanes, mask)

    def _slot(self, part: Value | int, which: int) -> Value:
        """Where number `which` of a part lies."""
        columns = self.problem.columns
        start = part * (2 * columns) + which * columns if isinstance(part, Value) else (2 * part + which) * columns
        return self.b.offset(self.memory, start, self.scalar)

    def _sums(
        self, low: Value, high: Value, count: int, terms: Callable[[Value], list[list[Value]]]
    ) -> list[list[Value]]:
        """sums[k][j] = sum over rows of terms(row)[k][j]"""
        kind = Type(self.scalar, self.lanes)
        return summed_rows(self.b, kind, self.vectors, (low, high), self.problem.length, count, terms)

    def _bounds(self, item: Value) -> tuple[Value, Value, Value, Value]:
        """Part, first row, end of the rows, first column of an item."""
        part, column = item // self.blocks, item % self.blocks * self.block
        low = part * self.problem.length
        return part, low, self.b.least(low + self.problem.length, self.problem.rows), column

    def parts(self) -> int:
        """The two numbers of every part; returns how many blocks of columns there are."""
        with self.b.loop(self.w.begin, self.w.end) as item:
            part, low, high, column = self._bounds(item)
            masks = self._masks(column)
            numbers = (self._products if self.problem.gradient else self._moments)(low, high, column, masks)
            for which, values in enumerate(numbers):
                self._save(values, self._slot(part, which), column, masks)
        return self.blocks

    def _moments(self, low: Value, high: Value, column: Value, masks: Sequence[Value | None]) -> list[list[Value]]:
        """The mean and the sum of squared deviations of a part: two passes over what the cache holds."""
        b = self.b
        count = b.splat(b.cast(high - low, self.scalar), self.lanes)
        (sums,) = self._sums(low, high, 1, lambda row: [self._line(0, row, column, masks)])
        means = [total / count for total in sums]

        def squares(row: Value) -> list[list[Value]]:
            deviations = [x - mean for x, mean in zip(self._line(0, row, column, masks), means, strict=True)]
            return [[value * value for value in deviations]]

        return [means, *self._sums(low, high, 1, squares)]

    def _products(self, low: Value, high: Value, column: Value, masks: Sequence[Value | None]) -> list[list[Value]]:
        """sum g and sum g * x^ of a part"""
        mean, inverse = (self._statistic(self.w.argument(k), column, masks) for k in (2, 3))

        def terms(row: Value) -> list[list[Value]]:
            g, x = self._line(0, row, column, masks), self._line(1, row, column, masks)
            return [g, [a * ((v - m) * r) for a, v, m, r in zip(g, x, mean, inverse, strict=True)]]

        return self._sums(low, high, 2, terms)

    def combine(self) -> None:
        """Statistics of whole columns; the gradient's two means go behind the parts."""
        with self.b.loop(self.w.begin, self.w.end) as item:
            column = item * self.block
            masks = self._masks(column)
            if self.problem.gradient:
                self._combine_products(column, masks)
            else:
                self._combine_moments(column, masks)

    def _over_parts(self, column: Value, masks: Sequence[Value | None], which: int) -> list[Value]:
        """The sum over all parts of number `which`."""
        slots = [self.b.variable(self.b.zero(Type(self.scalar, self.lanes))) for _ in masks]
        with self.b.loop(0, self.problem.parts) as part:
            for slot, value in zip(slots, self._statistic(self._slot(part, which), column, masks), strict=True):
                slot.set(slot.get() + value)
        return [slot.get() for slot in slots]

    def _combine_products(self, column: Value, masks: Sequence[Value | None]) -> None:
        for which in (0, 1):
            totals = self._over_parts(column, masks, which)
            means = [total / self.problem.rows for total in totals]
            self._save(means, self._slot(self.problem.parts, which), column, masks)
            if self.problem.sums:
                self._put(totals, self.w.argument(6 + self.problem.scale - which), column, masks)

    def _combine_moments(self, column: Value, masks: Sequence[Value | None]) -> None:
        """m = sum n_p m_p / n; sum of squares = sum (s_p + n_p (m_p - m)^2)"""
        b, problem = self.b, self.problem
        zero = b.zero(Type(self.scalar, self.lanes))
        means, squares = [b.variable(zero) for _ in masks], [b.variable(zero) for _ in masks]
        with b.loop(0, problem.parts) as part:
            share = self._rows_of(part) / problem.rows
            for slot, value in zip(means, self._statistic(self._slot(part, 0), column, masks), strict=True):
                slot.set(b.fma(share, value, slot.get()))
        mean = [slot.get() for slot in means]
        with b.loop(0, problem.parts) as part:
            count, own = self._rows_of(part), self._statistic(self._slot(part, 0), column, masks)
            inside = self._statistic(self._slot(part, 1), column, masks)
            for slot, m, s, whole in zip(squares, own, inside, mean, strict=True):
                slot.set(slot.get() + (s + count * ((m - whole) * (m - whole))))
        variance = [slot.get() / problem.rows for slot in squares]
        self._finish(column, masks, mean, variance)

    def _rows_of(self, part: Value) -> Value:
        problem = self.problem
        count = self.b.least(problem.rows - part * problem.length, problem.length)
        return self.b.splat(self.b.cast(count, self.scalar), self.lanes)

    def _finish(
        self, column: Value, masks: Sequence[Value | None], mean: Sequence[Value], variance: Sequence[Value]
    ) -> None:
        b, kept = self.b, self.problem.momentum
        for position, fresh in ((3, mean), (4, variance)):
            old = self._statistic(self.w.argument(position), column, masks)
            next_values = [a * kept + v * (1.0 - kept) for a, v in zip(old, fresh, strict=True)]
            self._save(next_values, self.w.argument(position + 3), column, masks)
        inverse = [mathematics.reciprocal_square_root(b, value + self.problem.epsilon) for value in variance]
        self._save(mean, self.w.argument(8), column, masks)
        self._save(inverse, self.w.argument(9), column, masks)

    def results(self) -> None:
        """y, element by element: what x holds is read before y, which may lie in its place."""
        problem, b = self.problem, self.b
        with b.loop(self.w.begin, self.w.end) as item:
            _, low, high, column = self._bounds(item)
            masks = self._masks(column)
            rule = self._gradient_rule(column, masks) if problem.gradient else self._forward_rule(column, masks)
            y = self.w.argument(4 + problem.scale if problem.gradient else 5)
            with b.loop(low, high) as row:
                self._put(rule(row), y, row * problem.columns + column, masks)

    def _forward_rule(self, column: Value, masks: Sequence[Value | None]) -> Callable[[Value], list[Value]]:
        zero = self.b.constant(0)
        scale, bias = (self._line(k, zero, column, masks) for k in (1, 2))
        mean, inverse = (self._statistic(self.w.argument(k), column, masks) for k in (8, 9))
        factors = [r * s for r, s in zip(inverse, scale, strict=True)]

        def rule(row: Value) -> list[Value]:
            values = zip(self._line(0, row, column, masks), mean, factors, bias, strict=True)
            return [self.b.fma(x - m, factor, shift) for x, m, factor, shift in values]

        return rule

    def _gradient_rule(self, column: Value, masks: Sequence[Value | None]) -> Callable[[Value], list[Value]]:
        """y = r * scale * (g - mean g - x^ * mean (g * x^)): scale is the same in a whole column"""
        mean, inverse = (self._statistic(self.w.argument(k), column, masks) for k in (2, 3))
        plain, product = (self._statistic(self._slot(self.problem.parts, k), column, masks) for k in (0, 1))
        factors = inverse
        if self.problem.scale:
            scale = self._line(4, self.b.constant(0), column, masks)
            factors = [r * s for r, s in zip(inverse, scale, strict=True)]

        def rule(row: Value) -> list[Value]:
            g, x = self._line(0, row, column, masks), self._line(1, row, column, masks)
            values = zip(g, x, mean, inverse, factors, plain, product, strict=True)
            return [(a - p - (v - m) * r * q) * factor for a, v, m, r, factor, p, q in values]

        return rule


def summed_rows(
    b: Builder, kind: Type, vectors: int, bounds: tuple[Value, Value], most: int, count: int,
    terms: Callable[[Value], list[list[Value]]],
) -> list[list[Value]]:  # fmt: skip
    """sums[k][j] = sum over rows of terms(row)[k][j], several rows at once where a row has few vectors.

    There are `count` terms of as many `vectors`, and at most so many rows.
    """
    (low, high), unroll, zero = bounds, max(1, ACCUMULATORS // vectors), b.zero(kind)
    flushed = is_long(kind, most // unroll)
    slots = [FlushedSums.start(b, zero, count * vectors, flushed=flushed) for _ in range(unroll)]

    def add(group: FlushedSums, row: Value) -> None:
        for variable, value in zip(group.sums, chain(*terms(row)), strict=True):
            variable.set(variable.get() + value)

    whole = (high - low) // unroll * unroll + low
    with in_runs(b, low, whole, unroll, slots) as row:
        for number, group in enumerate(slots):
            add(group, row + number)
    if unroll > 1:
        with b.loop(whole, high) as row:
            add(slots[0], row)
    slots[0].flush()
    totals = [variable.get() for variable in slots[0].totals]
    for group in slots[1:]:
        totals = [left + right.get() for left, right in zip(totals, group.totals, strict=True)]
    rounded = [b.cast(total, kind.scalar) for total in totals]
    return [rounded[k * vectors : (k + 1) * vectors] for k in range(count)]
