"""Sums, order statistics and the like, against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest
from tests.numerics.agreement import Call, agree, agree_compiled, slopes_agree

import nnc
from nnc.errors import AttributeValueError, ShapeError

RANDOM = np.random.default_rng(2)
X = RANDOM.standard_normal((2, 3, 4))
HOLES = np.where(RANDOM.uniform(size=X.shape) < 0.3, np.nan, X)
HOLES[0, 0] = X[0, 0]
WEIGHTS = RANDOM.uniform(0.1, 1.0, X.shape)

SMOOTH: list[Call] = [
    lambda xp, x: xp.sum(x, 1),
    lambda xp, x: xp.sum(x, axis=(0, 2), keepdims=True),
    lambda xp, x: xp.prod(x, -1),
    lambda xp, x: xp.mean(x, axis=0),
    lambda xp, x: xp.var(x, 2, ddof=1) if xp is np else xp.var(x, 2, correction=1),
    lambda xp, x: xp.std(x, axis=1, ddof=1),
    lambda xp, x: xp.max(x, axis=1),
    lambda xp, x: xp.amin(x, axis=-1, keepdims=True),
    lambda xp, x: xp.ptp(x, 0),
    lambda xp, x: xp.median(x),
    lambda xp, x: xp.median(x, axis=(0, 1), keepdims=True),
    lambda xp, x: xp.quantile(x, 0.3, axis=2),
    lambda xp, x: xp.quantile(x, np.array([0.0, 0.25, 1.0]), axis=1),
    lambda xp, x: xp.percentile(x, 60, axis=0),
    lambda xp, x: xp.percentile(x, [10, 90], axis=-1, keepdims=True),
    lambda xp, x: xp.average(x, axis=1, weights=WEIGHTS[0, :, 0]),
    lambda xp, x: xp.average(x, weights=WEIGHTS),
    lambda xp, x: xp.cov(x[0]),
    lambda xp, x: xp.cov(x[0], x[1], rowvar=False) if xp is np else xp.cov(x[0], x[1], rows=False),
    lambda xp, x: xp.corrcoef(x[1]),
    lambda xp, x: xp.cov(x[0, 0]),
]
METHODS: list[Call] = [
    (lambda xp, x, method=method: xp.quantile(x, [0.1, 0.5, 0.77], 0, method=method))
    for method in ("linear", "lower", "higher", "nearest", "midpoint")
]
LOOKS: list[Call] = [
    lambda xp, x: xp.all(x, axis=1),
    lambda xp, x: xp.any(x),
    lambda xp, x: xp.argmax(x),
    lambda xp, x: xp.argmin(x, axis=-1),
    lambda xp, x: xp.argmax(x, axis=0, keepdims=True),
    lambda xp, x: xp.count_nonzero(x, axis=1),
]
WITHOUT: list[Call] = [
    (lambda xp, x, name=name, axis=axis: getattr(xp, name)(x, axis=axis))
    for name in ("nansum", "nanprod", "nanmean", "nanvar", "nanstd", "nanmax", "nanmin", "nanmedian")
    for axis in (None, 0, -1)
]


def test_values_and_gradients() -> None:
    agree(SMOOTH, X)
    slopes_agree(SMOOTH, X)
    agree(METHODS, X[0])


def test_compiled() -> None:
    agree_compiled([*SMOOTH, *LOOKS, *WITHOUT], X)


def test_integers_truth_values_and_what_looks() -> None:
    counts = RANDOM.integers(-3, 4, X.shape)
    for value in (X, counts, counts > 0):
        agree(LOOKS, value)
    sums: list[Call] = [
        lambda xp, x: xp.sum(x, axis=0),
        lambda xp, x: xp.prod(x),
        lambda xp, x: xp.mean(x, axis=1),
        lambda xp, x: xp.max(x, axis=1),
        lambda xp, x: xp.sum(x, dtype=np.float64),
    ]
    agree(sums, counts)
    agree(sums, counts > 0)
    agree(sums, counts.astype(np.uint8))
    agree([lambda xp, x: xp.median(x, axis=2)], counts)


def test_edges() -> None:
    scalar, empty = np.float64(2.0) + np.zeros(()), np.zeros((0, 3))
    agree(
        [lambda xp, x: xp.sum(x), lambda xp, x: xp.median(x), lambda xp, x: xp.argmax(x), lambda xp, x: xp.max(x)],
        scalar,
    )
    agree(
        [lambda xp, x: xp.sum(x, 0), lambda xp, x: xp.prod(x, 0), lambda xp, x: xp.all(x), lambda xp, x: xp.sum(x, 1)],
        empty,
    )
    assert np.isnan(nnc.mean(empty, 0).numpy()).all()
    for refused in (lambda: nnc.median(empty, 0), lambda: nnc.max(empty, 0), lambda: nnc.cov(X)):
        with pytest.raises(ShapeError):
            refused()
    with pytest.raises(AttributeValueError, match="0 ≤ q ≤ 1"):
        nnc.quantile(X, 1.5)
    with pytest.raises(AttributeValueError, match="method"):
        nnc.quantile(X, 0.5, method="cubic")  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="weights"):
        nnc.average(X, weights=[1.0, 2.0])
    agree(
        [lambda xp, x: xp.median(x), lambda xp, x: xp.quantile(x, 0.2, axis=0)], np.array([[1.0, np.nan], [2.0, 3.0]])
    )
    assert nnc.quantile([1.0, np.inf, 2.0, -np.inf], [0.0, 0.5, 1.0]).tolist() == [-np.inf, 1.5, np.inf]


def test_without_nan() -> None:
    agree(WITHOUT, HOLES)
    agree([lambda xp, x: xp.nanquantile(x, 0.3, axis=1), lambda xp, x: xp.nanpercentile(x, 70)], HOLES)
    slopes_agree([lambda xp, x: xp.nanmean(xp.where(X.min() < X, x, np.nan), axis=0)], X + 3)
    assert np.isnan(nnc.nanmax([np.nan, np.nan]).item())


def test_softmax_along_any_axis() -> None:
    shares = nnc.softmax(X, axis=1)
    np.testing.assert_allclose(shares.sum(1), np.ones((2, 4)))
    np.testing.assert_allclose(nnc.log_softmax(X, axis=0), np.log(nnc.softmax(X, 0)))
    np.testing.assert_allclose(nnc.logsumexp(X, axis=(0, 1)), np.log(np.exp(X).sum((0, 1))))
    assert nnc.softmax([1, 2], dim=0).shape == (2,)


def test_the_variance_of_complex_numbers_is_real_as_in_numpy() -> None:
    z = np.array([[1 + 1j, 1 - 1j, 3.0], [2j, 0.5, -1.0]], np.complex64)
    for ours, theirs in ((nnc.var, np.var), (nnc.std, np.std)):
        result = ours(z, axis=1)
        assert result.dtype is nnc.f32
        np.testing.assert_allclose(result.numpy(), theirs(z, axis=1), rtol=1e-6)


@pytest.mark.parametrize("q", ["x", [0.5, "x"], [1j]])
def test_shares_are_real_numbers(q: object) -> None:
    for function in (nnc.quantile, nnc.percentile):
        with pytest.raises(nnc.errors.DTypeError):
            function([1.0, 2.0], q)  # type: ignore[operator]
