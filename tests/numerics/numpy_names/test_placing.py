"""`out=`, `where=` and `initial=` mean what they mean in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnc
from nnc.errors import ArgumentError, DTypeError, ShapeError

X = np.array([[1.0, 2.0, -3.0], [4.0, 0.0, 6.0]], np.float32)
Y = np.array([[2.0, 0.0, 4.0], [0.0, 5.0, 0.0]], np.float32)
MASK = np.array([[True, False, True], [False, True, True]])
AXES: tuple[Any, ...] = (None, 0, 1, (0, 1))


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "any", "all", "std", "var", "max", "min", "amax"])
def test_reductions_of_what_a_mask_lets_through(name: str) -> None:
    options: dict[str, Any] = {"max": {"initial": -9.0}, "amax": {"initial": 2.0}, "min": {"initial": 9.0}}.get(
        name, {}
    )
    for axis in AXES:
        for keepdims in (False, True):
            given = {"axis": axis, "keepdims": keepdims, "where": MASK} | options
            ours, theirs = getattr(nnc, name)(X, **given).numpy(), getattr(np, name)(X, **given)
            np.testing.assert_allclose(ours, theirs, rtol=1e-6)
            assert ours.shape == np.shape(theirs)


def test_initial_values() -> None:
    for name in ("sum", "prod", "max", "min"):
        ours = getattr(nnc, name)(X, axis=1, initial=5).numpy()
        np.testing.assert_allclose(ours, getattr(np, name)(X, axis=1, initial=5))
    for shape, axis in (((0,), None), ((2, 0), 1), ((0, 3), None), ((0, 3), 0)):
        ours = nnc.max(np.zeros(shape, np.float32), axis=axis, initial=3.0).numpy()
        np.testing.assert_array_equal(ours, np.max(np.zeros(shape), axis=axis, initial=3.0))
    with pytest.raises(ArgumentError, match=r"max: got where= without initial=.*Fix: nnc.max\(x, where=mask, initial="):
        nnc.max(X, where=MASK)
    with pytest.raises(ArgumentError, match="mean: got initial="):
        nnc.mean(X, initial=1.0)


def test_results_go_where_they_are_told() -> None:
    z = nnc.zeros((2, 3))
    other = z
    assert nnc.add(X, Y, out=z) is z
    np.testing.assert_array_equal(other.numpy(), X + Y)
    assert nnc.exp(X, out=(z,)) is z
    plain = np.zeros((2, 2), np.float32)
    assert nnc.matmul(X, Y.T, out=plain) is plain
    np.testing.assert_allclose(plain, X @ Y.T)
    total = nnc.zeros(3)
    nnc.sum(X, axis=0, out=total)
    np.testing.assert_array_equal(total.numpy(), X.sum(0))
    np.testing.assert_array_equal(nnc.concatenate([X, Y], axis=1, out=nnc.zeros((2, 6))).numpy(), np.hstack([X, Y]))
    filled = nnc.jit(lambda x, out: nnc.multiply(x, 2.0, out=out) + out)
    np.testing.assert_array_equal(filled(X, nnc.ones((2, 3))).numpy(), 4 * X)


def test_elements_elsewhere_stay() -> None:
    safe = nnc.divide(X, Y, out=nnc.full((2, 3), 7.0), where=Y != 0)
    np.testing.assert_array_equal(safe.numpy(), np.divide(X, Y, out=np.full((2, 3), 7, np.float32), where=Y != 0))
    assert nnc.log(X, where=X > 0)[0].tolist() == [0.0, pytest.approx(np.log(2.0)), 0.0]
    slopes = nnc.grad(lambda x: nnc.log(x, where=x > 0).sum())(nnc.tensor(X))
    np.testing.assert_allclose(slopes.numpy(), np.where(X > 0, 1 / np.where(X > 0, X, 1), 0.0))
    assert nnc.greater(X, 1.0, where=MASK).dtype is nnc.bool_


def test_wrong_places_are_refused() -> None:
    assert nnc.var(X, ddof=1, where=MASK).item() == pytest.approx(float(np.var(X, ddof=1, where=MASK)))
    assert nnc.sum(X, dim=1, keepdim=True, where=MASK).shape == (2, 1)
    with pytest.raises(ArgumentError, match="sum: got other="):
        nnc.sum(X, other=1, where=MASK)
    for wrong in (np.ones(5, bool), np.ones((3, 1), bool)):
        with pytest.raises(ShapeError):
            nnc.mean(X, where=wrong)
    with pytest.raises(DTypeError, match="out int64 for f32"):
        nnc.add(X, Y, out=np.zeros((2, 3), np.int64))
    with pytest.raises(ShapeError, match=r"out \[3\]"):
        nnc.add(X, Y, out=nnc.zeros(3))
    with pytest.raises(DTypeError, match="out i64 for f32"):
        nnc.add(X, Y, out=nnc.zeros((2, 3), dtype="int64"))
    with pytest.raises(DTypeError, match="truth values"):
        nnc.add(X, Y, where=X)
    with pytest.raises(ArgumentError, match="an array for one array"):
        nnc.add(X, Y, out=[0.0])
    with pytest.raises(ArgumentError, match="where="):
        nnc.matmul(X, Y.T, where=MASK)
    with pytest.raises(ArgumentError, match=r"sum: got out=.*Fix: nnc.sum\(x, out=z\)"):
        nnc.tensor(X).sum(out=nnc.zeros(()))
