"""The loops of attention: scores of a block of rows, their powers, and what these weigh."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import accumulate

from nnc.codegen.frame.block_product import BlockProduct, Matrix
from nnc.codegen.frame.kernel import PhaseWriter, ceiling
from nnc.codegen.ir import mathematics
from nnc.codegen.ir.builder import BOOL, Type, Value
from nnc.codegen.kernels.sequence.attention_sizes import (
    COLUMNS_TOGETHER,
    AttentionSizes,
    AttentionWriter,
    ScoreRows,
    sums_of_each,
    turn,
)


class AttentionForwardWriter(AttentionWriter):
    """y and lse of blocks of rows. In the scratch: transposed k, a block of scores, the largest ones and their sums."""

    def __init__(self, problem: AttentionSizes, writer: PhaseWriter) -> None:
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
            rows = ScoreRows(self, batch, head, first, row, count)
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

    def _powers(self, rows: ScoreRows, scores: Matrix) -> tuple[list[Value], list[Value]]:
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
