"""CartPole by deep Q-learning (Mnih et al. 2015): a memory of steps, and a second network that follows the first.

Run: python examples/dqn.py
"""

from __future__ import annotations

import copy

import numpy as np

import nnc
from nnc import nn
from nnc.cli.programs.cartpole import CartPole

CARTS, DISCOUNT, KEPT, BATCH = 8, 0.99, 10_000, 128


def main(steps: int = 3000) -> float:
    """The steps that carts stay upright at the end, of 200."""
    nnc.random.seed(0)
    random = np.random.default_rng(0)
    net, optimizer = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 2)), nn.Adam(2e-3)
    net(np.zeros((1, 4), np.float32))
    target, values = copy.deepcopy(net), nnc.compile(net)

    def loss_fn(net: nn.Layer, s: nnc.Array, a: nnc.Array, fell: nnc.Array, t: nnc.Array) -> nnc.Array:
        goal = 1.0 - fell + DISCOUNT * (1.0 - fell) * target(t).max(1)
        return nn.Huber()(nnc.take_along_axis(net(s), a[:, None], 1)[:, 0], nnc.stop_gradient(goal))

    @nnc.compile
    def step(*batch: object) -> nnc.Array:
        loss: nnc.Array
        loss, gradients = nn.value_and_grad(net, loss_fn)(net, *batch)
        optimizer.update(net, gradients)
        return loss

    memory: list[tuple[object, ...]] = []
    carts = CartPole(CARTS, random)
    for number in range(steps):
        before = carts.states.astype(np.float32)
        greedy = values(before).numpy().argmax(1)
        actions = np.where(random.random(CARTS) < max(0.05, 1 - number / 500), random.integers(0, 2, CARTS), greedy)
        fell, _, after = carts.step(actions)
        memory += zip(before, actions, fell.astype(np.float32), after.astype(np.float32), strict=True)
        rows = [memory[int(place)] for place in random.integers(0, len(memory), BATCH)]
        step(*(np.array(column) for column in zip(*rows, strict=True)))
        del memory[:-KEPT]
        if number % 100 == 0:
            target.load_state_dict(net.state_dict())
    carts, upright, total = CartPole(CARTS, random), np.ones(CARTS, bool), 0
    for _ in range(200):
        fell, _, _ = carts.step(values(carts.states.astype(np.float32)).numpy().argmax(1))
        upright &= ~fell
        total += upright.sum()
    print(f"{total / CARTS:.0f} steps upright")
    return float(total / CARTS)


if __name__ == "__main__":
    main()
