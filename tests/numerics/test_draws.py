from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnc
from nnc.errors import ArgumentError


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
