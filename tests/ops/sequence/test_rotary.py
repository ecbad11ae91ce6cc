"""Rotary embedding against complex numbers, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tests.ops.eager import Eager, check_gradients

from nnc.core.values.dtype import F64
from nnc.errors import AttributeValueError, DTypeError, ShapeError, UsageError
from nnc.ops.elementwise.pointwise import multiply, tanh
from nnc.ops.operand import apply
from nnc.ops.sequence.rotary import ROTARY, RotaryAttrs, rotary_angles, rotary_embedding

GENERATOR = np.random.default_rng(9)
X = GENERATOR.standard_normal((2, 5, 3, 8))
POSITIONS = Eager(np.arange(5, dtype=np.int64))


def test_angles_fall_from_one_by_a_constant_factor() -> None:
    angles = rotary_angles(POSITIONS, 4, base=16.0, dtype=F64).array
    np.testing.assert_allclose(angles, np.arange(5)[:, None] * [1, 1 / 2, 1 / 4, 1 / 8])


@pytest.mark.parametrize("pairs", [4, 2])
@pytest.mark.parametrize("interleaved", [False, True])
def test_pairs_turn_like_complex_numbers(interleaved: bool, pairs: int) -> None:
    angles = rotary_angles(POSITIONS, pairs, dtype=F64)
    y = rotary_embedding(Eager(X), angles, interleaved=interleaved).array
    ends = (slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2))
    one, two = ends if interleaved else (slice(0, pairs), slice(pairs, 2 * pairs))
    want = (X[..., one] + 1j * X[..., two]) * np.exp(1j * angles.array[:, None])
    np.testing.assert_allclose(y[..., one], want.real, atol=1e-12)
    np.testing.assert_allclose(y[..., two], want.imag, atol=1e-12)
    np.testing.assert_array_equal(y[..., 2 * pairs :], X[..., 2 * pairs :])


def test_products_depend_on_the_distance_alone() -> None:
    q, k = (np.broadcast_to(part, (1, 5, 1, 8)) for part in GENERATOR.standard_normal((2, 8)))
    angles = rotary_angles(POSITIONS, 4, dtype=F64)
    turned = [rotary_embedding(Eager(np.array(part)), angles).array[0, :, 0] for part in (q, k)]
    products = turned[0] @ turned[1].T
    for distance in range(-3, 4):
        diagonal = np.diagonal(products, distance)
        np.testing.assert_allclose(diagonal, diagonal[0])


def test_the_inverse_turns_back() -> None:
    angles = Eager(GENERATOR.standard_normal((2, 5, 3)))
    there = apply(ROTARY, RotaryAttrs(), Eager(X), angles)
    np.testing.assert_allclose(apply(ROTARY, RotaryAttrs(inverse=True), there, angles).array, X, atol=1e-12)


def test_gradients() -> None:
    angles = GENERATOR.standard_normal((5, 3))
    check_gradients(lambda v: [rotary_embedding(multiply(v[0], v[0]), tanh(v[1]))], [X, angles])


BAD: tuple[tuple[str, type[UsageError], Callable[[], object]], ...] = (
    ("rank", ShapeError, lambda: rotary_embedding(Eager(X[0]), Eager(np.ones((5, 4))))),
    ("angle rank", ShapeError, lambda: rotary_embedding(Eager(X), Eager(np.ones(4)))),
    ("rows", ShapeError, lambda: rotary_embedding(Eager(X), Eager(np.ones((4, 4))))),
    ("batch", ShapeError, lambda: rotary_embedding(Eager(X), Eager(np.ones((3, 5, 4))))),
    ("pairs", ShapeError, lambda: rotary_embedding(Eager(X), Eager(np.ones((5, 5))))),
    ("integers", DTypeError, lambda: rotary_embedding(Eager(X), Eager(np.ones((5, 4), np.int32)))),
    ("no pairs", AttributeValueError, lambda: rotary_angles(POSITIONS, 0)),
    ("base", AttributeValueError, lambda: rotary_angles(POSITIONS, 2, base=0.0)),
)


@pytest.mark.parametrize(("error", "call"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_refusals(error: type[UsageError], call: Callable[[], object]) -> None:
    with pytest.raises(error, match="need"):
        call()
