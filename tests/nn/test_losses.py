from __future__ import annotations

import numpy as np
import pytest

from nnc.core.dtype import I32
from nnc.dynamic import DynamicGraph
from nnc.nn import MeanSquaredError, SoftmaxCrossEntropy


def test_cross_entropy_and_right_answers() -> None:
    graph = DynamicGraph(backend="reference")
    logits = np.array([[2.0, 1.0, 0.0], [0.0, 3.0, 1.0], [1.0, 1.0, 1.0], [0.0, 1.0, 5.0]])
    labels = np.array([0, 2, 0, 2], np.int32)
    loss = SoftmaxCrossEntropy()
    assert (loss.target_dtype, loss.target_shape((4, 3))) == (I32, (4,))
    value = loss.build(graph.constant(logits), graph.constant(labels)).item()
    want = np.mean(np.log(np.exp(logits).sum(1)) - logits[np.arange(4), labels])
    assert value == pytest.approx(want)
    assert loss.score(graph.constant(logits), graph.constant(labels)).item() == 3.0


def test_mean_squared_error() -> None:
    graph = DynamicGraph(backend="reference")
    output, target = np.arange(6.0).reshape(3, 2), np.ones((3, 2))
    loss = MeanSquaredError()
    assert (loss.target_dtype, loss.target_shape((3, 2))) == (None, (3, 2))
    assert loss.build(graph.constant(output), graph.constant(target)).item() == np.mean((output - 1) ** 2)
    assert loss.score(graph.constant(output), graph.constant(target)).item() == 3 * np.mean((output - 1) ** 2)
