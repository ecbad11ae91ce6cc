"""Random numbers: others at each draw and each call, the same ones after a seed, eagerly and compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnc
from nnc.errors import AttributeValueError

WAYS = pytest.mark.parametrize("way", [lambda function: function, nnc.compile], ids=["eager", "compiled"])
X = np.ones(256, np.float32)


@WAYS
def test_two_draws_are_two_and_calls_go_on(way: Any) -> None:
    twice = way(lambda x: (nnc.dropout(x, 0.5), nnc.dropout(x, 0.5)))
    nnc.seed(3)
    found = [one.numpy() for _ in range(2) for one in twice(X)]
    assert len({one.tobytes() for one in found}) == 4
    assert all(set(np.unique(one)) == {0.0, 2.0} and 64 < one.sum() / 2 < 192 for one in found)
    nnc.seed(3)
    again = [one.numpy() for _ in range(2) for one in twice(X)]
    np.testing.assert_array_equal(found, again)
    nnc.seed(4)
    assert not np.array_equal(twice(X)[0], found[0])


@WAYS
def test_the_gradient_sees_the_mask_of_its_own_call(way: Any) -> None:
    def value(x: Any) -> Any:
        dropped = nnc.dropout(x, 0.25)
        return (dropped * dropped).sum(), dropped

    for derivative in (way(nnc.grad(value, has_aux=True)), nnc.grad(way(value), has_aux=True)):
        slope, dropped = derivative(X)
        np.testing.assert_allclose(slope, 2 * dropped.numpy() / 0.75, rtol=1e-6)


@WAYS
def test_numbers_have_the_shape_and_the_distribution_asked_for(way: Any) -> None:
    u, n = way(lambda: (nnc.uniform((4096,), -1.0, 3.0), nnc.normal((64, 64), 2.0, 0.5, "f64")))()
    assert (u.dtype, n.dtype, n.shape) == (nnc.f32, nnc.f64, (64, 64))
    assert -1 <= u.numpy().min() < -0.9
    assert 2.9 < u.numpy().max() < 3
    assert abs(n.numpy().mean() - 2) < 0.05
    assert abs(n.numpy().std() - 0.5) < 0.05


@pytest.mark.parametrize("value", [-1, 2**31, 1.0, True])
def test_a_seed_is_a_small_integer(value: Any) -> None:
    with pytest.raises(AttributeValueError, match="seed"):
        nnc.seed(value)
