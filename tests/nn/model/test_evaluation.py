"""A model inside eager code: one node, with the values, gradients and statistics of its layers."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np

import nnc
from nnc import nn
from nnc.dynamic.graph import default_graph

X = np.linspace(-1.0, 1.0, 12, dtype=np.float32).reshape(4, 3)


def small() -> nn.Model:
    return nn.Model(nn.Sequential(nn.Dense(5), nn.BatchNorm(), nn.Tanh(), head=nn.Dense(2)), (3,), seed=3)


def test_a_model_is_one_node_with_the_values_and_gradients_of_its_layers() -> None:
    model = small()
    weights = {path: nnc.variable(tensor) for path, tensor in model.tensors().items()}
    x, graph = nnc.variable(X), default_graph()
    before = len(graph.record.execs)
    y = nn.dynamic_evaluate(model, x, weights)
    assert len(graph.record.execs) == before + 1
    want = model.apply(x, weights)
    np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-6)
    asked = [x, *(one for path, one in weights.items() if path in model.parameters)]
    for one, other in zip(graph.backward([y.sum()], asked), graph.backward([want.sum()], asked), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_second_derivatives_go_through_a_model() -> None:
    model = small()

    def curved(apply: Any) -> Any:
        return nnc.grad(lambda x: (nnc.grad(lambda x: apply(x).sum())(x) ** 2).sum())(X)

    got = curved(lambda x: nn.dynamic_evaluate(model, x))
    want = curved(lambda x: model.apply(x, {path: nnc.tensor(one) for path, one in model.tensors().items()}))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_statistics_are_renewed_in_training_alone() -> None:
    model, twin = small(), small()
    before = {path: one.numpy().copy() for path, one in model.statistics.items()}
    nn.dynamic_evaluate(model, X)
    for path, one in model.statistics.items():
        np.testing.assert_array_equal(one.numpy(), before[path])
    nn.dynamic_evaluate(model, X, training=True)
    renewed: dict[str, Any] = {}
    twin.apply(nnc.tensor(X), {path: nnc.tensor(one) for path, one in twin.tensors().items()}, renewed=renewed)
    assert renewed
    for path, value in renewed.items():
        np.testing.assert_allclose(model.statistics[path].numpy(), value, rtol=1e-5, atol=1e-6)
        assert (model.statistics[path].numpy() != before[path]).any()


def test_the_batch_may_change_at_each_step_and_nothing_stays() -> None:
    """Case 44 of the reference: batches of 1 and 2 in turns, two models in a row."""
    first, second = small(), nn.Model(nn.Dense(1), (2,), seed=1)
    graph, counts = default_graph(), []
    for step in range(6):
        x = nnc.variable(X[: 1 + step % 2])
        y = nn.dynamic_evaluate(second, nn.dynamic_evaluate(first, x))
        (slope,) = default_graph().backward([y.sum()], [x])
        assert slope.shape == x.shape
        del x, y, slope
        counts.append((len(graph.record.execs), len(graph.record.tensors)))
    assert len(set(counts)) == 1


def test_dropout_draws_anew_in_each_call() -> None:
    model = nn.Model(nn.Dropout(0.5), (64,))
    x = np.ones((2, 64), np.float32)
    first, second = (nn.dynamic_evaluate(model, x, training=True).numpy() for _ in range(2))
    assert (first != second).any()
    twice = nnc.compile(
        lambda x: (nn.dynamic_evaluate(model, x, training=True), nn.dynamic_evaluate(model, x, training=True))
    )
    found = {one.numpy().tobytes() for _ in range(2) for one in twice(x)}
    assert len(found) == 4
    np.testing.assert_array_equal(nn.dynamic_evaluate(model, x), x)


def test_a_model_that_is_gone_leaves_no_program() -> None:
    model = small()
    nn.dynamic_evaluate(model, X)
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None
