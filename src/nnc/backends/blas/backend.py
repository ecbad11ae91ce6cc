"""The backend that dispatch sees: gemm by numpy.matmul, written where the output is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnc.classes import dataclass
from nnc.core.running.dispatch import (
    Call,
    Program,
    Specs,
    Tensors,
    WithoutWorkspace,
    one_by_one,
    other_elements,
)
from nnc.core.values.command import AnyCommand
from nnc.core.values.dtype import F32, F64
from nnc.core.values.tensor import Tensor
from nnc.ops.products.products import GEMM, GemmAttrs

# `Any`: elements of f32 or f64.
Array = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class BlasProduct(WithoutWorkspace):
    """c[…, m, n] = sum_k a[…, m, k] · b[…, k, n] + bias[n]; operands are read where they are, or copied by NumPy."""

    attrs: GemmAttrs

    def run(self, inputs: Tensors, outputs: Tensors, workspace: Tensor | None) -> None:
        """Compute the output; overflow and nan follow IEEE 754 without a warning."""
        a, b, bias = (None if tensor is None else tensor.numpy() for tensor in inputs)
        (result,) = outputs
        assert a is not None
        assert b is not None
        assert result is not None
        left = a.swapaxes(-1, -2) if self.attrs.transpose_a else a
        right = b.swapaxes(-1, -2) if self.attrs.transpose_b else b
        c = result.numpy()
        with np.errstate(all="ignore"):
            _multiply(left, right, c)
            if bias is not None:
                np.add(c, bias, out=c)


def _multiply(a: Array, b: Array, c: Array) -> None:
    """c = a @ b; batch axes that b does not have are more rows of a."""
    if b.ndim == 2 and a.ndim > 2 and a.flags.c_contiguous and c.flags.c_contiguous:
        rows = math.prod(a.shape[:-1])
        a, c = a.reshape(rows, a.shape[-1]), c.reshape(rows, c.shape[-1])
    np.matmul(a, b, out=c)


@dataclass(frozen=True, slots=True)
class BlasBackend:
    """Matrix products of f32 and f64."""

    name: str = "blas"

    def absence(self) -> str:
        """Never absent: NumPy is a dependency of the package."""
        return ""

    def refusal(self, command: AnyCommand, inputs: Specs, outputs: Specs) -> str:
        """Why the command is not claimed: another operator, other elements, or tensors outside host memory."""
        if command.op is not GEMM:
            return "no product"
        return other_elements((*inputs, *outputs), (F32, F64))

    def kernel(self, command: AnyCommand, inputs: Specs, outputs: Specs) -> BlasProduct:
        """The kernel of a command that `refusal` did not refuse."""
        return BlasProduct(command.attrs)

    def variants(self, command: AnyCommand, inputs: Specs, outputs: Specs) -> Mapping[str, BlasProduct]:
        """None: the library chooses for itself."""
        return {}

    def program(self, calls: Sequence[Call]) -> Program:
        """Runs the calls one after another."""
        return one_by_one(calls)
