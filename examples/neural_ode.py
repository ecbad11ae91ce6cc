"""A neural differential equation (Chen et al. 2018): dy/dt = f(y) learned from a spiral, by Runge and Kutta's steps.

Run: python examples/neural_ode.py
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import nnc
from nnc import nn
from nnc.nn.optimization.optimizer_base import State

Weights = dict[str, nnc.Variable]
Slope = Callable[[nnc.Variable], nnc.Variable]
STEPS, SECONDS = 40, 0.1
SPIRAL = np.array([[-0.1, 2.0], [-2.0, -0.1]], np.float32)


def path(slope: Slope, start: nnc.Variable) -> nnc.Variable:
    """y[steps, batch, 2] from `start`[batch, 2]."""

    def step(y: nnc.Variable, _: object) -> tuple[nnc.Variable, nnc.Variable]:
        a = slope(y)
        b = slope(y + a * (SECONDS / 2))
        c = slope(y + b * (SECONDS / 2))
        d = slope(y + c * SECONDS)
        following = y + (a + (b + c) * 2 + d) * (SECONDS / 6)
        return following, following

    states: nnc.Variable = nnc.scan(step, start, np.zeros(STEPS, np.float32))[1]
    return states


def main(updates: int = 300) -> float:
    """The error as a share of the variance."""
    model = nn.Model(nn.Sequential(nn.Dense(32), nn.Tanh(), nn.Dense(2)), (2,))
    starts = nnc.tensor(np.random.default_rng(0).uniform(-2, 2, (16, 2)).astype(np.float32))
    truth = nnc.compile(path)(lambda y: y @ SPIRAL, starts).numpy()
    optimizer = nn.Adam(1e-2)

    @nnc.compile
    def step(weights: Weights, state: State) -> tuple[nnc.Variable, Weights, State]:
        def loss(weights: Weights) -> nnc.Variable:
            return ((path(lambda y: model.apply(y, weights), starts) - truth) ** 2).mean()

        value, slopes = nnc.value_and_grad(loss)(weights)
        return value, *optimizer.update(weights, slopes, state)

    weights = {path: nnc.tensor(one) for path, one in model.parameters.items()}
    state = optimizer.init(weights)
    value = nnc.tensor(0.0)
    for number in range(updates):
        value, weights, state = step(weights, state)
        if number % 100 == 0:
            print(f"update {number}, error {value.item():.4f}")
    print(f"mean squared error {value.item():.4f}, of a spiral of variance {truth.var():.2f}")
    return float(value.item() / truth.var())


if __name__ == "__main__":
    main()
