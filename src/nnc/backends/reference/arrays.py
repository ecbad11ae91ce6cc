"""What all kernels share: their signature, and how elements are read and written.

A kernel writes each output only after everything that it reads from the inputs has been read, so an output may be
the memory of any input. f16 and bf16 are computed in f32 and rounded once, at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnc.core.values.dtype import BF16, F16
from nnc.graph import Op

# `Any`: a kernel is one text for all element types, and NumPy's types allow arithmetic only on known or on any.
Array = NDArray[Any]
Inputs = Sequence[Array | None]
Outputs = Sequence[Array]
# `Any`: the table holds kernels of all operators; `Command` checks attributes against the operator.
ReferenceKernel = Callable[[Any, Inputs, Outputs], None]
# `Any`: operators of all attribute types.
Rows = Mapping[Op[Any], ReferenceKernel]

NARROW = (F16.numpy, BF16.numpy)


def widen(array: Array | None) -> Array:
    """The elements in the type they are computed in: f32 for f16 and bf16, their own for all others."""
    assert array is not None
    return array.astype(np.float32) if array.dtype in NARROW else array


def accumulator(x: Array) -> type[np.generic]:
    """What sums of such elements are kept in: i64 for integers, modulo 2^64."""
    kinds: Mapping[str, type[np.generic]] = {"f": np.float64, "c": np.complex128}
    return kinds.get(x.dtype.kind, np.int64)


def write(output: Array, value: Array) -> None:
    """output[…] = value, rounded to the output's element type; integers wrap."""
    np.copyto(output, value, casting="unsafe")
