"""Softmax and norms of rows by threads that hold a row in registers: it is read once.

    softmax       y[c] = e^(x[c] - m) / s          log_softmax   y[c] = x[c] - m - ln s
    layer_norm    y[c] = (x[c] - mean) / √(variance + ε) · scale[c] + bias[c], and mean and 1 / √ beside it; rms_norm

Thread t of a row has the elements t, t + threads, ... of it. Threads in step have a short row of a norm, a group a
longer one, which is the larger the longer the row; of rows that no group holds all passes read again. Sums are those of
a thread's elements, then of threads in step by halves, then of these in order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from nnc.classes import dataclass
from nnc.codegen.device.groups.columns import GroupColumns
from nnc.codegen.device.groups.shared_memory import (
    SharedArray,
    barrier,
    fold_distances,
    folded_in_step,
    subgroup_of,
    thread_of,
)
from nnc.codegen.device.preamble import PTX_TRIPLE
from nnc.codegen.frame.kernel import PhaseWriter, ceiling, phase
from nnc.codegen.frame.sums import is_long
from nnc.codegen.ir import mathematics
from nnc.codegen.ir.builder import Module, Scalar, Type, Value
from nnc.codegen.ir.expression import computed
from nnc.codegen.ir.native_kernel import Phase
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.kernels.normalization.normalization import RowNorm, RowNormalization
from nnc.codegen.kernels.normalization.softmax import Softmax
from nnc.core.values.derived import known

# A row's threads: those in step, up to a number of them, and where there are more a group.
THREADS, MOST_THREADS = 256, 1024
# Shorter rows are as well done a register at a time: a softmax by threads in step that hold a row has not yet been seen
# to end well on an H200. What a thread holds of a row, at most.
LEAST_COLUMNS, SHORT_SOFTMAX, MOST_ELEMENTS = 64, 512, 32
# Elements of a thread that are read before one is computed.
TOGETHER = 8
NANOSECONDS = 1.0


@dataclass(frozen=True, slots=True)
class GroupRows:
    """The kernel of a family's member: a group of `threads` does a row, or in `subgroups` a row with each."""

    rows: Softmax | RowNormalization
    threads: int
    subgroups: bool

    paired = False

    @classmethod
    def of_softmax(cls, softmax: Softmax, target: TargetDescription) -> GroupRows | None:
        """The kernel of a softmax without labels."""
        return cls._of(softmax, target) if softmax.kind in ("softmax", "log_softmax") else None

    @classmethod
    def of_norm(cls, norm: RowNormalization, target: TargetDescription) -> GroupRows | None:
        """The kernel of a norm, not of its gradient."""
        return cls._of(norm, target) if norm.kind in (RowNorm.LAYER, RowNorm.RMS) else None

    @classmethod
    def _of(cls, rows: Softmax | RowNormalization, target: TargetDescription) -> GroupRows | None:
        """The kernel; None of short rows, and where a size is read."""
        if not 1 < target.threads <= THREADS or not known(rows.columns) or not known(rows.rows):
            return None
        columns, held = rows.columns, MOST_ELEMENTS * 4 // computed(rows.scalar).size
        short = columns <= min(held * target.threads, MOST_THREADS)
        if columns <= (SHORT_SOFTMAX if isinstance(rows, Softmax) else LEAST_COLUMNS):
            return None
        if short and not isinstance(rows, Softmax):
            return cls(rows, THREADS, subgroups=True)
        most, threads = MOST_THREADS if target.triple == PTX_TRIPLE else THREADS, THREADS
        while threads < most and columns > held * threads:
            threads *= 2
        return cls(rows, threads, subgroups=False)

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """One phase; an item is a row, or as many as there are subgroups."""
        rows = self.rows.rows
        with phase(module, name) as w:
            b = w.b
            each = self.threads // b.target.threads if self.subgroups else 1
            writer = _writer(self, w)
            with b.loop(w.begin, w.end) as item:
                row = item * each + writer.subgroup if self.subgroups else item
                with b.when(b.compare("<", row, rows)) if rows % each else b.always():
                    if isinstance(self.rows, Softmax):
                        writer.softmax(row, logarithm=self.rows.kind == "log_softmax")
                    else:
                        writer.norm(self.rows, row)
                if not self.subgroups:
                    barrier(b)
        return (Phase(name, ceiling(rows, each), NANOSECONDS * rows * self.rows.columns),)


def _writer(kernel: GroupRows, w: PhaseWriter) -> _RowWriter | _LongRowWriter:
    held = MOST_ELEMENTS * 4 // computed(kernel.rows.scalar).size
    if kernel.subgroups:
        return _RowWriter(w, kernel.rows.scalar, kernel.rows.columns, w.b.target.threads)
    if kernel.rows.columns <= held * kernel.threads:
        return _RowWriter(w, kernel.rows.scalar, kernel.rows.columns, kernel.threads)
    return _LongRowWriter(w, kernel.rows.scalar, kernel.rows.columns, kernel.threads)


class _RowWriter:
    """Writes what `threads` do with a row that they hold."""

    def __init__(self, w: PhaseWriter, stored: Scalar, columns: int, threads: int) -> None:
        self.w, self.b, self.stored, self.columns, self.threads = w, w.b, stored, columns, threads
        self.work = Type(computed(stored))
        self.parties = threads // self.b.target.threads
        self.thread = thread_of(self.b)
        own = self.thread if self.parties > 1 else self.thread % threads
        self.places = [own + number * threads for number in range(ceiling(columns, threads))]
        self.is_first = self.b.compare("==", own, 0)
        self.subgroup = subgroup_of(self.b)
        folds = range(2) if self.parties > 1 else ()
        self.near = [SharedArray.reserve(self.b, f"row{k}", self.work.scalar, self.parties) for k in folds]

    def _inside(self, number: int) -> Value | None:
        """Whether a thread's element of this number is in the row; None where it always is."""
        last = (number + 1) * self.threads
        return None if last <= self.columns else self.b.compare("<", self.places[number], self.columns)

    def read(self, operand: int, line: Value | int, outside: float) -> list[Value]:
        """This thread's elements of a line of an operand."""
        b, source, values = self.b, self.w.argument(operand), []
        for number, place in enumerate(self.places):
            inside, index = self._inside(number), line * self.columns + place
            if inside is not None:
                index = b.choose(inside, index, 0)
            value = b.cast(b.load(source, index, Type(self.stored)), self.work.scalar)
            values.append(value if inside is None else b.choose(inside, value, outside))
        return values

    def write(self, operand: int, row: Value, values: Sequence[Value]) -> None:
        """The results of this thread."""
        b, target = self.b, self.w.argument(operand)
        for number, (place, value) in enumerate(zip(self.places, values, strict=True)):
            inside = self._inside(number)
            with b.when(inside):
                b.store(b.cast(value, self.stored), target, row * self.columns + place)

    def folded(self, values: Sequence[Value], combine: str, number: int) -> Value:
        """All elements of the row combined, in all threads; `number` tells which of the row's folds it is."""
        b, total = self.b, values[0]
        for value in values[1:]:
            total = b.combine(combine, total, value)
        total = folded_in_step(b, total, fold_distances(b.target.threads), partial(b.combine, combine))
        if self.parties == 1:
            return total
        near = self.near[number]
        near.store(total, self.subgroup)
        barrier(b)
        parts = [near.load(b.constant(party)) for party in range(self.parties)]
        total = parts[0]
        for part in parts[1:]:
            total = b.combine(combine, total, part)
        return total

    def softmax(self, row: Value, *, logarithm: bool) -> None:
        """y of one row."""
        b = self.b
        values = self.read(0, row, -math.inf)
        largest = self.folded(values, "larger", 0)
        powers = [mathematics.decay(b, value - largest) for value in values]
        total = self.folded(powers, "add", 1)
        if logarithm:
            shift = mathematics.logarithm(b, total)
            self.write(1, row, [value - largest - shift for value in values])
        else:
            factor = b.constant(1.0, self.work) / total
            self.write(1, row, [power * factor for power in powers])

    def norm(self, norm: RowNormalization, row: Value) -> None:
        """y of one row, and its statistics."""
        b, count, layer = self.b, float(norm.columns), norm.kind is RowNorm.LAYER
        values, saved = self.read(0, row, 0.0), []
        if layer:
            mean = self.folded(values, "add", 0) / count
            saved.append(mean)
            values = [self._kept(number, value - mean) for number, value in enumerate(values)]
        variance = self.folded([value * value for value in values], "add", 1) / count
        inverse = mathematics.reciprocal_square_root(b, variance + norm.epsilon)
        values = [value * inverse for value in values]
        if norm.scale:
            values = [value * scale for value, scale in zip(values, self.read(1, 0, 0.0), strict=True)]
        if norm.bias:
            values = [value + bias for value, bias in zip(values, self.read(2, 0, 0.0), strict=True)]
        parameters = 1 + norm.scale + norm.bias
        self.write(parameters, row, values)
        with b.when(self.is_first):
            for place, value in enumerate([*saved, inverse], parameters + 1):
                b.store(value, self.w.argument(place), row)

    def _kept(self, number: int, value: Value) -> Value:
        """0 behind the row's end."""
        inside = self._inside(number)
        return value if inside is None else self.b.choose(inside, value, 0.0)


class _LongRowWriter:
    """Writes what a group does with a row that it reads in each pass."""

    def __init__(self, w: PhaseWriter, stored: Scalar, columns: int, threads: int) -> None:
        self.w, self.b, self.stored, self.columns = w, w.b, stored, columns
        self.work = Type(computed(stored))
        self.group = GroupColumns.of(self.b, 1, self.work.scalar, threads)
        self.subgroup = self.b.constant(0)

    def _element(self, operand: int, line: Value | int, column: Value) -> Value:
        index = line * self.columns + column
        return self.b.cast(self.b.load(self.w.argument(operand), index, Type(self.stored)), self.work.scalar)

    def _over(self, combine: str, neutral: float, value: Callable[[Value], Value]) -> Value:
        """All elements of the row combined, for all threads."""
        b, group = self.b, self.group
        flushed = combine == "add" and is_long(self.work, self.columns // (group.threads * TOGETHER))
        (mine,) = group.combined(
            (b.constant(0), b.constant(self.columns)), b.constant(neutral, self.work), 1,
            lambda column: [value(column)], combine, together=TOGETHER, flushed=flushed,
        )  # fmt: skip
        return group.everywhere(mine, combine)

    def _each(self, operand: int, row: Value, value: Callable[[Value], Value]) -> None:
        """Write all elements of the row: of some all are read before one is written."""
        b, target, step = self.b, self.w.argument(operand), self.group.threads * TOGETHER
        whole = self.columns // step * step
        with b.loop(0, whole, step) as first:
            places = [first + (self.group.row + number * self.group.threads) for number in range(TOGETHER)]
            for place, result in zip(places, [value(place) for place in places], strict=True):
                b.store(b.cast(result, self.stored), target, row * self.columns + place)
        with b.loop(whole, self.columns, self.group.threads) as first:
            place = first + self.group.row
            with b.when(b.compare("<", place, self.columns)):
                b.store(b.cast(value(place), self.stored), target, row * self.columns + place)

    def softmax(self, row: Value, *, logarithm: bool) -> None:
        """y of one row."""
        b = self.b
        largest = self._over("larger", -math.inf, lambda column: self._element(0, row, column))
        total = self._over("add", 0.0, lambda column: mathematics.decay(b, self._element(0, row, column) - largest))
        if logarithm:
            shift = mathematics.logarithm(b, total)
            self._each(1, row, lambda column: self._element(0, row, column) - largest - shift)
        else:
            factor = b.constant(1.0, self.work) / total
            self._each(
                1, row, lambda column: mathematics.decay(b, self._element(0, row, column) - largest) * factor
            )  # fmt: skip

    def norm(self, norm: RowNormalization, row: Value) -> None:
        """y of one row, and its statistics."""
        b, count, saved = self.b, float(norm.columns), list[Value]()
        if norm.kind is RowNorm.LAYER:
            saved.append(self._over("add", 0.0, lambda column: self._element(0, row, column)) / count)

        def deviation(column: Value) -> Value:
            value = self._element(0, row, column)
            return value - saved[0] if norm.kind is RowNorm.LAYER else value

        def square(column: Value) -> Value:
            value = deviation(column)
            return value * value

        inverse = mathematics.reciprocal_square_root(b, self._over("add", 0.0, square) / count + norm.epsilon)

        def result(column: Value) -> Value:
            value = deviation(column) * inverse
            if norm.scale:
                value = value * self._element(1, 0, column)
            return value + self._element(2, 0, column) if norm.bias else value

        parameters = 1 + norm.scale + norm.bias
        self._each(parameters, row, result)
        with b.when(b.compare("==", self.group.thread, 0)):
            for place, value in enumerate([*saved, inverse], parameters + 1):
                b.store(value, self.w.argument(place), row)
