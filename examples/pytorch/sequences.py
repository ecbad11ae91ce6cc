"""Sequences of many lengths: an LSTM with a mask says whether a sum is above zero.

Run: python examples/pytorch/sequences.py
"""

from __future__ import annotations

import numpy as np

import nnc
from nnc import nn, optim


class Rises(nn.Module):
    """Series [batch, steps, 1] and a mask of their steps to scores of two classes."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(units, return_sequences=False), nn.Linear(units, 2)

    def forward(self, series: nnc.Array, mask: nnc.Array) -> nnc.Array:
        scores: nnc.Array = self.head(self.lstm(series, mask))
        return scores


def main(count: int = 600, epochs: int = 8, longest: int = 12) -> float:
    """The accuracy of the last epoch."""
    random = np.random.default_rng(0)
    real = np.arange(longest) < random.integers(4, longest + 1, count)[:, None]
    series = (random.standard_normal((count, longest)) * real)[..., None].astype(np.float32)
    labels = (series.sum((1, 2)) > 0).astype(np.int32)
    x, mask, y = nnc.array(series), nnc.array(real), nnc.array(labels)
    net, loss_fn = Rises(24), nn.CrossEntropyLoss()
    optimizer = optim.Adam(net.parameters(), lr=1e-2)

    @nnc.compile
    def step(x: nnc.Array, mask: nnc.Array, y: nnc.Array) -> nnc.Array:
        optimizer.zero_grad()
        scores = net(x, mask)
        loss_fn(scores, y).backward()
        optimizer.step()
        return nnc.mean(scores.argmax(1) == y)

    right = 0.0
    for epoch in range(epochs):
        order = random.permutation(count)[: count // 32 * 32].reshape(-1, 32)
        right = float(np.mean([step(x[rows], mask[rows], y[rows]).item() for rows in order]))
        print(f"epoch {epoch + 1}, accuracy {right:.3f}")
    return right


if __name__ == "__main__":
    main()
