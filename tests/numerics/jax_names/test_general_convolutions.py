"""Convolutions in any order of axes are JAX's: shapes, and sums of all elements times cos(i)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nnc
from nnc import lax
from nnc.errors import ArgumentError, ShapeError

DRAW = np.random.default_rng(0)
X = DRAW.standard_normal((2, 9, 8, 6)).astype(np.float32)
W = DRAW.standard_normal((3, 2, 6, 4)).astype(np.float32)
FIRST, FILTERS = X.transpose(0, 3, 1, 2), W.transpose(3, 2, 0, 1)
LAST = ("NHWC", "HWIO", "NHWC")
# The case, and what jax 0.10.2 gives: the shape and the sum.
CASES: dict[str, tuple[Callable[[Any], Any], tuple[int, ...], float]] = {
    "channels last": (
        lambda lax: lax.conv_general_dilated(X, W, (2, 1), "SAME", dimension_numbers=LAST),
        (2, 5, 8, 4),
        38.61046,
    ),
    "borders behind": (
        lambda lax: lax.conv_general_dilated(X, W, (2, 3), "SAME_LOWER", dimension_numbers=LAST),
        (2, 5, 3, 4),
        43.37120,
    ),
    "channels first": (
        lambda lax: lax.conv_general_dilated(FIRST, FILTERS, (1, 2), [(1, 2), (0, 1)]),
        (2, 4, 10, 4),
        -21.56141,
    ),
    "zeros between": (
        lambda lax: lax.conv_general_dilated(X, W, (1, 2), [(1, 0), (0, 2)], (2, 3), (2, 1), LAST),
        (2, 14, 12, 4),
        -19.36085,
    ),
    "cut off": (
        lambda lax: lax.conv_general_dilated(X, W, (1, 1), [(-1, 2), (1, -2)], dimension_numbers=LAST),
        (2, 8, 6, 4),
        -3.47576,
    ),
    "mixed": (
        lambda lax: lax.conv_general_dilated(X, FILTERS, (1, 1), "VALID", dimension_numbers=("NHWC", "OIHW", "HWNC")),
        (7, 7, 2, 4),
        -166.67724,
    ),
    "turned": (
        lambda lax: lax.conv_general_dilated(
            X, W.swapaxes(0, 1), (1, 1), "VALID", dimension_numbers=("NWHC", "HWIO", "NHWC")
        ),
        (2, 7, 7, 4),
        -5.92149,
    ),
    "groups": (
        lambda lax: lax.conv_general_dilated(X, W[:, :, :3], (1, 1), "VALID", None, None, LAST, 2),
        (2, 7, 7, 4),
        -9.57638,
    ),
    "one axis": (
        lambda lax: lax.conv_general_dilated(
            X[:, :, 0], W[:, 0], (2,), "SAME", dimension_numbers=("NWC", "WIO", "NWC")
        ),
        (2, 5, 4),
        6.12083,
    ),
    "conv": (lambda lax: lax.conv(FIRST, FILTERS, (1, 1), "SAME"), (2, 4, 9, 8), -81.62138),
    "transpose": (lambda lax: lax.conv_transpose(X, W, (2, 2), "SAME"), (2, 18, 16, 4), 26.63759),
    "transpose valid": (lambda lax: lax.conv_transpose(X, W, (1, 3), "VALID"), (2, 11, 24, 4), -5.94131),
    "transpose far": (lambda lax: lax.conv_transpose(X, W, (4, 2), "SAME", (1, 2)), (2, 36, 16, 4), 67.83664),
    "transpose pairs": (lambda lax: lax.conv_transpose(X, W, (2, 2), [(1, 1), (0, 2)]), (2, 17, 16, 4), -23.10770),
    "transpose of a gradient": (
        lambda lax: lax.conv_transpose(X[..., :4], W, (2, 2), "SAME", transpose_kernel=True),
        (2, 18, 16, 6),
        -10.55865,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_jax_gives(name: str) -> None:
    function, shape, total = CASES[name]
    y = function(lax).numpy()
    assert y.shape == shape
    assert float((y.ravel() * np.cos(np.arange(y.size))).sum()) == pytest.approx(total, rel=1e-4, abs=1e-3)


def test_gradients_and_compiled_calls() -> None:
    def loss(w: Any) -> Any:
        y = lax.conv_general_dilated(X, w, (2, 1), [(1, 1), (0, 1)], lhs_dilation=(2, 1), dimension_numbers=LAST)
        return (y * y).sum()

    slope = nnc.grad(loss)(nnc.tensor(W))
    assert float((slope.numpy().ravel() * np.cos(np.arange(W.size))).sum()) == pytest.approx(306.6715, rel=1e-4)
    np.testing.assert_allclose(nnc.jit(nnc.grad(loss))(W).numpy(), slope.numpy(), rtol=1e-4, atol=1e-3)
    images = nnc.tensor(X).unsqueeze(1)
    mapped = nnc.vmap(lambda x: lax.conv_general_dilated(x, W, (1, 1), "VALID", dimension_numbers=LAST))(images)
    assert mapped.shape == (2, 1, 7, 7, 4)


def test_wrong_calls_are_answered() -> None:
    with pytest.raises(ArgumentError, match=r"dimension_numbers: got .*; need three texts of 4 letters"):
        lax.conv_general_dilated(X, W, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO"))
    with pytest.raises(ArgumentError, match="the same spatial letters"):
        lax.conv_general_dilated(X, W, (1, 1), "SAME", dimension_numbers=("NHWC", "DHIO", "NHWC"))
    with pytest.raises(ArgumentError, match="window_strides: got 1 of them; need 2"):
        lax.conv_general_dilated(X, W, (1,), "SAME", dimension_numbers=LAST)
    with pytest.raises(ArgumentError, match="padding"):
        lax.conv_general_dilated(X, W, (1, 1), "same", dimension_numbers=LAST)
    with pytest.raises(ArgumentError, match="2 pairs"):
        lax.conv_general_dilated(X, W, (1, 1), [(1, 1)], dimension_numbers=LAST)
    with pytest.raises(ArgumentError, match="batch_group_count=2"):
        lax.conv_general_dilated(X, W, (1, 1), "SAME", dimension_numbers=LAST, batch_group_count=2)
    with pytest.raises(ShapeError, match="channels"):
        lax.conv(X, W, (1, 1), "SAME")
    with pytest.raises(ShapeError, match="3 to 5"):
        lax.conv(X[0, 0], W, (1,), "SAME")
