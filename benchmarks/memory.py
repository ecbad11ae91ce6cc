"""What the networks of `nnc.nn.zoo` need in memory, one JSON line per network and mode, in bytes.

    python benchmarks/memory.py [--only NAME ...] [--mode predict train] [--batch N] [--optimizer NAME] [--run]

`arena` is the plan, `lower_bound` what any plan of its order needs, `activations` that bound without the kernels'
workspace, `without_reuse` one buffer per tensor. `gradients` is what one buffer per parameter would take; updates fused
into the backward pass save them, so that they are no part of `total` = arena + weights + state.

With `--run` each line is also run, twice, in a process of its own: `real` is how much its high-water mark (VmHWM) rises
above that after the imports, `engine` the part of it that a network of 62,250 parameters already takes (the compiler of
kernels, loaded at first use), and `off` = real - engine - total.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from time import perf_counter

import numpy as np

from nnc import nn
from nnc.core.dtype import I32
from nnc.nn.model import KINDS
from nnc.nn.zoo import NETWORKS, network

STATUS = Path("/proc/self/status")
OPTIMIZERS: dict[str, nn.Optimizer] = {
    "sgd": nn.StochasticGradientDescent(1e-4, momentum=0.0),
    "momentum": nn.StochasticGradientDescent(1e-4),
    "adam": nn.Adam(1e-4),
}


def planned(name: str, mode: str, batch: int, optimizer: str, backend: str) -> dict[str, object]:
    """The statement of one step, before anything is allocated."""
    begin = perf_counter()
    memory = network(name, optimizer=OPTIMIZERS[optimizer], backend=backend).memory(batch, mode)
    seconds = perf_counter() - begin
    step = memory.step
    bare = network(name, optimizer=OPTIMIZERS[optimizer], backend="reference").memory(batch, mode).step
    return {
        "network": name,
        "mode": mode,
        "batch": batch,
        "optimizer": optimizer,
        "arena": step.arena,
        "lower_bound": step.lower_bound,
        "optimal": step.optimal,
        "activations": bare.lower_bound,
        "without_reuse": step.without_reuse,
        "workspace": step.workspace,
        "weights": memory.weights,
        "gradients": memory.gradients,
        "state": memory.optimizer_state,
        "total": memory.total,
        "peak_step": step.peak_step,
        "peak_tensors": step.peak_tensors,
        "seconds": round(seconds, 3),
    }


def high_water() -> int:
    """The most bytes that this process has had in memory."""
    lines = STATUS.read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def run_here(name: str, mode: str, batch: int, optimizer: str, backend: str) -> tuple[int, int]:
    """Bytes by which two steps raise the high-water mark of this process, after two of a small network."""
    before = high_water()
    run_steps("digits", mode, 1, optimizer, backend)
    engine = high_water() - before
    run_steps(name, mode, batch, optimizer, backend)
    return high_water() - before, engine


def run_steps(name: str, mode: str, batch: int, optimizer: str, backend: str) -> None:
    """Two steps on made-up data."""
    model = network(name, optimizer=OPTIMIZERS[optimizer], backend=backend)
    inputs = np.zeros((batch, *model.input_shape), model.input_dtype.numpy)
    if model.input_dtype is not I32:
        inputs += np.linspace(-1.0, 1.0, inputs.size, dtype=inputs.dtype).reshape(inputs.shape)
    labels = np.zeros((batch, *model.output_shape[:-1]), np.int32)
    for _ in range(2):
        if mode == "train":
            model.train_on_batch(inputs, labels)
        elif mode == "evaluate":
            model.evaluate(inputs, labels, batch)
        else:
            model.predict(inputs, batch)


def measured(row: dict[str, object], backend: str) -> dict[str, object]:
    """The same step in a process of its own."""
    words = [str(row[key]) for key in ("network", "mode", "batch", "optimizer")]
    command = [sys.executable, __file__, "--measure", *words, backend]
    begin = perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ))
    if done.returncode:
        return {"error": done.stderr.strip().splitlines()[-1:]}
    real, engine = map(int, done.stdout.split())
    off = real - engine - int(str(row["total"]))
    return {"real": real, "engine": engine, "off": off, "run_seconds": round(perf_counter() - begin, 1)}


def main() -> None:
    """Read the options, print the lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--mode", nargs="+", choices=KINDS, default=["predict", "train"])
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--optimizer", choices=OPTIMIZERS, default="sgd")
    parser.add_argument("--backend", default="")
    parser.add_argument("--run", action="store_true")
    parser.add_argument("--measure", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        name, mode, batch, optimizer, backend = options.measure
        print(*run_here(name, mode, int(batch), optimizer, backend))
        return
    for name in options.only:
        for mode in options.mode:
            row = planned(name, mode, options.batch, options.optimizer, options.backend)
            if options.run:
                row |= measured(row, options.backend)
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
