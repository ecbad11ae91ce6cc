"""Functions made of other operators, of one operand: against NumPy and torch's formulas, gradients, and edges."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.ops.eager import Array, Eager, check_gradients

import nnc
from nnc import ops
from nnc.dynamic import DynamicGraph
from nnc.errors import ShapeError, UsageError

# Importing the package puts its backends into the dispatcher.
assert nnc.__name__ == "nnc"

X = np.random.default_rng(3).uniform(0.2, 2, (3, 4, 5)) * np.random.default_rng(4).choice([-1, 1], (3, 4, 5))
# `Any`: functions of operands and of arrays.
Function = Callable[[Any], Any]
ROWS: tuple[tuple[Function, Callable[[Array], Array]], ...] = (
    (lambda x: ops.rsqrt(ops.square(x)), lambda x: 1 / np.abs(x)),
    (ops.tan, np.tan),
    (lambda x: ops.stack([x, ops.square(x)], -2), lambda x: np.stack([x, x * x], -2)),
    (lambda x: ops.split(x, x.shape[1], 1)[1], lambda x: np.split(x, x.shape[1], 1)[1]),
    (lambda x: ops.split(x, (1, 2), -2)[1], lambda x: np.split(x, (1, 2), -2)[1]),
    (lambda x: ops.outer(x[0, 0], x[1, :, 0]), lambda x: np.outer(x[0, 0], x[1, :, 0])),
    (lambda x: ops.norm(x, -1, order=1), lambda x: np.linalg.norm(x, 1, axis=-1)),
    (lambda x: ops.norm(x, 1, keepdims=True), lambda x: np.linalg.norm(x, axis=1, keepdims=True)),
    (lambda x: ops.norm(x, order=math.inf), lambda x: np.abs(x).max()),
    (ops.elu, lambda x: np.where(x > 0, x, np.expm1(x))),
    (lambda x: ops.elu(x, 0.5), lambda x: np.where(x > 0, x, 0.5 * np.expm1(x))),
    (ops.selu, lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x))),
    (ops.var, np.var),
    (lambda x: ops.var(x, (0, 2), correction=1), lambda x: np.var(x, axis=(0, 2), ddof=1)),
    (lambda x: ops.std(x, 1, keepdims=True), lambda x: np.std(x, axis=1, keepdims=True)),
    (ops.logsumexp, lambda x: np.log(np.exp(x).sum())),
    (lambda x: ops.logsumexp(x, (0, 1)), lambda x: np.log(np.exp(x).sum(axis=(0, 1)))),
    (lambda x: ops.prod(x, (0, 2)), lambda x: np.prod(x, axis=(0, 2))),
    (lambda x: ops.prod(x, 1, keepdims=True), lambda x: np.prod(x, axis=1, keepdims=True)),
    (ops.cumprod, lambda x: np.cumprod(x, axis=-1)),
    (lambda x: ops.cumprod(x, 0), lambda x: np.cumprod(x, axis=0)),
    (lambda x: ops.roll(x, 2), lambda x: np.roll(x, 2, axis=-1)),
    (lambda x: ops.roll(x, -7, 0), lambda x: np.roll(x, -7, axis=0)),
    (ops.tril, np.tril),
    (lambda x: ops.triu(x, -1), lambda x: np.triu(x, -1)),
)


@pytest.mark.parametrize("row", range(len(ROWS)))
def test_values_are_those_of_numpy(row: int) -> None:
    function, expected = ROWS[row]
    for backend in ("reference", "llvm"):
        np.testing.assert_allclose(function(DynamicGraph(backend).constant(X)).numpy(), expected(X), rtol=1e-12)


@pytest.mark.parametrize("row", range(len(ROWS)))
def test_gradients(row: int) -> None:
    check_gradients(lambda variables: [ops.square(ROWS[row][0](variables[0]))], [X[:2, :3, :2].copy()])


def test_edges() -> None:
    graph = DynamicGraph()
    x = graph.variable([math.inf, -math.inf, math.nan, 0.0])
    assert ops.is_inf(x).numpy().tolist() == [True, True, False, False]
    assert ops.logsumexp(graph.constant([-math.inf, -math.inf])).item() == -math.inf
    assert ops.logsumexp(graph.constant([1e3, math.inf])).item() == math.inf
    assert ops.prod(graph.constant(np.ones((0, 2))), 0).numpy().tolist() == [1.0, 1.0]
    assert ops.roll(graph.constant(np.ones((0, 2))), 1, 0).shape == (0, 2)
    with pytest.raises(ShapeError):
        ops.tril(graph.constant(np.ones(3)))
    zeros, equals = graph.variable([0.0, 2.0, 3.0]), graph.variable([2.0, 2.0])
    (by_zeros,) = graph.backward([ops.prod(zeros)], [zeros])
    (by_equals,) = graph.backward([ops.std(equals)], [equals])
    (by_elu,) = graph.backward([ops.elu(zeros)], [zeros])
    assert [one.numpy().tolist() for one in (by_zeros, by_equals, by_elu)] == [[6.0, 0.0, 0.0], [0.0, 0.0], [1.0] * 3]
    assert isinstance(ops.tan(Eager(X)), Eager)


def test_parts_and_stacks_that_do_not_fit_say_why() -> None:
    x = nnc.tensor(X)
    for function, match in (
        (lambda: ops.split(x, 3, 1), "divisor of 4"),
        (lambda: ops.split(x, 0), "divisor of 3"),
        (lambda: ops.stack([]), "at least one"),
        (lambda: ops.stack([x], 4), "axis 4"),
        (lambda: ops.outer(x, x), "one axis each"),
        (lambda: ops.norm(x, order=math.nan), "need a number"),
    ):
        with pytest.raises(UsageError, match=match):
            function()


@pytest.mark.parametrize("order", [0, 0.5, 1, 2, 3, 7.5, -1, math.inf, -math.inf])
def test_norms_of_all_orders(order: float) -> None:
    values = X.reshape(-1, X.shape[-1])
    for axes in (0, 1):
        result = ops.norm(nnc.tensor(values), axes, order=order)
        np.testing.assert_allclose(result.numpy(), np.linalg.norm(values, order, axis=axes), rtol=1e-5)


@pytest.mark.parametrize("order", [1, 2, 3, math.inf])
def test_norms_are_flat_at_zero_and_slope_elsewhere(order: float) -> None:
    rows = nnc.variable([[0.0, 0.0], [3.0, 4.0]])
    (slope,) = nnc.autograd.grad(ops.norm(rows, 1, order=order).sum(), rows)
    assert slope[0].tolist() == [0.0, 0.0]
    assert np.isfinite(slope.numpy()).all()
    check_gradients(lambda variables: [ops.norm(variables[0], 0, order=order)], [X[:2, :3, 0].copy()])
