"""Attention and its gradient without the matrix of scores in memory; formulas as in `nnc/ops/sequence/attention.py`.

Forward, an item is a block of rows of one head: the block's scores lie in the worker's scratch, over all columns that
are seen; there they become powers, which weigh v, and each row of y is divided by the sum of its powers. Gradient, an
item is one key and value head: its query heads and their blocks of rows follow each other, so that k' and v' are summed
in one fixed order. With `causal` the rows of a register tile are multiplied with what the last of them sees.

Before, k (and for the gradient v) of the head is transposed into the scratch: kt[d, column], rows padded with zeros.
Forward, the blocks of a head that follow each other share it. Few rows, such as the one of a generated token, are
multiplied with k as it lies.
"""

from __future__ import annotations

from dataclasses import replace

from nnc.classes import dataclass
from nnc.codegen.frame.kernel import Generator, ceiling, phase
from nnc.codegen.frame.row import (
    Generate,
    KernelRow,
    Rows,
    Specs,
    Views,
    only,
)
from nnc.codegen.frame.tile import nanoseconds
from nnc.codegen.frame.widened import in_f32
from nnc.codegen.ir.builder import BOOL, F32, F64, Module
from nnc.codegen.ir.native_kernel import Phase
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.kernels.sequence.attention_forward import AttentionForwardWriter
from nnc.codegen.kernels.sequence.attention_gradient import AttentionGradientWriter
from nnc.codegen.kernels.sequence.attention_sizes import NANOSECONDS_PER_MOVE, AttentionSizes
from nnc.core.values.derived import Read
from nnc.ops.sequence.attention import ATTENTION, ATTENTION_GRADIENT, AttentionAttrs


@dataclass(frozen=True, slots=True)
class Attention(AttentionSizes):
    """The kernel of these sizes."""

    def opened(self, read: Read, target: TargetDescription) -> Attention:
        """The batch, rows, unless it is the one of a new token, columns and the steps of a mask are read."""
        steps = tuple([step if step in (0, 1) else read(step) for step in self.mask_strides])
        rows = self.rows if self.rows == 1 else read(self.rows)
        return replace(self, batch=read(self.batch), rows=rows, columns=read(self.columns), mask_strides=steps)

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """One phase; an item is a block of rows of a head, or for the gradient a key head."""
        target = module.target
        pairs = self.rows * self.columns / (1 + self.causal)
        work = self.batch * self.heads * pairs * (self.features + self.values)
        with phase(module, name) as w:
            (AttentionGradientWriter if self.gradient else AttentionForwardWriter)(self, w).write()
        if self.gradient:
            return (Phase(name, self.batch * self.groups, nanoseconds(target, self.scalar, 3 * work) + 100.0),)
        blocks = self.batch * self.heads * ceiling(self.rows, self.block)
        moved = NANOSECONDS_PER_MOVE * self.batch * self.groups * self.key_elements(target)
        return (Phase(name, blocks, moved + nanoseconds(target, self.scalar, 1.5 * work) + 100.0),)


def _wide_and_filled(attrs: object, inputs: Specs, outputs: Specs) -> str:
    """Refuse narrow floats, and operands of which there is nothing."""
    if any(spec.elements == 0 for spec in (*inputs, *outputs)):
        return "an empty operand"
    return only(F64, F32)(attrs, [spec for spec in inputs if spec.dtype.name != BOOL.name], outputs)


def _attention(gradient: bool) -> Generate:
    """Operands q, k, v, mask; or g, q, k, v, y, lse, mask."""
    start, mask = (1, 6) if gradient else (0, 3)

    def generate(attrs: AttentionAttrs, inputs: Views, outputs: Views) -> Generator:
        q, k, v = inputs[start : start + 3]
        kind, steps = (inputs[mask].scalar, inputs[mask].access(4).strides) if len(inputs) > mask else (None, ())
        return Attention(
            q.scalar, q.shape[0], q.shape[1], k.shape[1], q.shape[2], k.shape[2], q.shape[3], v.shape[3], attrs.scale,
            attrs.causal, kind, steps, gradient,
        )  # fmt: skip

    return generate


ROWS: Rows = {
    ATTENTION: in_f32(KernelRow(_attention(gradient=False), _wide_and_filled)),
    ATTENTION_GRADIENT: in_f32(KernelRow(_attention(gradient=True), _wide_and_filled)),
}
