"""CartPole (Barto et al. 1983) by policy gradients with a baseline (Williams 1992). Run: python examples/cartpole.py"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import nnc
from nnc import nn
from nnc.cli.programs.cartpole import CartPole
from nnc.nn.optimization.optimizer_base import State

CARTS, DISCOUNT = 16, 0.98
Weights = dict[str, nnc.Variable]


def main(rounds: int = 40, longest: int = 200) -> float:
    """The steps that carts stay upright at the end."""
    random = np.random.default_rng(0)
    policy = nn.Model(nn.Sequential(nn.Dense(32), nn.Tanh(), nn.Dense(2)), (4,))
    optimizer = nn.Adam(2e-2)

    def loss(weights: Weights, states: nnc.Variable, actions: nnc.Variable, gains: nnc.Variable) -> nnc.Variable:
        logits = nnc.ops.log_softmax(policy.apply(states, weights))
        return -((logits * actions).sum(1) * gains).mean()

    @nnc.compile
    def step(weights: Weights, state: State, *batch: object) -> tuple[Weights, State]:
        _, slopes = nnc.value_and_grad(loss)(weights, *batch)
        return optimizer.update(weights, slopes, state)

    weights = {path: nnc.tensor(one) for path, one in policy.parameters.items()}
    state = optimizer.init(weights)
    steps = 0.0
    for number in range(rounds):
        carts, seen, acted = CartPole(CARTS, random), list[NDArray[np.float32]](), list[NDArray[np.int_]]()
        stands = [np.ones(CARTS, bool)]
        for _ in range(longest):
            seen.append(carts.states.astype(np.float32))
            logits = policy.predict(seen[-1]).astype(float)
            acted.append((random.random(CARTS) < 1 / (1 + np.exp(logits[:, 0] - logits[:, 1]))).astype(int))
            fell, _, _ = carts.step(acted[-1])
            stands.append(stands[-1] & ~fell)
        alive = np.array(stands[:-1], np.float32)
        rewards = returns = np.array(stands[1:], np.float32)
        for place in range(longest - 2, -1, -1):
            returns[place] = rewards[place] + DISCOUNT * returns[place + 1]
        gains = alive * (returns - returns.mean(1, keepdims=True)) / (returns.std() + 1e-6)
        batch = (np.array(seen).reshape(-1, 4), np.eye(2, dtype=np.float32)[np.array(acted)].reshape(-1, 2))
        weights, state = step(weights, state, *batch, gains.reshape(-1))
        policy.load_state_dict(weights)
        steps = alive.sum() / CARTS
        if number % 10 in (0, 9):
            print(f"round {number + 1}, {steps:.0f} steps upright")
    return float(steps)


if __name__ == "__main__":
    main()
