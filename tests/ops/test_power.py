"""The gradient of power is torch's, also where a logarithm or a reciprocal of 0 stands in its formula."""

from __future__ import annotations

import math

import numpy as np
import pytest

import nnc
from nnc import ops
from nnc.core.values.spec import spec
from nnc.dynamic import DynamicGraph
from nnc.symbolic import SymbolicGraph, backward, compile

# Importing the package puts its backends into the dispatcher.
assert nnc.__name__ == "nnc"

NAN, INF = math.nan, math.inf
# base, exponent, and torch.autograd.grad(base**exponent, (base, exponent)) of torch 2.13 in f64.
TORCH = (
    (0.0, 0.0, 0.0, 0.0),
    (0.0, 2.0, 0.0, 0.0),
    (0.0, 0.5, INF, 0.0),
    (0.0, -1.0, -INF, -INF),
    (2.0, 0.0, 0.0, math.log(2.0)),
    (-1.0, 0.0, 0.0, NAN),
    (-2.0, 3.0, 12.0, NAN),
    (NAN, 0.0, 0.0, NAN),
)


@pytest.mark.parametrize("backend", ["reference", "llvm"])
def test_gradients_at_the_edges_are_those_of_torch(backend: str) -> None:
    graph = DynamicGraph(backend)
    rows = np.array(TORCH)
    a, b = graph.variable(rows[:, 0].copy()), graph.variable(rows[:, 1].copy())
    by_a, by_b = graph.backward([a**b], [a, b])
    np.testing.assert_allclose(by_a.numpy(), rows[:, 2])
    np.testing.assert_allclose(by_b.numpy(), rows[:, 3])


def test_a_power_of_relu_has_a_finite_gradient_to_the_second_order() -> None:
    graph = SymbolicGraph()
    x, p = graph.input(spec((3,), "f64")), graph.input(spec((3,), "f64"))
    y = ops.relu(x) ** p + x**0.0
    first = backward(graph, [y], [x, p])
    second = backward(graph, list(first), [x, p])
    values = {x: np.array([-1.0, 0.0, 2.0]), p: np.array([3.0, 3.0, 3.0])}
    by_x, by_p, _, by_pp = compile(graph, [*first, *second], backend="reference")(values, *first, *second)
    np.testing.assert_allclose(by_x, [0.0, 0.0, 12.0])
    np.testing.assert_allclose(by_p, [0.0, 0.0, 8 * math.log(2.0)])
    assert np.isfinite(by_pp).all()
