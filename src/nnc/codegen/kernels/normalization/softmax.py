"""Softmax over the last axis and what training needs of it, row by row.

    softmax:                        y[r, c] = e^(x[r, c] - m[r]) / s[r],  m = max over c, s = sum_c e^(x - m)
    log_softmax:                    y[r, c] = x[r, c] - m[r] - ln s[r]
    softmax_cross_entropy:          loss[r] = ln s[r] + m[r] - x[r, label[r]];  probability = softmax
    softmax_cross_entropy_gradient: y[r, c] = g[r] * (p[r, c] - [c == label[r]])
    label_difference:               y[r] = sum_c h[r, c] * (p[r, c] - [c == label[r]])

A label outside the classes gives NaN, never a read outside memory. Operands are contiguous; items are rows. Every
element of x is read before the result that may lie in its place is written.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from nnc.classes import dataclass
from nnc.codegen.frame.kernel import Generator, PhaseWriter, WithoutMemory, WithSizes, ceiling, phase
from nnc.codegen.frame.row import (
    Generate,
    KernelRow,
    Rows,
    Specs,
    Views,
    floating,
)
from nnc.codegen.frame.sums import FlushedSums, folded, in_runs, is_long
from nnc.codegen.ir import mathematics
from nnc.codegen.ir.builder import I32, I64, Builder, Module, Scalar, Type, Value
from nnc.codegen.ir.expression import computed
from nnc.codegen.ir.native_kernel import Phase
from nnc.codegen.ir.target import TargetDescription
from nnc.core.values.derived import Read
from nnc.ops.normalization import softmaxes as ops

NANOSECONDS_PER_VECTOR = 14.0
ACCUMULATORS = 4
AHEAD_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Softmax(WithoutMemory, WithSizes):
    """One member of the family: `kind` is a key of `KINDS`; `labels` the element type of the labels, if any."""

    kind: str
    scalar: Scalar
    rows: int
    columns: int
    labels: Scalar | None = None

    def opened(self, read: Read, target: TargetDescription) -> Softmax:
        """Both sizes are read: what is normalized may be as long as a text."""
        return replace(self, rows=read(self.rows), columns=read(self.columns))

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """One phase; an item is a row."""
        with phase(module, name) as w, w.b.loop(w.begin, w.end) as row:
            KINDS[self.kind](_Row(self, w, row))
        vectors = self.rows * ceiling(self.columns, module.target.lanes(8 * computed(self.scalar).size))
        return (Phase(name, self.rows, vectors * NANOSECONDS_PER_VECTOR),)


class _Row:
    """One row of the problem, and the loops over its vectors."""

    def __init__(self, problem: Softmax, writer: PhaseWriter, row: Value) -> None:
        self.problem = problem
        self.w = writer
        self.b: Builder = writer.b
        self.row = row
        self.stored = problem.scalar
        self.scalar = computed(problem.scalar)
        self.lanes = self.b.target.lanes(8 * self.scalar.size)
        self.vector = Type(self.scalar, self.lanes)

    def start(self, operand: int) -> Value:
        """Where this row begins in an operand of rows x columns."""
        return self.b.offset(self.w.argument(operand), self.row * self.problem.columns, self.stored)

    def load(self, pointer: Value, index: Value, mask: Value | None) -> Value:
        """One vector, in the type of computation."""
        return self.b.cast(self.b.load(pointer, index, Type(self.stored, self.lanes), mask), self.scalar)

    def store(self, value: Value, pointer: Value, index: Value, mask: Value | None) -> None:
        """One vector, in the type of memory."""
        self.b.store(self.b.cast(value, self.stored), pointer, index, mask)

    def scalar_at(self, pointer: Value, index: Value) -> Value:
        """One element, in the type of computation."""
        return self.b.cast(self.b.load(pointer, index, Type(self.stored)), self.scalar)

    def each(self, body: Callable[[Value, Value | None], None]) -> None:
        """body(index, mask) for every vector of the row"""
        b, columns = self.b, self.problem.columns
        with b.loop(0, columns, self.lanes) as index:
            body(index, b.mask(columns - index, self.lanes) if columns % self.lanes else None)

    def reduce(self, combine: str, neutral: float, value: Callable[[Value, Value | None], Value]) -> Value:
        """combine over the row of value(index, mask); lanes outside the row do not count.

        Vectors are combined in turns with a few partial results, which do not wait for each other.
        """
        b, columns, size = self.b, self.problem.columns, ACCUMULATORS * self.lanes
        flushed = combine == "add" and is_long(self.vector, columns // size)
        count = ACCUMULATORS if columns >= size else 1
        slots = FlushedSums.start(b, b.constant(neutral, self.vector), count, flushed=flushed)
        whole = columns // size * size
        with in_runs(b, 0, whole, size, [slots]) as index:
            terms = [value(index + number * self.lanes, None) for number in range(count)]
            for slot, term in zip(slots.sums, terms, strict=True):
                slot.set(b.combine(combine, slot.get(), term))
        with b.loop(whole, columns, self.lanes) as index:
            mask = b.mask(columns - index, self.lanes) if columns % self.lanes else None
            term = value(index, mask)
            counted = term if mask is None else b.choose(mask, term, neutral)
            slots.sums[0].set(b.combine(combine, slots.sums[0].get(), counted))
        slots.flush()
        return b.cast(folded(b, [slot.get() for slot in slots.totals], combine), self.scalar)

    def maximum(self, x: Value) -> Value:
        """m = max_c x[c]; a NaN may be missed here, because its power is met again."""
        return self.reduce("larger", -math.inf, lambda index, mask: self.load(x, index, mask))

    def powers(self, x: Value, largest: Value, y: Value, *, kept: bool) -> Value:
        """s = sum_c e^(x[c] - m); the powers go to y when they are kept.

        This is the pass that computes most, so memory works meanwhile for the passes after it: it brings what follows
        this row, and gets hold of y.
        """
        shift = self.b.splat(largest, self.lanes)
        ahead = max(self.problem.columns, AHEAD_BYTES // self.stored.size)
        fits = self.problem.columns * self.stored.size <= self.b.target.machine.level_two_bytes // 8

        def value(index: Value, mask: Value | None) -> Value:
            if fits:
                self.b.prefetch(x, index + ahead, self.stored)
            if fits and not kept:
                self.b.prefetch(y, index, self.stored, write=True)
            power = mathematics.decay(self.b, self.load(x, index, mask) - shift)
            if kept:
                self.store(power, y, index, mask)
            return power

        return self.reduce("add", 0.0, value)

    def scale(self, y: Value, factor: Value) -> None:
        """y[c] = y[c] * factor"""
        factors = self.b.splat(factor, self.lanes)
        self.each(lambda index, mask: self.store(self.load(y, index, mask) * factors, y, index, mask))

    def label(self, operand: int) -> tuple[Value, Value]:
        """The row's label, 0 when it is not a class, and whether it is one."""
        b = self.b
        assert self.problem.labels is not None
        label = b.cast(b.load(self.w.argument(operand), self.row, Type(self.problem.labels)), I64)
        known = b.both(b.compare(">=", label, 0), b.compare("<", label, self.problem.columns))
        return b.choose(known, label, b.constant(0)), known

    def hits(self, label: Value, index: Value) -> Value:
        """[c == label] as 1 and 0, for the vector at `index`"""
        b = self.b
        wanted = b.splat(b.cast(label - index, I32), self.lanes)
        equal = b.compare("==", b.enumerate_lanes(Type(I32, self.lanes)), wanted)
        return b.choose(equal, b.constant(1.0, self.vector), 0.0)

    def nan_unless(self, known: Value, value: Value) -> Value:
        """value, or NaN when the label is not a class"""
        return self.b.choose(known, value, math.nan)


def _softmax(r: _Row) -> None:
    x, y = r.start(0), r.start(1)
    total = r.powers(x, r.maximum(x), y, kept=True)
    r.scale(y, r.b.constant(1.0, total.type) / total)


def _log_softmax(r: _Row) -> None:
    x, y = r.start(0), r.start(1)
    largest = r.maximum(x)
    total = r.powers(x, largest, y, kept=False)
    logarithm = r.b.splat(mathematics.logarithm(r.b, total), r.lanes)
    shift = r.b.splat(largest, r.lanes)
    r.each(lambda index, mask: r.store(r.load(x, index, mask) - shift - logarithm, y, index, mask))


def _cross_entropy(r: _Row) -> None:
    x, loss, y = r.start(0), r.w.argument(2), r.start(3)
    label, known = r.label(1)
    chosen = r.scalar_at(x, label)
    largest = r.maximum(x)
    total = r.powers(x, largest, y, kept=True)
    r.scale(y, r.b.constant(1.0, total.type) / total)
    value = mathematics.logarithm(r.b, total) + (largest - chosen)
    r.b.store(r.b.cast(r.nan_unless(known, value), r.stored), loss, r.row)


def _cross_entropy_gradient(r: _Row) -> None:
    p, y = r.start(1), r.start(3)
    label, known = r.label(2)
    factor = r.b.splat(r.nan_unless(known, r.scalar_at(r.w.argument(0), r.row)), r.lanes)
    r.each(lambda index, mask: r.store((r.load(p, index, mask) - r.hits(label, index)) * factor, y, index, mask))


def _label_difference(r: _Row) -> None:
    h, p, y = r.start(0), r.start(1), r.w.argument(3)
    label, known = r.label(2)
    total = r.reduce(
        "add",
        0.0,
        lambda index, mask: r.load(h, index, mask) * (r.load(p, index, mask) - r.hits(label, index)),
    )
    r.b.store(r.b.cast(r.nan_unless(known, total), r.stored), y, r.row)


KINDS: dict[str, Callable[[_Row], None]] = {
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    "softmax_cross_entropy": _cross_entropy,
    "softmax_cross_entropy_gradient": _cross_entropy_gradient,
    "label_difference": _label_difference,
}


def _generate(kind: str, matrix: int, labels: int | None = None) -> Generate:
    """`matrix` and `labels` are the positions of the inputs that have the classes and the labels."""

    def generate(attrs: object, inputs: Views, outputs: Views) -> Generator:
        x = inputs[matrix]
        rows = math.prod(x.shape[:-1])
        return Softmax(kind, x.scalar, rows, x.shape[-1], None if labels is None else inputs[labels].scalar)

    return generate


def _rows(attrs: object, inputs: Specs, outputs: Specs) -> str:
    classes = max(spec.shape[-1] if spec.shape else 1 for spec in (*inputs, *outputs))
    return "no classes" if classes == 0 else floating(attrs, inputs, outputs)


def _labelled(attrs: object, inputs: Specs, outputs: Specs) -> str:
    if inputs[-1].dtype.kind not in ("int", "uint"):
        return f"labels of type {inputs[-1].dtype}"
    return _rows(attrs, inputs[:-1], outputs)


ROWS: Rows = {
    ops.softmax: KernelRow(_generate("softmax", 0), _rows),
    ops.log_softmax: KernelRow(_generate("log_softmax", 0), _rows),
    ops.SOFTMAX_CROSS_ENTROPY: KernelRow(_generate("softmax_cross_entropy", 0, 1), _labelled),
    ops.SOFTMAX_CROSS_ENTROPY_GRADIENT: KernelRow(_generate("softmax_cross_entropy_gradient", 1, 2), _labelled),
    ops.LABEL_DIFFERENCE: KernelRow(_generate("label_difference", 1, 2), _labelled),
}
