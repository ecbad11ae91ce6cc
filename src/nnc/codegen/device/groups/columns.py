"""Columns side by side, each with as many threads of a group as share its rows: sums over rows, and their folds.

thread t of 256     has, of column t mod columns, the rows t // columns, and so many on, and so on
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nnc.classes import dataclass
from nnc.codegen.device.groups.shared_memory import SharedArray, barrier, thread_of
from nnc.codegen.frame.sums import FlushedSums, in_runs
from nnc.codegen.ir.builder import Builder, LocalVariable, Scalar, Value

THREADS = 256
MOST_COLUMNS = 32

# The values of one row, for each sum one.
Row = Callable[[Value], Sequence[Value]]


def columns_of(count: int) -> int:
    """Columns of a group: a power of two, so many that neighbouring threads read what lies side by side."""
    return min(1 << (count - 1).bit_length(), MOST_COLUMNS)


@dataclass(frozen=True, slots=True)
class GroupColumns:
    """The threads of a group over `columns`, and memory in which those of a column combine what they have."""

    b: Builder
    columns: int
    thread: Value
    column: Value
    row: Value
    near: SharedArray
    threads: int

    @classmethod
    def of(cls, b: Builder, columns: int, held: Scalar, threads: int = THREADS) -> GroupColumns:
        """Those of a function that `b` writes."""
        thread = thread_of(b)
        near = SharedArray.reserve(b, "sums", held, threads)
        return cls(b, columns, thread, thread % columns, thread // columns, near, threads)

    @property
    def rows(self) -> int:
        """Threads of a column."""
        return self.threads // self.columns

    def combined(
        self, bounds: tuple[Value, Value], empty: Value, count: int, row: Row, combine: str, *, together: int,
        flushed: bool,
    ) -> list[Value]:  # fmt: skip
        """What this thread has of rows [low, high): `count` values that `row` gives, combined over its rows.

        Values of `together` rows are asked for before they are combined. There is a row.
        """
        b, (low, high), step = self.b, bounds, self.rows * together
        sums = [FlushedSums.start(b, empty, together, flushed=flushed) for _ in range(count)]
        whole = low + (high - low) // step * step
        with in_runs(b, low, whole, step, sums) as first:
            lines = [row(first + (self.row + number * self.rows)) for number in range(together)]
            for number, values in enumerate(lines):
                for total, value in zip(sums, values, strict=True):
                    _combine(b, total.sums[number], value, combine)
        with b.loop(whole, high, self.rows) as first:
            line = first + self.row
            inside = b.compare("<", line, high)
            for total, value in zip(sums, row(b.choose(inside, line, low)), strict=True):
                _combine(b, total.sums[0], b.choose(inside, value, empty), combine)
        for total in sums:
            total.flush()
        return [self._one(total, combine) for total in sums]

    def _one(self, sums: FlushedSums, combine: str) -> Value:
        totals = [slot.get() for slot in sums.totals]
        while len(totals) > 1:
            half = len(totals) // 2
            totals = [self.b.combine(combine, *pair) for pair in zip(totals[:half], totals[half:], strict=True)]
        return totals[0]

    def folded(self, mine: Value, combine: str) -> Value:
        """What all threads of a column have, in halves: for the first of them, and in `near` at the column."""
        b, near = self.b, self.near
        total = b.cast(mine, near.scalar)
        near.store(total, self.thread)
        barrier(b)
        held, rows = b.variable(total), self.rows // 2
        while rows:
            with b.when(b.compare("<", self.row, rows)):
                held.set(b.combine(combine, held.get(), near.load(self.thread + rows * self.columns)))
                near.store(held.get(), self.thread)
            barrier(b)
            rows //= 2
        return held.get()

    def everywhere(self, mine: Value, combine: str) -> Value:
        """The same for all threads of the column."""
        self.folded(mine, combine)
        total = self.near.load(self.column)
        barrier(self.b)
        return total


def _combine(b: Builder, slot: LocalVariable, value: Value, combine: str) -> None:
    slot.set(b.combine(combine, slot.get(), value))
