"""Forward mode against reverse mode, finite differences and closed forms."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from nnc import ops
from nnc.core.spec import spec
from nnc.errors import ArityError, ShapeError
from nnc.symbolic import Symbol, SymbolicGraph, backward, compile, faults
from nnc.symbolic.forward import hessian_vector_product, jvp

FUNCTIONS: dict[str, Callable[[Symbol], Symbol]] = {
    "tanh of product": lambda x: ops.tanh(ops.gemm(x, ops.transpose(x))),
    "softmax": lambda x: ops.softmax(x) * x,
    "reductions": lambda x: ops.reduce_mean(ops.exp(x), 0) + ops.reduce_sum(x[:, 1:2] * x[:, 0:1], 0),
    "max": lambda x: ops.reduce_max(x, 1) * 2.0,
    "division": lambda x: x / (ops.square(x) + 1.0),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_forward_agrees_with_reverse_and_differences(name: str) -> None:
    graph = SymbolicGraph()
    x, v = graph.input(spec((3, 4), "f64"), "x"), graph.input(spec((3, 4), "f64"), "v")
    y = FUNCTIONS[name](x)
    u = graph.input(y.spec, "u")
    (forward,) = jvp(graph, [y], [x], [v])
    (reverse,) = backward(graph, [y], [x], [u])
    assert faults(graph) == ()
    program = compile(graph, [y, forward, reverse], backend="reference")
    generator = np.random.default_rng(3)
    point, tangent = generator.standard_normal((2, 3, 4))
    cotangent = generator.standard_normal(y.shape)
    _, pushed, pulled = program({x: point, v: tangent, u: cotangent}, y, forward, reverse)
    assert np.sum(pushed * cotangent) == pytest.approx(np.sum(pulled * tangent), rel=1e-10)
    ends = [program({x: point + side * 1e-6 * tangent, v: tangent, u: cotangent}, y)[0] for side in (1, -1)]
    np.testing.assert_allclose(pushed, (ends[0] - ends[1]) / 2e-6, rtol=1e-5, atol=1e-8)


def test_nothing_of_the_cotangent_is_left() -> None:
    graph = SymbolicGraph()
    x, v = graph.input(spec((3,), "f64"), "x"), graph.input(spec((3,), "f64"), "v")
    (result,) = jvp(graph, [ops.exp(x)], [x], [v])
    assert [record.command.op.name for _, record in graph.execs.items()] == ["exp", "multiply"]
    inputs = graph.inputs_of(graph.needed_for([result.key]))
    assert [graph.tensors[key].name for key in inputs] == ["x", "v"]


def test_hessian_vector_product_of_a_small_network() -> None:
    graph = SymbolicGraph()
    x, w = graph.input(spec((5, 3), "f64"), "x"), graph.input(spec((3, 2), "f64"), "w")
    v = graph.input(spec((3, 2), "f64"), "v")
    loss = ops.reduce_mean(ops.square(ops.tanh(ops.gemm(x, w))))
    (gradient,) = backward(graph, [loss], [w])
    (product,) = hessian_vector_product(graph, loss, [w], [v])
    program = compile(graph, [gradient, product], backend="reference")
    generator = np.random.default_rng(5)
    data, weights, direction = (generator.standard_normal(shape) for shape in ((5, 3), (3, 2), (3, 2)))
    _, got = program({x: data, w: weights, v: direction}, gradient, product)
    ends = [program({x: data, w: weights + side * 1e-6 * direction, v: direction}, gradient)[0] for side in (1, -1)]
    np.testing.assert_allclose(got, (ends[0] - ends[1]) / 2e-6, rtol=1e-6, atol=1e-9)


def test_tangents_must_fit() -> None:
    graph = SymbolicGraph()
    x = graph.input(spec((3,), "f64"))
    with pytest.raises(ShapeError, match="jvp: got tangent"):
        jvp(graph, [ops.exp(x)], [x], [graph.input(spec((4,), "f64"))])
    with pytest.raises(ArityError, match="one per input"):
        jvp(graph, [ops.exp(x)], [x], [])
