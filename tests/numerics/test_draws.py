from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnc
from nnc.errors import ArgumentError, AttributeValueError


@pytest.mark.parametrize(
    ("name", "arguments", "shape"),
    [
        ("gumbel", ((3,),), (3,)),
        ("exponential", ((2, 2),), (2, 2)),
        ("laplace", ((3,),), (3,)),
        ("categorical", (np.zeros((2, 5), np.float32),), (2,)),
        ("multivariate_normal", (np.zeros(2, np.float32), np.eye(2, dtype=np.float32), (3,)), (3, 2)),
    ],
)
def test_a_key_may_stand_first_and_gives_the_same_draw(name: str, arguments: tuple[Any, ...], shape: Any) -> None:
    draw, key = getattr(nnc.random, name), nnc.random.key(7)
    first = draw(key, *arguments)
    assert first.shape == shape
    assert np.array_equal(first.numpy(), draw(*arguments, key=key).numpy())


def test_shapes_that_are_none_are_refused() -> None:
    with pytest.raises(ArgumentError, match="shape: got an object; need a size"):
        nnc.random.choice(10, object())  # type: ignore[arg-type]  # what is tested


def test_truncated_normal_numbers_stay_within_their_bounds() -> None:
    key = nnc.random.key(0)
    x = nnc.random.truncated_normal(key, -1.0, 2.0, (20_000,))
    assert nnc.equal(x, nnc.random.truncated_normal(-1.0, 2.0, (20_000,), key=key))
    assert x.min().item() >= -1.0
    assert x.max().item() <= 2.0
    # Of a standard normal within [-1, 2]: (φ(-1) - φ(2)) / (Φ(2) - Φ(-1)).
    assert abs(x.mean().item() - 0.2296) < 0.02
    assert nnc.random.truncated_normal(nnc.zeros(3), 1.0).shape == (3,)
    with pytest.raises(AttributeValueError, match="lower < upper"):
        nnc.random.truncated_normal(1.0, 1.0)


def test_draws_are_made_on_the_device_that_is_named() -> None:
    assert nnc.randn(2, device="cpu").shape == nnc.rand(2, device="cpu").shape == (2,)
    assert nnc.randint(0, 3, (2,), device="cpu").device == nnc.device("cpu")
