"""Digits eagerly: every line runs at once; the record gives the gradients. Run: python examples/with_variables.py"""

from __future__ import annotations

import numpy as np

from nnc import ops
from nnc.core.command import Command
from nnc.dynamic import DynamicGraph, Variable
from nnc.nn.data import Batches, load
from nnc.nn.initializers import generator_for, he_uniform, zeros
from nnc.ops.optimizer import SGD, SGDAttrs

SHAPES = {"conv.weight": (3, 3, 1, 8), "conv.bias": (8,), "head.weight": (128, 10), "head.bias": (10,)}


def train(epochs: int = 3, batch_size: int = 64) -> list[float]:
    """Loss after each update; the same work as with models, so the same losses."""
    graph = DynamicGraph()
    parameters = [graph.variable(initial_value(path)) for path in SHAPES]
    states: list[tuple[Variable, ...]] = [(graph.constant(np.zeros(shape, np.float32)),) for shape in SHAPES.values()]
    optimizer = Command(SGD, SGDAttrs(momentum=0.9))
    batches = Batches(load("digits").train, batch_size, seed=0)
    losses = []
    for _ in range(epochs):
        for batch in batches:
            loss = loss_of(graph.constant(batch.inputs), graph.constant(batch.labels), parameters)
            gradients = graph.backward([loss], parameters)
            parameters, states = graph.apply_gradients(optimizer, parameters, gradients, states, [0.1])
            losses.append(loss.item())
    print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f}")
    return losses


def loss_of(x: Variable, labels: Variable, parameters: list[Variable]) -> Variable:
    """Convolution, ReLU, pooling, a dense layer, the mean cross entropy."""
    conv_weight, conv_bias, head_weight, head_bias = parameters
    y = ops.relu(ops.convolution(x, conv_weight, conv_bias, window=ops.window_of(3, padding="same")))
    y = ops.max_pool(y, (2, 2), ops.window_of(2, stride=2))
    logits = ops.gemm(ops.reshape(y, (x.shape[0], -1)), head_weight, head_bias)
    loss, _probability = ops.softmax_cross_entropy(logits, labels)
    return ops.reduce_mean(loss)


def initial_value(path: str) -> np.ndarray:
    """What a model of seed 0 gives the parameter at `path`."""
    initializer = zeros if path.endswith("bias") else he_uniform
    values = np.empty(SHAPES[path], np.float32)
    initializer(generator_for(0, path), values)
    return values


if __name__ == "__main__":
    train()
