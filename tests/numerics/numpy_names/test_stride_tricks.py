"""Windows over arrays are NumPy's, with gradients."""

from __future__ import annotations

import numpy as np
import pytest
from nnc.lib.stride_tricks import sliding_window_view

import nnc
from nnc.errors import ArgumentError, NncError, ShapeError

theirs = np.lib.stride_tricks.sliding_window_view


def test_windows() -> None:
    x = np.arange(24.0, dtype=np.float32).reshape(4, 6)
    for sizes, axis in (((2, 3), None), (3, 1), (2, 0), ((2, 2), (1, 1)), ((3,), (-1,)), ((1, 1), (1, 0))):
        np.testing.assert_array_equal(sliding_window_view(x, sizes, axis).numpy(), theirs(x, sizes, axis))
    assert nnc.lib.stride_tricks.sliding_window_view is sliding_window_view
    means = nnc.jit(lambda x: sliding_window_view(x, 3).mean(-1))
    np.testing.assert_allclose(means(x[0]).numpy(), theirs(x[0], 3).mean(-1))
    assert nnc.grad(lambda x: sliding_window_view(x, 3).sum())(nnc.ones(5)).tolist() == [1.0, 2.0, 3.0, 2.0, 1.0]


def test_windows_that_there_are_not() -> None:
    x = nnc.arange(5)
    for size in (0, 6, -1):
        with pytest.raises(ShapeError, match=f"a window of {size}"):
            sliding_window_view(x, size)
    with pytest.raises(ArgumentError, match="2 sizes for 1 axes"):
        sliding_window_view(x, (2, 2))
    for sizes, axis in (("a", None), (2.5, None), (2, 3)):
        with pytest.raises(NncError):
            sliding_window_view(x, sizes, axis)
