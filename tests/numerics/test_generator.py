"""NumPy's generators on keys."""

from __future__ import annotations

import numpy as np
import pytest

import nnc
from nnc.core.values.dtype import I32
from nnc.errors import ArgumentError, AttributeValueError

CALLS = (
    lambda rng: rng.random((2, 3)),
    lambda rng: rng.uniform(-1.0, 1.0, size=4),
    lambda rng: rng.normal(1.0, 2.0, (3,)),
    lambda rng: rng.standard_normal((2,)),
    lambda rng: rng.exponential(2.0, 3),
    lambda rng: rng.integers(10, size=(2, 4)),
    lambda rng: rng.integers(0, 3, 5),
    lambda rng: rng.choice(9, 3),
    lambda rng: rng.permutation(6),
)


def test_a_seed_says_what_is_drawn_and_no_draw_comes_again() -> None:
    one, other, free = nnc.random.default_rng(3), nnc.random.default_rng(3), nnc.random.default_rng()
    for call in CALLS:
        first = call(one)
        np.testing.assert_array_equal(first, call(other))
        assert first.shape == call(np.random.default_rng(0)).shape
        call(free)
    assert not np.array_equal(one.random(8), one.random(8))
    assert not np.array_equal(nnc.random.default_rng().random(8), nnc.random.default_rng().random(8))


def test_bounds() -> None:
    rng = nnc.random.default_rng(0)
    assert set(rng.integers(2, size=50).tolist()) == {0, 1}
    assert set(rng.integers(1, 2, 50, endpoint=True, dtype="i32").tolist()) == {1, 2}
    assert rng.integers(5, dtype=nnc.int32).dtype is I32
    assert sorted(rng.choice(np.arange(4.0), 4, replace=False).tolist()) == [0, 1, 2, 3]
    with pytest.raises(AttributeValueError, match="2\\^31"):
        nnc.random.default_rng(-1)


def test_older_generators_and_draws_of_numpy_s_own() -> None:
    rng, same = nnc.random.RandomState(3), nnc.random.RandomState(3)
    assert rng.randn(2, 3).tolist() == same.randn(2, 3).tolist()
    assert rng.randint(0, 5, size=(2,)).shape == (2,)
    same.seed(3)
    assert same.randn(2, 3).tolist() == nnc.random.RandomState(3).randn(2, 3).tolist()
    draws = rng.gamma(2.0, 3.0, size=4000), rng.beta(1, 2, 4000), rng.poisson(3, 4000), rng.binomial(10, 0.3, 4000)
    for drawn, mean in zip(draws, (6.0, 1 / 3, 3.0, 3.0), strict=True):
        assert abs(float(drawn.astype("float32").mean()) - mean) < 0.1 * mean
    assert (str(draws[0].dtype), str(draws[2].dtype)) == ("f32", "i64")
    assert rng.dirichlet([1, 1, 1]).sum().item() == pytest.approx(1.0, rel=1e-5)
    assert rng.multivariate_normal([0, 0], np.eye(2), size=3).shape == (3, 2)
    row, listed = nnc.arange(9), list(range(9))
    rng.shuffle(row)
    rng.shuffle(listed)
    assert sorted(row.tolist()) == sorted(listed) == list(range(9))
    assert rng.gamma(2.0).shape == ()
    for wrong in (lambda: rng.gamma(-1.0), lambda: rng.multivariate_normal([0, 0], [[1, 2], [3, 4]])):
        with pytest.raises(ArgumentError, match="what NumPy"):
            wrong()
    with pytest.raises(ArgumentError, match="shuffle"):
        rng.shuffle(3)
