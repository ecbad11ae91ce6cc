"""Training within a limit on memory: the same bits, some work done twice. Run: python examples/small_memory.py"""

from __future__ import annotations

import numpy as np

from nnc import nn
from nnc.nn.data import load


def main(batch: int = 64, depth: int = 12) -> float:
    """The arena within the limit as a share of the one without."""
    digits = load("digits").train
    layer = nn.Sequential(
        nn.Flatten(), *(part for _ in range(depth) for part in (nn.Dense(128), nn.Tanh())), nn.Dense(10)
    )
    free = nn.Model(layer, (8, 8, 1), seed=0)
    before = free.memory(batch)
    limited = nn.Model(layer, (8, 8, 1), seed=0, memory_limit=before.step.arena * 2 // 3)
    after = limited.memory(batch)
    print(f"{before.step.arena} B without a limit, {after.step.arena} B within one: {after.budget}")
    losses = [
        model.fit(digits.inputs[:640], digits.labels[:640], batch_size=batch)["loss"] for model in (free, limited)
    ]
    same = all(np.array_equal(free.state_dict()[path], limited.state_dict()[path]) for path in free.parameters)
    print(f"losses {losses[0][0]:.4f} and {losses[1][0]:.4f}, weights {'the same' if same else 'another'}")
    assert same
    return after.step.arena / before.step.arena


if __name__ == "__main__":
    main()
