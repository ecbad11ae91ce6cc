"""Running sums over arrays seen as [outer, axis, inner]: y[o, k, i] = x[o, 0, i] + … + x[o, k, i], of floats in f64.

An item is a register of columns, so that threads do not change bits.
"""

from __future__ import annotations

import math
from dataclasses import replace

from nnc.classes import dataclass
from nnc.codegen.frame.kernel import Generator, WithoutMemory, WithSizes, ceiling, phase
from nnc.codegen.frame.row import KernelRow, Rows, Views, numeric
from nnc.codegen.ir.builder import F64, I64, Module, Scalar, Type
from nnc.codegen.ir.native_kernel import Phase
from nnc.codegen.ir.target import TargetDescription
from nnc.core.values.derived import Read
from nnc.ops.indexing.order import CUMULATIVE_SUM, ScanAttrs

NANOSECONDS_PER_VECTOR = 2.0


@dataclass(frozen=True, slots=True)
class RunningSum(WithoutMemory, WithSizes):
    """Sums along an axis of `size`; `exclusive` ones leave out their own element, `reverse` ones begin at the end."""

    scalar: Scalar
    outer: int
    size: int
    inner: int
    exclusive: bool
    reverse: bool

    def opened(self, read: Read, target: TargetDescription) -> RunningSum:
        """All sizes are read."""
        inner = read(self.inner) if self.inner > 1 else self.inner
        return replace(self, outer=read(self.outer), size=read(self.size), inner=inner)

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """One phase."""
        total = Type(F64 if self.scalar.floating else I64, min(module.target.lanes(64), self.inner))
        stored = Type(self.scalar, total.lanes)
        blocks = ceiling(self.inner, total.lanes)
        ragged = self.inner % total.lanes != 0
        with phase(module, name) as w, w.b.loop(w.begin, w.end) as item:
            b = w.b
            column = (item % blocks) * total.lanes
            start = item // blocks * (self.size * self.inner) + column
            mask = b.mask(self.inner - column, total.lanes) if ragged else None
            x, y = (b.offset(w.argument(place), start, self.scalar) for place in range(2))
            running = b.variable(b.zero(total))
            with b.loop(0, self.size) as step:
                place = (self.size - 1 - step if self.reverse else step) * self.inner
                # What is read is read before the write, which may be over it.
                value = b.cast(b.load(x, place, stored, mask), total.scalar)
                before = running.get()
                running.set(before + value)
                b.store(b.cast(before if self.exclusive else before + value, self.scalar), y, place, mask)
        cost = self.outer * blocks * self.size * NANOSECONDS_PER_VECTOR
        return (Phase(name, self.outer * blocks if self.size else 0, cost),)


def _running_sum(attrs: ScanAttrs, inputs: Views, outputs: Views) -> Generator:
    x, axis = inputs[0], attrs.axis
    outer, inner = math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])
    if not x.elements:
        outer, inner = 0, 1
    return RunningSum(x.scalar, outer, x.shape[axis], inner, attrs.exclusive, attrs.reverse)


ROWS: Rows = {CUMULATIVE_SUM: KernelRow(_running_sum, numeric)}
