"""Linear algebra, against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest
from tests.numerics.agreement import Call, agree, agree_compiled, slopes_agree

import nnc
from nnc.errors import AttributeValueError, ShapeError

RANDOM = np.random.default_rng(8)
A = RANDOM.standard_normal((4, 4)) + 4 * np.eye(4)
B = RANDOM.standard_normal((4, 2))
CALLS: list[Call] = [
    lambda xp, a, b: xp.linalg.solve(a, b),
    lambda xp, a, b: xp.linalg.inv(a),
    lambda xp, a, b: xp.linalg.det(a),
    lambda xp, a, b: xp.linalg.slogdet(a)[1],
    lambda xp, a, b: xp.linalg.cholesky(a @ a.T),
    lambda xp, a, b: xp.linalg.pinv(b),
    lambda xp, a, b: xp.linalg.matrix_power(a, 3),
    lambda xp, a, b: xp.linalg.norm(a),
    lambda xp, a, b: xp.linalg.norm(a[0]),
    lambda xp, a, b: xp.linalg.norm(a, axis=1),
    lambda xp, a, b: xp.linalg.norm(a[0], 1),
    lambda xp, a, b: xp.linalg.norm(a, "fro"),
    lambda xp, a, b: xp.linalg.norm(a, 2),
    lambda xp, a, b: xp.linalg.norm(a, np.inf),
    lambda xp, a, b: xp.linalg.norm(a, 3, axis=0, keepdims=True),
    lambda xp, a, b: xp.linalg.norm(xp.stack([a, a]), 1, axis=(1, 2), keepdims=True),
    lambda xp, a, b: xp.linalg.eigvalsh(a + a.T),
    lambda xp, a, b: xp.linalg.svd(a, compute_uv=False),
    lambda xp, a, b: xp.linalg.cond(a),
    lambda xp, a, b: xp.linalg.cond(a, 1),
    lambda xp, a, b: xp.linalg.multi_dot([a, a, b]),
    lambda xp, a, b: xp.linalg.lstsq(a, b, None)[0] if xp is np else xp.linalg.lstsq(a, b)[0],
    lambda xp, a, b: xp.linalg.matrix_norm(a, ord="nuc"),
    lambda xp, a, b: xp.linalg.vector_norm(a),
    lambda xp, a, b: xp.linalg.diagonal(a, offset=1),
    lambda xp, a, b: xp.linalg.trace(a),
]
LOOKS: list[Call] = [lambda xp, a, b: xp.linalg.matrix_rank(a), lambda xp, a, b: xp.linalg.cond(a, -2)]


def test_values_and_gradients() -> None:
    agree([*CALLS, *LOOKS], A, B, tolerance=1e-9)
    slopes_agree(CALLS, A, B)


def test_compiled() -> None:
    agree_compiled([*CALLS, *LOOKS], A, B, tolerance=1e-9)


def test_factorizations_make_the_matrix_again() -> None:
    u, s, vh = nnc.linalg.svd(B, full_matrices=False)
    np.testing.assert_allclose((u * s) @ vh, B)
    assert nnc.linalg.svd(B)[0].shape == (4, 4)
    q, r = nnc.linalg.qr(B)
    np.testing.assert_allclose(q @ r, B)
    values, vectors = nnc.linalg.eigh(A + A.T)
    np.testing.assert_allclose(vectors * values @ vectors.T, A + A.T, atol=1e-12)


def test_least_squares() -> None:
    found = nnc.linalg.lstsq(A[:, :2], B)
    want = np.linalg.lstsq(A[:, :2], B, None)
    for one, other in zip(found, want, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10)


def test_integers_and_refusals() -> None:
    assert nnc.linalg.norm([3, 4]).item() == 5.0
    assert nnc.linalg.det([[1, 2], [3, 4]]).item() == pytest.approx(-2.0, rel=1e-5)
    with pytest.raises(ShapeError, match="one axis or two"):
        nnc.linalg.norm(np.ones((2, 2, 2)), 2)
    with pytest.raises(AttributeValueError, match="ord"):
        nnc.linalg.norm([1.0], "fro")
    with pytest.raises(ShapeError, match="at least one"):
        nnc.linalg.multi_dot([])
