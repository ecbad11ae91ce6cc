"""Attention and its gradient without the matrix of scores in memory; formulas as in `nnc/ops/attention.py`.

Forward, an item is a block of rows of one head: the block's scores lie in the worker's scratch, over all columns that
are seen; there they become powers, and then the weights of v. Gradient, an item is one key and value head: its query
heads and their blocks of rows follow each other, so that k' and v' are summed in one fixed order.

Before, k (and for the gradient v) is transposed into the workspace: kt[b, h, d, column], rows padded with zeros.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from nnc.backends.llvm import mathematics
from nnc.backends.llvm.access import Shape
from nnc.backends.llvm.builder import BOOL, Builder, Module, Scalar, Type, Value
from nnc.backends.llvm.kernel import Phase, PhaseWriter, aligned, ceiling, phase
from nnc.backends.llvm.target import TargetDescription
from nnc.backends.llvm.tile import Accumulators, Tile, choose_tile, column_masks, load_row, nanoseconds

BLOCK_ROWS = 32
MOST_ROWS = 8  # of a register tile; blocks of rows hold whole tiles


@dataclass(frozen=True, slots=True)
class Attention:
    """Sizes as in the formulas; `mask` is the mask's type and `mask_strides` its steps along the scores' axes."""

    scalar: Scalar
    batch: int
    rows: int
    columns: int
    heads: int
    groups: int
    features: int
    values: int
    scale: float
    causal: bool
    mask: Scalar | None = None
    mask_strides: Shape = ()
    gradient: bool = False

    def lanes(self, target: TargetDescription) -> int:
        """Elements of a register."""
        return target.lanes(8 * self.scalar.size)

    def padded(self, target: TargetDescription) -> int:
        """Columns rounded up to whole register tiles of any width that is used."""
        step = self.lanes(target) * 4
        return ceiling(self.columns, step) * step

    @property
    def block(self) -> int:
        """Rows of one block of scores."""
        return min(BLOCK_ROWS, self.rows)

    def _key_elements(self, target: TargetDescription) -> int:
        return self.batch * self.groups * self.features * self.padded(target)

    def _value_elements(self, target: TargetDescription) -> int:
        return self.batch * self.groups * self.values * self.padded(target) if self.gradient else 0

    def workspace(self, target: TargetDescription) -> int:
        """Transposed k, and for the gradient transposed v."""
        return aligned((self._key_elements(target) + self._value_elements(target)) * self.scalar.size)

    def scratch(self, target: TargetDescription) -> int:
        """A block of scores; for the gradient also one of their slopes, and k' of one head."""
        scores = (1 + self.gradient) * self.block * self.padded(target)
        return aligned((scores + self.gradient * self.columns * self.features) * self.scalar.size)

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """Transposition, then products."""
        target = module.target
        names = f"{name}_transpose", f"{name}_products"
        with phase(module, names[0]) as w:
            items = _Transposition(self, w).write()
        work = float(self.batch * self.heads * self.rows * self.columns * (self.features + self.values))
        with phase(module, names[1]) as w:
            if self.gradient:
                _GradientWriter(self, w).write()
                count, cost = self.batch * self.groups, 3 * work
            else:
                _ForwardWriter(self, w).write()
                count, cost = self.batch * self.heads * ceiling(self.rows, self.block), 1.5 * work
        moved = float(self._key_elements(target) + self._value_elements(target))
        return Phase(names[0], items, moved), Phase(names[1], count, nanoseconds(target, self.scalar, cost) + 100.0)


class _Transposition:
    """kt[b, g, d, column] = k[b, column, g, d], vectors of columns; v in the same way behind it."""

    def __init__(self, problem: Attention, writer: PhaseWriter) -> None:
        self.problem = problem
        self.w = writer
        self.b: Builder = writer.b
        self.lanes = problem.lanes(self.b.target)
        self.padded = problem.padded(self.b.target)

    def write(self) -> int:
        """An item is one key head."""
        problem, b = self.problem, self.b
        masked = problem.mask is not None
        room = self.w.argument((9 if problem.gradient else 5) + masked)
        with b.loop(self.w.begin, self.w.end) as item:
            k = self.w.argument(2 if problem.gradient else 1)
            self._head(k, room, item, problem.features)
            if problem.gradient:
                behind = problem.batch * problem.groups * problem.features * self.padded
                self._head(self.w.argument(3), b.offset(room, behind, problem.scalar), item, problem.values)
        return problem.batch * problem.groups

    def _head(self, x: Value, y: Value, item: Value, features: int) -> None:
        b, p = self.b, self.problem
        step = p.groups * features
        start = item // p.groups * (p.columns * step) + item % p.groups * features
        source = b.offset(x, start, p.scalar)
        target = b.offset(y, item * (features * self.padded), p.scalar)
        kind = Type(p.scalar, self.lanes)
        with b.loop(0, self.padded, self.lanes) as column:
            mask = b.mask(b.greatest(p.columns - column, 0), self.lanes)
            with b.loop(0, features) as feature:
                value = b.gather(source, column * step + feature, step, kind, mask)
                b.store(value, target, feature * self.padded + column)


@dataclass(frozen=True, slots=True)
class _Matrix:
    """A matrix in memory: element (i, j) is at base + i * row + j * column."""

    base: Value
    row: int
    column: int = 1


class _Writer:
    """Products of blocks, and the scores of a block of rows."""

    def __init__(self, problem: Attention, writer: PhaseWriter) -> None:
        self.problem = problem
        self.w = writer
        self.b: Builder = writer.b
        self.scalar = problem.scalar
        self.lanes = problem.lanes(self.b.target)
        self.padded = problem.padded(self.b.target)
        self.vector = Type(self.scalar, self.lanes)

    def product(
        self,
        left: _Matrix,
        right: _Matrix,
        result: _Matrix,
        rows: Value,
        columns: Value,
        inner: Value,
        shape: tuple[int, int],
        *,
        factor: float = 1.0,
        added: bool = False,
    ) -> None:
        """result[i, j] = factor * sum_k left[i, k] * right[k, j], added to what is there if wanted.

        `shape` is about how many rows and columns there are, to choose the register tile. Rows are computed in pairs of
        loops: whole tiles, then one by one.
        """
        b = self.b
        tile = choose_tile(b.target, self.scalar, min(shape[0], MOST_ROWS), shape[1])
        whole = rows // tile.rows * tile.rows

        def strip(tile: Tile, row: Value) -> None:
            with b.loop(0, columns, tile.columns) as column:
                masks = column_masks(b, tile, columns - column, ragged=True)
                self._tile(tile, left, right, result, row, column, inner, masks, factor, added)

        with b.loop(0, whole, tile.rows) as row:
            strip(tile, row)
        if tile.rows > 1:
            with b.loop(whole, rows) as row:
                strip(Tile(1, tile.vectors, tile.lanes), row)

    def _tile(
        self,
        tile: Tile,
        left: _Matrix,
        right: _Matrix,
        result: _Matrix,
        row: Value,
        column: Value,
        inner: Value,
        masks: list[Value | None],
        factor: float,
        added: bool,
    ) -> None:
        b, scalar = self.b, self.scalar
        sums = Accumulators.zeros(b, tile, scalar)
        lines = [b.offset(left.base, (row + i) * left.row, scalar) for i in range(tile.rows)]
        start = b.offset(right.base, column, scalar)
        with b.loop(0, inner) as k:
            factors = [b.load(line, k * left.column, Type(scalar)) for line in lines]
            sums.multiply(factors, load_row(b, start, k * right.row, tile, scalar, masks))
        for i, slots in enumerate(sums.slots):
            place = b.offset(result.base, (row + i) * result.row + column, scalar)
            for j, (slot, mask) in enumerate(zip(slots, masks, strict=True)):
                value = slot.get() * factor if factor != 1.0 else slot.get()
                if added:
                    value = value + b.load(place, j * self.lanes, self.vector, mask)
                b.store(value, place, j * self.lanes, mask)

    def head(self, operand: int, batch: Value, position: Value, count: int, heads: int, features: int) -> _Matrix:
        """Rows of one head of an operand [batch, count, heads, features]."""
        start = batch * (count * heads * features) + position * features
        return _Matrix(self.b.offset(self.w.argument(operand), start, self.scalar), heads * features)

    def transposed(self, room: Value, batch: Value, group: Value, features: int) -> _Matrix:
        """One head of what the first phase wrote."""
        start = (batch * self.problem.groups + group) * (features * self.padded)
        return _Matrix(self.b.offset(room, start, self.scalar), self.padded)

    def rows_of(self, matrix: _Matrix, first: Value) -> _Matrix:
        """The same matrix from row `first` on."""
        return _Matrix(self.b.offset(matrix.base, first * matrix.row, self.scalar), matrix.row, matrix.column)

    def seen(self, rows_end: Value) -> Value:
        """How many columns the rows before `rows_end` see."""
        p = self.problem
        if not p.causal:
            return self.b.constant(p.columns)
        return self.b.greatest(self.b.least(rows_end + (p.columns - p.rows), p.columns), 0)

    def each(self, count: Value, body: Callable[[Value, Value], None]) -> None:
        """body(index, mask) for the vectors of `count` elements"""
        with self.b.loop(0, count, self.lanes) as index:
            body(index, self.b.mask(count - index, self.lanes))

    def hidden(self, batch: Value, head: Value, row: Value) -> Callable[[Value, Value, Value], Value]:
        """score(s, column, mask) with the operand mask applied."""
        b, p = self.b, self.problem
        if p.mask is None:
            return lambda score, column, mask: score
        steps = p.mask_strides
        start = batch * steps[0] + head * steps[1] + row * steps[2]
        place = b.offset(self.w.argument(6 if p.gradient else 3), start, p.mask)
        kind = Type(p.mask, self.lanes)

        def apply(score: Value, column: Value, mask: Value) -> Value:
            if steps[3] == 1:
                read = b.load(place, column, kind, mask)
            else:
                read = b.splat(b.load(place, 0, Type(kind.scalar)), self.lanes)
            return b.choose(read, score, -math.inf) if p.mask == BOOL else score + read

        return apply


class _ForwardWriter(_Writer):
    """y and lse of blocks of rows."""

    def write(self) -> None:
        """for block: scores, powers, weighted sum of v"""
        b, p = self.b, self.problem
        blocks = ceiling(p.rows, p.block)
        with b.loop(self.w.begin, self.w.end) as item:
            batch, rest = item // (p.heads * blocks), item % (p.heads * blocks)
            head, first = rest // blocks, rest % blocks * p.block
            count = b.least(p.rows - first, p.block)
            self._block(batch, head, first, count, self.seen(first + count))

    def _block(self, batch: Value, head: Value, first: Value, count: Value, columns: Value) -> None:
        b, p = self.b, self.problem
        masked = p.mask is not None
        group = head // (p.heads // p.groups)
        scores = _Matrix(self.w.scratch, self.padded)
        q = self.rows_of(self.head(0, batch, head, p.rows, p.heads, p.features), first)
        keys = self.transposed(self.w.argument(5 + masked), batch, group, p.features)
        y = self.rows_of(self.head(3 + masked, batch, head, p.rows, p.heads, p.values), first)
        v = self.head(2, batch, group, p.columns, p.groups, p.values)
        inner = b.constant(p.features)
        self.product(q, keys, scores, count, columns, inner, (p.block, p.columns), factor=p.scale)
        lse = b.offset(self.w.argument(4 + masked), (batch * p.heads + head) * p.rows, self.scalar)
        with b.loop(0, count) as row:
            self._normalize(batch, head, first + row, columns, self.rows_of(scores, row).base, lse)
        self.product(scores, v, y, count, b.constant(p.values), columns, (p.block, p.values))

    def _normalize(self, batch: Value, head: Value, row: Value, columns: Value, line: Value, lse: Value) -> None:
        """Scores of one row to weights; columns that the row does not see get 0."""
        b = self.b
        visible = b.least(self.seen(row + 1), columns)
        apply = self.hidden(batch, head, row)
        top = b.variable(b.constant(-math.inf, self.vector))

        def largest(index: Value, mask: Value) -> None:
            score = b.choose(mask, apply(b.load(line, index, self.vector, mask), index, mask), -math.inf)
            b.store(score, line, index, mask)
            top.set(b.maximum(top.get(), score))

        self.each(visible, largest)
        highest = b.fold(top.get(), "maximum")
        base = b.choose(b.compare("==", highest, -math.inf), b.zero(highest.type), highest)
        shift, total = b.splat(base, self.lanes), b.variable(b.zero(self.vector))

        def power(index: Value, mask: Value) -> None:
            value = mathematics.exponential(b, b.load(line, index, self.vector, mask) - shift)
            total.set(total.get() + b.choose(mask, value, 0.0))
            b.store(value, line, index, mask)

        self.each(visible, power)
        whole = b.fold(total.get(), "add")
        nothing = b.compare("==", whole, 0.0)
        one = b.constant(1.0, whole.type)
        factor = b.splat(one / b.choose(nothing, one, whole), self.lanes)
        self.each(visible, lambda i, m: b.store(b.load(line, i, self.vector, m) * factor, line, i, m))
        with b.loop(visible, columns) as index:
            b.store(b.zero(whole.type), line, index)
        result = b.choose(nothing, b.constant(math.inf, whole.type), highest + mathematics.logarithm(b, whole))
        b.store(result, lse, row)


class _GradientWriter(_Writer):
    """q', k' and v' of one key and value head per item. Operands: g, q, k, v, y, lse, mask; q', k', v'."""

    def __init__(self, problem: Attention, writer: PhaseWriter) -> None:
        super().__init__(problem, writer)
        self.masked = problem.mask is not None
        room = writer.argument(9 + self.masked)
        behind = problem.batch * problem.groups * problem.features * self.padded
        self.keys_room, self.values_room = room, self.b.offset(room, behind, problem.scalar)
        self.weights = _Matrix(writer.scratch, self.padded)
        slopes = self.b.offset(writer.scratch, problem.block * self.padded, problem.scalar)
        self.slopes = _Matrix(slopes, self.padded)
        # k' may lie over k, which every block reads.
        sums = self.b.offset(writer.scratch, 2 * problem.block * self.padded, problem.scalar)
        self.by_k = _Matrix(sums, problem.features)

    def write(self) -> None:
        """for key head: zero its results, then add what each block of rows gives"""
        b, p = self.b, self.problem
        repeats = p.heads // p.groups
        with b.loop(self.w.begin, self.w.end) as item:
            batch, group = item // p.groups, item % p.groups
            by_v = self.head(8 + self.masked, batch, group, p.columns, p.groups, p.values)
            self._clear(self.by_k, p.features)
            self._clear(by_v, p.values)
            with b.loop(0, repeats) as repeat, b.loop(0, p.rows, p.block) as first:
                count = b.least(p.rows - first, p.block)
                self._block(batch, group, group * repeats + repeat, first, count, by_v)
            self._copy(self.by_k, self.head(7 + self.masked, batch, group, p.columns, p.groups, p.features))

    def _copy(self, source: _Matrix, target: _Matrix) -> None:
        """Rows of features."""
        b = self.b
        with b.loop(0, self.problem.columns) as row:
            before, after = self.rows_of(source, row).base, self.rows_of(target, row).base

            def move(index: Value, mask: Value) -> None:
                b.store(b.load(before, index, self.vector, mask), after, index, mask)

            self.each(b.constant(self.problem.features), move)

    def _clear(self, matrix: _Matrix, features: int) -> None:
        b, zero = self.b, self.b.zero(self.vector)
        with b.loop(0, self.problem.columns) as row:
            line = self.rows_of(matrix, row).base
            self.each(b.constant(features), lambda index, mask: b.store(zero, line, index, mask))

    def _block(self, batch: Value, group: Value, head: Value, first: Value, count: Value, by_v: _Matrix) -> None:
        b, p = self.b, self.problem
        columns = self.seen(first + count)
        g = self.rows_of(self.head(0, batch, head, p.rows, p.heads, p.values), first)
        q = self.rows_of(self.head(1, batch, head, p.rows, p.heads, p.features), first)
        y = self.rows_of(self.head(4, batch, head, p.rows, p.heads, p.values), first)
        by_q = self.rows_of(self.head(6 + self.masked, batch, head, p.rows, p.heads, p.features), first)
        keys = self.transposed(self.keys_room, batch, group, p.features)
        values = self.transposed(self.values_room, batch, group, p.values)
        features, width = b.constant(p.features), b.constant(p.values)
        shape = (p.block, p.columns)
        self.product(q, keys, self.weights, count, columns, features, shape, factor=p.scale)
        self.product(g, values, self.slopes, count, columns, width, shape)
        with b.loop(0, count) as row:
            self._differentiate(batch, head, first + row, row, columns, self._dot(g, y, row))
        k = self.head(2, batch, group, p.columns, p.groups, p.features)
        turned_slopes = _Matrix(self.slopes.base, 1, self.padded)
        turned_weights = _Matrix(self.weights.base, 1, self.padded)
        self.product(turned_slopes, q, self.by_k, columns, features, count, (p.columns, p.features), added=True)
        self.product(turned_weights, g, by_v, columns, width, count, (p.columns, p.values), added=True)
        # Last, because q' may lie over q.
        self.product(self.slopes, k, by_q, count, features, columns, (p.block, p.features))

    def _dot(self, g: _Matrix, y: _Matrix, row: Value) -> Value:
        """sum_e g[row, e] * y[row, e]"""
        b = self.b
        left, right = self.rows_of(g, row).base, self.rows_of(y, row).base
        total = b.variable(b.zero(self.vector))

        def add(index: Value, mask: Value) -> None:
            product = b.load(left, index, self.vector, mask) * b.load(right, index, self.vector, mask)
            total.set(total.get() + product)

        self.each(b.constant(self.problem.values), add)
        return b.fold(total.get(), "add")

    def _differentiate(self, batch: Value, head: Value, row: Value, line: Value, columns: Value, dot: Value) -> None:
        """p = e^(s - lse) and scale * s' = scale * p * (t - dot) of one row; 0 where a column is not seen"""
        b, p = self.b, self.problem
        visible = b.least(self.seen(row + 1), columns)
        apply = self.hidden(batch, head, row)
        weights, slopes = self.rows_of(self.weights, line).base, self.rows_of(self.slopes, line).base
        lse = b.load(
            b.offset(self.w.argument(5), (batch * p.heads + head) * p.rows, self.scalar), row, Type(self.scalar)
        )
        shift, subtracted = b.splat(lse, self.lanes), b.splat(dot, self.lanes)

        def write(index: Value, mask: Value) -> None:
            score = apply(b.load(weights, index, self.vector, mask), index, mask)
            weight = mathematics.exponential(b, score - shift)
            slope = weight * (b.load(slopes, index, self.vector, mask) - subtracted) * p.scale
            b.store(weight, weights, index, mask)
            b.store(slope, slopes, index, mask)

        self.each(visible, write)
        zero = b.zero(Type(self.scalar))
        with b.loop(visible, columns) as index:
            b.store(zero, weights, index)
            b.store(zero, slopes, index)
