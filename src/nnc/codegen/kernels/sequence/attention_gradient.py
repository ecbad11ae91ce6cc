"""The loops of the gradient of attention: of one key head, with all query heads that read it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate

from nnc.codegen.frame.block_product import BlockProduct, Bounds, Matrix
from nnc.codegen.frame.kernel import PhaseWriter
from nnc.codegen.ir import mathematics
from nnc.codegen.ir.builder import Type, Value
from nnc.codegen.kernels.sequence.attention_sizes import (
    AttentionSizes,
    AttentionWriter,
    ScoreRows,
    turn,
)


class AttentionGradientWriter(AttentionWriter):
    """q', k' and v' of one key and value head per item. Operands: g, q, k, v, y, lse, mask; q', k', v'.

    In the scratch: a block of weights and one of their slopes, the head of k and of v transposed, and k'.
    """

    def __init__(self, problem: AttentionSizes, writer: PhaseWriter) -> None:
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
            rows = ScoreRows(self, batch, head, first, row, count)
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

    def _differentiate(self, rows: ScoreRows, lse: Value, dots: Sequence[Value]) -> None:
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
