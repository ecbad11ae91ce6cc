"""Passes on training graphs of small networks: alone and together they keep values and gradients."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tests.symbolic.interpreter import interpret
from tests.symbolic.passes.equality import check, named

from nnc import nn, ops
from nnc.core.values.dtype import BF16, TOLERANCE
from nnc.core.values.spec import TensorSpec
from nnc.nn import zoo
from nnc.symbolic import Symbol, SymbolicGraph, backward, faults
from nnc.symbolic.passes import DEFAULT, Pass, simplify


def residual() -> nn.Layer:
    """Convolutions with norms and a shortcut."""
    body = nn.Sequential(nn.Convolution(4), nn.BatchNorm(), nn.ReLU(), nn.Convolution(4), nn.BatchNorm())
    return nn.Sequential(nn.Convolution(4), nn.Residual(body), nn.ReLU(), nn.GlobalAveragePool(), nn.Dense(3))


NETWORKS: dict[str, Callable[[], nn.Layer]] = {"digits": zoo.digits_network, "residual": residual}


def training(name: str) -> tuple[SymbolicGraph, list[Symbol], list[Symbol]]:
    """A loss with its gradients, and the inputs."""
    model = nn.Model(NETWORKS[name](), (8, 8, 1))
    graph = SymbolicGraph(name)
    symbols = {path: graph.input(row.spec, path) for path, row in model.specs.items()}
    x = graph.input(TensorSpec((3, 8, 8, 1)), "x")
    y = model.apply(x, symbols, renewed={})
    loss = ops.reduce_mean(ops.square(ops.log_softmax(y)))
    trained = [symbols[path] for path, row in model.specs.items() if row.trainable]
    return graph, [loss, *backward(graph, [loss], trained)], [x, *symbols.values()]


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize(
    "passes",
    [[Pass.GROUPS], [Pass.LAYOUT], [*DEFAULT, Pass.LAYOUT, Pass.CONSTANTS, Pass.GROUPS]],
    ids=lambda passes: "+".join(one.name.lower() for one in passes),
)
def test_values_stay(name: str, passes: list[Pass]) -> None:
    check(*training(name), passes)


@pytest.mark.parametrize("name", NETWORKS)
def test_values_in_16_bits_are_near(name: str) -> None:
    graph, outputs, inputs = training(name)
    values = {symbol: 0.3 * array for symbol, array in named(inputs).items()}
    before = interpret(graph, outputs, values)
    reports = simplify(graph, outputs, [Pass.BFLOAT16, *DEFAULT, Pass.GROUPS])
    assert faults(graph) == ()
    assert reports[0].fired["lowered"] > 10
    for got, want in zip(interpret(graph, outputs, values), before, strict=True):
        assert got.dtype == want.dtype
        distance, size = np.linalg.norm(got - want), np.linalg.norm(want)
        assert distance <= 5 * TOLERANCE[BF16].relative * size + 1e-3
