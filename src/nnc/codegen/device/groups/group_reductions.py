"""Reductions by groups of threads: some outputs side by side, each with as many threads as share its rows.

Several rows are read before one is combined. What the threads of an output have is combined in halves in the memory of
the group. Parts of few outputs are combined by a second phase in the same way: bits follow from the shapes alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from nnc.classes import dataclass
from nnc.codegen.device.groups.columns import THREADS, GroupColumns, columns_of
from nnc.codegen.device.groups.shared_memory import barrier
from nnc.codegen.frame.access import locate
from nnc.codegen.frame.kernel import PhaseWriter, ceiling, phase
from nnc.codegen.ir.builder import Module, Type, Value
from nnc.codegen.ir.expression import computed, evaluate
from nnc.codegen.ir.native_kernel import Phase
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.kernels.reduction.reduction import Reduction, nest_of
from nnc.codegen.kernels.reduction.reduction_nest import ReductionNest, neutral
from nnc.core.values.derived import known

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
        nest = nest_of(reduction, target)
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
    columns = columns_of(nest.kept[-1]) if nest.along_kept else 1
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
        self.w, self.b, self.nest = w, w.b, nest
        self.group = GroupColumns.of(self.b, columns, nest.held)
        self.sources = [
            self.b.offset(w.argument(source + place), operand.offset, operand.scalar)
            for place, operand in enumerate(nest.operands)
        ]

    def write(self, part: Value, outer: Value, block: Value, result: Value, *, finished: bool) -> None:
        """The results of a block; a column that is none reads another one's again."""
        b, nest = self.b, self.nest
        width = nest.kept[-1] if nest.kept else 1
        column = block * self.group.columns + self.group.column
        inside = b.compare("<", column, width) if width % self.group.columns else None
        at = column if inside is None else b.least(column, width - 1)
        starts = locate(b, outer, nest.kept[:-1], [operand.kept[:-1] for operand in nest.operands])
        last = [operand.kept[-1] if nest.kept else 0 for operand in nest.operands]
        places = [start + at * step for start, step in zip(starts, last, strict=True)]
        total = self.group.folded(self._combined(part, places), nest.rule.combine)
        with b.when(b.all_of([b.compare("==", self.group.row, 0), inside])):
            index = outer * width + column
            if finished:
                value = b.cast(nest.rule.finish(b, total, nest.count), nest.written)
                b.store(value, result, index)
            else:
                b.store(total, result, part * nest.outputs + index)
        barrier(b)

    def _combined(self, part: Value, places: Sequence[Value]) -> Value:
        """What this thread has of a part."""
        b, nest = self.b, self.nest
        inner, count = math.prod(nest.reduced[1:]), math.prod(nest.reduced)
        length = ceiling(nest.reduced[0], nest.parts) * inner
        low = part * length
        high = b.least(low + length, count) if count % length else low + length
        (total,) = self.group.combined(
            (low, high), neutral(b, nest.rule, Type(nest.scalar)), 1, lambda line: [self._value(places, line)],
            nest.rule.combine, together=TOGETHER if len(nest.operands) == 1 else TOGETHER_OF_SEVERAL,
            flushed=nest.held != nest.scalar,
        )  # fmt: skip
        return total

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
