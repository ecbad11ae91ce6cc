"""A physics-informed network (Raissi et al. 2019): u'' = -π² sin πx, u(-1) = u(1) = 0, so u = sin πx.

Run: python examples/mlx/physics.py
"""

from __future__ import annotations

import numpy as np

import nnc
from nnc import nn


def main(updates: int = 1000) -> float:
    """The largest error."""
    net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = nn.Adam(5e-3)
    points = nnc.linspace(-1, 1, 64)
    force = -(np.pi**2) * nnc.sin(np.pi * points)

    def u(x: nnc.Array) -> nnc.Array:
        return net(x.reshape(1, 1)).sum()  # type: ignore[no-any-return]  # of a layer's call

    def loss_fn() -> nnc.Array:
        bend = nnc.vmap(nnc.grad(nnc.grad(u)))(points)
        ends = nnc.vmap(u)(points[[0, -1]])
        loss: nnc.Array = ((bend - force) ** 2).mean() + 100.0 * (ends**2).mean()
        return loss

    @nnc.compile
    def step() -> nnc.Array:
        loss: nnc.Array
        loss, gradients = nn.value_and_grad(net, loss_fn)()
        optimizer.update(net, gradients)
        return loss

    loss = [step() for _ in range(updates)][-1]
    error = nnc.abs(net(points[:, None])[:, 0] - nnc.sin(np.pi * points)).max().item()
    print(f"loss {loss.item():.4f}, largest error {error:.4f}")
    return float(error)


if __name__ == "__main__":
    main()
