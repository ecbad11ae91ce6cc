"""A variational autoencoder of digits (Kingma & Welling 2014). Run: python examples/autoencoder.py

loss = -ln p(x | z) + KL(N(m, s²) || N(0, 1)), z = m + s · ε
"""

from __future__ import annotations

import numpy as np

import nnc
from nnc import nn
from nnc.nn.data import Batches, Examples, load
from nnc.nn.optimization.optimizer_base import State

CODE = 4
Weights = dict[str, dict[str, nnc.Variable]]


def main(epochs: int = 15) -> float:
    """The last epoch's bound as a share of the first one's."""
    x = load("digits").train.inputs.reshape(-1, 64) / np.float32(load("digits").train.inputs.max())
    encoder = nn.Model(nn.Sequential(nn.Dense(64), nn.ReLU(), nn.Dense(2 * CODE)), (64,), seed=1)
    decoder = nn.Model(nn.Sequential(nn.Dense(64), nn.ReLU(), nn.Dense(64)), (CODE,), seed=2)

    def loss(weights: Weights, x: nnc.Variable) -> nnc.Variable:
        code = encoder.apply(x, weights["encoder"])
        mean, logs = code[:, :CODE], code[:, CODE:]
        z = mean + nnc.ops.exp(logs * 0.5) * nnc.normal(mean.shape)
        logits = decoder.apply(z, weights["decoder"])
        likelihood = (nnc.ops.softplus(logits) - logits * x).sum()
        divergence = (mean * mean + nnc.ops.exp(logs) - logs - 1).sum() * 0.5
        bound: nnc.Variable = (likelihood + divergence) * (1 / x.shape[0])
        return bound

    optimizer = nn.Adam(2e-3)

    @nnc.compile
    def step(weights: Weights, state: State, x: object) -> tuple[nnc.Variable, Weights, State]:
        value, slopes = nnc.value_and_grad(loss)(weights, x)
        return value, *optimizer.update(weights, slopes, state)

    weights: Weights = {
        name: {path: nnc.tensor(one) for path, one in model.parameters.items()}
        for name, model in (("encoder", encoder), ("decoder", decoder))
    }
    state = optimizer.init(weights)
    bounds = list[float]()
    for epoch in range(epochs):
        values = list[float]()
        for batch in Batches(Examples("digits", x, x), 64, seed=epoch):
            value, weights, state = step(weights, state, batch.inputs)
            values.append(value.item())
        bounds.append(float(np.mean(values)))
    print(f"bound {bounds[0]:.2f} -> {bounds[-1]:.2f} nats per image")
    return bounds[-1] / bounds[0]


if __name__ == "__main__":
    main()
