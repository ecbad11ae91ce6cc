"""Forward mode against reverse mode, finite differences and closed forms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from tests.symbolic.evaluation import Array, values_of

from nnc import ops
from nnc.concrete import CountBelow
from nnc.core.values.command import Command
from nnc.core.values.dtype import F64
from nnc.core.values.spec import spec
from nnc.errors import ArityError, ShapeError
from nnc.graph import Op
from nnc.ops.elementwise.complex_numbers import complex_of, conjugate, imaginary, magnitude
from nnc.ops.elementwise.pointwise import real
from nnc.ops.movement.layout import CONVERT_LAYOUT
from nnc.ops.operators import OPERATORS
from nnc.ops.products.fourier import FFT
from nnc.ops.products.linear_algebra import CHOLESKY
from nnc.ops.rules import GRADIENT, NotDifferentiable, example_of
from nnc.symbolic import Symbol, SymbolicGraph, backward, compile, faults, while_loop
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
    assert [record.name for _, record in graph.tensors.items() if record.name] == ["x", "v"]
    assert len(graph.tensors) == 4
    assert graph.needed_for([result.key]) == graph.execs.nodes()


def test_a_loop_keeps_no_tape_that_nobody_reads() -> None:
    """x⁵ by a loop: J v reads what each iteration began with; of a linear body it reads nothing."""
    for step, slope in ((lambda y, x: y * x, 5 * 0.7**4), (lambda y, x: y * 2.0, 16.0)):
        graph = SymbolicGraph()
        x, v = graph.input(spec((), "f64"), "x"), graph.input(spec((), "f64"), "v")
        with while_loop(graph, CountBelow(4)) as loop:
            y = loop.carry(x)
            loop.next(y, step(y, x))
        result = loop.result(y)
        outputs = len(graph.execs[graph.execs.nodes()[0]].outputs)
        (change,) = jvp(graph, [result], [x], [v])
        assert faults(graph) == ()
        assert all(graph.readers(output) for output in graph.execs[graph.execs.nodes()[0]].outputs[outputs:])
        assert values_of(graph, [change], {x: np.array(0.7), v: np.array(1.0)})[0] == pytest.approx(slope)


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


# ---- forward against reverse over the whole catalogue


def applied(op: Op[Any], graph: SymbolicGraph) -> tuple[list[Symbol], dict[Symbol, Array], list[Symbol]]:
    """The operator's example in f64: its inputs, values for all that it reads, and its outputs that have gradients."""
    example = example_of(op).typed(F64)
    symbols = [None if one is None else graph.input(one) for one in example.inputs]
    generator = np.random.default_rng(len(op.name))
    values: dict[Symbol, Array] = {}
    for symbol in symbols:
        if symbol is not None:
            numbers = generator.uniform(0.2, 0.9, symbol.shape) if symbol.spec.dtype.is_float else np.ones(symbol.shape)
            values[symbol] = numbers.astype(symbol.spec.dtype.numpy)
    if op is CHOLESKY:
        ((symbol, numbers),) = values.items()
        values[symbol] = numbers @ numbers.T + np.eye(len(numbers))
    outputs = graph.apply(Command(op, example.attrs), symbols)
    return (
        [symbol for symbol in symbols if symbol is not None and symbol.spec.dtype is F64],
        values,
        [output for output in outputs if output.spec.dtype.is_float],
    )


def directions(graph: SymbolicGraph, like: Sequence[Symbol], values: dict[Symbol, Array], seed: int) -> list[Symbol]:
    """New inputs of the same specs, with values."""
    generator = np.random.default_rng(seed)
    made = [graph.input(symbol.spec) for symbol in like]
    values.update((symbol, generator.standard_normal(symbol.shape)) for symbol in made)
    return made


def paired(left: Sequence[Symbol], right: Sequence[Symbol]) -> Symbol:
    """Σ ⟨left, right⟩"""
    return ops.sum_of(*(ops.reduce_sum(ops.multiply(one, other)) for one, other in zip(left, right, strict=True)))


# The arrays of `values_of` are bound in NHWC, so a conversion to NCHW has no place here; nor have complex numbers,
# whose pairs of derivatives `tests/ops/test_gradients.py` checks by their parts.
ELSEWHERE = (CONVERT_LAYOUT, real, FFT, complex_of, conjugate, imaginary, magnitude)
DIFFERENTIABLE = [op for op in OPERATORS if not isinstance(GRADIENT[op], NotDifferentiable) and op not in ELSEWHERE]


@pytest.mark.turns(4)
@pytest.mark.parametrize("op", DIFFERENTIABLE, ids=lambda op: op.name)
def test_forward_is_the_transpose_of_reverse_at_both_orders(op: Op[Any]) -> None:
    """⟨u, J v⟩ = ⟨Jᵀ u, v⟩ for the operator, and for the gradient of its weighted sum."""
    graph = SymbolicGraph()
    inputs, values, outputs = applied(op, graph)
    u, v, w = (directions(graph, like, values, seed) for seed, like in enumerate((outputs, inputs, inputs), 1))
    pairs = [(paired(u, jvp(graph, outputs, inputs, v)), paired(backward(graph, outputs, inputs, u), v))]
    gradients = backward(graph, outputs, inputs, u)
    pairs.append((paired(w, jvp(graph, gradients, inputs, v)), paired(backward(graph, gradients, inputs, w), v)))
    found = values_of(graph, [one for pair in pairs for one in pair], values)
    np.testing.assert_allclose(found[::2], found[1::2], rtol=1e-9, atol=1e-12)
