"""Attention and its gradient without the matrix of scores in memory; formulas as in `nnc/ops/attention.py`.

Forward, an item is a block of rows of one head: the block's scores lie in the worker's scratch, over all columns that
are seen; there they become powers, which weigh v, and each row of y is divided by the sum of its powers. Gradient, an
item is one key and value head: its query heads and their blocks of rows follow each other, so that k' and v' are summed
in one fixed order. With `causal` the rows of a register tile are multiplied with what the last of them sees.

Before, k (and for the gradient v) is transposed: kt[b, h, d, column], rows padded with zeros. Forward, where the blocks
of a head share it, that is done for all heads into the workspace; in the gradient each item does it for itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate

from nnc.backends.llvm.frame.access import Shape
from nnc.backends.llvm.frame.block_product import MOST_ROWS, BlockProduct, Bounds, Matrix
from nnc.backends.llvm.frame.kernel import Generator, Phase, PhaseWriter, aligned, ceiling, phase
from nnc.backends.llvm.frame.packing import Packing
from nnc.backends.llvm.frame.row import (
    Generate,
    KernelRow,
    Rows,
    Specs,
    Views,
    only,
)
from nnc.backends.llvm.frame.tile import nanoseconds
from nnc.backends.llvm.frame.widened import in_f32
from nnc.backends.llvm.ir import mathematics
from nnc.backends.llvm.ir.builder import BOOL, F32, F64, Builder, Module, Scalar, Type, Value
from nnc.backends.llvm.ir.target import TargetDescription
from nnc.ops.attention import ATTENTION, ATTENTION_GRADIENT, AttentionAttrs

BLOCK_ROWS, GRADIENT_ROWS = 32, 64
NANOSECONDS_PER_MOVE = 0.15


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
        """Columns rounded up to an odd number of registers, so that rows begin on all sets of a cache."""
        lanes = self.lanes(target)
        return (ceiling(self.columns, lanes) | 1) * lanes

    @property
    def block(self) -> int:
        """Rows of one block of scores."""
        return min(GRADIENT_ROWS if self.gradient else BLOCK_ROWS, self.rows)

    def packing(self, target: TargetDescription, features: int) -> Packing:
        """How one head of k or v is transposed."""
        return Packing(self.scalar, self.lanes(target), self.padded(target), self.groups * features, 1, ragged=True)

    def head_elements(self, target: TargetDescription, features: int) -> int:
        """Elements of one transposed head."""
        return self.packing(target, features).extent(features)

    def workspace(self, target: TargetDescription) -> int:
        """Transposed k; none for the gradient."""
        heads = 0 if self.gradient else self.batch * self.groups
        return aligned(heads * self.head_elements(target, self.features) * self.scalar.size)

    def scratch(self, target: TargetDescription) -> int:
        """A block of scores, and two numbers for each of its rows; for the gradient see `_GradientWriter`."""
        scores = self.block * self.padded(target)
        if not self.gradient:
            return aligned((scores + 2 * self.block) * self.scalar.size)
        turned = self.head_elements(target, self.features) + self.head_elements(target, self.values)
        return aligned((2 * scores + turned + self.columns * self.features) * self.scalar.size)

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """Transposition, then products; for the gradient products alone."""
        target = module.target
        pairs = self.rows * self.columns / (1 + self.causal)
        work = self.batch * self.heads * pairs * (self.features + self.values)
        if self.gradient:
            with phase(module, name) as w:
                _GradientWriter(self, w).write()
            return (Phase(name, self.batch * self.groups, nanoseconds(target, self.scalar, 3 * work) + 100.0),)
        names = f"{name}_transpose", f"{name}_products"
        heads = self.batch * self.groups
        moved = NANOSECONDS_PER_MOVE * heads * self.head_elements(target, self.features)
        with phase(module, names[0]) as w, w.b.loop(w.begin, w.end) as item:
            memory = w.argument(5 + (self.mask is not None))
            turn(self, w.b, w.argument(1), item, self.features, self.place_of(w.b, memory, item))
        with phase(module, names[1]) as w:
            _ForwardWriter(self, w).write()
        blocks = self.batch * self.heads * ceiling(self.rows, self.block)
        return (
            Phase(names[0], heads, moved),
            Phase(names[1], blocks, nanoseconds(target, self.scalar, 1.5 * work) + 100.0),
        )

    def place_of(self, b: Builder, memory: Value, head: Value) -> Value:
        """Where one transposed head of k lies in the workspace."""
        return b.offset(memory, head * self.head_elements(b.target, self.features), self.scalar)


def turn(problem: Attention, b: Builder, x: Value, item: Value, features: int, place: Value) -> None:
    """kt[d, column] = x[batch, column, group, d] for one key head, and zeros behind the columns"""
    p = problem
    start = item // p.groups * (p.columns * p.groups * features) + item % p.groups * features
    source = b.offset(x, start, p.scalar)
    p.packing(b.target, features).pack(b, source, b.constant(p.columns), b.constant(features), place)


class _AttentionWriter:
    """Operands, and the scores of a block of rows."""

    def __init__(self, problem: Attention, writer: PhaseWriter) -> None:
        self.problem = problem
        self.w = writer
        self.b: Builder = writer.b
        self.scalar = problem.scalar
        self.lanes = problem.lanes(self.b.target)
        self.padded = problem.padded(self.b.target)
        self.vector = Type(self.scalar, self.lanes)

    def head(self, operand: int, batch: Value, position: Value, count: int, heads: int, features: int) -> Matrix:
        """Rows of one head of an operand [batch, count, heads, features]."""
        start = batch * (count * heads * features) + position * features
        return Matrix(self.b.offset(self.w.argument(operand), start, self.scalar), heads * features)

    def rows_of(self, matrix: Matrix, first: Value) -> Matrix:
        """The same matrix from row `first` on."""
        return Matrix(self.b.offset(matrix.base, first * matrix.row, self.scalar), matrix.row, matrix.column)

    def ask(self, matrix: Matrix, rows: Value, features: int) -> None:
        """Ask for the cache lines of some rows."""
        b, line = self.b, self.b.target.machine.line_bytes // self.scalar.size
        with b.loop(0, rows) as row, b.loop(0, features, line) as feature:
            b.prefetch(matrix.base, row * matrix.row + feature, self.scalar)

    def seen(self, rows_end: Value) -> Value:
        """How many columns the rows before `rows_end` see."""
        p = self.problem
        if not p.causal:
            return self.b.constant(p.columns)
        return self.b.greatest(self.b.least(rows_end + (p.columns - p.rows), p.columns), 0)

    def columns_of(self, first: Value, inner: int) -> Callable[[Value, Value], Bounds]:
        """Bounds of scores: the rows of the block that begins at `first` times the columns that they see."""
        b = self.b
        return lambda row, end: Bounds(self.seen(first + end), b.constant(0), b.constant(inner))

    def steps_of(self, first: Value, columns: int) -> Callable[[Value, Value], Bounds]:
        """Bounds of sums over the columns that the rows of the block that begins at `first` see."""
        b = self.b
        return lambda row, end: Bounds(b.constant(columns), b.constant(0), self.seen(first + end))

    def hide(self, line: Value, visible: Value) -> None:
        """Zeros behind what one row sees, as far as the other rows of its tile see, or the columns of a tile reach."""
        b = self.b
        count = b.least(b.constant(self.problem.columns) - visible, MOST_ROWS)
        zero, behind = b.zero(self.vector), b.offset(line, visible, self.scalar)
        self.each(count, lambda index, mask: b.store(zero, behind, index, mask))

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


class _ForwardWriter(_AttentionWriter):
    """y and lse of blocks of rows."""

    def write(self) -> None:
        """for block: scores, powers, weighted sum of v"""
        b, p = self.b, self.problem
        blocks = ceiling(p.rows, p.block)
        with b.loop(self.w.begin, self.w.end) as item:
            batch, rest = item // (p.heads * blocks), item % (p.heads * blocks)
            head, first = rest // blocks, rest % blocks * p.block
            self._block(batch, head, first, b.least(p.rows - first, p.block))

    def _block(self, batch: Value, head: Value, first: Value, count: Value) -> None:
        b, p = self.b, self.problem
        masked = p.mask is not None
        group = head // (p.heads // p.groups)
        scores = Matrix(self.w.scratch, self.padded)
        tops = b.offset(self.w.scratch, p.block * self.padded, self.scalar)
        totals = b.offset(tops, p.block, self.scalar)
        q = self.rows_of(self.head(0, batch, head, p.rows, p.heads, p.features), first)
        keys = Matrix(p.place_of(b, self.w.argument(5 + masked), batch * p.groups + group), self.padded)
        y = self.rows_of(self.head(3 + masked, batch, head, p.rows, p.heads, p.values), first)
        v = self.head(2, batch, group, p.columns, p.groups, p.values)
        seen = self.columns_of(first, p.features)
        BlockProduct(p.scalar, q, keys, scores, seen, (p.block, p.columns), p.scale).write(b, count)
        with b.loop(0, count) as row:
            top, total = self._powers(batch, head, first + row, self.rows_of(scores, row).base)
            b.store(top, tops, row)
            b.store(total, totals, row)
        lse = b.offset(self.w.argument(4 + masked), (batch * p.heads + head) * p.rows + first, self.scalar)
        self._conclude(tops, totals, count, lse)
        steps = self.steps_of(first, p.values)
        BlockProduct(p.scalar, scores, v, y, steps, (p.block, p.values), factors=totals).write(b, count)

    def _conclude(self, tops: Value, totals: Value, count: Value, lse: Value) -> None:
        """lse = top + ln total, and 1 / total in its place; +inf and 1 for rows that see nothing"""
        b = self.b

        def conclude(index: Value, mask: Value) -> None:
            total = b.load(totals, index, self.vector, mask)
            nothing = b.compare("==", total, 0.0)
            sums = b.load(tops, index, self.vector, mask) + mathematics.logarithm(b, total)
            b.store(b.choose(nothing, b.constant(math.inf, self.vector), sums), lse, index, mask)
            one = b.constant(1.0, self.vector)
            b.store(one / b.choose(nothing, one, total), totals, index, mask)

        self.each(count, conclude)

    def _powers(self, batch: Value, head: Value, row: Value, line: Value) -> tuple[Value, Value]:
        """Scores of one row to powers of e; the largest score and the sum. Columns that the row does not see get 0."""
        b, masked = self.b, self.problem.mask is not None
        visible = self.seen(row + 1)
        apply = self.hidden(batch, head, row)
        top = b.variable(b.constant(-math.inf, self.vector))

        def largest(index: Value, mask: Value) -> None:
            score = b.choose(mask, apply(b.load(line, index, self.vector, mask), index, mask), -math.inf)
            if masked:
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
        self.hide(line, visible)
        return highest, b.fold(total.get(), "add")


class _GradientWriter(_AttentionWriter):
    """q', k' and v' of one key and value head per item. Operands: g, q, k, v, y, lse, mask; q', k', v'.

    In the scratch: a block of weights and one of their slopes, the head of k and of v transposed, and k'.
    """

    def __init__(self, problem: Attention, writer: PhaseWriter) -> None:
        super().__init__(problem, writer)
        self.masked = problem.mask is not None
        block = problem.block * self.padded
        turned = [problem.head_elements(self.b.target, features) for features in (problem.features, problem.values)]
        # k' may lie over k, which every block reads.
        places = [
            self.b.offset(writer.scratch, start, problem.scalar) for start in accumulate((0, block, block, *turned))
        ]
        self.weights, self.slopes, self.keys, self.turned_values = (Matrix(place, self.padded) for place in places[:4])
        self.by_k = Matrix(places[4], problem.features)

    def write(self) -> None:
        """for key head: transpose it, zero its results, then add what each block of rows gives"""
        b, p = self.b, self.problem
        repeats = p.heads // p.groups
        with b.loop(self.w.begin, self.w.end) as item:
            batch, group = item // p.groups, item % p.groups
            turn(p, b, self.w.argument(2), item, p.features, self.keys.base)
            turn(p, b, self.w.argument(3), item, p.values, self.turned_values.base)
            by_v = self.head(8 + self.masked, batch, group, p.columns, p.groups, p.values)
            self._clear(self.by_k, p.features)
            self._clear(by_v, p.values)
            with b.loop(0, repeats) as repeat, b.loop(0, p.rows, p.block) as first:
                count = b.least(p.rows - first, p.block)
                self._block(batch, group, group * repeats + repeat, first, count, by_v)
            self._copy(self.by_k, self.head(7 + self.masked, batch, group, p.columns, p.groups, p.features))

    def _copy(self, source: Matrix, target: Matrix) -> None:
        """Rows of features."""
        b = self.b
        with b.loop(0, self.problem.columns) as row:
            before, after = self.rows_of(source, row).base, self.rows_of(target, row).base

            def move(index: Value, mask: Value) -> None:
                b.store(b.load(before, index, self.vector, mask), after, index, mask)

            self.each(b.constant(self.problem.features), move)

    def _clear(self, matrix: Matrix, features: int) -> None:
        b, zero = self.b, self.b.zero(self.vector)
        with b.loop(0, self.problem.columns) as row:
            line = self.rows_of(matrix, row).base
            self.each(b.constant(features), lambda index, mask: b.store(zero, line, index, mask))

    def _block(self, batch: Value, group: Value, head: Value, first: Value, count: Value, by_v: Matrix) -> None:
        b, p = self.b, self.problem
        g = self.rows_of(self.head(0, batch, head, p.rows, p.heads, p.values), first)
        q = self.rows_of(self.head(1, batch, head, p.rows, p.heads, p.features), first)
        y = self.rows_of(self.head(4, batch, head, p.rows, p.heads, p.values), first)
        by_q = self.rows_of(self.head(6 + self.masked, batch, head, p.rows, p.heads, p.features), first)
        # Read behind the products only.
        self.ask(y, count, p.values)
        shape = (p.block, p.columns)
        seen = self.columns_of(first, p.features)
        BlockProduct(p.scalar, q, self.keys, self.weights, seen, shape, p.scale).write(b, count)
        seen = self.columns_of(first, p.values)
        BlockProduct(p.scalar, g, self.turned_values, self.slopes, seen, shape).write(b, count)
        with b.loop(0, count) as row:
            self._differentiate(batch, head, first + row, row, self._dot(g, y, row))
        k = self.head(2, batch, group, p.columns, p.groups, p.features)
        turned_slopes = Matrix(self.slopes.base, 1, self.padded)
        turned_weights = Matrix(self.weights.base, 1, self.padded)
        columns = self.seen(first + count)
        shape = p.columns, p.features
        BlockProduct(
            p.scalar, turned_slopes, q, self.by_k, self._rows_that_see(first, count, p.features), shape, added=True
        ).write(b, columns)
        shape = p.columns, p.values
        BlockProduct(
            p.scalar, turned_weights, g, by_v, self._rows_that_see(first, count, p.values), shape, added=True
        ).write(b, columns)
        # Last, because q' may lie over q.
        steps = self.steps_of(first, p.features)
        BlockProduct(p.scalar, self.slopes, k, by_q, steps, (p.block, p.features)).write(b, count)

    def _rows_that_see(self, first: Value, count: Value, features: int) -> Callable[[Value, Value], Bounds]:
        """Bounds of sums over the `count` rows from `first` on that see the first of some columns."""
        b, p = self.b, self.problem

        def bounds(column: Value, end: Value) -> Bounds:
            hidden = b.greatest(column - (p.columns - p.rows) - first, 0) if p.causal else b.constant(0)
            return Bounds(b.constant(features), hidden, count)

        return bounds

    def _dot(self, g: Matrix, y: Matrix, row: Value) -> Value:
        """sum_e g[row, e] * y[row, e]"""
        b = self.b
        left, right = self.rows_of(g, row).base, self.rows_of(y, row).base
        total = b.variable(b.zero(self.vector))

        def add(index: Value, mask: Value) -> None:
            product = b.load(left, index, self.vector, mask) * b.load(right, index, self.vector, mask)
            total.set(total.get() + product)

        self.each(b.constant(self.problem.values), add)
        return b.fold(total.get(), "add")

    def _differentiate(self, batch: Value, head: Value, row: Value, line: Value, dot: Value) -> None:
        """p = e^(s - lse) and scale * s' = scale * p * (t - dot) of one row; 0 where a column is not seen"""
        b, p = self.b, self.problem
        visible = self.seen(row + 1)
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
        self.hide(weights, visible)
        self.hide(slopes, visible)


def _wide_and_filled(attrs: object, inputs: Specs, outputs: Specs) -> str:
    """Refuse narrow floats, and operands of which there is nothing."""
    if any(spec.elements == 0 for spec in (*inputs, *outputs)):
        return "an empty operand"
    return only(F64, F32)(attrs, [spec for spec in inputs if spec.dtype.name != BOOL.name], outputs)


def _attention(gradient: bool) -> Generate:
    """Operands q, k, v, mask; or g, q, k, v, y, lse, mask."""
    start, mask = (1, 6) if gradient else (0, 3)

    def generate(attrs: AttentionAttrs, inputs: Views, outputs: Views) -> Generator:
        q, k, v = inputs[start : start + 3]
        kind, steps = (inputs[mask].scalar, inputs[mask].access(4).strides) if len(inputs) > mask else (None, ())
        return Attention(
            q.scalar, q.shape[0], q.shape[1], k.shape[1], q.shape[2], k.shape[2], q.shape[3], v.shape[3], attrs.scale,
            attrs.causal, kind, steps, gradient,
        )  # fmt: skip

    return generate


ROWS: Rows = {
    ATTENTION: in_f32(KernelRow(_attention(gradient=False), _wide_and_filled)),
    ATTENTION_GRADIENT: in_f32(KernelRow(_attention(gradient=True), _wide_and_filled)),
}
