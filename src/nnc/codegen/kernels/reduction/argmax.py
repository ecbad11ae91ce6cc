"""Positions: y[kept] = the first index of the largest (or smallest) x along one axis, as i64; the first NaN wins.

Along a contiguous axis every lane of a few accumulators keeps its best value with its index, and they are folded in
halves at the end; in all other cases the lanes are neighbouring outputs. The best of two is a total order, so the
result does not depend on the lanes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from nnc.classes import dataclass
from nnc.codegen.frame.access import Shape, StridedAccess, collapse, is_scattered, locate
from nnc.codegen.frame.kernel import Generator, PhaseWriter, WithoutMemory, WithSizes, ceiling, phase
from nnc.codegen.frame.row import (
    Generate,
    KernelRow,
    Rows,
    Specs,
    Views,
    numeric,
)
from nnc.codegen.ir.builder import I32, I64, Builder, LocalVariable, Module, Scalar, Type, Value
from nnc.codegen.ir.expression import computed
from nnc.codegen.ir.native_kernel import Phase
from nnc.codegen.ir.target import TargetDescription
from nnc.core.values.derived import Read
from nnc.ops.movement.broadcast import ReduceAttrs
from nnc.ops.reduction.reduction import ARGMAX, ARGMIN

ACCUMULATORS = 4
NANOSECONDS_PER_VECTOR = 1.0
MAX_NARROW = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Argmax(WithoutMemory, WithSizes):
    """The axis `axis` of `shape` is searched; operands: x, y contiguous over the other axes."""

    shape: Shape
    x: StridedAccess
    axis: int
    smallest: bool = False

    def opened(self, read: Read, target: TargetDescription) -> Argmax:
        """All sizes are read, of merged axes."""
        sizes, strides = self.kept
        x = replace(self.x, strides=(*strides, self.x.strides[self.axis])).opened(read)
        kept = [read(size) if size != 1 else 1 for size in sizes]
        return Argmax((*kept, read(self.size)), x, len(sizes), self.smallest)

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """One phase; an item is one output, or one vector of outputs."""
        bits = 8 * computed(self.x.scalar).size
        along_axis = self.x.strides[self.axis] == 1 and self.size >= module.target.lanes(bits)
        kept, strides = self.kept
        lanes = module.target.lanes(bits, apart=not along_axis and is_scattered([strides]))
        items = math.prod(kept) if along_axis else math.prod(kept[:-1]) * ceiling(kept[-1], lanes)
        with phase(module, name) as writer:
            made = _ArgmaxWriter(self, writer, lanes)
            (made.write_rows if along_axis else made.write_columns)()
        return (Phase(name, items, NANOSECONDS_PER_VECTOR * items * self.size / (lanes if along_axis else 1)),)

    @property
    def size(self) -> int:
        """Elements along the axis."""
        return self.shape[self.axis]

    @property
    def kept(self) -> tuple[Shape, Shape]:
        """Sizes and strides of the other axes, merged; one axis of size 1 where there is none."""
        axes = [axis for axis in range(len(self.shape)) if axis != self.axis]
        sizes, (strides,) = collapse(
            tuple(self.shape[axis] for axis in axes), [tuple(self.x.strides[axis] for axis in axes)]
        )
        return sizes or (1,), strides or (0,)


@dataclass(frozen=True, slots=True)
class _Best:
    """The best value of each lane so far, and where it was."""

    value: LocalVariable
    index: LocalVariable


class _ArgmaxWriter:
    """Writes the loops of a search."""

    def __init__(self, problem: Argmax, writer: PhaseWriter, lanes: int) -> None:
        self.problem = problem
        self.b: Builder = writer.b
        self.w = writer
        self.scalar: Scalar = problem.x.scalar
        self.kind = Type(self.scalar, lanes)
        self.index_kind = Type(I32 if problem.size <= MAX_NARROW else I64, lanes)
        self.x = self.b.offset(writer.argument(0), problem.x.offset, self.scalar)
        self.y = writer.argument(1)

    def write_rows(self) -> None:
        """for output: the lanes walk the axis"""
        b, lanes, size = self.b, self.kind.lanes, self.problem.size
        sizes, strides = self.problem.kept
        count = ACCUMULATORS if size >= ACCUMULATORS * lanes else 1
        step = count * lanes
        whole = size // step * step
        with b.loop(self.w.begin, self.w.end) as item:
            (start,) = locate(b, item, sizes, (strides,))
            x = b.offset(self.x, start, self.scalar)
            bests = [
                self._first(self._load(x, b.constant(lanes * number), 1), lanes * number) for number in range(count)
            ]
            with b.loop(step, whole, step) as index:
                for number, best in enumerate(bests):
                    place = index + lanes * number
                    self._take(best, self._load(x, place, 1), self._lanes_from(place))
            with b.loop(whole, size, lanes) as index:
                mask = b.mask(size - index, lanes)
                self._take(bests[0], self._load(x, index, 1, mask), self._lanes_from(index), mask)
            b.store(b.cast(self._fold(bests), I64), self.y, item)

    def write_columns(self) -> None:
        """for vector of outputs: every lane walks its own elements of the axis"""
        b, lanes, problem = self.b, self.kind.lanes, self.problem
        sizes, strides = problem.kept
        blocks, stride = ceiling(sizes[-1], lanes), problem.x.strides[problem.axis]
        with b.loop(self.w.begin, self.w.end) as item:
            row, column = item // blocks, item % blocks * lanes
            (start,) = locate(b, row, sizes[:-1] or (1,), (strides[:-1] or (0,),))
            x = b.offset(self.x, start + column * strides[-1], self.scalar)
            mask = None if sizes[-1] % lanes == 0 else b.mask(sizes[-1] - column, lanes)
            best = self._first(self._load(x, b.constant(0), strides[-1], mask), None)
            with b.loop(1, problem.size) as index:
                value = self._load(x, index * stride, strides[-1], mask)
                self._take(best, value, self._everywhere(index))
            b.store(b.cast(best.index.get(), I64), self.y, row * sizes[-1] + column, mask)

    def _load(self, x: Value, index: Value, stride: int, mask: Value | None = None) -> Value:
        b = self.b
        read = b.load(x, index, self.kind, mask) if stride == 1 else b.gather(x, index, stride, self.kind, mask)
        return b.cast(read, computed(self.scalar))

    def _everywhere(self, index: Value) -> Value:
        return self.b.splat(self.b.cast(index, self.index_kind.scalar), self.index_kind.lanes)

    def _lanes_from(self, index: Value) -> Value:
        """[index, index + 1, ...]"""
        return self._everywhere(index) + self.b.enumerate_lanes(self.index_kind)

    def _first(self, value: Value, index: int | None) -> _Best:
        """The start of a search: these values at `index` and the following ones, or all at 0."""
        b = self.b
        place = b.zero(self.index_kind) if index is None else self._lanes_from(b.constant(index))
        return _Best(b.variable(value), b.variable(place))

    def _take(self, best: _Best, value: Value, index: Value, mask: Value | None = None) -> None:
        """best = the better of best and (value, index); the earlier one of equals"""
        b = self.b
        better = self._beats(value, best.value.get())
        better = better if mask is None else b.both(better, mask)
        best.value.set(b.choose(better, value, best.value.get()))
        best.index.set(b.choose(better, index, best.index.get()))

    def _beats(self, value: Value, other: Value) -> Value:
        """value is truly better than other; NaN is the best of all."""
        b = self.b
        better = b.compare("<" if self.problem.smallest else ">", value, other)
        if not value.type.scalar.floating:
            return better
        return b.either(better, b.both(b.unordered(value), b.opposite(b.unordered(other))))

    def _fold(self, bests: Sequence[_Best]) -> Value:
        """The index of the best of all lanes of all accumulators."""
        value, index = bests[0].value.get(), bests[0].index.get()
        for best in bests[1:]:
            value, index = self._better(value, index, best.value.get(), best.index.get())
        lanes = self.kind.lanes
        while lanes > 1:
            lanes //= 2
            low, high = list(range(lanes)), list(range(lanes, 2 * lanes))
            halves = [self.b.shuffle(vector, vector, part) for part in (low, high) for vector in (value, index)]
            value, index = self._better(*halves)
        return self.b.extract(index, 0)

    def _better(self, value: Value, index: Value, other: Value, other_index: Value) -> tuple[Value, Value]:
        """The better of two, or the one with the lower index of equals."""
        b = self.b
        worse = b.either(self._beats(value, other), self._beats(other, value))
        earlier = b.both(b.opposite(worse), b.compare("<", other_index, index))
        chosen = b.either(self._beats(other, value), earlier)
        return b.choose(chosen, other, value), b.choose(chosen, other_index, index)


def _positions(attrs: object, inputs: Specs, outputs: Specs) -> str:
    return numeric(attrs, inputs, ())


def _position(smallest: bool) -> Generate:
    def generate(attrs: ReduceAttrs, inputs: Views, outputs: Views) -> Generator:
        return Argmax(inputs[0].shape, inputs[0].whole, attrs.axes[0], smallest)

    return generate


ROWS: Rows = {
    ARGMAX: KernelRow(_position(smallest=False), _positions, strided=True),
    ARGMIN: KernelRow(_position(smallest=True), _positions, strided=True),
}
