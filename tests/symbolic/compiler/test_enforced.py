"""Outputs that operators must write over an input: running statistics keep their memory."""

from __future__ import annotations

import numpy as np

from nnc import ops
from nnc.core.values.spec import spec
from nnc.core.values.tensor import Tensor
from nnc.dynamic import DynamicGraph
from nnc.symbolic import SymbolicGraph, compile

ROWS, CHANNELS = spec((6, 3), "f64"), spec((3,), "f64")


def values() -> list[np.ndarray]:
    generator = np.random.default_rng(2)
    return [generator.standard_normal((6, 3)), np.ones(3), np.zeros(3), np.zeros(3), np.ones(3)]


def test_a_given_statistic_is_renewed_without_being_asked_for() -> None:
    graph = SymbolicGraph()
    x, *others = (graph.input(found) for found in (ROWS, *[CHANNELS] * 4))
    y, mean, _ = ops.batch_norm(x, *others)
    tensors = {symbol: Tensor.from_numpy(value) for symbol, value in zip(others, values()[1:], strict=True)}
    compiled = compile(graph, [y], given=tensors, backend="reference")
    compiled({x: values()[0]}, y)
    np.testing.assert_allclose(tensors[others[2]].numpy(), 0.1 * values()[0].mean(0))
    assert compiled.tensor(mean).address == tensors[others[2]].address


def test_a_planned_statistic_is_written_over() -> None:
    graph = SymbolicGraph()
    inputs = [graph.input(found) for found in (ROWS, *[CHANNELS] * 4)]
    y, mean, variance = ops.batch_norm(*inputs)
    compiled = compile(graph, [y, mean, variance], backend="reference")
    assert compiled.tensor(mean).address == compiled.tensor(inputs[3]).address
    _, got, _ = compiled(dict(zip(inputs, values(), strict=True)), y, mean, variance)
    np.testing.assert_allclose(got, 0.1 * values()[0].mean(0))


def test_a_planned_statistic_that_is_read_later_keeps_its_value() -> None:
    graph = SymbolicGraph()
    inputs = [graph.input(found) for found in (ROWS, *[CHANNELS] * 4)]
    y, mean, _ = ops.batch_norm(*inputs)
    total = mean + ops.exp(inputs[3])
    got = compile(graph, [y, total], backend="reference")(dict(zip(inputs, values(), strict=True)), y, total)
    np.testing.assert_allclose(got[1], 0.1 * values()[0].mean(0) + 1.0)


def test_case_43_eager_statistics_keep_their_address() -> None:
    graph = DynamicGraph(backend="reference")
    x, scale, bias = (graph.variable(value) for value in values()[:3])
    mean, variance = (graph.constant(value) for value in values()[3:])
    for _ in range(2):
        _, next_mean, next_variance = ops.batch_norm(x, scale, bias, mean, variance)
        assert next_mean.tensor.address == mean.tensor.address
        assert next_variance.tensor.address == variance.tensor.address
    np.testing.assert_allclose(mean.numpy(), (0.1 + 0.09) * values()[0].mean(0))
