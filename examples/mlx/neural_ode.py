"""A neural differential equation (Chen et al. 2018): dy/dt = f(y) learned from a spiral, by Runge and Kutta's steps.

Run: python examples/mlx/neural_ode.py
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import nnc
from nnc import nn

STEPS, SECONDS = 40, 0.1
SPIRAL = nnc.array([[-0.1, 2.0], [-2.0, -0.1]])


def path(slope: Callable[[nnc.Array], nnc.Array], start: nnc.Array) -> nnc.Array:
    """y[steps, batch, 2] from `start`[batch, 2]."""

    def step(y: nnc.Array, _: object) -> tuple[nnc.Array, nnc.Array]:
        a = slope(y)
        b = slope(y + a * (SECONDS / 2))
        c = slope(y + b * (SECONDS / 2))
        d = slope(y + c * SECONDS)
        following = y + (a + (b + c) * 2 + d) * (SECONDS / 6)
        return following, following

    states: nnc.Array = nnc.scan(step, start, np.zeros(STEPS, np.float32))[1]
    return states


def main(updates: int = 300) -> float:
    """The error as a share of the variance."""
    nnc.random.seed(0)
    net, optimizer = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2)), nn.Adam(1e-2)
    starts = nnc.random.uniform(-2.0, 2.0, (16, 2))
    truth = nnc.compile(path)(lambda y: y @ SPIRAL, starts)
    loss_and_grad = nn.value_and_grad(net, lambda: ((path(net, starts) - truth) ** 2).mean())

    @nnc.compile
    def step() -> nnc.Array:
        loss: nnc.Array
        loss, gradients = loss_and_grad()
        optimizer.update(net, gradients)
        return loss

    loss = 0.0
    for number in range(updates):
        loss = step().item()
        if number % 100 == 0:
            print(f"update {number}, error {loss:.4f}")
    variance = truth.var().item()
    print(f"mean squared error {loss:.4f}, of a spiral of variance {variance:.2f}")
    return float(loss / variance)


if __name__ == "__main__":
    main()
