"""Products, windows and scans over any axes are what NumPy gives by hand."""

from __future__ import annotations

import numpy as np
import pytest

import nnc
from nnc import lax
from nnc.errors import ArgumentError, ShapeError

DRAW = np.random.default_rng(0)
A = DRAW.standard_normal((2, 3, 4, 5)).astype(np.float32)
B = DRAW.standard_normal((4, 2, 7, 3)).astype(np.float32)
X = DRAW.standard_normal((2, 6, 8)).astype(np.float32)


def test_products() -> None:
    y = lax.dot_general(A, B, (((2, 1), (0, 3)), ((0,), (1,))))
    np.testing.assert_allclose(y.numpy(), np.einsum("bjkl,kbmj->blm", A, B), rtol=1e-4, atol=1e-5)
    y = lax.dot_general(A[0, 0], B[:, 0, :, 0], (((0,), (0,)), ((), ())), preferred_element_type=nnc.float64)
    np.testing.assert_allclose(y.numpy(), A[0, 0].T.astype(np.float64) @ B[:, 0, :, 0])
    outer = lax.dot_general(A[0, 0, 0], B[:, 0, 0, 0], (((), ()), ((), ())))
    np.testing.assert_allclose(outer.numpy(), np.outer(A[0, 0, 0], B[:, 0, 0, 0]), rtol=1e-6)
    np.testing.assert_allclose(
        lax.batch_matmul(A, A.swapaxes(2, 3)).numpy(), A @ A.swapaxes(2, 3), rtol=1e-5, atol=1e-5
    )
    for numbers in (
        (((5,), (0,)), ((), ())),
        (((0, 0), (0, 1)), ((), ())),
        ((0,), ((), ())),
        3,
        (((0,), ()), ((), ())),
    ):
        with pytest.raises(ArgumentError, match="dot_general"):
            lax.dot_general(A, B, numbers)  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="axes 0 and 0"):
        lax.dot_general(A, B, (((0,), (0,)), ((), ())))


def test_windows() -> None:
    pooled = lax.reduce_window(X, -np.inf, lax.max, (1, 2, 2), (1, 2, 2), "VALID")
    np.testing.assert_array_equal(pooled.numpy(), X.reshape(2, 3, 2, 4, 2).max((2, 4)))
    sums = lax.reduce_window(X, 0.0, lax.add, (1, 3, 1), None, "SAME")
    edged = np.pad(X, ((0, 0), (1, 1), (0, 0)))
    np.testing.assert_allclose(sums.numpy(), edged[:, :-2] + edged[:, 1:-1] + edged[:, 2:], rtol=1e-5, atol=1e-6)
    apart = lax.reduce_window(X, np.inf, lax.min, (1, 2, 1), None, "VALID", window_dilation=(1, 3, 1))
    np.testing.assert_array_equal(apart.numpy(), np.minimum(X[:, :-3], X[:, 3:]))
    slope = nnc.grad(lambda x: lax.reduce_window(x, -nnc.inf, lax.max, (2,), (2,)).sum())(
        nnc.tensor([1.0, 3.0, 2.0, 0.0])
    )
    assert slope.tolist() == [0.0, 1.0, 1.0, 0.0]
    with pytest.raises(ShapeError, match="one for each axis"):
        lax.reduce_window(X, 0.0, lax.add, (2, 2))
    with pytest.raises(ShapeError, match="room"):
        lax.reduce_window(X, 0.0, lax.add, (3, 1, 1))


def test_scans() -> None:
    np.testing.assert_allclose(lax.associative_scan(lax.mul, X, axis=1).numpy(), X.cumprod(1), rtol=1e-5)
    back = lax.associative_scan(lax.add, X, reverse=True, axis=-1).numpy()
    np.testing.assert_allclose(back, X[..., ::-1].cumsum(-1)[..., ::-1], rtol=1e-4, atol=1e-5)

    def compose(left: tuple[object, ...], right: tuple[object, ...]) -> tuple[object, ...]:
        return left[0] * right[0], right[0] * left[1] + right[1]  # type: ignore[operator]

    factors, terms = X[0], X[1]
    state, wanted = np.zeros(8, np.float32), []
    for factor, term in zip(factors, terms, strict=True):
        state = factor * state + term
        wanted.append(state)
    scan = nnc.jit(lambda a, b: lax.associative_scan(compose, (a, b))[1])
    np.testing.assert_allclose(scan(factors, terms).numpy(), wanted, rtol=1e-4, atol=1e-5)
    assert lax.associative_scan(lax.add, nnc.zeros((0, 2))).shape == (0, 2)
    with pytest.raises(ShapeError, match="one size"):
        lax.associative_scan(compose, (nnc.ones(2), nnc.ones(3)))
    with pytest.raises(ArgumentError, match="got 1 leaves of fn; need the 2 of elems"):
        lax.associative_scan(lambda a, b: a[0], (nnc.ones(2), nnc.ones(2)))


def test_parts_and_borders() -> None:
    padded = lax.pad(X, 2.0, [(1, -1, 0), (0, 0, 2), (-1, 3, 1)]).numpy()
    wanted = np.full((2, 16, 17), 2.0, np.float32)
    inner = np.full((6, 15), 2.0, np.float32)
    inner[:, ::2] = X[0]
    wanted[1, ::3, :14] = inner[:, 1:]
    np.testing.assert_array_equal(padded, wanted)
    np.testing.assert_array_equal(lax.slice(X, (0, 1, 2), (2, 6, 7), (1, 2, 1)).numpy(), X[:, 1:6:2, 2:7])
    np.testing.assert_array_equal(lax.slice_in_dim(X, 1, -1, 2, axis=2).numpy(), X[:, :, 1:-1:2])
    np.testing.assert_array_equal(lax.rev(X, (0, 2)).numpy(), X[::-1, :, ::-1])
    repeated = lax.broadcast_in_dim(X[0], (6, 3, 8), (0, 2)).numpy()
    np.testing.assert_array_equal(repeated, np.broadcast_to(X[0][:, None], (6, 3, 8)))
    assert lax.convert_element_type(X, "int32").dtype is nnc.i32
    with pytest.raises(ArgumentError, match="between"):
        lax.pad(X, 0.0, [(0, 0, -1)] * 3)
    with pytest.raises(ShapeError, match="4 rows less of 2"):
        lax.pad(X, 0.0, [(-2, -2, 0), (0, 0, 0), (0, 0, 0)])
    with pytest.raises(ShapeError, match="limit"):
        lax.slice(X, (0, 0, 0), (3, 1, 1))
    with pytest.raises(ShapeError, match="in order"):
        lax.broadcast_in_dim(X[0], (6, 3, 8), (2, 0))
