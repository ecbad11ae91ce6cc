"""A variational autoencoder of digits (Kingma & Welling 2014). Run: python examples/pytorch/autoencoder.py

loss = -ln p(x | z) + KL(N(m, s²) || N(0, 1)), z = m + s · ε
"""

from __future__ import annotations

import numpy as np

import nnc
from nnc import nn, optim
from nnc.nn.data import load

CODE = 4


class VAE(nn.Module):
    """Images [n, 64] to the logits of their pixels, and the mean and the logarithmic variance of their code."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2 * CODE))
        self.decoder = nn.Sequential(nn.Linear(CODE, 64), nn.ReLU(), nn.Linear(64, 64))

    def forward(self, x: nnc.Array) -> tuple[nnc.Array, nnc.Array, nnc.Array]:
        mean, logs = nnc.chunk(self.encoder(x), 2, axis=1)
        return self.decoder(mean + nnc.exp(logs * 0.5) * nnc.randn_like(mean)), mean, logs


def main(epochs: int = 15) -> float:
    """The last epoch's bound as a share of the first one's."""
    images = load("digits").train.inputs.reshape(-1, 64)
    x, net = nnc.array(images / images.max()), VAE()
    optimizer = optim.Adam(net.parameters(), lr=2e-3)

    @nnc.compile
    def step(x: nnc.Array) -> nnc.Array:
        optimizer.zero_grad()
        logits, mean, logs = net(x)
        likelihood = (nnc.softplus(logits) - logits * x).sum()
        divergence = (mean**2 + nnc.exp(logs) - logs - 1).sum() * 0.5
        loss: nnc.Array = (likelihood + divergence) / x.shape[0]
        loss.backward()
        optimizer.step()
        return loss

    bounds = list[float]()
    for epoch in range(epochs):
        order = np.random.default_rng(epoch).permutation(len(x))[:1408].reshape(-1, 64)
        bounds.append(float(np.mean([step(x[rows]).item() for rows in order])))
    print(f"bound {bounds[0]:.2f} -> {bounds[-1]:.2f} nats per image")
    return bounds[-1] / bounds[0]


if __name__ == "__main__":
    main()
