"""Reductions: y[kept] = finish(combine over reduced axes of prepare(x[kept, reduced])): sum, mean, max ...

x may be a pointwise chain of several operands, which is computed in registers where it is combined.

Along a contiguous reduced axis the lanes of a few accumulators share the work and are folded in halves at the end;
along a contiguous kept axis every lane is its own output. A long reduction with few outputs is cut into a fixed number
of parts, whose results a second phase combines: parts depend on the shape alone, so bits do not depend on threads.

Long sums of f32 are flushed into f64 (`frame/sums.py`): the error does not grow with the length.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from nnc.classes import dataclass
from nnc.codegen.frame.access import Shape, StridedAccess, collapse, is_scattered
from nnc.codegen.frame.kernel import Generator, WithoutScratch, WithSizes, ceiling, phase
from nnc.codegen.frame.row import (
    Generate,
    KernelRow,
    Rows,
    Views,
    floating,
    numeric,
    only,
)
from nnc.codegen.frame.sums import is_long
from nnc.codegen.ir.builder import BF16, F16, F32, F64, Module, Scalar, Type
from nnc.codegen.ir.expression import Instruction, computed, work
from nnc.codegen.ir.native_kernel import Phase, aligned
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.kernels.reduction.reduction_nest import (
    DEVICE_FEW,
    DEVICE_ITEMS,
    FEW_ITEMS,
    NANOSECONDS_PER_UNIT,
    NANOSECONDS_PER_VECTOR,
    PARTS,
    RULES,
    ReducedOperand,
    ReductionNest,
)
from nnc.codegen.kernels.reduction.reduction_writer import ReductionWriter
from nnc.core.values.derived import Read, largest, smallest
from nnc.graph import Op
from nnc.ops.movement.broadcast import REDUCE_SUM, ReduceAttrs
from nnc.ops.reduction.reduction import REDUCE_MAX, REDUCE_MEAN, REDUCE_MIN, REDUCE_NORM


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
        nest = nest_of(self, target)
        return aligned(nest.parts * nest.outputs * nest.held.size) if nest.parts > 1 else 0

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """One phase, or two when the reduction is cut into parts."""
        nest = nest_of(self, module.target)
        y = len(self.operands)
        if nest.parts == 1:
            return (_write(module, name, nest, source=0, result=y, finished=True),)
        parts = y + 1 + self.beside
        first = _write(module, f"{name}_parts", nest, source=0, result=parts, finished=False)
        second = nest.combining()
        return first, _write(module, f"{name}_whole", second, source=parts, result=y, finished=True)


def nest_of(problem: Reduction, target: TargetDescription) -> ReductionNest:
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
    nest = ReductionNest(
        rule, operands, problem.instructions, problem.result, scalar, problem.written, kept, reduced or (1,),
        target.lanes(8 * scalar.size, apart=is_scattered(walked)),
        1 if target.threads else target.vector_registers // 2, along_kept, count, 1, scalar,
    )  # fmt: skip
    many = ceiling(DEVICE_ITEMS, smallest(DEVICE_ITEMS, largest(nest.items, 1))) if target.threads else PARTS
    nest = nest.in_parts(many, DEVICE_FEW if target.threads else FEW_ITEMS)
    flushed = rule.combine == "add" and is_long(Type(scalar), nest.chain)
    return replace(nest, held=F64) if flushed else nest


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
            ReductionWriter(nest, writer, source, result, finished).write()
    return Phase(name, nest.items * nest.parts if nest.outputs else 0, cost)


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
