"""Layer, root-mean-square and batch norm, and their data gradients; formulas as in `nnc/ops/normalization.py`.

    rows:     statistics along the contiguous last axis; an item is a row
    columns:  statistics of each column, over all rows: parts of the rows, their combination, one pass of results

Parts keep (count, mean, sum of squared deviations) and are combined by Chan's formula, so that a large mean costs no
digits; how many parts there are depends on the shape alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from nnc.backends.llvm.frame.kernel import Phase, PhaseWriter, aligned, ceiling, phase
from nnc.backends.llvm.ir import mathematics
from nnc.backends.llvm.ir.builder import Builder, LocalVariable, Module, Scalar, Type, Value
from nnc.backends.llvm.ir.expression import computed
from nnc.backends.llvm.ir.target import TargetDescription

ACCUMULATORS = 4
PARTS, PART_ELEMENTS = 32, 8192
AHEAD_BYTES = 4096
NANOSECONDS_PER_VECTOR = 1.0

Terms = Callable[[Value, Value | None], list[Value]]


class RowNorm(Enum):
    """The members of the family whose statistics run along a row."""

    LAYER = "layer_norm"
    RMS = "rms_norm"
    LAYER_GRADIENT = "layer_norm_gradient"
    RMS_GRADIENT = "rms_norm_gradient"


@dataclass(frozen=True, slots=True)
class RowNormalization:
    """rows x columns, statistics of each row; scale and bias, where there are any, lie along the columns."""

    kind: RowNorm
    scalar: Scalar
    rows: int
    columns: int
    epsilon: float
    scale: bool = False
    bias: bool = False

    def workspace(self, target: TargetDescription) -> int:
        """None."""
        return 0

    def scratch(self, target: TargetDescription) -> int:
        """None."""
        return 0

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """One phase; an item is a row."""
        with phase(module, name) as w, w.b.loop(w.begin, w.end) as row:
            write = _gradient_row if self.kind in (RowNorm.LAYER_GRADIENT, RowNorm.RMS_GRADIENT) else _forward_row
            write(self, _Line(w, self.scalar, self.columns), row)
        vectors = self.rows * ceiling(self.columns, module.target.lanes(32))
        return (Phase(name, self.rows, 4 * vectors * NANOSECONDS_PER_VECTOR),)


class _Line:
    """Loops over the vectors of a line of elements, computed in the type of computation."""

    def __init__(self, writer: PhaseWriter, stored: Scalar, length: int) -> None:
        self.w = writer
        self.b: Builder = writer.b
        self.stored = stored
        self.scalar = computed(stored)
        self.length = length
        self.lanes = self.b.target.lanes(8 * self.scalar.size)
        self.vector = Type(self.scalar, self.lanes)

    def start(self, operand: int, line: Value) -> Value:
        """Where a line begins in an operand."""
        return self.b.offset(self.w.argument(operand), line * self.length, self.stored)

    def load(self, pointer: Value, index: Value, mask: Value | None) -> Value:
        """One vector, in the type of computation."""
        return self.b.cast(self.b.load(pointer, index, Type(self.stored, self.lanes), mask), self.scalar)

    def store(self, value: Value, pointer: Value, index: Value, mask: Value | None) -> None:
        """One vector, in the type of memory."""
        self.b.store(self.b.cast(value, self.stored), pointer, index, mask)

    def bring(self, pointer: Value, index: Value) -> None:
        """Ask for what follows this line, while this one is written, if it is short enough to be kept."""
        size = self.stored.size
        if self.length * size <= self.b.target.level_two_bytes // 8:
            self.b.prefetch(pointer, index + max(self.length, AHEAD_BYTES // size), self.stored)

    def spread(self, value: Value) -> Value:
        """A scalar in every lane."""
        return self.b.splat(value, self.lanes)

    def each(self, body: Callable[[Value, Value | None], None]) -> None:
        """body(index, mask) for every vector of the line"""
        b, length = self.b, self.length
        with b.loop(0, length, self.lanes) as index:
            body(index, b.mask(length - index, self.lanes) if length % self.lanes else None)

    def sums(self, count: int, terms: Terms) -> list[Value]:
        """The sums over the line of `count` terms at once, each in a few accumulators."""
        b, step = self.b, ACCUMULATORS * self.lanes
        zero = b.zero(self.vector)
        slots = [[b.variable(zero) for _ in range(count)] for _ in range(ACCUMULATORS)]
        whole = self.length // step * step
        if whole:
            with b.loop(0, whole, step) as index:
                for number, group in enumerate(slots):
                    self._add(group, terms(index + number * self.lanes, None), None)
        if whole < self.length:
            with b.loop(whole, self.length, self.lanes) as index:
                mask = b.mask(self.length - index, self.lanes) if self.length % self.lanes else None
                self._add(slots[0], terms(index, mask), mask)
        return [self._total([group[term] for group in slots]) for term in range(count)]

    def _add(self, group: Sequence[LocalVariable], values: Sequence[Value], mask: Value | None) -> None:
        for slot, value in zip(group, values, strict=True):
            slot.set(slot.get() + (value if mask is None else self.b.choose(mask, value, 0.0)))

    def _total(self, slots: Sequence[LocalVariable]) -> Value:
        total = slots[0].get()
        for slot in slots[1:]:
            total = total + slot.get()
        return self.b.fold(total, "add")


def _forward_row(problem: RowNormalization, line: _Line, row: Value) -> None:
    """Two passes for the statistics, one for the results; each element is read before its result is written."""
    b, count = line.b, float(problem.columns)
    layer = problem.kind is RowNorm.LAYER
    parameters = 1 + problem.scale + problem.bias
    x, y = line.start(0, row), line.start(parameters, row)
    mean = line.sums(1, lambda index, mask: [line.load(x, index, mask)])[0] / count if layer else None
    shift = None if mean is None else line.spread(mean)

    def centered(index: Value, mask: Value | None) -> Value:
        value = line.load(x, index, mask)
        return value if shift is None else value - shift

    def square(index: Value, mask: Value | None) -> list[Value]:
        value = centered(index, mask)
        return [value * value]

    inverse = mathematics.reciprocal_square_root(b, line.sums(1, square)[0] / count + problem.epsilon)
    factor = line.spread(inverse)

    def write(index: Value, mask: Value | None) -> None:
        line.bring(x, index)
        value = centered(index, mask) * factor
        if problem.scale:
            value = value * line.load(line.w.argument(1), index, mask)
        if problem.bias:
            value = value + line.load(line.w.argument(2), index, mask)
        line.store(value, y, index, mask)

    line.each(write)
    saved = [inverse] if mean is None else [mean, inverse]
    for position, value in enumerate(saved, parameters + 1):
        b.store(value, line.w.argument(position), row)


def _gradient_row(problem: RowNormalization, line: _Line, row: Value) -> None:
    """y = r * (u - mean u - x^ * mean (u * x^)); mean u is 0 for the root-mean-square norm"""
    b, count = line.b, float(problem.columns)
    layer = problem.kind is RowNorm.LAYER_GRADIENT
    g, x = line.start(0, row), line.start(1, row)
    saved = [line.spread(b.load(line.w.argument(2 + k), row, Type(line.scalar))) for k in range(1 + layer)]
    inverse, scale = saved[-1], line.w.argument(3 + layer)
    y = line.start(3 + layer + problem.scale, row)

    def pair(index: Value, mask: Value | None) -> list[Value]:
        u, value = line.load(g, index, mask), line.load(x, index, mask)
        if problem.scale:
            u = u * line.load(scale, index, mask)
        return [u, (value - saved[0] if layer else value) * inverse]

    def products(index: Value, mask: Value | None) -> list[Value]:
        u, unit = pair(index, mask)
        return [u * unit, u] if layer else [u * unit]

    means = [line.spread(total / count) for total in line.sums(1 + layer, products)]

    def write(index: Value, mask: Value | None) -> None:
        line.bring(x, index)
        u, unit = pair(index, mask)
        rest = u - unit * means[0]
        line.store((rest - means[1] if layer else rest) * inverse, y, index, mask)

    line.each(write)


@dataclass(frozen=True, slots=True)
class ColumnNormalization:
    """rows x columns, statistics of each column: batch norm's training step, or the data gradient of such a norm.

    Operands of the step: x, scale, bias, mean, variance; y, mean', variance', saved mean, saved r. Of the gradient:
    g, x, saved mean, saved r, and scale where there is one; y.
    """

    gradient: bool
    scalar: Scalar
    rows: int
    columns: int
    epsilon: float
    momentum: float = 0.0
    scale: bool = True

    @property
    def length(self) -> int:
        """Rows of one part."""
        return ceiling(self.rows, min(PARTS, ceiling(self.rows * self.columns, PART_ELEMENTS), self.rows))

    @property
    def parts(self) -> int:
        """How many parts the rows are cut into."""
        return ceiling(self.rows, self.length)

    def workspace(self, target: TargetDescription) -> int:
        """Two numbers per part and column, then two per column."""
        return aligned((self.parts + 1) * 2 * self.columns * computed(self.scalar).size)

    def scratch(self, target: TargetDescription) -> int:
        """None."""
        return 0

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """Parts, their combination, results; an item is a block of columns of one part, of all parts, of one part."""
        vectors = self.rows * ceiling(self.columns, module.target.lanes(32))
        names = f"{name}_parts", f"{name}_whole", f"{name}_results"
        with phase(module, names[0]) as w:
            blocks = _Columns(self, w).parts()
        with phase(module, names[1]) as w:
            _Columns(self, w).combine()
        with phase(module, names[2]) as w:
            _Columns(self, w).results()
        cost = vectors * NANOSECONDS_PER_VECTOR
        combination = Phase(names[1], blocks, self.parts * blocks * NANOSECONDS_PER_VECTOR)
        items = self.parts * blocks
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
        self.room = writer.argument(5 + problem.scale if problem.gradient else 10)

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

    def _slot(self, part: Value | int, which: int) -> Value:
        """Where number `which` of a part lies."""
        columns = self.problem.columns
        start = part * (2 * columns) + which * columns if isinstance(part, Value) else (2 * part + which) * columns
        return self.b.offset(self.room, start, self.scalar)

    def _sums(
        self, low: Value, high: Value, count: int, terms: Callable[[Value], list[list[Value]]]
    ) -> list[list[Value]]:
        """sums[k][j] = sum over rows of terms(row)[k][j], several rows at once where columns are few."""
        b, unroll = self.b, max(1, ACCUMULATORS // self.vectors)
        zero = b.zero(Type(self.scalar, self.lanes))
        slots = [[[b.variable(zero) for _ in range(self.vectors)] for _ in range(count)] for _ in range(unroll)]

        def add(group: Sequence[Sequence[LocalVariable]], row: Value) -> None:
            for variables, values in zip(group, terms(row), strict=True):
                for variable, value in zip(variables, values, strict=True):
                    variable.set(variable.get() + value)

        whole = (high - low) // unroll * unroll + low
        with b.loop(low, whole, unroll) as row:
            for number, group in enumerate(slots):
                add(group, row + number)
        if unroll > 1:
            with b.loop(whole, high) as row:
                add(slots[0], row)
        totals = []
        for k in range(count):
            total = [variable.get() for variable in slots[0][k]]
            for group in slots[1:]:
                total = [left + right.get() for left, right in zip(total, group[k], strict=True)]
            totals.append(total)
        return totals

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
            means = [total / float(self.problem.rows) for total in self._over_parts(column, masks, which)]
            self._save(means, self._slot(self.problem.parts, which), column, masks)

    def _combine_moments(self, column: Value, masks: Sequence[Value | None]) -> None:
        """m = sum n_p m_p / n; sum of squares = sum (s_p + n_p (m_p - m)^2)"""
        b, problem = self.b, self.problem
        zero = b.zero(Type(self.scalar, self.lanes))
        means, squares = [b.variable(zero) for _ in masks], [b.variable(zero) for _ in masks]
        with b.loop(0, problem.parts) as part:
            share = self._rows_of(part) / float(problem.rows)
            for slot, value in zip(means, self._statistic(self._slot(part, 0), column, masks), strict=True):
                slot.set(b.fma(share, value, slot.get()))
        mean = [slot.get() for slot in means]
        with b.loop(0, problem.parts) as part:
            count, own = self._rows_of(part), self._statistic(self._slot(part, 0), column, masks)
            inside = self._statistic(self._slot(part, 1), column, masks)
            for slot, m, s, whole in zip(squares, own, inside, mean, strict=True):
                slot.set(slot.get() + (s + count * ((m - whole) * (m - whole))))
        variance = [slot.get() / float(problem.rows) for slot in squares]
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
                place = b.offset(y, row * problem.columns + column, self.stored)
                for j, (value, mask) in enumerate(zip(rule(row), masks, strict=True)):
                    b.store(b.cast(value, self.stored), place, j * self.lanes, mask)

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
