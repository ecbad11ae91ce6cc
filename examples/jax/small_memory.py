"""Training within a limit on memory: the same bits, some work done twice. Run: python examples/jax/small_memory.py"""

from __future__ import annotations

import numpy as np

import nnc
from nnc import nn
from nnc.nn.data import load
from nnc.nn.optimization.optimizer_base import State

Weights = list[nnc.Array]


def loss_fn(weights: Weights, x: nnc.Array, labels: nnc.Array) -> nnc.Array:
    """The mean cross entropy of dense layers with tanh between them."""
    for weight in weights[:-1]:
        x = nnc.tanh(x @ weight)
    chosen = nnc.take_along_axis(nnc.log_softmax(x @ weights[-1]), labels[:, None], 1)
    return -chosen.mean()


def main(batch: int = 64, depth: int = 12, updates: int = 10) -> float:
    """The arena within the limit as a share of the one without."""
    digits, optimizer = load("digits").train, nn.Adam(1e-3)
    images, labels = nnc.array(digits.inputs.reshape(-1, 64)), nnc.array(digits.labels)

    def step(weights: Weights, state: State, x: nnc.Array, y: nnc.Array) -> tuple[nnc.Array, Weights, State]:
        loss, gradients = nnc.value_and_grad(loss_fn)(weights, x, y)
        return loss, *optimizer.update(weights, gradients, state)

    widths = [64, *[128] * depth, 10]
    keys = nnc.random.split(nnc.random.key(0), len(widths) - 1)
    first = [nnc.random.normal(k, (m, n)) / m**0.5 for k, m, n in zip(keys, widths[:-1], widths[1:], strict=True)]
    free = nnc.jit(step)
    before = free.memory(first, optimizer.init(first), images[:batch], labels[:batch]).arena
    limited = nnc.compile(step, memory_limit=before * 3 // 4)
    after = limited.memory(first, optimizer.init(first), images[:batch], labels[:batch]).arena
    print(f"{before} B without a limit, {after} B within one")
    trained = list[list[nnc.Array]]()
    for program in (free, limited):
        weights, state = first, optimizer.init(first)
        for place in range(0, updates * batch, batch):
            _, weights, state = program(weights, state, images[place : place + batch], labels[place : place + batch])
        trained.append(weights)
    assert all(np.array_equal(one, other) for one, other in zip(*trained, strict=True))
    return after / before


if __name__ == "__main__":
    main()
