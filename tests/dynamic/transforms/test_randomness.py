"""Random numbers: others at each draw and each call, the same ones after a seed, eagerly and compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnc
from nnc.errors import ArgumentError, AttributeValueError

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


# ---- loops and batches


def test_draws_in_compiled_loops_are_others_in_each_iteration() -> None:
    @nnc.compile
    def rows(x: Any) -> Any:
        def inner(carry: Any, _: Any) -> Any:
            return carry, nnc.uniform((8,))

        def outer(carry: Any, _: Any) -> Any:
            return carry, nnc.scan(inner, carry, x)[1]

        return nnc.scan(outer, x, x)[1]

    x = np.ones(4, np.float32)
    first, second = rows(x).numpy().copy(), rows(x).numpy().copy()
    assert len({row.tobytes() for row in (*first.reshape(16, 8), *second.reshape(16, 8))}) == 32
    nnc.seed(3)
    first = rows(x).numpy().copy()
    nnc.seed(3)
    np.testing.assert_array_equal(rows(x), first)


def test_the_gradient_of_a_compiled_loop_has_the_masks_of_its_iterations() -> None:
    def masked(x: Any) -> Any:
        return nnc.scan(lambda x, _: ((y := nnc.dropout(x, 0.3)), y), x, np.ones(3, np.float32))[0]

    both = nnc.compile(nnc.value_and_grad(lambda x: masked(x).sum()))
    value, slope = both(np.ones(64, np.float32))
    # Each iteration has its own mask, and where all of them keep an element it counts.
    np.testing.assert_allclose(slope.sum(), value, rtol=1e-5)
    assert (slope.numpy() == 0).mean() > 0.5


@pytest.mark.parametrize("wrap", [lambda function: function, nnc.compile], ids=["eager", "compiled"])
def test_examples_draw_the_same_unless_they_are_to_differ(wrap: Any) -> None:
    x = np.ones((5, 32), np.float32)

    def noisy(x: Any) -> Any:
        return nnc.dropout(x, 0.5) + nnc.uniform((32,)) + nnc.normal((32,))

    same = wrap(nnc.vmap(noisy))(x).numpy()
    other = wrap(nnc.vmap(noisy, randomness="different"))(x).numpy()
    assert len({row.tobytes() for row in same}) == 1
    assert len({row.tobytes() for row in other}) == 5
    nested = wrap(nnc.vmap(nnc.vmap(noisy, randomness="different")))(np.stack([x, x])).numpy()
    assert nested[0].tobytes() == nested[1].tobytes()
    assert len({row.tobytes() for row in nested[0]}) == 5
    both = wrap(nnc.vmap(nnc.vmap(noisy, randomness="different"), randomness="different"))(np.stack([x, x])).numpy()
    assert len({row.tobytes() for row in both.reshape(10, 32)}) == 10
    with pytest.raises(ArgumentError):
        nnc.vmap(noisy, randomness="other")  # type: ignore[arg-type]  # what the test is about
