"""CartPole by deep Q-learning (Mnih et al. 2015): a memory of steps, and a second network that follows the first.

Run: python examples/pytorch/dqn.py
"""

from __future__ import annotations

import copy

import numpy as np

import nnc
from nnc import nn, optim
from nnc.cli.programs.cartpole import CartPole

CARTS, DISCOUNT, KEPT, BATCH = 8, 0.99, 10_000, 128


def main(steps: int = 3000) -> float:
    """The steps that carts stay upright at the end, of 200."""
    nnc.manual_seed(0)
    random = np.random.default_rng(0)
    net, loss_fn = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 2)), nn.Huber()
    optimizer = optim.Adam(net.parameters(), lr=2e-3)
    net(nnc.zeros(1, 4))
    target, values = copy.deepcopy(net), nnc.compile(net)

    @nnc.compile
    def step(before: nnc.Array, actions: nnc.Array, fell: nnc.Array, after: nnc.Array) -> None:
        with nnc.no_grad():
            goal = 1.0 - fell + DISCOUNT * (1.0 - fell) * target(after).max(1)
        optimizer.zero_grad()
        loss_fn(nnc.take_along_axis(net(before), actions[:, None], 1)[:, 0], goal).backward()
        optimizer.step()

    memory: list[tuple[object, ...]] = []
    carts = CartPole(CARTS, random)
    for number in range(steps):
        before = carts.states.astype(np.float32)
        greedy = values(before).argmax(1).numpy()
        actions = np.where(random.random(CARTS) < max(0.05, 1 - number / 500), random.integers(0, 2, CARTS), greedy)
        fell, _, after = carts.step(actions)
        memory += zip(before, actions, fell.astype(np.float32), after.astype(np.float32), strict=True)
        rows = [memory[int(place)] for place in random.integers(0, len(memory), BATCH)]
        step(*(nnc.array(np.array(column)) for column in zip(*rows, strict=True)))
        del memory[:-KEPT]
        if number % 100 == 0:
            target.load_state_dict(net.state_dict())
    carts, upright, total = CartPole(CARTS, random), np.ones(CARTS, bool), 0
    for _ in range(200):
        fell, _, _ = carts.step(values(carts.states.astype(np.float32)).argmax(1).numpy())
        upright &= ~fell
        total += upright.sum()
    print(f"{total / CARTS:.0f} steps upright")
    return float(total / CARTS)


if __name__ == "__main__":
    main()
