"""Triplets with one encoder (Schroff et al. 2015): digits of a class lie near each other.

Run: python -m examples.pytorch.triplets
"""

from __future__ import annotations

import numpy as np

import nnc
from nnc import nn, optim
from nnc.nn.data import load

from ..triplets import triplets


def main(epochs: int = 10, code: int = 8) -> float:
    """The share of test images whose nearest training image is of their class."""
    digits, random = load("digits"), np.random.default_rng(0)
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, code))
    optimizer = optim.AdamW(encoder.parameters(), lr=2e-3)

    @nnc.compile
    def step(anchor: nnc.Array, positive: nnc.Array, negative: nnc.Array) -> None:
        optimizer.zero_grad()
        a, p, n = encoder(anchor), encoder(positive), encoder(negative)
        nnc.relu(nnc.linalg.norm(a - p, axis=1) - nnc.linalg.norm(a - n, axis=1) + 1.0).mean().backward()
        optimizer.step()

    for _ in range(epochs):
        places = np.stack(triplets(digits.train.labels, random))
        for rows in random.permutation(places.shape[1])[:1408].reshape(-1, 64):
            step(*digits.train.inputs[places[:, rows]])
    with nnc.no_grad():
        train, test = encoder.eval()(digits.train.inputs), encoder(digits.test.inputs)
        nearest = ((test[:, None] - train[None]) ** 2).sum(2).argmin(1)
    score = float((digits.train.labels[nearest.numpy()] == digits.test.labels).mean())
    print(f"{score:.3f} of the test images have a neighbour of their class")
    return score


if __name__ == "__main__":
    main()
