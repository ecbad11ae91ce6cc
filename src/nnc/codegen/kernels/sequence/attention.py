"""Attention and its gradient without the matrix of scores in memory; formulas as in `nnc/ops/sequence/attention.py`.

Forward, an item is a block of rows of one head: the block's scores lie in the worker's scratch, over all columns that
are seen; there they become powers, which weigh v, and each row of y is divided by the sum of its powers. Gradient, an
item is one key and value head: its query heads and their blocks of rows follow each other, so that k' and v' are summed
in one fixed order. With `causal` the rows of a register tile are multiplied with what the last of them sees.

Before, k (and for the gradient v) of the head is transposed into the scratch: kt[d, column], rows padded with zeros.
Forward, the blocks of a head that follow each other share it. Few rows, such as the one of a generated token, are
multiplied with k as it lies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate

from nnc.classes import dataclass
from nnc.codegen.frame.access import Shape
from nnc.codegen.frame.block_product import MOST_ROWS, BlockProduct, Bounds, Matrix
from nnc.codegen.frame.kernel import Generator, Phase, PhaseWriter, WithSizes, aligned, ceiling, phase
from nnc.codegen.frame.packing import Packing
from nnc.codegen.frame.row import (
    Generate,
    KernelRow,
    Rows,
    Specs,
    Views,
    only,
)
from nnc.codegen.frame.tile import nanoseconds
from nnc.codegen.frame.widened import in_f32
from nnc.codegen.ir import mathematics
from nnc.codegen.ir.builder import BOOL, F32, F64, Builder, Module, Scalar, Type, Value
from nnc.codegen.ir.target import TargetDescription
from nnc.core.values.derived import Read
from nnc.ops.sequence.attention import ATTENTION, ATTENTION_GRADIENT, AttentionAttrs

BLOCK_ROWS, GRADIENT_ROWS = 32, 64
NANOSECONDS_PER_MOVE = 0.15
# Transposing a key takes as long as some 26 rows take longer without (0.5 ns an element; 70 cycles instead of 32 for 16
# keys of 64 features).
FEW_ROWS = 16
# Rows whose scores become powers side by side.
ROWS_TOGETHER = 4
# Registers of columns of a mask that are looked at together.
COLUMNS_TOGETHER = 4


@dataclass(frozen=True, slots=True)
class Attention(WithSizes):
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

    def opened(self, read: Read, target: TargetDescription) -> Attention:
        """The batch, rows, unless it is the one of a new token, columns and the steps of a mask are read."""
        steps = tuple([step if step in (0, 1) else read(step) for step in self.mask_strides])
        rows = self.rows if self.rows == 1 else read(self.rows)
        return replace(self, batch=read(self.batch), rows=rows, columns=read(self.columns), mask_strides=steps)

    def lanes(self, target: TargetDescription) -> int:
        """Elements of a register."""
        return target.lanes(8 * self.scalar.size)

    def padded(self, target: TargetDescription) -> int:
        """Columns rounded up to an odd number of registers, so that rows begin on all sets of a cache."""
        lanes = self.lanes(target)
        return (ceiling(self.columns, lanes) // 2 * 2 + 1) * lanes

    @property
    def transposed(self) -> bool:
        """Whether enough rows are multiplied with a key."""
        return self.gradient or self.rows * (self.heads // self.groups) > FEW_ROWS

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
        """None: every worker transposes for itself."""
        return 0

    def scratch(self, target: TargetDescription) -> int:
        """Transposed k, a block of scores, two numbers for each of its rows; for the gradient see `_GradientWriter`."""
        scores = self.block * self.padded(target)
        if not self.gradient:
            return aligned((self.key_elements(target) + scores + 2 * self.block) * self.scalar.size)
        turned = self.head_elements(target, self.features) + self.head_elements(target, self.values)
        return aligned((2 * scores + turned + self.columns * self.features) * self.scalar.size)

    def key_elements(self, target: TargetDescription) -> int:
        """Elements of transposed k of one head where there is need of it."""
        return self.head_elements(target, self.features) if self.transposed else 0

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """One phase; an item is a block of rows of a head, or for the gradient a key head."""
        target = module.target
        pairs = self.rows * self.columns / (1 + self.causal)
        work = self.batch * self.heads * pairs * (self.features + self.values)
        with phase(module, name) as w:
            (_GradientWriter if self.gradient else _ForwardWriter)(self, w).write()
        if self.gradient:
            return (Phase(name, self.batch * self.groups, nanoseconds(target, self.scalar, 3 * work) + 100.0),)
        blocks = self.batch * self.heads * ceiling(self.rows, self.block)
        moved = NANOSECONDS_PER_MOVE * self.batch * self.groups * self.key_elements(target)
        return (Phase(name, blocks, moved + nanoseconds(target, self.scalar, 1.5 * work) + 100.0),)


def turn(problem: Attention, b: Builder, x: Value, item: Value, features: int, place: Value) -> None:
    """kt[d, column] = x[batch, column, group, d] for one key head, and zeros behind the columns"""
    p = problem
    start = item // p.groups * (p.columns * p.groups * features) + item % p.groups * features
    source = b.offset(x, start, p.scalar)
    p.packing(b.target, features).pack(b, source, b.constant(p.columns), b.constant(features), place)


def sums_of_each(b: Builder, vectors: Sequence[Value]) -> Value:
    """out[i] = sum of the lanes of vectors[i], as many as they have lanes: halves of two vectors at once"""
    lanes = size = len(vectors)
    while len(vectors) > 1:
        size //= 2
        low = [lane for lane in range(2 * lanes) if lane // size % 2 == 0]
        high = [lane + size for lane in low]
        pairs = zip(vectors[::2], vectors[1::2], strict=True)
        vectors = [b.shuffle(left, right, low) + b.shuffle(left, right, high) for left, right in pairs]
    return vectors[0]


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
        # Columns that a mask lets no row of the block see begin here, where that was looked for.
        self.limit: Value | None = None

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
        if self.limit is not None:
            return self.limit
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

    def each(self, count: Value, body: Callable[[Value, Value], None]) -> None:
        """body(index, mask) for the vectors of `count` elements"""
        with self.b.loop(0, count, self.lanes) as index:
            body(index, self.b.mask(count - index, self.lanes))

    def rows_together(self) -> int:
        """How many rows of scores are computed side by side."""
        return self.b.target.side_by_side(ROWS_TOGETHER)


class _ScoreRows:
    """Some rows of a block of scores side by side: the instructions of each fill the waiting times of the others.

    Values are the rows one behind the other. Of the last rows of a block the very last may be there several times.
    """

    def __init__(
        self, writer: _AttentionWriter, batch: Value, head: Value, first: Value, row: Value, count: Value
    ) -> None:
        b, p = writer.b, writer.problem
        self.writer, self.b, self.lanes = writer, b, writer.lanes
        self.places = [b.least(row + index, count - 1) for index in range(writer.rows_together())]
        self.seen = [writer.seen(first + place + 1) for place in self.places]
        # Zeros behind what a row sees, as far as the other rows of its register tile see, or the columns of one reach.
        self.end = b.least(self.seen[-1] + MOST_ROWS, p.columns)
        self._masks = [self._mask(batch, head, first + place) for place in self.places]

    def each(self, body: Callable[[Value, Value | None], None]) -> None:
        """body(index, mask) for vectors of columns: what all rows see without a mask, and then the rest"""
        b, lanes = self.b, self.lanes
        whole = self.seen[0] // lanes * lanes
        with b.loop(0, whole, lanes) as index:
            body(index, None)
        with b.loop(whole, self.end, lanes) as index:
            body(index, b.join([b.mask(seen - index, lanes) for seen in self.seen]))

    def load(self, matrix: Matrix, index: Value) -> Value:
        """A vector of each row."""
        lines = [self.writer.rows_of(matrix, place).base for place in self.places]
        return self.b.join([self.b.load(line, index, self.writer.vector) for line in lines])

    def store(self, value: Value, matrix: Matrix, index: Value) -> None:
        """Write what `load` reads."""
        for place, part in zip(self.places, self._parts(value), strict=True):
            self.b.store(part, self.writer.rows_of(matrix, place).base, index)

    def splat(self, values: Sequence[Value]) -> Value:
        """A number for each row."""
        return self.b.join([self.b.splat(value, self.lanes) for value in values])

    def fold(self, value: Value, combine: str) -> list[Value]:
        """A number of each row."""
        return [self.b.fold(part, combine) for part in self._parts(value)]

    def masked(self, score: Value, index: Value, part: Value | None) -> Value:
        """The scores with the operand mask applied; those outside `part` are not looked at."""
        if self.writer.problem.mask is None:
            return score
        inside = [None] * len(self.places) if part is None else self._parts(part)
        parts = zip(self._parts(score), self._masks, inside, strict=True)
        return self.b.join([mask(score, index, vector) for score, mask, vector in parts])

    def _parts(self, value: Value) -> list[Value]:
        starts = range(0, value.type.lanes, self.lanes)
        return [self.b.shuffle(value, value, range(start, start + self.lanes)) for start in starts]

    def _mask(self, batch: Value, head: Value, row: Value) -> Callable[[Value, Value, Value | None], Value]:
        """score(s, column, mask) of one row"""
        b, p = self.b, self.writer.problem
        if p.mask is None:
            return lambda score, column, mask: score
        kind, steps = p.mask, p.mask_strides
        start = batch * steps[0] + head * steps[1] + row * steps[2]
        place = b.offset(self.writer.w.argument(6 if p.gradient else 3), start, kind)

        def apply(score: Value, column: Value, mask: Value | None) -> Value:
            if steps[3] == 1:
                read = b.load(place, column, Type(kind, self.lanes), mask)
            else:
                read = b.splat(b.load(place, 0, Type(kind)), self.lanes)
            return b.choose(read, score, -math.inf) if kind == BOOL else score + read

        return apply


class _ForwardWriter(_AttentionWriter):
    """y and lse of blocks of rows. In the scratch: transposed k, a block of scores, the largest ones and their sums."""

    def __init__(self, problem: Attention, writer: PhaseWriter) -> None:
        super().__init__(problem, writer)
        sizes = problem.key_elements(self.b.target), problem.block * self.padded, problem.block
        keys, scores, self.tops, self.totals = (
            self.b.offset(writer.scratch, start, problem.scalar) for start in accumulate((0, *sizes))
        )
        self.keys, self.scores = Matrix(keys, self.padded), Matrix(scores, self.padded)

    def write(self) -> None:
        """for block: k if it is another head's, scores, powers, weighted sum of v"""
        b, p = self.b, self.problem
        blocks = ceiling(p.rows, p.block)
        sharing = p.heads // p.groups * blocks
        with b.loop(self.w.begin, self.w.end) as item:
            batch, rest = item // (p.heads * blocks), item % (p.heads * blocks)
            head, first = rest // blocks, rest % blocks * p.block
            if p.transposed:
                with b.when(b.either(b.compare("==", item, self.w.begin), b.compare("==", item % sharing, 0))):
                    turn(p, b, self.w.argument(1), item // sharing, p.features, self.keys.base)
            self._block(batch, head, first, b.least(p.rows - first, p.block))

    def _block(self, batch: Value, head: Value, first: Value, count: Value) -> None:
        b, p = self.b, self.problem
        masked = p.mask is not None
        group = head // (p.heads // p.groups)
        scores, tops, totals = self.scores, self.tops, self.totals
        q = self.rows_of(self.head(0, batch, head, p.rows, p.heads, p.features), first)
        y = self.rows_of(self.head(3 + masked, batch, head, p.rows, p.heads, p.values), first)
        v = self.head(2, batch, group, p.columns, p.groups, p.values)
        if p.mask == BOOL and p.mask_strides[3] == 1 and not p.causal:
            self.limit = self._limit(batch, head, first, count)
        if p.transposed:
            seen = self.columns_of(first, p.features)
            BlockProduct(p.scalar, q, self.keys, scores, seen, (p.block, p.columns), p.scale).write(b, count)
        else:
            self._dots(q, self.head(1, batch, group, p.columns, p.groups, p.features), scores, first, count)
        with b.loop(0, count, self.rows_together()) as row:
            rows = _ScoreRows(self, batch, head, first, row, count)
            for place, top, total in zip(rows.places, *self._powers(rows, scores), strict=True):
                b.store(top, tops, place)
                b.store(total, totals, place)
        lse = b.offset(self.w.argument(4 + masked), (batch * p.heads + head) * p.rows + first, self.scalar)
        self._conclude(tops, totals, count, lse)
        steps = self.steps_of(first, p.values)
        BlockProduct(p.scalar, scores, v, y, steps, (p.block, p.values), factors=totals).write(b, count)

    def _limit(self, batch: Value, head: Value, first: Value, count: Value) -> Value:
        """Behind the last of a few columns each of which some row of the block sees."""
        b, p, steps, few = self.b, self.problem, self.problem.mask_strides, self.lanes * COLUMNS_TOGETHER
        last = b.variable(b.wrap(0))
        with b.loop(0, count) as row:
            start = batch * steps[0] + head * steps[1] + (first + row) * steps[2]
            place = b.offset(self.w.argument(3), start, BOOL)
            with b.loop(0, p.columns, few) as column:
                seen = b.any_lane(b.load(place, column, Type(BOOL, few), b.mask(p.columns - column, few)))
                last.set(b.choose(seen, b.greatest(last.get(), column + few), last.get()))
        return b.least(last.get(), p.columns)

    def _dots(self, q: Matrix, k: Matrix, scores: Matrix, first: Value, count: Value) -> None:
        """scores[row, column] = scale * sum_d q[row, d] * k[column, d] for a register of columns at once"""
        b, p, lanes = self.b, self.problem, self.lanes
        seen = self.seen(first + count)
        whole = seen // lanes * lanes

        def dots(begin: Value, end: Value, place: Callable[[Value], Value]) -> None:
            with b.loop(begin, end, lanes) as column, b.loop(0, count) as row:
                left = self.rows_of(q, row).base
                keys = [self.rows_of(k, place(column + index)).base for index in range(lanes)]
                sums = [b.variable(b.zero(self.vector)) for _ in keys]

                def add(index: Value, mask: Value) -> None:
                    vector = b.load(left, index, self.vector, mask)
                    for key, total in zip(keys, sums, strict=True):
                        total.set(b.fma(vector, b.load(key, index, self.vector, mask), total.get()))

                self.each(b.constant(p.features), add)
                result = sums_of_each(b, [total.get() for total in sums]) * p.scale
                b.store(result, self.rows_of(scores, row).base, column)

        dots(b.constant(0), whole, lambda key: key)
        # Behind the last key it stands again.
        dots(whole, seen, lambda key: b.least(key, p.columns - 1))

    def _conclude(self, tops: Value, totals: Value, count: Value, lse: Value) -> None:
        """lse = top + ln total, and 1 / total in its place; +inf and 1 for rows that see nothing"""
        b = self.b

        def conclude(index: Value, mask: Value) -> None:
            total = b.load(totals, index, self.vector, mask)
            nothing = b.compare("==", total, 0.0)
            sums = b.load(tops, index, self.vector, mask) + mathematics.logarithm(b, total)
            b.store(b.choose(nothing, b.constant(math.inf, self.vector), sums), lse, index, mask)
            unit = b.constant(1.0, self.vector)
            b.store(unit / b.choose(nothing, unit, total), totals, index, mask)

        self.each(count, conclude)

    def _powers(self, rows: _ScoreRows, scores: Matrix) -> tuple[list[Value], list[Value]]:
        """Scores to powers of e; the largest score of each row and the sum. Columns that a row does not see get 0."""
        b, masked = self.b, self.problem.mask is not None
        kind = Type(self.scalar, self.lanes * len(rows.places))
        top = b.variable(b.constant(-math.inf, kind))

        def largest(index: Value, mask: Value | None) -> None:
            score = rows.masked(rows.load(scores, index), index, mask)
            if masked:
                rows.store(score, scores, index)
            # A NaN that is missed here is met again in the power.
            top.set(b.larger(top.get(), score if mask is None else b.choose(mask, score, -math.inf)))

        rows.each(largest)
        tops = rows.fold(top.get(), "larger")
        shift = rows.splat(
            [b.choose(b.compare("==", highest, -math.inf), b.zero(highest.type), highest) for highest in tops]
        )
        total = b.variable(b.zero(kind))

        def power(index: Value, mask: Value | None) -> None:
            value = mathematics.decay(b, rows.load(scores, index) - shift)
            value = value if mask is None else b.choose(mask, value, 0.0)
            total.set(total.get() + value)
            rows.store(value, scores, index)

        rows.each(power)
        return tops, rows.fold(total.get(), "add")


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
        with b.loop(0, count, self.rows_together()) as row:
            rows = _ScoreRows(self, batch, head, first, row, count)
            start = (batch * p.heads + head) * p.rows + first
            lse = b.offset(self.w.argument(5), start, self.scalar)
            self._differentiate(rows, lse, [self._dot(g, y, place) for place in rows.places])
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

    def _differentiate(self, rows: _ScoreRows, lse: Value, dots: Sequence[Value]) -> None:
        """p = e^(s - lse) and scale * s' = scale * p * (t - dot) of some rows; 0 where a column is not seen"""
        b, p = self.b, self.problem
        shift = rows.splat([b.load(lse, place, Type(self.scalar)) for place in rows.places])
        subtracted = rows.splat(dots)

        def write(index: Value, mask: Value | None) -> None:
            score = rows.masked(rows.load(self.weights, index), index, mask)
            weight = mathematics.decay(b, score - shift)
            slope = weight * (rows.load(self.slopes, index) - subtracted) * p.scale
            if mask is not None:
                weight, slope = b.choose(mask, weight, 0.0), b.choose(mask, slope, 0.0)
            rows.store(weight, self.weights, index)
            rows.store(slope, self.slopes, index)

        rows.each(write)


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
