"""Reductions: y[kept] = finish(combine over reduced axes of prepare(x[kept, reduced])): sum, mean, max ...

x may be a pointwise chain of several operands, which is computed in registers where it is combined.

Along a contiguous reduced axis the lanes of a few accumulators share the work and are folded in halves at the end;
along a contiguous kept axis every lane is its own output. A long reduction with few outputs is cut into a fixed number
of parts, whose results a second phase combines: parts depend on the shape alone, so bits do not depend on threads.

Long sums of f32 are flushed into f64 (`frame/sums.py`): the error does not grow with the length.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial, reduce
from typing import Any

from nnc.classes import dataclass
from nnc.codegen.frame.access import Shape, StridedAccess, collapse, is_scattered, locate
from nnc.codegen.frame.kernel import Generator, Phase, PhaseWriter, WithoutScratch, WithSizes, aligned, ceiling, phase
from nnc.codegen.frame.row import (
    Generate,
    KernelRow,
    Rows,
    Views,
    floating,
    numeric,
    only,
)
from nnc.codegen.frame.sums import FlushedSums, folded, in_runs, is_long
from nnc.codegen.ir.builder import BF16, F16, F32, F64, Builder, LocalVariable, Module, Scalar, Type, Value
from nnc.codegen.ir.expression import Instruction, computed, evaluate, work
from nnc.codegen.ir.target import TargetDescription
from nnc.core.values.derived import Read, largest, smallest
from nnc.graph import Op
from nnc.ops.movement.broadcast import REDUCE_SUM, ReduceAttrs
from nnc.ops.reduction.reduction import REDUCE_MAX, REDUCE_MEAN, REDUCE_MIN, REDUCE_NORM

ACCUMULATORS = 4
AHEAD = 16  # rows, in blocks that are narrower than a row
MOST_SWEPT_BYTES = 1 << 17
SWEPT = 8  # rows at once, where a part takes whole rows
PARTS = 32
PART_ELEMENTS = 4096
FEW_ITEMS = 16
# Of a device: fewer items are cut into parts, so many in all; blocks along a kept axis are one register wide there.
DEVICE_FEW, DEVICE_ITEMS = 1024, 2048
NANOSECONDS_PER_VECTOR, NANOSECONDS_PER_UNIT = 0.5, 0.3

Step = Callable[[Builder, Value], Value]
# Where each operand of the chain is read, in elements.
Places = tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class ReductionRule:
    """One row: how values are combined, from where, what is done before and after, and whether in f64."""

    combine: str
    neutral: float
    prepare: Step
    finish: Callable[[Builder, Value, int], Value]
    wide: bool = False


def _same(b: Builder, x: Value) -> Value:
    return x


def _result(b: Builder, x: Value, count: int) -> Value:
    return x


RULES: dict[str, ReductionRule] = {
    "sum": ReductionRule("add", 0.0, _same, _result),
    "mean": ReductionRule("add", 0.0, _same, lambda b, x, count: x / count),
    "maximum": ReductionRule("maximum", -math.inf, _same, _result),
    "minimum": ReductionRule("minimum", math.inf, _same, _result),
    "norm2": ReductionRule("add", 0.0, lambda b, x: x * x, lambda b, x, count: b.intrinsic("llvm.sqrt", x), wide=True),
}


def neutral(b: Builder, rule: ReductionRule, kind: Type) -> Value:
    """The value that changes nothing when combined."""
    scalar = kind.scalar
    if scalar.floating or rule.neutral == 0.0:
        return b.constant(rule.neutral, kind)
    low = -(2 ** (8 * scalar.size - 1)) if scalar.signed else 0
    high = 2 ** (8 * scalar.size - (1 if scalar.signed else 0)) - 1
    return b.constant(low if rule.neutral < 0 else high, kind)


@dataclass(frozen=True, slots=True)
class Reduction(WithoutScratch, WithSizes):
    """`rule` over the axes of `shape` marked in `reduced`; y, of `written`, is contiguous over the kept axes.

    What is reduced is value number `result` of a chain: the operands, then one value per instruction. Behind y there
    may be outputs `beside` it, which another phase writes.
    """

    rule: str
    shape: Shape
    operands: tuple[StridedAccess, ...]
    reduced: tuple[bool, ...]
    written: Scalar
    instructions: tuple[Instruction, ...] = ()
    result: int = 0
    beside: int = 0

    def opened(self, read: Read, target: TargetDescription) -> Reduction:
        """All sizes are read, of merged axes: those that are contiguous last, as they are."""
        axes = [axis for axis, size in enumerate(self.shape) if size != 1]
        last = bool(axes) and self.reduced[axes[-1]]
        whole = _emptied(self)
        parts = [_select(whole, not last), _select(whole, last)]
        sizes = tuple([size for places, _ in parts for size in places])
        marks = tuple([gone for gone, (places, _) in zip((not last, last), parts, strict=True) for _ in places])
        strides = [
            tuple([step for _, places in parts for step in places[place]]) for place in range(len(self.operands))
        ]
        merged = [replace(operand, strides=steps) for operand, steps in zip(self.operands, strides, strict=True)]
        operands = tuple([operand.opened(read) for operand in merged])
        return replace(self, shape=tuple(map(read, sizes)), operands=operands, reduced=marks)

    def workspace(self, target: TargetDescription) -> int:
        """The results of the parts."""
        nest = ReductionNest.of(self, target)
        return aligned(nest.parts * nest.outputs * nest.held.size) if nest.parts > 1 else 0

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """One phase, or two when the reduction is cut into parts."""
        nest = ReductionNest.of(self, module.target)
        y = len(self.operands)
        if nest.parts == 1:
            return (_write(module, name, nest, source=0, result=y, finished=True),)
        parts = y + 1 + self.beside
        first = _write(module, f"{name}_parts", nest, source=0, result=parts, finished=False)
        second = nest.combining()
        return first, _write(module, f"{name}_whole", second, source=parts, result=y, finished=True)


@dataclass(frozen=True, slots=True)
class ReducedOperand:
    """One operand of the chain: its strides along the merged kept and reduced axes."""

    scalar: Scalar
    offset: int
    kept: Shape
    reduced: Shape


@dataclass(frozen=True, slots=True)
class ReductionNest:
    """The loops: kept axes outside, reduced axes inside, the first reduced axis cut into parts."""

    rule: ReductionRule
    operands: tuple[ReducedOperand, ...]
    instructions: tuple[Instruction, ...]
    chosen: int
    scalar: Scalar
    written: Scalar
    kept: Shape
    reduced: Shape
    lanes: int
    widest: int
    along_kept: bool
    count: int
    parts: int
    held: Scalar

    @classmethod
    def of(cls, problem: Reduction, target: TargetDescription) -> ReductionNest:
        """The nest of a reduction, with merged axes."""
        kept, kept_strides = _select(problem, False)
        reduced, reduced_strides = _select(problem, True)
        axes = [axis for axis, size in enumerate(problem.shape) if size != 1]
        along_kept = bool(kept) and (not reduced or not problem.reduced[axes[-1]])
        rule = RULES[problem.rule]
        scalar = F64 if rule.wide else computed(problem.written)
        count = math.prod(size for size, gone in zip(problem.shape, problem.reduced, strict=True) if gone)
        operands = tuple(
            ReducedOperand(access.scalar, access.offset, outer, inner if reduced else (0,))
            for access, outer, inner in zip(problem.operands, kept_strides, reduced_strides, strict=True)
        )
        walked = [operand.kept if along_kept else operand.reduced for operand in operands]
        nest = cls(
            rule, operands, problem.instructions, problem.result, scalar, problem.written, kept, reduced or (1,),
            target.lanes(8 * scalar.size, apart=is_scattered(walked)),
            1 if target.threads else target.vector_registers // 2, along_kept, count, 1, scalar,
        )  # fmt: skip
        many = ceiling(DEVICE_ITEMS, smallest(DEVICE_ITEMS, largest(nest.items, 1))) if target.threads else PARTS
        nest = nest._cut(many, DEVICE_FEW if target.threads else FEW_ITEMS)
        flushed = rule.combine == "add" and is_long(Type(scalar), nest.chain)
        return replace(nest, held=F64) if flushed else nest

    def _cut(self, most: int, few: int) -> ReductionNest:
        """The same nest in parts, `most` of them, when it has fewer items than `few` and much work."""
        work = self.count * self.outputs
        if (math.prod(self.kept[:-1]) if self.wide else self.items) >= few or work < 2 * PART_ELEMENTS:
            return self
        whole = self.reduced[0] if len(self.reduced) > 1 else ceiling(self.reduced[0], 8 * self.lanes)
        length = ceiling(self.reduced[0], smallest(smallest(most, ceiling(work, PART_ELEMENTS)), whole))
        return replace(self, parts=ceiling(self.reduced[0], length))

    def combining(self) -> ReductionNest:
        """The nest of the second phase: the parts' results, one row per part."""
        return replace(
            self, rule=replace(self.rule, prepare=_same),
            operands=(ReducedOperand(self.held, 0, (1,), (self.outputs,)),), instructions=(), chosen=0,
            scalar=self.held, kept=(self.outputs,), reduced=(self.parts,), parts=1,
            along_kept=self.widest > 1 or self.outputs > 1,
        )  # fmt: skip

    @property
    def outputs(self) -> int:
        return math.prod(self.kept)

    @property
    def block(self) -> int:
        """Outputs of one item: at most `widest` vectors along a kept axis, as many in each item as can be, else one."""
        if not self.along_kept:
            return 1
        vectors = max(1, ceiling(self.kept[-1], self.lanes))
        return self.lanes * ceiling(vectors, ceiling(vectors, self.widest))

    @property
    def blocks(self) -> int:
        """Blocks along the last kept axis."""
        return ceiling(self.kept[-1], self.block) if self.along_kept else 1

    @property
    def wide(self) -> bool:
        """The reduced rows are longer than a few blocks, and not so long that a cache could not hold one."""
        return (
            self.widest > 1
            and self.blocks > 2
            and len(self.reduced) == 1
            and self.kept[-1] * self.scalar.size <= MOST_SWEPT_BYTES
        )

    @property
    def swept(self) -> bool:
        """A part takes whole rows, in the order of memory, and its results lie in the workspace all the time."""
        return self.parts > 1 and self.wide

    @property
    def sparse(self) -> bool:
        """A block's rows lie apart, so that processors do not see which one follows; and there are many of them."""
        return self.blocks > 1 and ceiling(self.reduced[-1], self.parts) >= 4 * AHEAD

    @property
    def chain(self) -> int:
        """Additions in a row to one lane of an accumulator."""
        if self.along_kept:
            rows = 1 if self.swept else max(1, ACCUMULATORS // (self.block // self.lanes))
            return ceiling(self.count, self.parts * rows)
        along = self.lanes * self.unroll
        return ceiling(math.prod(self.reduced[:-1]) * ceiling(self.reduced[-1], along), self.parts)

    @property
    def unroll(self) -> int:
        """FlushedSums of one output along a contiguous reduced axis."""
        return ACCUMULATORS if self.reduced[-1] >= ACCUMULATORS * self.lanes else 1

    @property
    def items(self) -> int:
        """Items of one part."""
        if self.swept:
            return math.prod(self.kept[:-1])
        return math.prod(self.kept[:-1]) * self.blocks if self.along_kept else self.outputs


def _emptied(problem: Reduction) -> Reduction:
    """The same, each reduced axis empty where one is: 2^40 rows of nothing need no loop."""
    reduced = [size for size, gone in zip(problem.shape, problem.reduced, strict=True) if gone]
    if 0 not in reduced:
        return problem
    shape = [0 if gone else size for size, gone in zip(problem.shape, problem.reduced, strict=True)]
    return replace(problem, shape=tuple(shape))


def _select(problem: Reduction, reduced: bool) -> tuple[Shape, tuple[Shape, ...]]:
    """Sizes, and strides of each operand, of the reduced or of the kept axes, merged."""
    axes = [axis for axis, gone in enumerate(problem.reduced) if gone == reduced]
    sizes = tuple(problem.shape[axis] for axis in axes)
    return collapse(sizes, [tuple(access.strides[axis] for axis in axes) for access in problem.operands])


def _write(module: Module, name: str, nest: ReductionNest, *, source: int, result: int, finished: bool) -> Phase:
    each = NANOSECONDS_PER_VECTOR * len(nest.operands) + NANOSECONDS_PER_UNIT * work(nest.instructions)
    cost = each * ceiling(nest.outputs * math.prod(nest.reduced), nest.lanes)
    with phase(module, name) as writer:
        if nest.outputs:
            _ReductionWriter(nest, writer, source, result, finished).write()
    return Phase(name, nest.items * nest.parts if nest.outputs else 0, cost)


class _ReductionWriter:
    """Writes one phase of a reduction."""

    def __init__(self, nest: ReductionNest, writer: PhaseWriter, source: int, result: int, finished: bool) -> None:
        self.nest = nest
        self.b = writer.b
        self.w = writer
        self.sources = [
            self.b.offset(writer.argument(source + place), operand.offset, operand.scalar)
            for place, operand in enumerate(nest.operands)
        ]
        self.y = writer.argument(result)
        self.scalar = nest.scalar
        self.finished = finished

    def write(self) -> None:
        """for item: where it starts, which part it is, its loops"""
        b, nest = self.b, self.nest
        with b.loop(self.w.begin, self.w.end) as item:
            part, place = (
                b.divided(item, nest.items, nest.items * nest.parts) if nest.parts > 1 else (b.constant(0), item)
            )
            length = ceiling(nest.reduced[0], nest.parts)
            low = part * length
            high = b.least(low + length, nest.reduced[0])
            if nest.swept:
                self._sweep(part, place, low, high)
            elif nest.along_kept:
                self._columns(part, place, low, high)
            else:
                self._row(part, place, low, high)

    def _load(self, places: Places, strides: Sequence[int], mask: Value | None) -> Value:
        """A vector of the chain's result, neutral where the mask is not set."""
        b, nest = self.b, self.nest
        pairs = enumerate(zip(places, strides, strict=True))
        values = [self._read(operand, place, stride, mask) for operand, (place, stride) in pairs]
        for instruction in nest.instructions:
            values.append(evaluate(b, instruction, values, nest.lanes))
        value = nest.rule.prepare(b, b.cast(values[nest.chosen], self.scalar))
        return value if mask is None else b.choose(mask, value, neutral(b, nest.rule, value.type))

    def _read(self, operand: int, index: Value, stride: int, mask: Value | None) -> Value:
        b, source, scalar = self.b, self.sources[operand], self.nest.operands[operand].scalar
        if stride == 0:
            return b.splat(b.cast(b.load(source, index, Type(scalar)), computed(scalar)), self.nest.lanes)
        kind = Type(scalar, self.nest.lanes)
        read = b.load(source, index, kind, mask) if stride == 1 else b.gather(source, index, stride, kind, mask)
        return b.cast(read, computed(scalar))

    def _moved(self, places: Places, steps: Value | int, strides: Sequence[int]) -> Places:
        """The places `steps` further along an axis."""
        return tuple(place + steps * stride for place, stride in zip(places, strides, strict=True))

    def _along(self, kept: bool, axis: int) -> list[int]:
        """The operands' strides along a kept or a reduced axis."""
        return [(operand.kept if kept else operand.reduced)[axis] for operand in self.nest.operands]

    def _store(self, value: Value, index: Value, mask: Value | None = None) -> None:
        b, nest = self.b, self.nest
        if self.finished:
            value = b.cast(nest.rule.finish(b, value, nest.count), nest.written)
        b.store(value, self.y, index, mask)

    def _accumulate(self, slot: LocalVariable, value: Value) -> None:
        slot.set(self.b.combine(self.nest.rule.combine, slot.get(), value))

    def _slots(self, count: int) -> FlushedSums:
        empty = neutral(self.b, self.nest.rule, Type(self.scalar, self.nest.lanes))
        return FlushedSums.start(self.b, empty, count, flushed=self.nest.held != self.scalar)

    def _reduced_loops(self, stack: ExitStack, start: Places, low: Value, high: Value, axes: int) -> Places:
        """Open loops over the first `axes` reduced axes; the places inside them."""
        nest = self.nest
        for axis in range(axes):
            bounds = (low, high) if axis == 0 else (self.b.constant(0), self.b.constant(nest.reduced[axis]))
            start = self._moved(start, stack.enter_context(self.b.loop(*bounds)), self._along(False, axis))
        return start

    def _row(self, part: Value, place: Value, low: Value, high: Value) -> None:
        """One output: the lanes of the accumulators walk the last reduced axis."""
        b, nest = self.b, self.nest
        start: Places = tuple(locate(b, place, nest.kept or (1,), [operand.kept or (0,) for operand in nest.operands]))
        last = len(nest.reduced) - 1
        slots = self._slots(nest.unroll)
        with ExitStack() as stack:
            start = self._reduced_loops(stack, start, low, high, last)
            bounds = (low, high) if last == 0 else (b.constant(0), b.constant(nest.reduced[-1]))
            self._run(start, *bounds, slots)
        slots.flush()
        total = folded(b, [slot.get() for slot in slots.totals], nest.rule.combine)
        self._store(total, part * nest.outputs + place)

    def _run(self, start: Places, low: Value, high: Value, slots: FlushedSums) -> None:
        b, lanes, strides = self.b, self.nest.lanes, self._along(False, -1)
        step = lanes * len(slots.sums)
        whole = (high - low) // step * step + low
        if len(slots.sums) > 1:
            with in_runs(b, low, whole, step, [slots]) as index:
                for number, slot in enumerate(slots.sums):
                    places = self._moved(start, index + number * lanes, strides)
                    self._accumulate(slot, self._load(places, strides, None))
        else:
            whole = low
        with b.loop(whole, high, lanes) as index:
            mask = b.mask(high - index, lanes)
            self._accumulate(slots.sums[0], self._load(self._moved(start, index, strides), strides, mask))
        if len(slots.sums) == 1:
            slots.flush()

    def _sweep(self, part: Value, place: Value, low: Value, high: Value) -> None:
        """Rows [low, high) are combined with a row of results, some rows at once, from the first column to the last."""
        b, nest = self.b, self.nest
        start = self._outer(place)
        base = (part * nest.items + place) * nest.kept[-1]
        empty = neutral(b, nest.rule, Type(nest.held, nest.lanes))
        with b.loop(0, nest.kept[-1], nest.lanes) as column:
            b.store(empty, self.y, base + column, self._edge(column))
        whole = (high - low) // SWEPT * SWEPT + low
        for first, last, count in ((low, whole, SWEPT), (whole, high, 1)):
            with b.loop(first, last, count) as index, b.loop(0, nest.kept[-1], nest.lanes) as column:
                mask, strides = self._edge(column), self._along(True, -1)
                rows = [self._moved(start, index + number, self._along(False, -1)) for number in range(count)]
                values = [self._load(self._moved(row, column, strides), strides, mask) for row in rows]
                some = reduce(partial(b.combine, nest.rule.combine), values)
                total = b.load(self.y, base + column, empty.type, mask)
                b.store(b.combine(nest.rule.combine, total, b.cast(some, nest.held)), self.y, base + column, mask)

    def _edge(self, column: Value) -> Value | None:
        """Which lanes of the vector at `column` are columns; None for all."""
        nest = self.nest
        return self.b.mask(nest.kept[-1] - column, nest.lanes) if nest.kept[-1] % nest.lanes else None

    def _outer(self, place: Value) -> Places:
        """Where the operands are read at a position of the kept axes before the last."""
        nest = self.nest
        outer = [operand.kept[:-1] or (0,) for operand in nest.operands]
        return tuple(locate(self.b, place, nest.kept[:-1] or (1,), outer))

    def _columns(self, part: Value, place: Value, low: Value, high: Value) -> None:
        """A block of outputs: every lane is its own sum; few vectors are helped by reading several rows at once."""
        b, nest = self.b, self.nest
        row, column = place // nest.blocks, place % nest.blocks * nest.block
        start = self._outer(row)
        vectors = nest.block // nest.lanes
        rest = b.constant(nest.kept[-1]) - column
        ragged = nest.kept[-1] % nest.block != 0
        masks = [b.mask(rest - j * nest.lanes, nest.lanes) if ragged else None for j in range(vectors)]
        rows = max(1, ACCUMULATORS // vectors)
        slots = [self._slots(vectors) for _ in range(rows)]
        last = len(nest.reduced) - 1
        with ExitStack() as stack:
            inner = self._reduced_loops(stack, self._moved(start, column, self._along(True, -1)), low, high, last)
            bounds = (low, high) if last == 0 else (b.constant(0), b.constant(nest.reduced[-1]))
            self._walk(inner, *bounds, slots, masks)
        for group in slots:
            group.flush()
        base = part * nest.outputs + row * nest.kept[-1] + column
        for j, mask in enumerate(masks):
            total = slots[0].totals[j].get()
            for group in slots[1:]:
                total = b.combine(nest.rule.combine, total, group.totals[j].get())
            self._store(total, base + j * nest.lanes, mask)

    def _walk(
        self,
        start: Places,
        low: Value,
        high: Value,
        slots: Sequence[FlushedSums],
        masks: Sequence[Value | None],
    ) -> None:
        """Rows [low, high) of a block: len(slots) rows at a time, then the rest one by one."""
        rows = len(slots)
        whole = (high - low) // rows * rows + low
        if rows > 1:
            with in_runs(self.b, low, whole, rows, slots) as index:
                for number, group in enumerate(slots):
                    self._gather_row(start, index + number, group.sums, masks)
        else:
            whole = low
        with in_runs(self.b, whole, high, 1, slots[:1]) as index:
            self._gather_row(start, index, slots[0].sums, masks)

    def _gather_row(
        self, start: Places, index: Value, group: Sequence[LocalVariable], masks: Sequence[Value | None]
    ) -> None:
        strides = self._along(True, -1)
        if self.nest.sparse:
            self._bring(self._moved(start, index + AHEAD, self._along(False, -1)), len(group))
        row = self._moved(start, index, self._along(False, -1))
        for j, (slot, mask) in enumerate(zip(group, masks, strict=True)):
            self._accumulate(slot, self._load(self._moved(row, j * self.nest.lanes, strides), strides, mask))

    def _bring(self, row: Places, vectors: int) -> None:
        """Ask for a row of a block."""
        for source, operand, place in zip(self.sources, self.nest.operands, row, strict=True):
            for j in range(vectors if operand.kept[-1] == 1 else 0):
                self.b.prefetch(source, place + j * self.nest.lanes, operand.scalar)


# `Any`: keys are operators of all attribute types.
REDUCTIONS: Mapping[Op[Any], str] = {
    REDUCE_SUM: "sum",
    REDUCE_MEAN: "mean",
    REDUCE_MAX: "maximum",
    REDUCE_MIN: "minimum",
    REDUCE_NORM: "norm2",
}


def _reduction(op: Op[ReduceAttrs]) -> Generate:
    def generate(attrs: ReduceAttrs, inputs: Views, outputs: Views) -> Generator:
        (x,) = inputs
        marks = tuple(axis in attrs.axes for axis in range(len(x.shape)))
        return Reduction(REDUCTIONS[op], x.shape, (x.whole,), marks, outputs[0].scalar)

    return generate


ROWS: Rows = {
    REDUCE_SUM: KernelRow(_reduction(REDUCE_SUM), numeric, strided=True),
    REDUCE_MEAN: KernelRow(_reduction(REDUCE_MEAN), floating, strided=True),
    REDUCE_MAX: KernelRow(_reduction(REDUCE_MAX), numeric, strided=True),
    REDUCE_MIN: KernelRow(_reduction(REDUCE_MIN), numeric, strided=True),
    REDUCE_NORM: KernelRow(_reduction(REDUCE_NORM), only(F32, F16, BF16), strided=True),
}
