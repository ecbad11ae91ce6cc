"""A generative adversarial network (Goodfellow et al. 2014) that draws a ring. Run: python examples/pytorch/gan.py"""

from __future__ import annotations

import numpy as np

import nnc
from nnc import nn, optim

BATCH, NOISE = 128, 4


def main(updates: int = 2000) -> float:
    """How far the radius of drawn points is from that of the ring, on average."""
    nnc.manual_seed(0)
    generator = nn.Sequential(nn.Linear(NOISE, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
    critic = nn.Sequential(nn.Linear(2, 64), nn.LeakyReLU(0.2), nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1))
    generator_optimizer = optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.999))
    critic_optimizer = optim.Adam(critic.parameters(), lr=1e-3, betas=(0.5, 0.999))
    loss_fn, real, false = nn.BCEWithLogitsLoss(), nnc.ones(BATCH, 1), nnc.zeros(BATCH, 1)

    @nnc.compile
    def step(points: object) -> None:
        drawn = generator(nnc.randn(BATCH, NOISE))
        critic_optimizer.zero_grad()
        (loss_fn(critic(points), real) + loss_fn(critic(drawn.detach()), false)).backward()
        critic_optimizer.step()
        generator_optimizer.zero_grad()
        loss_fn(critic(drawn), real).backward()
        generator_optimizer.step()

    random = np.random.default_rng(0)
    for _ in range(updates):
        angle = random.uniform(0, 2 * np.pi, BATCH).astype(np.float32)
        step(np.stack([np.cos(angle), np.sin(angle)], axis=1))
    with nnc.no_grad():
        points = generator(nnc.randn(1000, NOISE))
    error = nnc.abs(nnc.linalg.norm(points, axis=1) - 1).mean().item()
    print(f"drawn points lie {error:.3f} from the ring; their mean is {points.mean(0).tolist()}")
    return float(error)


if __name__ == "__main__":
    main()
