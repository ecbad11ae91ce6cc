"""A physics-informed network (Raissi et al. 2019): u'' = -π² sin πx, u(-1) = u(1) = 0, so u = sin πx.

Run: python examples/physics.py
"""

from __future__ import annotations

import numpy as np

import nnc
from nnc import nn
from nnc.nn.optimization.optimizer_base import State

Weights = dict[str, nnc.Variable]


def main(updates: int = 1000) -> float:
    """The largest error."""
    model = nn.Model(nn.Sequential(nn.Dense(32), nn.Tanh(), nn.Dense(32), nn.Tanh(), nn.Dense(1)), (1,))
    points = np.linspace(-1, 1, 64, dtype=np.float32)
    force = nnc.tensor((-(np.pi**2) * np.sin(np.pi * points)).astype(np.float32))

    def u(x: nnc.Variable, weights: Weights) -> nnc.Variable:
        return model.apply(x.reshape((1, 1)), weights).sum()

    def loss(weights: Weights) -> nnc.Variable:
        bend: nnc.Variable = nnc.vmap(nnc.grad(nnc.grad(u)), in_axes=(0, None))(points, weights)
        ends: nnc.Variable = nnc.vmap(u, in_axes=(0, None))(points[[0, -1]], weights)
        return ((bend - force) ** 2).mean() + 100.0 * (ends * ends).mean()

    optimizer = nn.Adam(5e-3)

    @nnc.compile
    def step(weights: Weights, state: State) -> tuple[Weights, State]:
        return optimizer.update(weights, nnc.grad(loss)(weights), state)

    weights = {path: nnc.tensor(one) for path, one in model.parameters.items()}
    state = optimizer.init(weights)
    for _ in range(updates):
        weights, state = step(weights, state)
    found = model.apply(nnc.tensor(points[:, None]), weights).numpy()[:, 0]
    error = float(np.abs(found - np.sin(np.pi * points)).max())
    print(f"loss {loss(weights).item():.4f}, largest error {error:.4f}")
    return error


if __name__ == "__main__":
    main()
