"""Layer, root-mean-square and batch norm, and their data gradients; formulas as in `nnc/ops/normalization`.

rows:     statistics along the contiguous last axis; an item is a row
columns:  statistics of each column, over all rows (normalization_columns.py)
groups:   statistics of groups of columns, over some rows (normalization_groups.py)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import Enum

from nnc.classes import dataclass
from nnc.codegen.frame.kernel import Generator, PhaseWriter, WithoutMemory, WithSizes, ceiling, phase
from nnc.codegen.frame.row import (
    Generate,
    KernelRow,
    Refuse,
    Rows,
    Specs,
    Views,
    only,
)
from nnc.codegen.frame.sums import FlushedSums, folded, in_runs, is_long
from nnc.codegen.ir import mathematics
from nnc.codegen.ir.builder import BF16, F16, F32, F64, Builder, LocalVariable, Module, Scalar, Type, Value
from nnc.codegen.ir.expression import computed
from nnc.codegen.ir.native_kernel import Phase
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.kernels.normalization.normalization_columns import ColumnNormalization
from nnc.codegen.kernels.normalization.normalization_groups import GroupNormalization
from nnc.core.values.derived import Read
from nnc.ops.normalization import normalization as ops
from nnc.ops.normalization.normalization import BatchNormAttrs, NormalizationAttrs

ACCUMULATORS = 4
PARTS, PART_ELEMENTS = 32, 8192
AHEAD_BYTES = 4096
NANOSECONDS_PER_VECTOR = 1.0

Terms = Callable[[Value, Value | None], list[Value]]


class RowNorm(Enum):
    """The members of the family whose statistics run along a row."""

    LAYER = "layer_norm"
    RMS = "rms_norm"
    LAYER_GRADIENT = "layer_norm_gradient"
    RMS_GRADIENT = "rms_norm_gradient"


@dataclass(frozen=True, slots=True)
class RowNormalization(WithoutMemory, WithSizes):
    """rows x columns, statistics of each row; scale and bias, where there are any, lie along the columns."""

    kind: RowNorm
    scalar: Scalar
    rows: int
    columns: int
    epsilon: float
    scale: bool = False
    bias: bool = False

    def opened(self, read: Read, target: TargetDescription) -> RowNormalization:
        """Rows are read; columns are features."""
        return replace(self, rows=read(self.rows))

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """One phase; an item is a row."""
        with phase(module, name) as w, w.b.loop(w.begin, w.end) as row:
            write = _gradient_row if self.kind in (RowNorm.LAYER_GRADIENT, RowNorm.RMS_GRADIENT) else _forward_row
            write(self, _Line(w, self.scalar, self.columns), row)
        vectors = self.rows * ceiling(self.columns, module.target.lanes(32))
        return (Phase(name, self.rows, 4 * vectors * NANOSECONDS_PER_VECTOR),)


class _Line:
    """Loops over the vectors of a line of elements, computed in the type of computation."""

    def __init__(self, writer: PhaseWriter, stored: Scalar, length: int) -> None:
        self.w = writer
        self.b: Builder = writer.b
        self.stored = stored
        self.scalar = computed(stored)
        self.length = length
        self.lanes = self.b.target.lanes(8 * self.scalar.size)
        self.vector = Type(self.scalar, self.lanes)

    def start(self, operand: int, line: Value) -> Value:
        """Where a line begins in an operand."""
        return self.b.offset(self.w.argument(operand), line * self.length, self.stored)

    def load(self, pointer: Value, index: Value, mask: Value | None) -> Value:
        """One vector, in the type of computation."""
        return self.b.cast(self.b.load(pointer, index, Type(self.stored, self.lanes), mask), self.scalar)

    def store(self, value: Value, pointer: Value, index: Value, mask: Value | None) -> None:
        """One vector, in the type of memory."""
        self.b.store(self.b.cast(value, self.stored), pointer, index, mask)

    def bring(self, pointer: Value, index: Value) -> None:
        """Ask for what follows this line, while this one is written, if it is short enough to be kept."""
        size = self.stored.size
        if self.length * size <= self.b.target.machine.level_two_bytes // 8:
            self.b.prefetch(pointer, index + max(self.length, AHEAD_BYTES // size), self.stored)

    def spread(self, value: Value) -> Value:
        """A scalar in every lane."""
        return self.b.splat(value, self.lanes)

    def each(self, body: Callable[[Value, Value | None], None]) -> None:
        """body(index, mask) for every vector of the line"""
        b, length = self.b, self.length
        with b.loop(0, length, self.lanes) as index:
            body(index, b.mask(length - index, self.lanes) if length % self.lanes else None)

    def sums(self, count: int, terms: Terms) -> list[Value]:
        """The sums over the line of `count` terms at once, each in a few accumulators."""
        b, step = self.b, ACCUMULATORS * self.lanes
        zero = b.zero(self.vector)
        flushed = is_long(self.vector, self.length // step)
        slots = [FlushedSums.start(b, zero, count, flushed=flushed) for _ in range(ACCUMULATORS)]
        whole = self.length // step * step
        if whole:
            with in_runs(b, 0, whole, step, slots) as index:
                for number, group in enumerate(slots):
                    self._add(group.sums, terms(index + number * self.lanes, None), None)
        if whole < self.length:
            with b.loop(whole, self.length, self.lanes) as index:
                mask = b.mask(self.length - index, self.lanes) if self.length % self.lanes else None
                self._add(slots[0].sums, terms(index, mask), mask)
        slots[0].flush()
        totals = [[group.totals[term].get() for group in slots] for term in range(count)]
        return [b.cast(folded(b, total, "add"), self.vector.scalar) for total in totals]

    def _add(self, group: Sequence[LocalVariable], values: Sequence[Value], mask: Value | None) -> None:
        for slot, value in zip(group, values, strict=True):
            slot.set(slot.get() + (value if mask is None else self.b.choose(mask, value, 0.0)))


def _forward_row(problem: RowNormalization, line: _Line, row: Value) -> None:
    """Two passes for the statistics, one for the results; each element is read before its result is written."""
    b, count = line.b, float(problem.columns)
    layer = problem.kind is RowNorm.LAYER
    parameters = 1 + problem.scale + problem.bias
    x, y = line.start(0, row), line.start(parameters, row)
    mean = line.sums(1, lambda index, mask: [line.load(x, index, mask)])[0] / count if layer else None
    shift = None if mean is None else line.spread(mean)

    def centered(index: Value, mask: Value | None) -> Value:
        value = line.load(x, index, mask)
        return value if shift is None else value - shift

    def square(index: Value, mask: Value | None) -> list[Value]:
        value = centered(index, mask)
        return [value * value]

    inverse = mathematics.reciprocal_square_root(b, line.sums(1, square)[0] / count + problem.epsilon)
    factor = line.spread(inverse)

    def write(index: Value, mask: Value | None) -> None:
        line.bring(x, index)
        value = centered(index, mask) * factor
        if problem.scale:
            value = value * line.load(line.w.argument(1), index, mask)
        if problem.bias:
            value = value + line.load(line.w.argument(2), index, mask)
        line.store(value, y, index, mask)

    line.each(write)
    saved = [inverse] if mean is None else [mean, inverse]
    for position, value in enumerate(saved, parameters + 1):
        b.store(value, line.w.argument(position), row)


def _gradient_row(problem: RowNormalization, line: _Line, row: Value) -> None:
    """y = r * (u - mean u - x^ * mean (u * x^)); mean u is 0 for the root-mean-square norm"""
    b, count = line.b, float(problem.columns)
    layer = problem.kind is RowNorm.LAYER_GRADIENT
    g, x = line.start(0, row), line.start(1, row)
    saved = [line.spread(b.load(line.w.argument(2 + k), row, Type(line.scalar))) for k in range(1 + layer)]
    inverse, scale = saved[-1], line.w.argument(3 + layer)
    y = line.start(3 + layer + problem.scale, row)

    def pair(index: Value, mask: Value | None) -> list[Value]:
        u, value = line.load(g, index, mask), line.load(x, index, mask)
        if problem.scale:
            u = u * line.load(scale, index, mask)
        return [u, (value - saved[0] if layer else value) * inverse]

    def products(index: Value, mask: Value | None) -> list[Value]:
        u, unit = pair(index, mask)
        return [u * unit, u] if layer else [u * unit]

    means = [line.spread(total / count) for total in line.sums(1 + layer, products)]

    def write(index: Value, mask: Value | None) -> None:
        line.bring(x, index)
        u, unit = pair(index, mask)
        rest = u - unit * means[0]
        line.store((rest - means[1] if layer else rest) * inverse, y, index, mask)

    line.each(write)


def _is_row_norm(attrs: NormalizationAttrs, rank: int, scaled: bool) -> bool:
    """True when the statistics run over the last axes, and scale and bias lie along the same."""
    last = tuple(range(rank - len(attrs.axes), rank))
    return attrs.axes == last and bool(last) and (attrs.parameter_axes == last or not scaled)


def _is_column_norm(attrs: NormalizationAttrs, rank: int, scaled: bool) -> bool:
    """True when the statistics run over all axes but the last, and scale lies along the last."""
    return attrs.axes == tuple(range(rank - 1)) and rank > 1 and (attrs.parameter_axes == (rank - 1,) or not scaled)


def _runs(attrs: NormalizationAttrs, rank: int) -> tuple[range, range, range, range] | None:
    """The axes of [outer, rows, groups, width], of which rows and width have the statistics; None of other orders."""
    edges, place = [rank], rank
    for among in (True, False, True, False):
        while place and (place - 1 in attrs.axes) is among:
            place -= 1
        edges.append(place)
    last, groups, rows, outer, start = edges
    return None if start else (range(outer), range(outer, rows), range(rows, groups), range(groups, last))


def _along(attrs: NormalizationAttrs, rank: int) -> tuple[bool, bool] | None:
    """Whether a parameter lies along the groups, and along their width; None where it lies otherwise."""
    runs = _runs(attrs, rank)
    if runs is None:
        return None
    ways = {(*(runs[2] if by_group else ()), *(runs[3] if by_place else ())): (by_group, by_place)
            for by_group in (True, False) for by_place in (True, False)}  # fmt: skip
    return ways.get(attrs.parameter_axes)


def _norm(others: int) -> Refuse:
    """Refuse what no form covers, with so many inputs before the parameters."""

    def refuse(attrs: NormalizationAttrs, inputs: Specs, outputs: Specs) -> str:
        rank, scaled = inputs[0].rank, len(inputs) > others
        rows = _is_row_norm(attrs, rank, scaled)
        if not rows and (_along(attrs, rank) if scaled else _runs(attrs, rank)) is None:
            return f"statistics over axes {list(attrs.axes)} of {rank}"
        if not rows and inputs[0].elements == 0:
            return "an empty operand"
        return only(F64, F32, F16, BF16)(attrs, inputs, outputs)

    return refuse


def _batch(attrs: BatchNormAttrs, inputs: Specs, outputs: Specs) -> str:
    return "an empty operand" if inputs[0].elements == 0 else only(F64, F32, F16, BF16)(attrs, inputs, outputs)


def _of_norm(kind: RowNorm, parameters: int) -> Generate:
    """The form of rows, or that of groups; inputs from position `parameters` on are scale and bias."""
    gradient, centered = (
        kind in (RowNorm.LAYER_GRADIENT, RowNorm.RMS_GRADIENT),
        kind in (RowNorm.LAYER, RowNorm.LAYER_GRADIENT),
    )

    def generate(attrs: NormalizationAttrs, inputs: Views, outputs: Views) -> Generator:
        x, rank, given = inputs[0], len(inputs[0].shape), len(inputs) - parameters
        if _is_row_norm(attrs, rank, given > 0):
            columns = math.prod(x.shape[axis] for axis in attrs.axes)
            rows = math.prod(x.shape[: rank - len(attrs.axes)])
            return RowNormalization(kind, x.scalar, rows, columns, attrs.epsilon, given > 0, given > 1)
        runs = _runs(attrs, rank)
        assert runs is not None, "other orders of axes are refused"
        outer, rows, groups, width = (math.prod(x.shape[axis] for axis in run) for run in runs)
        by_group, by_place = _along(attrs, rank) or (False, False)
        along = (width if by_place else 1) if by_group else 0, int(by_place)
        return GroupNormalization(
            gradient, centered, x.scalar, outer, rows, groups, width, attrs.epsilon, given > 0, given > 1, along
        )

    return generate


def _layer_gradient(attrs: NormalizationAttrs, inputs: Views, outputs: Views) -> Generator:
    x, scaled = inputs[1], len(inputs) > 4
    if not _is_column_norm(attrs, len(x.shape), scaled):
        return _of_norm(RowNorm.LAYER_GRADIENT, 4)(attrs, inputs, outputs)
    rows, columns = math.prod(x.shape[:-1]), x.shape[-1]
    return ColumnNormalization(True, x.scalar, rows, columns, attrs.epsilon, scale=scaled)


def _batch_norm(attrs: BatchNormAttrs, inputs: Views, outputs: Views) -> Generator:
    x = inputs[0]
    rows, columns = math.prod(x.shape[:-1]), x.shape[-1]
    return ColumnNormalization(False, x.scalar, rows, columns, attrs.epsilon, attrs.momentum)


def _batch_gradient(attrs: BatchNormAttrs, inputs: Views, outputs: Views) -> Generator:
    x = inputs[1]
    rows, columns = math.prod(x.shape[:-1]), x.shape[-1]
    return ColumnNormalization(True, x.scalar, rows, columns, attrs.epsilon, sums=True)


ROWS: Rows = {
    ops.LAYER_NORM: KernelRow(_of_norm(RowNorm.LAYER, 1), _norm(1)),
    ops.RMS_NORM: KernelRow(_of_norm(RowNorm.RMS, 1), _norm(1)),
    ops.LAYER_NORM_GRADIENT: KernelRow(_layer_gradient, _norm(4)),
    ops.RMS_NORM_GRADIENT: KernelRow(_of_norm(RowNorm.RMS_GRADIENT, 3), _norm(3)),
    ops.BATCH_NORM: KernelRow(_batch_norm, _batch),
    ops.BATCH_NORM_GRADIENT: KernelRow(_batch_gradient, _batch),
}
