"""Digits eagerly: every line runs at once; the record gives the gradients. Run: python examples/with_variables.py"""

from __future__ import annotations

import nnc
from nnc import nn, ops
from nnc.nn.data import Batches, load

LAYERS = nn.Sequential(conv=nn.Convolution(8), pool=nn.MaxPool(2), flatten=nn.Flatten(), head=nn.Dense(10))
Weights = dict[str, nnc.Variable]


def loss_of(weights: Weights, x: nnc.Variable, labels: nnc.Variable) -> nnc.Variable:
    """Convolution, ReLU, pooling, a dense layer, the mean cross entropy."""
    y = ops.convolution(x, weights["conv.weight"], weights["conv.bias"], window=ops.window_of(3, padding="same"))
    y = ops.max_pool(ops.relu(y), (2, 2), ops.window_of(2, stride=2))
    logits = y.reshape(len(x), -1) @ weights["head.weight"] + weights["head.bias"]
    return ops.softmax_cross_entropy(logits, labels)[0].mean()


def train(epochs: int = 3, batch_size: int = 64) -> list[float]:
    """Loss after each update; the same work as with models, so the same losses."""
    weights = {path: nnc.tensor(value) for path, value in nn.Model(LAYERS, (8, 8, 1), seed=0).tensors().items()}
    optimizer, step = nn.SGD(0.1, momentum=0.9), nnc.value_and_grad(loss_of)
    state, losses = optimizer.init(weights), list[float]()
    batches = Batches(load("digits").train, batch_size, seed=0)
    for batch in (batch for _ in range(epochs) for batch in batches):
        loss, gradients = step(weights, batch.inputs, batch.labels)
        weights, state = optimizer.update(weights, gradients, state)
        losses.append(loss.item())
    print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f}")
    return losses


if __name__ == "__main__":
    train()
