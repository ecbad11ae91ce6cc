"""Random numbers: their distributions, and what keys and seeds promise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nnc
from nnc.core.values.dtype import BOOL, F64, I32, I64
from nnc.errors import ArityError, AttributeValueError, ShapeError

MANY = 20000


def draws() -> list[Any]:
    return [
        nnc.random.normal((2, 3)),
        nnc.random.uniform(3),
        nnc.random.randint(0, 10, (4,)),
        nnc.random.permutation(5),
        nnc.rand(2),
        nnc.randn(2, 2),
        nnc.random.choice(9, (3,)),
    ]


def test_a_seed_begins_the_numbers_anew() -> None:
    nnc.random.seed(3)
    first = draws()
    nnc.manual_seed(3)
    again = draws()
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, other)
    assert not np.array_equal(first[0], draws()[0])


def test_a_key_says_what_is_drawn() -> None:
    key = nnc.random.key(7)
    one, two = nnc.random.split(key)
    for draw in (
        lambda key: nnc.random.normal(key, (3,)),
        lambda key: nnc.random.uniform(key, (3,), minval=-1.0, maxval=1.0),
        lambda key: nnc.random.randint(key, (3,), 0, 1000),
        lambda key: nnc.random.permutation(key, 50),
        lambda key: nnc.random.bernoulli(key, 0.5, (64,)),
        lambda key: nnc.random.choice(key, 1000, (3,)),
        lambda key: nnc.random.categorical(nnc.zeros(1000), key=key),
        lambda key: nnc.random.gumbel((3,), key=key),
    ):
        np.testing.assert_array_equal(draw(key), draw(key))
        assert not np.array_equal(draw(one), draw(two))
    assert nnc.random.PRNGKey(7).item() == key.item() != nnc.random.key(8).item()
    assert nnc.random.fold_in(key, 1).item() != nnc.random.fold_in(key, 2).item()
    children = nnc.random.split(key, 1000).numpy()
    assert len(np.unique(children)) == 1000
    assert children.min() >= 0


def test_keys_in_compiled_and_batched_functions() -> None:
    keys = nnc.random.split(nnc.random.key(1), 3)

    def draw(key: Any) -> Any:
        first, second = nnc.random.split(key)
        return nnc.random.normal(first, (2,)) + nnc.random.uniform(second, (2,))

    want = np.stack([draw(key).numpy() for key in keys])
    compiled = nnc.compile(draw)
    np.testing.assert_allclose(np.stack([compiled(key).numpy() for key in keys]), want, rtol=1e-6)
    np.testing.assert_allclose(nnc.vmap(draw)(keys), want, rtol=1e-6)


def test_compiled_draws_without_a_key_differ_from_call_to_call() -> None:
    draw = nnc.compile(lambda: nnc.random.randint(0, 1 << 30, (2,)))
    assert not np.array_equal(draw(), draw())


def test_distributions() -> None:
    nnc.random.seed(0)
    for drawn, mean, deviation in (
        (nnc.random.normal((MANY,), 1.0, 2.0), 1.0, 2.0),
        (nnc.random.normal(1.0, 2.0, (MANY,)), 1.0, 2.0),
        (nnc.random.normal(loc=1.0, scale=2.0, size=MANY), 1.0, 2.0),
        (nnc.random.uniform(-1.0, 3.0, (MANY,)), 1.0, 4 / 12**0.5),
        (nnc.random.random((MANY,)), 0.5, 12**-0.5),
        (nnc.random.standard_normal(MANY), 0.0, 1.0),
        (nnc.random.randint(10, (MANY,)), 4.5, (99 / 12) ** 0.5),
        (nnc.random.randint(-5, 5, (MANY,)), -0.5, (99 / 12) ** 0.5),
        (nnc.random.bernoulli(0.3, (MANY,)), 0.3, 0.21**0.5),
        (nnc.random.exponential((MANY,), 2.0), 2.0, 2.0),
        (nnc.random.laplace((MANY,), 1.0, 2.0), 1.0, 8**0.5),
        (nnc.random.gumbel(MANY), 0.5772, np.pi / 6**0.5),
        (nnc.random.choice(3, (MANY,), p=[0.5, 0.0, 0.5]), 1.0, 1.0),
        (nnc.random.categorical(nnc.log([0.25, 0.75]), shape=(MANY,)), 0.75, (3 / 16) ** 0.5),
    ):
        assert drawn.shape == (MANY,)
        assert drawn.mean().item() == pytest.approx(mean, abs=0.06)
        assert nnc.std(drawn).item() == pytest.approx(deviation, rel=0.05)


def test_orders_and_choices() -> None:
    rows = np.arange(12.0).reshape(4, 3)
    assert sorted(nnc.random.permutation(10).tolist()) == list(range(10))
    assert sorted(nnc.random.permutation(rows).tolist()) == rows.tolist()
    assert sorted(nnc.random.permutation(rows, axis=1).numpy()[0].tolist()) == [0.0, 1.0, 2.0]
    assert sorted(nnc.random.choice(5, (5,), replace=False).tolist()) == [0, 1, 2, 3, 4]
    assert nnc.random.choice(rows, (2, 2)).shape == (2, 2, 3)
    assert nnc.random.choice(5).shape == ()
    chosen = nnc.random.choice(4, (2,), replace=False, p=[0.5, 0.0, 0.5, 0.0])
    assert sorted(chosen.tolist()) == [0, 2]
    assert sorted(nnc.randperm(4).tolist()) == [0, 1, 2, 3]
    spread = nnc.random.multivariate_normal([0.0, 1.0], [[2.0, 0.5], [0.5, 1.0]], (MANY,))
    np.testing.assert_allclose(nnc.cov(spread, rows=False), [[2.0, 0.5], [0.5, 1.0]], atol=0.1)


def test_types() -> None:
    assert (nnc.random.randint(0, 3, ()).dtype, nnc.random.randint(0, 3, (), dtype=nnc.int32).dtype) == (I64, I32)
    assert (nnc.random.bernoulli().dtype, nnc.rand(2, dtype="f64").dtype) == (BOOL, F64)
    assert nnc.rand_like(np.zeros((2, 3))).shape == nnc.randn_like(nnc.zeros(2, 3)).shape == (2, 3)


@pytest.mark.parametrize(
    ("refused", "error"),
    [
        (lambda: nnc.random.key(-1), AttributeValueError),
        (lambda: nnc.random.normal(nnc.zeros(2), (3,)), AttributeValueError),
        (lambda: nnc.random.normal((2,), key=3), AttributeValueError),
        (lambda: nnc.random.randint(3, 3, (2,)), AttributeValueError),
        (lambda: nnc.random.choice(2, (3,), replace=False), AttributeValueError),
        (lambda: nnc.random.choice(2, (3,), p=[1.0]), ShapeError),
        (lambda: nnc.random.normal((2,), 0.0, 1.0, "f32", 5), ArityError),
    ],
)
def test_refusals(refused: Callable[[], Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        refused()
