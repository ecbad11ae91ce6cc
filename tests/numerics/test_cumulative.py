"""What runs along an axis, against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest
from tests.numerics.agreement import Call, agree, agree_compiled, slopes_agree

import nnc
from nnc.errors import AttributeValueError, ShapeError

RANDOM = np.random.default_rng(3)
X = RANDOM.standard_normal((3, 5))
POINTS = np.cumsum(RANDOM.uniform(0.1, 1.0, 6))
SMOOTH: list[Call] = [
    lambda xp, x: xp.cumsum(x),
    lambda xp, x: xp.cumsum(x, axis=0),
    lambda xp, x: xp.cumprod(x, 1),
    lambda xp, x: xp.diff(x),
    lambda xp, x: xp.diff(x, n=2, axis=0),
    lambda xp, x: xp.diff(x, prepend=0.0, append=x[:, :2]),
    lambda xp, x: xp.ediff1d(x),
    lambda xp, x: xp.gradient(x),
    lambda xp, x: xp.gradient(x, 0.5, axis=1),
    lambda xp, x: xp.gradient(x[:, 0]),
    lambda xp, x: xp.trapezoid(x),
    lambda xp, x: xp.trapezoid(x, dx=0.5, axis=0),
    lambda xp, x: xp.trapezoid(x, POINTS[:5]),
    lambda xp, x: xp.interp(x, POINTS - 2, np.sin(POINTS)),
    lambda xp, x: xp.interp(x[0], POINTS - 2, np.sin(POINTS), left=-1.0, right=2.0),
    lambda xp, x: xp.interp(np.linspace(0, 3, 7), np.arange(5.0), x[0]),
    lambda xp, x: xp.convolve(x[0], x[1, :3]),
    lambda xp, x: xp.convolve(x[0, :2], x[1], "same"),
    lambda xp, x: xp.convolve(x[0], x[1, :3], mode="valid"),
    lambda xp, x: xp.correlate(x[0], x[1, :3]),
    lambda xp, x: xp.correlate(x[0], x[1, :3], "full"),
]


def test_values_and_gradients() -> None:
    agree(SMOOTH, X)
    slopes_agree(SMOOTH, X)


def test_compiled() -> None:
    agree_compiled(SMOOTH, X)


def test_running_extrema() -> None:
    np.testing.assert_array_equal(nnc.cummax(X, 1), np.maximum.accumulate(X, 1))
    np.testing.assert_array_equal(nnc.cummin(X, 0), np.minimum.accumulate(X, 0))
    np.testing.assert_allclose(nnc.logcumsumexp(X), np.logaddexp.accumulate(X, -1))
    slopes_agree([lambda xp, x: xp.cummax(x, 1), lambda xp, x: xp.logcumsumexp(x)], X)


def test_integers_and_truth_values() -> None:
    counts = RANDOM.integers(0, 5, (3, 4))
    agree([lambda xp, x: xp.cumsum(x, 0), lambda xp, x: xp.cumprod(x), lambda xp, x: xp.diff(x)], counts)
    agree([lambda xp, x: xp.cumsum(x, 0), lambda xp, x: xp.diff(x)], counts > 2)
    agree([lambda xp, x: xp.cumulative_sum(x, axis=1, include_initial=True)], counts)
    agree([lambda xp, x: xp.cumulative_prod(x, axis=0)], X)
    agree([lambda xp, x: xp.nancumsum(x, 1), lambda xp, x: xp.nancumprod(x)], np.where(X > 0, X, np.nan))
    agree(
        [lambda xp, x: xp.cumsum(x), lambda xp, x: xp.diff(x, axis=0), lambda xp, x: xp.cumprod(x, 1)], np.zeros((0, 2))
    )


def test_refusals() -> None:
    with pytest.raises(AttributeValueError, match="n ≥ 0"):
        nnc.diff(X, -1)
    with pytest.raises(ShapeError, match="two elements"):
        nnc.gradient(X[:1], axis=0)
    with pytest.raises(ShapeError, match="vectors of one size"):
        nnc.interp(0.5, [0.0, 1.0], [1.0])
    with pytest.raises(ShapeError, match="convolve"):
        nnc.convolve(X, X)
    with pytest.raises(AttributeValueError, match="mode"):
        nnc.convolve([1.0], [1.0], "half")  # type: ignore[arg-type]
