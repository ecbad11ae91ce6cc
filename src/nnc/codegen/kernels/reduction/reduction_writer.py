"""The loops of a reduction: along a contiguous reduced axis, along a kept one, or rows in the order of memory."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial, reduce

from nnc.codegen.frame.access import locate
from nnc.codegen.frame.kernel import PhaseWriter, ceiling
from nnc.codegen.frame.sums import FlushedSums, folded, in_runs
from nnc.codegen.ir.builder import LocalVariable, Type, Value
from nnc.codegen.ir.expression import computed, evaluate
from nnc.codegen.kernels.reduction.reduction_nest import ACCUMULATORS, AHEAD, SWEPT, Places, ReductionNest, neutral


class ReductionWriter:
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
