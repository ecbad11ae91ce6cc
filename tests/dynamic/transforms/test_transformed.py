"""What transforms make of functions is pickled by names; a function without one is told of."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import cloudpickle  # type: ignore[import-untyped]  # has no types
import numpy as np
import pytest

import nnc
from nnc.errors import UsageError

TRANSFORMS: tuple[Callable[..., Any], ...] = (
    nnc.grad, nnc.value_and_grad, nnc.hessian, nnc.jacfwd, nnc.jacrev, nnc.checkpoint, nnc.vmap, nnc.compile,
)  # fmt: skip


def squares(x: Any) -> Any:
    return (x * x).sum()


def first(value: Any) -> Any:
    return value[0] if isinstance(value, tuple) else value


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_what_comes_of_a_function_of_a_module_is_pickled(transform: Callable[..., Any]) -> None:
    x = np.ones((2, 3), np.float32)
    made = transform(transform(squares)) if transform is nnc.vmap else transform(squares)
    given = x[None] if transform is nnc.vmap else x
    again = pickle.loads(pickle.dumps(made))
    np.testing.assert_array_equal(first(again(given)), first(made(given)))


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_what_comes_of_a_function_without_a_name_is_told_of(transform: Callable[..., Any]) -> None:
    made = transform(lambda x: (x * x).sum())
    with pytest.raises(UsageError, match=r"<lambda>.*def makes in a module.*cloudpickle"):
        pickle.dumps([made])
    x = np.ones((2, 3), np.float32)
    for copied in (copy.copy(made), copy.deepcopy(made)):
        np.testing.assert_array_equal(first(copied(x)), first(made(x)))


def test_options_come_along() -> None:
    made = nnc.grad(two, argnums=1)
    assert pickle.loads(pickle.dumps(made))(2.0, 3.0).item() == made(2.0, 3.0).item() == 2.0


def two(x: Any, y: Any) -> Any:
    return x * y


@nnc.grad
def slope(x: Any) -> Any:
    return x * x


def test_a_decorated_function_is_pickled_by_its_name() -> None:
    assert pickle.loads(pickle.dumps(slope)) is slope


def test_functions_by_value_are_kept_by_cloudpickle() -> None:
    again = cloudpickle.loads(cloudpickle.dumps(nnc.grad(lambda x: x * x)))
    assert again(3.0).item() == 6.0


def test_a_transformed_method_is_a_method() -> None:
    class Bowl:
        scale = 2.0

        @nnc.vmap
        def height(self: Any, x: Any) -> Any:
            return x

    method: Any = Bowl().height
    assert method.__self__.scale == 2.0
