"""Softmax and norms of long rows by a group of threads each, which hold the row in registers: it is read once.

    softmax       y[c] = e^(x[c] - m) / s          log_softmax   y[c] = x[c] - m - ln s
    layer_norm    y[c] = (x[c] - mean) / √(variance + ε) · scale[c] + bias[c], and mean and 1 / √ beside it; rms_norm

Thread t has the elements t, t + threads, ... of a row. Sums are those of a thread's elements, then of threads in step
by halves, then of these in order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from nnc.classes import dataclass
from nnc.codegen.device.groups.near import NearArray, exchanged, subgroup_of, thread_of, wait
from nnc.codegen.frame.kernel import Phase, PhaseWriter, ceiling, phase
from nnc.codegen.ir import mathematics
from nnc.codegen.ir.builder import Module, Scalar, Type, Value
from nnc.codegen.ir.expression import computed
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.kernels.normalization.normalization import RowNorm, RowNormalization
from nnc.codegen.kernels.normalization.softmax import Softmax

THREADS = 256
# Shorter rows stay in the nearest cache, where threads in step read them again; longer ones do not fit the registers.
LEAST_COLUMNS, MOST_ELEMENTS = 1024, 32
NANOSECONDS = 1.0


@dataclass(frozen=True, slots=True)
class GroupRows:
    """The kernel of a family's member whose items are rows."""

    rows: Softmax | RowNormalization

    threads, paired = THREADS, False

    @classmethod
    def of_softmax(cls, softmax: Softmax, target: TargetDescription) -> GroupRows | None:
        """The kernel of a softmax without labels."""
        fits = _fits(softmax.columns, softmax.scalar, target)
        return cls(softmax) if fits and softmax.kind in ("softmax", "log_softmax") else None

    @classmethod
    def of_norm(cls, norm: RowNormalization, target: TargetDescription) -> GroupRows | None:
        """The kernel of a norm, not of its gradient."""
        forward = norm.kind in (RowNorm.LAYER, RowNorm.RMS)
        return cls(norm) if forward and _fits(norm.columns, norm.scalar, target) else None

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """One phase; an item is a row."""
        with phase(module, name) as w:
            writer = _RowWriter(w, self.rows.scalar, self.rows.columns)
            with w.b.loop(w.begin, w.end) as row:
                if isinstance(self.rows, Softmax):
                    writer.softmax(row, logarithm=self.rows.kind == "log_softmax")
                else:
                    writer.norm(self.rows, row)
                wait(w.b)
        return (Phase(name, self.rows.rows, NANOSECONDS * self.rows.rows * self.rows.columns),)


def _fits(columns: int, scalar: Scalar, target: TargetDescription) -> bool:
    most = MOST_ELEMENTS * THREADS * 4 // computed(scalar).size
    return 1 < target.threads <= THREADS and LEAST_COLUMNS < columns <= most


class _RowWriter:
    """Writes what is done with a row."""

    def __init__(self, w: PhaseWriter, stored: Scalar, columns: int) -> None:
        self.w, self.b, self.stored, self.columns = w, w.b, stored, columns
        self.work = Type(computed(stored))
        self.thread = thread_of(self.b)
        self.places = [self.thread + number * THREADS for number in range(ceiling(columns, THREADS))]
        self.parties = THREADS // self.b.target.threads
        self.subgroup = subgroup_of(self.b)
        self.near = [NearArray.reserve(self.b, f"row{k}", self.work.scalar, self.parties) for k in range(2)]

    def _inside(self, number: int) -> Value | None:
        """Whether a thread's element of this number is in the row; None where it always is."""
        last = (number + 1) * THREADS
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
            with b.always() if inside is None else b.when(inside):
                b.store(b.cast(value, self.stored), target, row * self.columns + place)

    def folded(self, values: Sequence[Value], combine: str, number: int) -> Value:
        """All elements of the row combined, in all threads; `number` tells which of the row's folds it is."""
        b, total = self.b, values[0]
        for value in values[1:]:
            total = b.combine(combine, total, value)
        distance = b.target.threads // 2
        while distance:
            total = b.combine(combine, total, exchanged(b, total, distance))
            distance //= 2
        near = self.near[number]
        near.store(total, self.subgroup)
        wait(b)
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
        with b.when(b.compare("==", self.thread, 0)):
            for place, value in enumerate([*saved, inverse], parameters + 1):
                b.store(value, self.w.argument(place), row)

    def _kept(self, number: int, value: Value) -> Value:
        """0 behind the row's end."""
        inside = self._inside(number)
        return value if inside is None else self.b.choose(inside, value, 0.0)
