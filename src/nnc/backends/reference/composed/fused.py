"""Fused expressions, one step after another by the kernels of the steps' operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nnc.backends.reference.arrays import Array, Inputs, Outputs, ReferenceKernel, widen, write
from nnc.core.values.command import AnyCommand
from nnc.core.values.dtype import dtype_of
from nnc.core.values.spec import TensorSpec
from nnc.graph import Op
from nnc.ops.composed.fused import FusedAttrs, result_of
from nnc.ops.elementwise.pointwise import CAST
from nnc.ops.rules import infer


def fused(kernel_of: Callable[[Op[Any]], ReferenceKernel]) -> ReferenceKernel:
    """The kernel y = e(x₀, …) with the kernels of the steps' operators.

    As every kernel does, it computes f16 and bf16 in f32 and rounds once, at the end; a cast on the way rounds too.
    """

    def step(command: AnyCommand, operands: Sequence[Array | None]) -> Array:
        specs = tuple(
            None if operand is None else TensorSpec(operand.shape, dtype_of(operand.dtype)) for operand in operands
        )
        (spec,) = infer(command.op, command.attrs, specs)
        result = np.empty(spec.shape, spec.dtype.numpy)
        if command.op is not CAST:
            result = widen(result)
        kernel_of(command.op)(command.attrs, operands, [result])
        return widen(result)

    def kernel(attrs: FusedAttrs, inputs: Inputs, outputs: Outputs) -> None:
        write(outputs[0], result_of(attrs, [widen(array) for array in inputs], step))

    return kernel
