"""CartPole (Barto et al. 1983) by policy gradients with a baseline (Williams 1992).

Run: python examples/pytorch/cartpole.py
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import nnc
from nnc import nn, optim
from nnc.cli.programs.cartpole import CartPole

CARTS, DISCOUNT = 16, 0.98


def main(rounds: int = 40, longest: int = 200) -> float:
    """The steps that carts stay upright at the end."""
    random = np.random.default_rng(0)
    policy = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2))
    optimizer, act = optim.Adam(policy.parameters(), lr=2e-2), nnc.compile(policy)

    @nnc.compile
    def step(states: nnc.Array, actions: nnc.Array, gains: nnc.Array) -> None:
        optimizer.zero_grad()
        chosen = nnc.take_along_axis(nnc.log_softmax(policy(states), axis=1), actions[:, None], 1)[:, 0]
        (-(chosen * gains).mean()).backward()
        optimizer.step()

    steps = 0.0
    for number in range(rounds):
        carts, seen, acted = CartPole(CARTS, random), list[NDArray[np.float32]](), list[NDArray[np.int_]]()
        stands = [np.ones(CARTS, bool)]
        for _ in range(longest):
            seen.append(carts.states.astype(np.float32))
            logits = act(seen[-1]).numpy().astype(float)
            acted.append((random.random(CARTS) < 1 / (1 + np.exp(logits[:, 0] - logits[:, 1]))).astype(int))
            fell, _, _ = carts.step(acted[-1])
            stands.append(stands[-1] & ~fell)
        alive, returns = np.array(stands[:-1], np.float32), np.array(stands[1:], np.float32)
        for place in range(longest - 2, -1, -1):
            returns[place] += DISCOUNT * returns[place + 1]
        gains = alive * (returns - returns.mean(1, keepdims=True)) / (returns.std() + 1e-6)
        step(*map(nnc.array, (np.concatenate(seen), np.concatenate(acted), gains.reshape(-1))))
        steps = alive.sum() / CARTS
        if number % 10 in (0, 9):
            print(f"round {number + 1}, {steps:.0f} steps upright")
    return float(steps)


if __name__ == "__main__":
    main()
