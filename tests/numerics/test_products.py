"""Products, against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest
from tests.numerics.agreement import Call, agree, agree_compiled, slopes_agree

import nnc
from nnc.errors import AttributeValueError, ShapeError

RANDOM = np.random.default_rng(6)
A, B = RANDOM.standard_normal((3, 4)), RANDOM.standard_normal((4, 2))
CALLS: list[Call] = [
    lambda xp, a, b: xp.matmul(a, b),
    lambda xp, a, b: xp.dot(a, b),
    lambda xp, a, b: xp.dot(a[0], b),
    lambda xp, a, b: xp.dot(xp.stack([a, a]), xp.stack([b, b])),
    lambda xp, a, b: xp.dot(a, xp.sum(b)),
    lambda xp, a, b: xp.inner(a, b.T),
    lambda xp, a, b: xp.inner(a[0], b[:, 0]),
    lambda xp, a, b: xp.outer(a, b),
    lambda xp, a, b: xp.vdot(a[:2], b),
    lambda xp, a, b: xp.vecdot(a, b[:, 0]),
    lambda xp, a, b: xp.tensordot(a, b, 1),
    lambda xp, a, b: xp.tensordot(a, b, axes=([1], [0])),
    lambda xp, a, b: xp.tensordot(a, b, 0),
    lambda xp, a, b: xp.cross(a[:, :3], a[:, 1:]),
    lambda xp, a, b: xp.kron(a, b),
    lambda xp, a, b: xp.kron(a[0], b),
    lambda xp, a, b: xp.trace(a, offset=1),
    lambda xp, a, b: xp.trace(xp.stack([a, a]), axis1=1, axis2=2),
    lambda xp, a, b: xp.einsum("ij,jk->ik", a, b),
    lambda xp, a, b: xp.einsum("ij,jk", a, b),
    lambda xp, a, b: xp.einsum("ij->ji", a),
    lambda xp, a, b: xp.einsum("...j,jk->...k", xp.stack([a, a]), b),
    lambda xp, a, b: xp.einsum("i,j->ij", a[0], b[:, 1]),
    lambda xp, a, b: xp.einsum("ij,ij->", a, a),
    lambda xp, a, b: xp.einsum("ii", a[:, :3]),
    lambda xp, a, b: xp.polyval(a[0], b),
]


def test_values_and_gradients() -> None:
    agree(CALLS, A, B)
    slopes_agree(CALLS, A, B)


def test_compiled() -> None:
    agree_compiled(CALLS, A, B)


def test_other_kinds_of_numbers() -> None:
    whole = RANDOM.integers(-3, 4, (3, 4)), RANDOM.integers(-3, 4, (4, 2))
    agree([CALLS[place] for place in (0, 1, 5, 7, 8, 14)], *whole)
    agree([CALLS[place] for place in (0, 1, 8, 9, 18)], A + 1j, B - 2j)
    assert nnc.matmul(whole[0], B).dtype is nnc.float64
    np.testing.assert_allclose(nnc.addmm(nnc.ones(2), A, B, alpha=0.5, beta=2), 2 + 0.5 * A @ B)


def test_refusals() -> None:
    with pytest.raises(AttributeValueError, match="a term for each array"):
        nnc.einsum("ij,jk->ik", A)
    with pytest.raises(AttributeValueError, match="a letter for each axis"):
        nnc.einsum("ijk->i", A)
    with pytest.raises(ShapeError, match="as many elements"):
        nnc.vdot(A, B)
    with pytest.raises(ShapeError, match="tensordot"):
        nnc.dot(A, A)
