"""Bytes of a rank by stage of ZeRO, stated and measured; one JSON line per case.

    python benchmarks/shards.py [--layers N] [--features N]

Layers of features × features with Adam, 64 examples in all. `total` is what the statement says of arena, weights and
state, `stated` what it says of the process, and `measured` how much the process of the first rank rose in three steps
above what it had behind its imports. `of_one` is `total` over that of one process without ranks; the goal is 0.3 for
stage 3 on four.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys

import numpy as np
from process import high_water, settled

from nnc import nn, parallel
from nnc.parallel.launching import command_of

BATCH = 64
CASES = ((1, 0), (4, 0), (4, 1), (4, 3))


def step(layers: int, features: int, stage: int) -> None:
    """Run by each rank."""
    ranks = parallel.world()
    hidden = [nn.Sequential(nn.Dense(features), nn.GELU()) for _ in range(layers)]
    mesh = parallel.Mesh(data=ranks.size) if ranks.size > 1 else None
    net = nn.Sequential(*hidden, nn.Dense(16))
    # A small one first: what is loaded at the first step is no part of the model.
    small = nn.Model(nn.Sequential(nn.Dense(64), nn.GELU(), nn.Dense(16)), (features,), mesh=mesh, zero_stage=stage)
    model = nn.Model(net, (features,), mesh=mesh, zero_stage=stage)
    rows = BATCH // ranks.size
    draw = np.random.default_rng(ranks.rank)
    x, y = draw.standard_normal((rows, features)).astype(np.float32), draw.integers(0, 16, rows)
    small.train_on_batch(x, y)
    memory = model.memory(rows)
    before = settled()
    for _ in range(3):
        model.train_on_batch(x, y)
    if ranks.rank == 0:
        measured = high_water() - before
        row = {"ranks": ranks.size, "stage": stage, "total": memory.total, "stated": memory.process}
        print(json.dumps(row | {"measured": measured, "ratio": round(measured / memory.process, 3)}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--features", type=int, default=1024)
    parser.add_argument("--stage", type=int)
    options = parser.parse_args()
    if options.stage is not None:
        return step(options.layers, options.features, options.stage)
    one = 0
    for ranks, stage in CASES:
        script = [__file__, "--layers", str(options.layers), "--features", str(options.features), "--stage", str(stage)]
        line = command_of(ranks, script) if ranks > 1 else [sys.executable, *script]
        run = subprocess.run(line, env=os.environ | {"NNC_THREADS": "1"}, capture_output=True, text=True, check=True)
        row = json.loads(run.stdout)
        one = one or row["total"]
        print(json.dumps(row | {"of_one": round(row["total"] / one, 3)}), flush=True)
    return None


if __name__ == "__main__":
    main()
