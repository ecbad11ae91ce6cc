"""Reductions by groups of threads: some outputs side by side, each with as many threads as share its rows.

    thread t of 256 combines, of output t mod columns, the rows t // columns, and so many on, and so on

Several rows are read before one is combined. What the threads of an output have is combined in halves in the memory of
the group. Parts of few outputs are combined by a second phase in the same way: bits follow from the shapes alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from nnc.classes import dataclass
from nnc.codegen.device.groups.near import NearArray, thread_of, wait
from nnc.codegen.frame.access import locate
from nnc.codegen.frame.kernel import Phase, PhaseWriter, ceiling, phase
from nnc.codegen.frame.sums import FlushedSums, in_runs
from nnc.codegen.ir.builder import LocalVariable, Module, Type, Value
from nnc.codegen.ir.expression import computed, evaluate
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.kernels.reduction.reduction import Reduction, ReductionNest, neutral
from nnc.core.values.derived import known

THREADS = 256
MOST_COLUMNS = 32
# Shorter sums, and many that lie in rows, are as well done by threads in step.
LEAST_ALONG, LEAST_ACROSS, MANY_ROWS = 1024, 64, 8192
TOGETHER, TOGETHER_OF_SEVERAL = 8, 4
NANOSECONDS = 0.3


@dataclass(frozen=True, slots=True)
class GroupReduction:
    """The kernel of a reduction."""

    reduction: Reduction
    nest: ReductionNest

    threads, paired = THREADS, False

    @classmethod
    def of(cls, reduction: Reduction, target: TargetDescription) -> GroupReduction | None:
        """The kernel; None where sums are short, or rows are many, and where a size is read."""
        if target.threads < 2 or not all(map(known, reduction.shape)):
            return None
        nest = ReductionNest.of(reduction, target)
        short = nest.count < (LEAST_ACROSS if nest.along_kept else LEAST_ALONG)
        many = not nest.along_kept and nest.outputs > MANY_ROWS
        return None if not nest.outputs or (nest.parts == 1 and (short or many)) else cls(reduction, nest)

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """One phase, or two when the reduction is cut into parts."""
        nest, y = self.nest, len(self.reduction.operands)
        if nest.parts == 1:
            return (_reduced(module, name, nest, 0, y, finished=True),)
        parts = y + 1 + self.reduction.beside
        first = _reduced(module, f"{name}_parts", nest, 0, parts, finished=False)
        return first, _reduced(module, f"{name}_whole", nest.combining(), parts, y, finished=True)


def _reduced(module: Module, name: str, nest: ReductionNest, source: int, result: int, *, finished: bool) -> Phase:
    """A phase; an item is a block of outputs in one part."""
    columns = min(1 << (nest.kept[-1] - 1).bit_length(), MOST_COLUMNS) if nest.along_kept else 1
    blocks = ceiling(nest.kept[-1], columns) if nest.kept else 1
    each = math.prod(nest.kept[:-1]) * blocks
    with phase(module, name) as w:
        writer = _BlockWriter(w, nest, columns, source)
        with w.b.loop(w.begin, w.end) as item:
            part, place = w.b.divided(item, each, each * nest.parts)
            outer, block = w.b.divided(place, blocks, each)
            writer.write(part, outer, block, w.argument(result), finished=finished)
    return Phase(name, each * nest.parts, NANOSECONDS * nest.outputs * math.prod(nest.reduced))


class _BlockWriter:
    """Writes what a group does with a block of `columns` outputs."""

    def __init__(self, w: PhaseWriter, nest: ReductionNest, columns: int, source: int) -> None:
        self.w, self.b, self.nest, self.columns = w, w.b, nest, columns
        self.rows = THREADS // columns
        self.thread = thread_of(self.b)
        self.column, self.row = self.thread % columns, self.thread // columns
        self.flushed = nest.held != nest.scalar
        self.near = NearArray.reserve(self.b, "sums", nest.held, THREADS)
        self.sources = [
            self.b.offset(w.argument(source + place), operand.offset, operand.scalar)
            for place, operand in enumerate(nest.operands)
        ]

    def write(self, part: Value, outer: Value, block: Value, result: Value, *, finished: bool) -> None:
        """The results of a block; a column that is none reads another one's again."""
        b, nest = self.b, self.nest
        width = nest.kept[-1] if nest.kept else 1
        column = block * self.columns + self.column
        inside = b.compare("<", column, width) if width % self.columns else None
        at = column if inside is None else b.least(column, width - 1)
        starts = locate(b, outer, nest.kept[:-1], [operand.kept[:-1] for operand in nest.operands])
        last = [operand.kept[-1] if nest.kept else 0 for operand in nest.operands]
        places = [start + at * step for start, step in zip(starts, last, strict=True)]
        total = self._folded(self._combined(part, places))
        writes = b.compare("==", self.row, 0)
        with b.when(writes if inside is None else b.both(writes, inside)):
            index = outer * width + column
            if finished:
                value = b.cast(nest.rule.finish(b, total, nest.count), nest.written)
                b.store(value, result, index)
            else:
                b.store(total, result, part * nest.outputs + index)
        wait(b)

    def _combined(self, part: Value, places: Sequence[Value]) -> Value:
        """What this thread has of a part."""
        b, nest = self.b, self.nest
        inner, count = math.prod(nest.reduced[1:]), math.prod(nest.reduced)
        length = ceiling(nest.reduced[0], nest.parts) * inner
        low = part * length
        high = b.least(low + length, count) if count % length else low + length
        together = TOGETHER if len(nest.operands) == 1 else TOGETHER_OF_SEVERAL
        empty = neutral(b, nest.rule, Type(nest.scalar))
        sums = FlushedSums.start(b, empty, together, flushed=self.flushed)
        step = self.rows * together
        whole = low + (high - low) // step * step
        with in_runs(b, low, whole, step, [sums]) as first:
            lines = [first + (self.row + number * self.rows) for number in range(together)]
            for slot, value in zip(sums.sums, [self._value(places, line) for line in lines], strict=True):
                self._combine(slot, value)
        sums.flush()
        with b.loop(whole, high, self.rows) as first:
            line = first + self.row
            inside = b.compare("<", line, high)
            value = self._value(places, b.choose(inside, line, low))
            self._combine(sums.sums[0], b.choose(inside, value, empty))
        sums.flush()
        totals = [slot.get() for slot in sums.totals]
        while len(totals) > 1:
            half = len(totals) // 2
            totals = [b.combine(nest.rule.combine, *pair) for pair in zip(totals[:half], totals[half:], strict=True)]
        return totals[0]

    def _combine(self, slot: LocalVariable, value: Value) -> None:
        slot.set(self.b.combine(self.nest.rule.combine, slot.get(), value))

    def _value(self, places: Sequence[Value], line: Value) -> Value:
        """The chain's result of one row."""
        b, nest = self.b, self.nest
        moved = locate(b, line, nest.reduced, [operand.reduced for operand in nest.operands])
        values = []
        for source, operand, place, step in zip(self.sources, nest.operands, places, moved, strict=True):
            kind = Type(operand.scalar, 1)
            values.append(b.cast(b.load(source, place + step, kind), computed(operand.scalar)))
        for instruction in nest.instructions:
            values.append(evaluate(b, instruction, values, 1))
        return b.extract(nest.rule.prepare(b, b.cast(values[nest.chosen], nest.scalar)), 0)

    def _folded(self, mine: Value) -> Value:
        """What all threads of this output have, for the first of them."""
        b, nest, near = self.b, self.nest, self.near
        total = b.cast(mine, nest.held)
        near.store(total, self.thread)
        wait(b)
        held = b.variable(total)
        rows = self.rows // 2
        while rows:
            with b.when(b.compare("<", self.row, rows)):
                other = near.load(self.thread + rows * self.columns)
                held.set(b.combine(nest.rule.combine, held.get(), other))
                near.store(held.get(), self.thread)
            wait(b)
            rows //= 2
        return held.get()
