"""Elementary functions of 16-bit floats are rounded from f32, not between operators: all 65,536 arguments are tried."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from nnc import ops
from nnc.core.values.dtype import BF16, F16, DType
from nnc.dynamic import DynamicGraph, Variable

Wide = NDArray[np.float64]
# Bits behind the point of the significand, and the least exponent of normal numbers.
# An error of f32 in halves of a unit of f16: it decides between two neighbours that are as near.
F32_ULP = 2.0**-12
DIGITS = {F16: (10, -14), BF16: (7, -126)}


def half_units(exact: Wide, dtype: DType) -> Wide:
    """Half of what two neighbours differ by, around each exact result."""
    digits, least = DIGITS[dtype]
    return np.ldexp(0.5, np.maximum(np.frexp(exact)[1] - 1, least) - digits)


@pytest.mark.parametrize("backend", ["llvm", "reference"])
@pytest.mark.parametrize("dtype", [F16, BF16])
@pytest.mark.parametrize(
    ("function", "exact"), [(ops.tan, np.tan), (ops.rsqrt, lambda x: 1 / np.sqrt(x))], ids=["tan", "rsqrt"]
)
def test_each_argument_of_16_bits_gives_the_number_next_to_the_exact_result(
    function: Callable[[Variable], Variable], exact: Callable[[Wide], Wide], dtype: DType, backend: str
) -> None:
    x = np.arange(1 << 16, dtype=np.uint16).view(dtype.numpy)
    graph = DynamicGraph(backend)
    with np.errstate(all="ignore"):
        got = function(graph.constant(x)).numpy().astype(np.float64)
        want = exact(x.astype(np.float64))
    half = half_units(want, dtype)
    finite = np.abs(want) + half < float(ml_dtypes.finfo(dtype.numpy).max)
    np.testing.assert_array_equal(got[~finite], np.where(np.isnan(want), want, np.copysign(np.inf, want))[~finite])
    assert (np.abs(got[finite] - want[finite]) <= half[finite] * (1 + F32_ULP)).all()
