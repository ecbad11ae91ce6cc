"""Triplets with one encoder (Schroff et al. 2015): digits of a class lie near each other.

Run: python examples/triplets.py
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import nnc
from nnc import nn, ops
from nnc.nn.data import load


def triplets(labels: NDArray[np.int32], random: np.random.Generator) -> tuple[NDArray[np.intp], ...]:
    """Places of anchors, of others of their class, and of one of another class."""
    classes = [np.flatnonzero(labels == label) for label in range(10)]
    positives = np.array([random.choice(classes[int(label)]) for label in labels])
    other = (labels + random.integers(1, 10, len(labels))) % 10
    return np.arange(len(labels)), positives, np.array([random.choice(classes[int(label)]) for label in other])


def main(epochs: int = 10, code: int = 8) -> float:
    """The share of test images whose nearest training image is of their class."""
    digits, random = load("digits"), np.random.default_rng(0)
    encoder = nn.Sequential(nn.Flatten(), nn.Dense(64), nn.ReLU(), nn.Dense(code))
    anchor, positive, negative = (nn.Input((8, 8, 1)) for _ in range(3))
    codes = [encoder(image, name="encoder") for image in (anchor, positive, negative)]
    joined = nn.Functional([anchor, positive, negative], nn.Lambda(lambda *codes: ops.concatenate(codes, -1))(*codes))
    model = nn.Model(joined, loss=nn.TripletLoss(1.0), optimizer=nn.AdamW(2e-3), seed=0)
    for _ in range(epochs):
        images = tuple(digits.train.inputs[places] for places in triplets(digits.train.labels, random))
        print(model.fit(images, np.ones(len(images[0]), np.float32), batch_size=64))
    alone = nn.Model(encoder, (8, 8, 1))
    alone.load_state_dict({path.removeprefix("encoder."): value for path, value in model.state_dict().items()})
    train, test = nnc.array(alone.predict(digits.train.inputs)), nnc.array(alone.predict(digits.test.inputs))
    nearest = ((test[:, None] - train[None]) ** 2).sum(2).argmin(1).tolist()
    score = float((digits.train.labels[nearest] == digits.test.labels).mean())
    print(f"{score:.3f} of the test images have a neighbour of their class")
    return score


if __name__ == "__main__":
    main()
