"""Bytes by which training raises the memory of a process over its parameters: 6 layers of 2048 units, batch of 1024.

    python benchmarks/step_peak.py [--optimizer sgd momentum adam]

One JSON line per optimizer, each in a process of its own: `rise` is the most memory of two steps, less what the process
had when the batch was made and before the model was, less its weights and its optimizer's state. `arena` is the plan.
Other processes do not change it. PyTorch's eager step takes 291 MB over its parameters, JAX's with donated ones 98.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

import numpy as np
from process import high_water, settled

from nnc import nn
from nnc.backends.llvm.run.engine import engine

LAYERS, WIDTH, BATCH, MEGABYTE = 6, 2048, 1024, 1_000_000
OPTIMIZERS = {"sgd": nn.SGD(1e-3, momentum=0.0), "momentum": nn.SGD(1e-3), "adam": nn.Adam(1e-3)}


def measured(optimizer: str) -> dict[str, object]:
    """What this process takes."""
    x = np.full((BATCH, WIDTH), 0.1, np.float32)
    y = np.zeros((BATCH, WIDTH), np.float32)
    engine()
    before = settled()
    layers = [layer for _ in range(LAYERS) for layer in (nn.Dense(WIDTH), nn.ReLU())][:-1]
    loss = nn.MeanSquaredError()
    model = nn.Model(nn.Sequential(*layers), (WIDTH,), optimizer=OPTIMIZERS[optimizer], loss=loss)
    memory = model.memory(BATCH, "train")
    for _ in range(2):
        model.train_on_batch(x, y)
    kept = memory.weights + memory.optimizer_state
    return {
        "optimizer": optimizer,
        "weights": memory.weights,
        "state": memory.optimizer_state,
        "arena": memory.step.arena,
        "lower_bound": memory.step.lower_bound,
        "rise": high_water() - before - kept,
        "rise_megabytes": round((high_water() - before - kept) / MEGABYTE, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--optimizer", nargs="*", choices=[*OPTIMIZERS], default=[*OPTIMIZERS])
    parser.add_argument("--here", action="store_true", help="in this process")
    options = parser.parse_args()
    for optimizer in options.optimizer:
        if options.here:
            print(json.dumps(measured(optimizer)), flush=True)
        else:
            subprocess.run([sys.executable, __file__, "--here", "--optimizer", optimizer], check=True)


if __name__ == "__main__":
    main()
