"""All derivatives of an array by an array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nnc
from nnc.errors import AttributeValueError

X = np.array([1.0, 2.0, 3.0])
WAYS = (nnc.jacfwd, nnc.jacrev, nnc.jacobian)


def square(x: Any) -> Any:
    return nnc.stack([x[0] * x[1], nnc.sin(x[2]), x[0] ** 2, x.sum()]).reshape(2, 2)


WANT = np.array([[2, 1, 0], [0, 0, np.cos(3.0)], [2, 0, 0], [1, 1, 1]]).reshape(2, 2, 3)


@pytest.mark.parametrize("way", WAYS)
def test_values(way: Callable[..., Any]) -> None:
    np.testing.assert_allclose(way(square)(X), WANT)
    np.testing.assert_allclose(way(lambda x, y: x * y)(X, 2.0), 2 * np.eye(3))
    np.testing.assert_allclose(way(lambda x: x**2)(3), 6.0)
    assert way(square)(nnc.array([1, 2, 3])).dtype is nnc.float32


@pytest.mark.parametrize("outer", WAYS[:2])
@pytest.mark.parametrize("inner", WAYS[:2])
def test_they_nest(outer: Callable[..., Any], inner: Callable[..., Any]) -> None:
    np.testing.assert_allclose(outer(inner(lambda x: nnc.sum(x**3)))(X), np.diag(6 * X))


def test_compiled() -> None:
    np.testing.assert_allclose(nnc.jit(nnc.jacrev(square))(X), WANT)
    np.testing.assert_allclose(nnc.jit(nnc.jacfwd(square))(X), WANT)


@pytest.mark.parametrize("way", WAYS)
def test_derivatives_are_by_the_arguments_that_are_named(way: Callable[..., Any]) -> None:
    y = np.array([4.0, 5.0, 6.0])
    np.testing.assert_allclose(way(lambda x, y: x * y, argnums=1)(X, y), np.diag(X))
    first, last = way(lambda x, y, z=1.0: x * y**2 * z, argnums=(0, -1))(X, y, z=3.0)
    np.testing.assert_allclose(first, np.diag(3 * y**2))
    np.testing.assert_allclose(last, np.diag(6 * X * y))
    with pytest.raises(AttributeValueError, match=rf"{way.__name__}: got argument 2 of 2"):
        way(lambda x, y: x * y, argnums=2)(X, y)
