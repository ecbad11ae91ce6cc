"""NumPy's generators on keys."""

from __future__ import annotations

import numpy as np
import pytest

import nnc
from nnc.core.values.dtype import I32
from nnc.errors import AttributeValueError

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
