"""Digits by a compiled function: loss, gradients and update are one program. Run: python examples/with_functions.py"""

from __future__ import annotations

import nnc
from nnc import nn
from nnc.nn.data import Batches, load
from nnc.nn.optimization.optimizer_base import State

LAYERS = nn.Sequential(conv=nn.Convolution(8), relu=nn.ReLU(), pool=nn.MaxPool(2), flat=nn.Flatten(), head=nn.Dense(10))
MODEL = nn.Model(LAYERS, (8, 8, 1), optimizer=nn.SGD(0.1, momentum=0.9), seed=0)
Weights = dict[str, nnc.Variable]


def loss_of(weights: Weights, x: nnc.Variable, labels: nnc.Variable) -> nnc.Variable:
    """The model's loss of a batch, with these weights."""
    return MODEL.loss.build(MODEL.apply(x, weights), labels)


@nnc.compile
def step(weights: Weights, state: State, x: object, labels: object) -> tuple[nnc.Variable, Weights, State]:
    """The loss, and the weights and the optimizer's state after one update."""
    loss, gradients = nnc.value_and_grad(loss_of)(weights, x, labels)
    return loss, *MODEL.optimizer.update(weights, gradients, state)


def train(epochs: int = 3, batch_size: int = 64) -> list[float]:
    """Loss after each update; the same work as with models, so the same losses."""
    weights = {path: nnc.tensor(value) for path, value in MODEL.tensors().items()}
    state, losses = MODEL.optimizer.init(weights), list[float]()
    batches = Batches(load("digits").train, batch_size, seed=0)
    for batch in (batch for _ in range(epochs) for batch in batches):
        loss, weights, state = step(weights, state, batch.inputs, batch.labels)
        losses.append(loss.item())
    print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f}, {step.recorded} programs")
    return losses


if __name__ == "__main__":
    train()
