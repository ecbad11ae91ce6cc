"""Attention against the matrix of probabilities written out, its masks, and what it refuses."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from tests.ops.eager import Array, Eager, check_gradients, gradients

from nnc.core.values.dtype import BF16, F32
from nnc.core.values.spec import spec
from nnc.errors import AttributeValueError, DTypeError, ShapeError, UsageError
from nnc.ops.elementwise.pointwise import multiply, square
from nnc.ops.rules import infer
from nnc.ops.sequence.attention import ATTENTION, AttentionAttrs, attention_with_lse, scaled_dot_product_attention

GENERATOR = np.random.default_rng(7)
Q, K, V = (GENERATOR.standard_normal(shape) for shape in ((2, 3, 4, 5), (2, 6, 2, 5), (2, 6, 2, 3)))


def expected(q: Array, k: Array, v: Array, bias: Array | float = 0.0, *, scale: float, causal: bool) -> Array:
    y = np.zeros((*q.shape[:3], v.shape[3]))
    repeats = q.shape[2] // k.shape[2]
    added = np.broadcast_to(bias, (q.shape[0], q.shape[2], q.shape[1], k.shape[1]))
    for n in range(q.shape[0]):
        for head in range(q.shape[2]):
            scores = scale * q[n, :, head] @ k[n, :, head // repeats].T + added[n, head]
            for row in range(q.shape[1]):
                last = row + k.shape[1] - q.shape[1] if causal else k.shape[1] - 1
                powers = np.exp(scores[row, : last + 1])
                y[n, row, head] = powers / powers.sum() @ v[n, : last + 1, head // repeats]
    return y


@pytest.mark.parametrize("causal", [False, True])
def test_attention_with_shared_key_heads(causal: bool) -> None:
    y = scaled_dot_product_attention(*map(Eager, (Q, K, V)), causal=causal)
    np.testing.assert_allclose(y.array, expected(Q, K, V, scale=1 / math.sqrt(5), causal=causal), atol=1e-12)
    y = scaled_dot_product_attention(*map(Eager, (Q, K, V)), scale=0.3, causal=causal)
    np.testing.assert_allclose(y.array, expected(Q, K, V, scale=0.3, causal=causal), atol=1e-12)


def test_masks() -> None:
    bias = GENERATOR.standard_normal((4, 3, 6))
    y = scaled_dot_product_attention(*map(Eager, (Q, K, V, bias)), scale=1.0, causal=True)
    np.testing.assert_allclose(y.array, expected(Q, K, V, bias, scale=1.0, causal=True), atol=1e-12)
    seen = GENERATOR.integers(0, 2, (2, 1, 3, 6)) > 0
    seen[..., 0] = True
    hidden = np.where(seen, 0.0, -np.inf)
    y = scaled_dot_product_attention(*map(Eager, (Q, K, V, seen)), scale=1.0)
    np.testing.assert_allclose(y.array, expected(Q, K, V, hidden, scale=1.0, causal=False), atol=1e-12)
    same = scaled_dot_product_attention(*map(Eager, (Q, K, V, hidden)), scale=1.0)
    np.testing.assert_allclose(same.array, y.array, atol=1e-12)


def test_a_row_that_sees_nothing_is_zero_and_so_is_its_gradient() -> None:
    seen = Eager(np.array([[False] * 6, [True] * 6, [False, True] * 3]))
    q, k, v = map(Eager, (Q, K, V))
    y, lse = attention_with_lse(q, k, v, seen)
    np.testing.assert_array_equal(y.array[:, 0], 0)
    assert np.isposinf(lse.array[:, :, 0]).all()
    by_q, by_k, by_v = gradients([y], [Eager(np.ones_like(y.array))], [q, k, v])
    np.testing.assert_array_equal(by_q.array[:, 0], 0)
    assert np.isfinite(by_k.array).all()
    assert np.isfinite(by_v.array).all()


def test_large_scores_do_not_overflow() -> None:
    y, lse = attention_with_lse(*map(Eager, (1e3 * Q, 1e3 * K, V)))
    assert np.isfinite(y.array).all()
    assert np.isfinite(lse.array).all()


def test_parts_of_the_columns_join_by_lse() -> None:
    q = Eager(Q)
    whole, total = attention_with_lse(q, Eager(K), Eager(V))
    parts = [attention_with_lse(q, Eager(K[:, ends]), Eager(V[:, ends])) for ends in (slice(0, 2), slice(2, 6))]
    weights = [np.exp(lse.array - total.array).transpose(0, 2, 1)[..., None] for _, lse in parts]
    joined = sum(weight * y.array for weight, (y, _) in zip(weights, parts, strict=True))
    np.testing.assert_allclose(joined, whole.array, atol=1e-12)


def test_gradients_of_the_mask_and_through_lse() -> None:
    bias = GENERATOR.standard_normal((3, 6))
    check_gradients(lambda v: [scaled_dot_product_attention(*v, causal=True)], [Q, K, V, bias])
    check_gradients(lambda v: [square(part) for part in attention_with_lse(*v)], [Q, K, V])
    check_gradients(lambda v: [attention_with_lse(*v)[1]], [Q, K, V])
    check_gradients(lambda v: [scaled_dot_product_attention(v[0], multiply(v[0], v[0]), v[0])], [Q])


def test_row_sums_of_narrow_floats_are_f32() -> None:
    part = spec((1, 2, 1, 4), BF16)
    assert infer(ATTENTION, AttentionAttrs(1.0), (part, part, part, None)) == (part, spec((1, 1, 2), F32))


def call(*arrays: Array, scale: float = 1.0) -> Callable[[], object]:
    return lambda: scaled_dot_product_attention(*map(Eager, arrays), scale=scale)


BAD: tuple[tuple[str, type[UsageError], Callable[[], object]], ...] = (
    ("rank", ShapeError, call(Q[0], K, V)),
    ("features", ShapeError, call(Q[..., :2], K, V)),
    ("columns", ShapeError, call(Q, K[:, :2], V)),
    ("batch", ShapeError, call(Q[:1], K, V)),
    ("heads", ShapeError, call(Q[:, :, :3], K, V)),
    ("no heads", ShapeError, call(Q, K[:, :, :0], V[:, :, :0])),
    ("mixed types", DTypeError, call(Q.astype(np.float32), K, V)),
    ("integers", DTypeError, call(*(part.astype(np.int32) for part in (Q, K, V)))),
    ("scale", AttributeValueError, call(Q, K, V, scale=math.inf)),
    ("mask shape", ShapeError, call(Q, K, V, np.zeros((3, 5)))),
    ("mask larger than the scores", ShapeError, call(Q[:1], K[:1], V[:1], np.zeros((2, 1, 1, 1)))),
    ("mask type", DTypeError, call(Q, K, V, np.zeros((3, 6), np.int32))),
)


@pytest.mark.parametrize(("error", "call"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_refusals(error: type[UsageError], call: Callable[[], object]) -> None:
    with pytest.raises(error, match="need"):
        call()
