"""Global and adaptive pools against windows written out, in one to three dimensions."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from tests.ops.eager import Array, Eager, check_gradients

from nnc.core.values.spec import Shape
from nnc.dynamic import DynamicGraph
from nnc.errors import ShapeError
from nnc.ops.convolutions.pooling import (
    adaptive_average_pool,
    adaptive_max_pool,
    global_average_pool,
    global_max_pool,
    max_pool,
)
from nnc.ops.convolutions.window import window_of
from nnc.ops.elementwise.pointwise import square

GENERATOR = np.random.default_rng(13)


def expected(x: Array, sizes: Shape, reduce: Callable[..., Array]) -> Array:
    y = np.empty((x.shape[0], *sizes, x.shape[-1]))
    for position in product(*map(range, sizes)):
        ends = (
            slice(math.floor(i * size / count), math.ceil((i + 1) * size / count))
            for i, size, count in zip(position, x.shape[1:-1], sizes, strict=True)
        )
        window = x[(slice(None), *ends)]
        y[(slice(None), *position)] = reduce(window, axis=tuple(range(1, x.ndim - 1)))
    return y


CASES = (((2, 7, 3), (3,)), ((1, 6, 9, 2), (3, 3)), ((2, 5, 8, 1), (2, 8)), ((1, 4, 5, 6, 2), (3, 2, 4)))


@pytest.mark.parametrize(("shape", "sizes"), CASES)
def test_adaptive_pools(shape: Shape, sizes: Shape) -> None:
    x = GENERATOR.standard_normal(shape)
    np.testing.assert_allclose(adaptive_average_pool(Eager(x), sizes).array, expected(x, sizes, np.mean))
    np.testing.assert_array_equal(adaptive_max_pool(Eager(x), sizes).array, expected(x, sizes, np.max))


@pytest.mark.parametrize("shape", [(2, 5, 3), (2, 4, 3, 2), (1, 2, 3, 4, 5)])
def test_global_pools(shape: Shape) -> None:
    x, ones = GENERATOR.standard_normal(shape), (1,) * (len(shape) - 2)
    np.testing.assert_allclose(global_average_pool(Eager(x)).array, expected(x, ones, np.mean))
    np.testing.assert_array_equal(global_max_pool(Eager(x)).array, expected(x, ones, np.max))


def test_gradients() -> None:
    x = (GENERATOR.permutation(70) * 0.1).reshape(1, 5, 7, 2)
    for pool in (adaptive_average_pool, adaptive_max_pool):
        check_gradients(lambda variables, pool=pool: [square(pool(variables[0], (2, 3)))], [x])
        check_gradients(lambda variables, pool=pool: [square(pool(variables[0], (5, 1)))], [x])
    check_gradients(lambda variables: [square(global_average_pool(variables[0]))], [x])
    check_gradients(lambda variables: [square(global_max_pool(variables[0]))], [x])


@pytest.mark.parametrize("sizes", [(2,), (0, 2), (6, 2), (2, 3, 4)])
def test_sizes_must_fit(sizes: Shape) -> None:
    x = Eager(np.ones((1, 5, 7, 2)))
    for pool in (adaptive_average_pool, adaptive_max_pool):
        with pytest.raises(ShapeError, match="sizes ≥ 1"):
            pool(x, sizes)


def test_there_must_be_something_to_pool() -> None:
    for pool in (global_average_pool, global_max_pool):
        with pytest.raises(ShapeError, match="spatial"):
            pool(Eager(np.ones((2, 3))))


@pytest.mark.parametrize("backend", ["reference", "llvm"])
def test_the_last_nan_of_a_window_takes_its_gradient_as_in_torch(backend: str) -> None:
    nan = math.nan
    x = np.array([[nan, nan, 2, 2, 1, nan], [nan, 1, 2, 2, 5, 4]]).reshape(1, 2, 6, 1).repeat(20, -1)
    graph = DynamicGraph(backend)
    variable = graph.variable(x)
    y = max_pool(variable, (2, 2), window_of((2, 2), stride=(2, 2), rank=2))
    (gradient,) = graph.backward([y], [variable])
    want = np.array([[0, 0, 1, 0, 0, 1], [1, 0, 0, 0, 0, 0]]).reshape(1, 2, 6, 1).repeat(20, -1)
    np.testing.assert_array_equal(gradient.numpy(), want)
