"""NumPy's `numpy.testing`, which takes arrays of all kinds, and PyTorch's `assert_close`."""

from __future__ import annotations

import numpy as np
from numpy.testing import (
    assert_almost_equal,
    assert_array_almost_equal,
    assert_array_equal,
    assert_array_less,
    assert_equal,
    assert_raises,
)

from nnc.numerics.conversion import AnyArray, as_array

__all__ = [
    "assert_allclose", "assert_almost_equal", "assert_array_almost_equal", "assert_array_equal", "assert_array_less",
    "assert_close", "assert_equal", "assert_raises",
]  # fmt: skip

# By element type, what PyTorch allows: shares of the expected value, and what is added to them.
CLOSE = {"f64": (1e-7, 1e-7), "f32": (1.3e-6, 1e-5), "f16": (1e-3, 1e-5), "bf16": (1.6e-2, 1e-5)}


def assert_allclose(
    actual: AnyArray, desired: AnyArray, rtol: float = 1e-7, atol: float = 0.0, equal_nan: bool = True
) -> None:
    """AssertionError unless |actual - desired| ≤ atol + rtol · |desired| everywhere, for shapes that meet.

    >>> nnc.testing.assert_allclose(nnc.ones(2), 1.0)
    """
    first, second = (np.asarray(as_array(value).cpu().numpy()) for value in (actual, desired))
    np.testing.assert_allclose(first, second, rtol=rtol, atol=atol, equal_nan=equal_nan)


def assert_close(actual: AnyArray, expected: AnyArray, *, rtol: float | None = None, atol: float | None = None) -> None:
    """AssertionError unless shapes and element types are the same, and elements as near as the type allows.

    >>> nnc.testing.assert_close(nnc.ones(2), nnc.ones(2) + 1e-7)
    """
    first, second = as_array(actual), as_array(expected)
    assert first.spec.shape == second.spec.shape, f"shapes {list(first.shape)} and {list(second.shape)}"
    assert first.dtype is second.dtype, f"element types {first.dtype} and {second.dtype}"
    near = CLOSE.get(str(first.dtype), (0.0, 0.0))
    bounds = near[0] if rtol is None else rtol, near[1] if atol is None else atol
    assert_allclose(first, second, bounds[0], bounds[1])
