"""Digits with models: layers, a loss, an optimizer, one loop. Run: python examples/with_models.py"""

from __future__ import annotations

from nnc import nn
from nnc.nn.data import Batches, load

LAYERS = nn.Sequential(conv=nn.Convolution(8), relu=nn.ReLU(), pool=nn.MaxPool(2), flat=nn.Flatten(), head=nn.Dense(10))


def train(epochs: int = 3, batch_size: int = 64) -> list[float]:
    """Loss after each update of a small convolutional network."""
    digits = load("digits")
    model = nn.Model(LAYERS, (8, 8, 1), optimizer=nn.SGD(0.1, momentum=0.9), seed=0)
    batches = Batches(digits.train, batch_size, seed=0)
    losses = [model.train_on_batch(one.inputs, one.labels)[0] for _ in range(epochs) for one in batches]
    accuracy = model.evaluate(digits.test.inputs, digits.test.labels).score
    arena = model.memory(batch_size).step.arena
    print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f}, test accuracy {accuracy:.3f}, arena {arena} B")
    return losses


if __name__ == "__main__":
    train()
