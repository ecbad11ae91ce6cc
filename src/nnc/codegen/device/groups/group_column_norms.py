"""Norms with statistics of each column by groups of threads: batch norm's training step, and its data gradient.

Formulas and phases are those of `kernels.normalization.normalization_columns`: parts of the rows, their combination,
results. The threads of a column share its rows, and what they have is combined in the memory of the group.
"""

from __future__ import annotations

from collections.abc import Callable

from nnc.classes import dataclass
from nnc.codegen.device.groups.columns import THREADS, GroupColumns, columns_of
from nnc.codegen.device.groups.shared_memory import barrier
from nnc.codegen.frame.kernel import PhaseWriter, ceiling, phase
from nnc.codegen.frame.sums import is_long
from nnc.codegen.ir import mathematics
from nnc.codegen.ir.builder import Module, Type, Value
from nnc.codegen.ir.expression import computed
from nnc.codegen.ir.native_kernel import Phase
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.kernels.normalization.normalization_columns import ColumnNormalization
from nnc.core.values.derived import known

# Rows of a thread that are read before one is computed, and those of an item of the results.
TOGETHER, RESULT_ROWS = 4, 8
LEAST_ROWS = 64
NANOSECONDS = 0.5


@dataclass(frozen=True, slots=True)
class GroupColumnNorm:
    """The kernel of a norm in its parts."""

    norm: ColumnNormalization

    threads, paired = THREADS, False

    @classmethod
    def of(cls, norm: ColumnNormalization, target: TargetDescription) -> GroupColumnNorm | None:
        """The kernel; None of few rows, and where these are read."""
        if target.threads < 2 or not known(norm.rows) or norm.rows < LEAST_ROWS or not norm.columns:
            return None
        return cls(norm.on(target))

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """Parts, their combination, results; an item is a block of columns of some rows, or of all parts."""
        norm, columns = self.norm, columns_of(self.norm.columns)
        blocks, cost = ceiling(norm.columns, columns), NANOSECONDS * norm.rows * norm.columns
        lines = ceiling(norm.rows, THREADS // columns * RESULT_ROWS)
        steps: tuple[tuple[str, int, Callable[[_BlockOfColumns, Value], None]], ...] = (
            ("parts", norm.parts * blocks, _BlockOfColumns.part),
            ("whole", blocks, _BlockOfColumns.whole),
            ("results", lines * blocks, _BlockOfColumns.results),
        )
        for step, _, write in steps:
            with phase(module, f"{name}_{step}") as w:
                writer = _BlockOfColumns(w, norm, columns)
                with w.b.loop(w.begin, w.end) as item:
                    write(writer, writer.at(item, blocks))
                    barrier(w.b)
        return tuple(Phase(f"{name}_{step}", items, cost) for step, items, _ in steps)


class _BlockOfColumns:
    """Writes what a group does with a block of columns; a column that is none reads another one's again."""

    def __init__(self, w: PhaseWriter, norm: ColumnNormalization, columns: int) -> None:
        self.w, self.b, self.norm = w, w.b, norm
        self.stored, self.work = Type(norm.scalar), Type(computed(norm.scalar))
        self.group = GroupColumns.of(self.b, columns, self.work.scalar)
        self.memory = w.argument(5 + norm.scale + 2 * norm.sums if norm.gradient else 10)
        self.column = self.b.constant(0)
        self.inside: Value | None = None

    def at(self, item: Value, blocks: int) -> Value:
        """Be at the block of an item; its part."""
        b, columns = self.b, self.norm.columns
        part, block = b.divided(item, blocks, blocks * self.norm.rows)
        column = block * self.group.columns + self.group.column
        self.inside = b.compare("<", column, columns) if columns % self.group.columns else None
        self.column = column if self.inside is None else b.least(column, columns - 1)
        return part

    # -- memory

    def _element(self, operand: int, row: Value | int) -> Value:
        """Of an operand like x, or of one number a column in its type."""
        index = row * self.norm.columns + self.column
        return self.b.cast(self.b.load(self.w.argument(operand), index, self.stored), self.work.scalar)

    def _statistic(self, operand: int) -> Value:
        return self.b.load(self.w.argument(operand), self.column, self.work)

    def _place(self, part: Value | int, which: int) -> Value:
        """Where number `which` of a part is."""
        return (self.b.wrap(part) * 2 + which) * self.norm.columns + self.column

    def _of_part(self, part: Value | int, which: int) -> Value:
        return self.b.load(self.memory, self._place(part, which), self.work)

    def _save(self, pairs: list[tuple[Value, Value, Value]]) -> None:
        """pointer[index] = value, by the first thread of each column."""
        b = self.b
        with b.when(b.all_of([b.compare("==", self.group.row, 0), self.inside])):
            for value, pointer, index in pairs:
                b.store(value, pointer, index)

    # -- sums over rows

    def _sums(
        self, low: Value, high: Value, count: int, terms: Callable[[Value], list[Value]], most: int
    ) -> list[Value]:
        """Of `count` terms of each row, for all threads of the column."""
        flushed = is_long(self.work, most // (self.group.rows * TOGETHER))
        empty = self.b.zero(self.work)
        sums = self.group.combined((low, high), empty, count, terms, "add", together=TOGETHER, flushed=flushed)
        return [self.group.everywhere(mine, "add") for mine in sums]

    def part(self, part: Value) -> None:
        """The two numbers of a part: mean and sum of squared deviations; sum g and sum g x^."""
        b, norm = self.b, self.norm
        low = part * norm.length
        high = b.least(low + norm.length, norm.rows)
        if norm.gradient:
            mean, inverse = self._statistic(2), self._statistic(3)

            def terms(row: Value) -> list[Value]:
                g, x = self._element(0, row), self._element(1, row)
                return [g, g * ((x - mean) * inverse)]

            numbers = self._sums(low, high, 2, terms, norm.length)
        else:
            (total,) = self._sums(low, high, 1, lambda row: [self._element(0, row)], norm.length)
            own = total / b.cast(high - low, self.work.scalar)

            def squares(row: Value) -> list[Value]:
                deviation = self._element(0, row) - own
                return [deviation * deviation]

            numbers = [own, *self._sums(low, high, 1, squares, norm.length)]
        self._save([(number, self.memory, self._place(part, which)) for which, number in enumerate(numbers)])

    # -- whole columns

    def whole(self, _: Value) -> None:
        """Statistics of whole columns; the gradient's two means go behind the parts."""
        if self.norm.gradient:
            self._whole_gradient()
        else:
            self._whole_step()

    def _over_parts(self, count: int, terms: Callable[[Value], list[Value]]) -> list[Value]:
        return self._sums(self.b.constant(0), self.b.constant(self.norm.parts), count, terms, self.norm.parts)

    def _whole_gradient(self) -> None:
        norm, saved = self.norm, []
        totals = self._over_parts(2, lambda part: [self._of_part(part, which) for which in range(2)])
        for which, total in enumerate(totals):
            saved.append((total / norm.rows, self.memory, self._place(norm.parts, which)))
            if norm.sums:
                result = self.b.cast(total, norm.scalar)
                saved.append((result, self.w.argument(6 + norm.scale - which), self.column))
        self._save(saved)

    def _rows_of(self, part: Value) -> Value:
        norm = self.norm
        count = self.b.least(norm.rows - part * norm.length, norm.length)
        return self.b.cast(count, self.work.scalar)

    def _whole_step(self) -> None:
        """m = sum n_p m_p / n; sum of squares = sum (s_p + n_p (m_p - m)²)"""
        b, norm = self.b, self.norm
        (mean,) = self._over_parts(1, lambda part: [self._rows_of(part) / norm.rows * self._of_part(part, 0)])

        def squares(part: Value) -> list[Value]:
            away = self._of_part(part, 0) - mean
            return [self._of_part(part, 1) + self._rows_of(part) * (away * away)]

        (total,) = self._over_parts(1, squares)
        variance = total / norm.rows
        inverse = mathematics.reciprocal_square_root(b, variance + norm.epsilon)
        saved = [
            (self._statistic(place) * norm.momentum + fresh * (1.0 - norm.momentum), self.w.argument(place + 3))
            for place, fresh in ((3, mean), (4, variance))
        ]
        saved += [(mean, self.w.argument(8)), (inverse, self.w.argument(9))]
        self._save([(value, pointer, self.column) for value, pointer in saved])

    # -- results

    def results(self, line: Value) -> None:
        """y of some rows: what x holds is read before y, which may lie in its place."""
        b, norm, group = self.b, self.norm, self.group
        rule = self._gradient_rule() if norm.gradient else self._forward_rule()
        y, first = self.w.argument(4 + norm.scale if norm.gradient else 5), line * (group.rows * RESULT_ROWS)
        rows = [first + group.row + number * group.rows for number in range(RESULT_ROWS)]
        ragged = norm.rows % (group.rows * RESULT_ROWS) != 0
        values = [rule(b.least(row, norm.rows - 1) if ragged else row) for row in rows]
        for row, value in zip(rows, values, strict=True):
            with b.when(b.all_of([b.compare("<", row, norm.rows) if ragged else None, self.inside])):
                b.store(b.cast(value, norm.scalar), y, row * norm.columns + self.column)

    def _forward_rule(self) -> Callable[[Value], Value]:
        scale, bias = self._element(1, 0), self._element(2, 0)
        mean, factor = self._statistic(8), self._statistic(9) * scale
        return lambda row: self.b.fma(self._element(0, row) - mean, factor, bias)

    def _gradient_rule(self) -> Callable[[Value], Value]:
        """y = r · scale · (g - mean g - x^ · mean (g x^))"""
        mean, inverse = self._statistic(2), self._statistic(3)
        plain, product = (self._of_part(self.norm.parts, which) for which in range(2))
        factor = inverse * self._element(4, 0) if self.norm.scale else inverse

        def rule(row: Value) -> Value:
            g, x = self._element(0, row), self._element(1, row)
            return (g - plain - (x - mean) * inverse * product) * factor

        return rule
