"""A generative adversarial network (Goodfellow et al. 2014) that draws a ring. Run: python examples/gan.py

The critic learns to tell points of the ring from drawn ones, the generator to draw what it takes for one.
"""

from __future__ import annotations

import numpy as np

import nnc
from nnc import nn
from nnc.nn.optimization.optimizer_base import State

BATCH, NOISE = 128, 4
Weights = dict[str, nnc.Array]
GENERATOR = nn.Model(nn.Sequential(nn.Dense(64), nn.ReLU(), nn.Dense(64), nn.ReLU(), nn.Dense(2)), (NOISE,), seed=3)
CRITIC = nn.Model(
    nn.Sequential(nn.Dense(64), nn.LeakyReLU(0.2), nn.Dense(64), nn.LeakyReLU(0.2), nn.Dense(1)), (2,), seed=4
)
RULE = nn.Adam(2e-3, 0.5)


def critic_loss(critic: Weights, real: nnc.Array, drawn: nnc.Array) -> nnc.Array:
    """-ln D(real) - ln(1 - D(drawn))"""
    return nnc.softplus(-CRITIC.apply(real, critic)).mean() + nnc.softplus(CRITIC.apply(drawn, critic)).mean()


def generator_loss(generator: Weights, critic: Weights, noise: nnc.Array) -> nnc.Array:
    """-ln D(G(noise))"""
    return nnc.softplus(-CRITIC.apply(GENERATOR.apply(noise, generator), critic)).mean()


@nnc.jit
def step(
    critic: Weights, critic_state: State, generator: Weights, state: State, key: nnc.Array, real: nnc.Array
) -> tuple[Weights, State, Weights, State]:
    """One update of each."""
    noise = nnc.random.normal(key, (BATCH, NOISE))
    slopes = nnc.grad(critic_loss)(critic, real, GENERATOR.apply(noise, generator))
    critic, critic_state = RULE.update(critic, slopes, critic_state)
    return critic, critic_state, *RULE.update(generator, nnc.grad(generator_loss)(generator, critic, noise), state)


def main(updates: int = 2000) -> float:
    """How far the radius of drawn points is from that of the ring, on average."""
    random = np.random.default_rng(0)
    critic, generator = (
        {path: nnc.array(one) for path, one in model.parameters.items()} for model in (CRITIC, GENERATOR)
    )
    states = RULE.init(critic), RULE.init(generator)
    for key in nnc.random.split(nnc.random.key(0), updates):
        angle = random.uniform(0, 2 * np.pi, BATCH)
        real = nnc.array(np.stack([np.cos(angle), np.sin(angle)], axis=1).astype(np.float32))
        critic, first, generator, second = step(critic, states[0], generator, states[1], key, real)
        states = first, second
    points = GENERATOR.apply(nnc.random.normal(nnc.random.key(1), (1000, NOISE)), generator).numpy()
    error = float(np.abs(np.linalg.norm(points, axis=1) - 1).mean())
    print(f"drawn points lie {error:.3f} from the ring; their mean is {points.mean(0)}")
    return error


if __name__ == "__main__":
    main()
