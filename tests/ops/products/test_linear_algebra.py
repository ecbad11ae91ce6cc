"""Linear algebra: what the results are, gradients of symmetric matrices, and what cannot be computed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnc
from nnc import ops
from nnc.errors import DTypeError, NotDifferentiableError, ShapeError, UsageError

A = np.random.default_rng(3).normal(size=(2, 3, 3))
WAYS = pytest.mark.parametrize("way", [lambda function: function, nnc.compile], ids=["eager", "compiled"])


@WAYS
def test_results_are_what_they_are_called(way: Any) -> None:
    symmetric = A @ A.swapaxes(1, 2) + np.eye(3)
    lower = way(ops.cholesky)(nnc.tensor(symmetric)).numpy()
    np.testing.assert_allclose(lower @ lower.swapaxes(1, 2), symmetric)
    np.testing.assert_allclose(
        way(ops.inverse)(nnc.tensor(A)).numpy() @ A, np.broadcast_to(np.eye(3), A.shape), atol=1e-12
    )
    for b in (np.ones(3), np.ones((3, 2)), np.ones((2, 3, 1))):
        x = way(ops.solve)(nnc.tensor(A), nnc.tensor(b)).numpy()
        np.testing.assert_allclose(
            A @ (x[..., None] if b.ndim == 1 else x), (b[:, None] if b.ndim == 1 else b) + 0 * A[:, :, :1]
        )
    q, r = way(ops.qr)(nnc.tensor(A[:, :, :2]))
    np.testing.assert_allclose(q.numpy() @ r.numpy(), A[:, :, :2])
    u, s, v = way(ops.svd)(nnc.tensor(A[0, :2]))
    np.testing.assert_allclose(u.numpy() * s.numpy() @ v.numpy(), A[0, :2])


@WAYS
def test_the_gradient_of_a_symmetric_matrix_is_symmetric(way: Any) -> None:
    """d ln det a = a⁻¹: ln det a is twice the sum of the logarithms on the diagonal of l."""
    symmetric = A[0] @ A[0].T + np.eye(3)
    logarithm = lambda a: 2.0 * (ops.log(ops.cholesky(a) + (1.0 - ops.identity_like(a))) * ops.identity_like(a)).sum()  # noqa: E731  # a formula
    np.testing.assert_allclose(way(nnc.grad(logarithm))(symmetric), np.linalg.inv(symmetric), rtol=1e-9)
    twice = way(nnc.grad(lambda a: nnc.grad(logarithm)(a).sum()))(symmetric)
    inverse = np.linalg.inv(symmetric)
    np.testing.assert_allclose(twice, -np.outer(inverse.sum(0), inverse.sum(0)), rtol=1e-8)


def test_what_cannot_be_computed_says_why() -> None:
    with pytest.raises(UsageError, match="cholesky: .*positive"):
        ops.cholesky(nnc.tensor(-np.eye(2)))
    with pytest.raises(UsageError, match="solve: .*singular.*inverse"):
        ops.inverse(nnc.tensor(np.zeros((2, 2))))
    with pytest.raises(ShapeError, match="square"):
        ops.cholesky(nnc.tensor(np.ones((2, 3))))
    with pytest.raises(ShapeError, match="b f64"):
        ops.solve(nnc.tensor(np.eye(2)), nnc.tensor(np.ones((3, 1))))
    with pytest.raises(DTypeError, match="qr: .*float"):
        ops.qr(nnc.tensor(np.ones((2, 2), np.int64)))
    with pytest.raises(NotDifferentiableError, match="wide"):
        nnc.grad(lambda a: ops.qr(a)[1].sum())(np.ones((2, 3)))


def test_equal_singular_values_give_no_infinite_gradient() -> None:
    slope = nnc.grad(lambda a: (ops.svd(a)[1] ** 2).sum())(np.eye(3))
    np.testing.assert_allclose(slope, 2 * np.eye(3))
    assert np.isfinite(nnc.grad(lambda a: ops.svd(a)[0].sum())(np.eye(3)).numpy()).all()
