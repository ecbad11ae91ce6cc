"""Quantization of weights: what runs afterwards, how near it is, what stays and why, and what is done once."""

from __future__ import annotations

import numpy as np
import pytest
from tests.symbolic.interpreter import interpret
from tests.symbolic.passes.equality import named

from nnc import ops
from nnc.core.values.dtype import F64
from nnc.core.values.spec import spec
from nnc.errors import ArgumentError
from nnc.ops.products.products import GEMM
from nnc.symbolic import Symbol, SymbolicGraph, case_of, faults
from nnc.symbolic.passes import DEFAULT, precompute, quantize_products, simplify

SAME = ops.window_of(3, padding="same")


def network() -> tuple[SymbolicGraph, list[Symbol], list[Symbol], list[Symbol]]:
    """Convolutions of signed values and of what is never negative, and products both ways: inputs, weights, result."""
    graph = SymbolicGraph("net")
    x = graph.input(spec((2, 6, 6, 4)), "x")
    shapes = {"first": (3, 3, 4, 8), "second": (3, 3, 8, 8), "flat": (288, 10), "last": (5, 10), "bias": (5,)}
    first, second, flat, last, bias = weights = [graph.input(spec(shape), name) for name, shape in shapes.items()]
    hidden = ops.relu(ops.convolution(x, first, window=SAME))
    hidden = ops.convolution(ops.max_pool(hidden, (1, 1), ops.window_of(1)), second, window=SAME)
    y = ops.gemm(ops.tanh(ops.gemm(ops.reshape(hidden, (2, 288)), flat)), last, bias, transpose_b=True)
    return graph, [x], weights, [y]


def names(graph: SymbolicGraph) -> list[str]:
    return [graph.execs[key].command.op.name for key in graph.execs.toposort()]


@pytest.mark.parametrize("mode", ["weights", "dynamic"])
def test_results_are_near_and_weights_are_bytes(mode: str) -> None:
    graph, inputs, weights, outputs = network()
    values = named([*inputs, *weights])
    (want,) = interpret(graph, outputs, values)
    rows = quantize_products(graph, weights, mode, "reference")
    assert [(one.name, one.skipped) for one in rows] == [(one, "") for one in ("first", "second", "flat", "last")]
    assert faults(graph) == ()
    (got,) = interpret(graph, outputs, values)
    assert 0 < np.abs(got - want).max() < 0.03 * np.abs(want).max()
    before = precompute(graph, weights, outputs)
    kept = [one.spec for one in before.results if graph.readers(one.key)]
    assert sum(one.nbytes for one in kept if one.dtype.name == "i8") == sum(one.spec.elements for one in weights[:4])
    assert max(one.elements for one in kept if one.dtype.is_float) == 10


def test_dynamic_sums_are_of_integers_and_each_activation_is_quantized_once() -> None:
    graph, _, weights, outputs = network()
    quantize_products(graph, weights, "dynamic", "reference")
    precompute(graph, weights, outputs)
    assert names(graph).count("dynamic_quantize") == 4
    assert not {"gemm", "convolution"} & set(names(graph))
    convolutions = [record for _, record in graph.execs.items() if record.command.op.name == "integer_convolution"]
    # Behind a relu and a pool the zero is 0; beside signed values stands the zero of the run.
    assert sorted(record.inputs[2] is None for record in convolutions) == [False, True]
    simplify(graph, outputs, DEFAULT, backend="reference")
    assert names(graph).count("fused_output") >= 3


def test_two_products_of_one_activation_share_its_bytes() -> None:
    graph = SymbolicGraph()
    x, left, right = (graph.input(spec((4, 4)), name) for name in ("x", "left", "right"))
    outputs = [ops.gemm(x, left), ops.gemm(x, right)]
    quantize_products(graph, [left, right], "dynamic", "reference")
    assert names(graph).count("dynamic_quantize") == 1
    assert faults(graph) == ()
    assert len(outputs) == 2


@pytest.mark.parametrize(("rows", "op"), [(1, "dequantized_product"), (64, "gemm")])
def test_products_of_few_rows_read_bytes_and_others_have_their_weights_dequantized(rows: int, op: str) -> None:
    graph = SymbolicGraph()
    x, w, bias = (graph.input(spec(shape), name) for name, shape in (("x", (rows, 9)), ("w", (70, 9)), ("b", (70,))))
    y = ops.gemm(x, w, bias, transpose_b=True)
    values = named([x, w, bias])
    (want,) = interpret(graph, [y], values)
    (row,) = quantize_products(graph, [w, bias], "weights", "llvm")
    (got,) = interpret(graph, [y], values)
    assert faults(graph) == ()
    assert 0 < np.abs(got - want).max() < 0.03 * np.abs(want).max()
    assert row.bytes_after == 70 * 9 + 4 * 70
    precompute(graph, [w, bias], [y])
    assert op in names(graph)
    assert ("dequantize" in names(graph)) == (rows > 1)


def test_what_stays_says_why() -> None:
    graph = SymbolicGraph()
    x, w, many = graph.input(spec((4, 4)), "x"), graph.input(spec((4, 4)), "w"), graph.input(spec((2, 4, 4)), "many")
    wide, image = graph.input(spec((4, 4), F64), "wide"), graph.input(spec((1, 4, 4, 2)), "image")
    depthwise = graph.input(spec((3, 3, 1, 2)), "depthwise")
    kept = ops.gemm(x, w)
    for key in graph.writers(kept.key):
        graph.keep(key)
    ops.gemm(x, x), ops.gemm(w, w), ops.gemm(x, many), ops.gemm(ops.cast(x, F64), wide)
    ops.convolution(image, depthwise, window=SAME, groups=2)
    rows = quantize_products(graph, [w, many, wide, depthwise], "dynamic", "reference")
    reasons = ("stay as it is", "no weight", "weights alone", "several matrices", "f64", "groups")
    assert all(reason in row.skipped for reason, row in zip(reasons, rows, strict=True)), rows
    assert sum(record.command.op is GEMM for _, record in graph.execs.items()) == 5


def test_products_in_branches_stay_and_say_so() -> None:
    graph = SymbolicGraph()
    x, w, choice = graph.input(spec((4, 6)), "x"), graph.input(spec((3, 6)), "w"), graph.input(spec((), "i32"))
    case_of(graph, choice, [lambda a: (ops.gemm(a, ops.transpose(w, (1, 0))),), lambda a: (a[:, :3],)], [x])
    (row,) = quantize_products(graph, [w], "weights", "reference")
    assert (row.op, row.shape, row.bytes_after) == ("gemm", (4, 3), 72)
    assert "branch" in row.skipped


def test_a_mode_that_does_not_exist_is_refused() -> None:
    graph, _, weights, _ = network()
    with pytest.raises(ArgumentError, match="'weights' or 'dynamic'"):
        quantize_products(graph, weights, "int4")  # type: ignore[arg-type]  # what is refused


def test_columns_of_zeros_stay_zero_and_what_is_not_finite_shows() -> None:
    graph = SymbolicGraph()
    x, w = graph.input(spec((3, 4)), "x"), graph.input(spec((4, 2)), "w")
    y = ops.gemm(x, w)
    quantize_products(graph, [w], "dynamic", "reference")
    values = {x: np.ones((3, 4), np.float32), w: np.array([[0, 1]] * 4, np.float32)}
    np.testing.assert_allclose(interpret(graph, [y], values)[0], [[0, 4]] * 3, rtol=1e-6)
    values[w] = np.array([[0, np.nan]] * 4, np.float32)
    assert np.isnan(interpret(graph, [y], values)[0][:, 1]).all()
