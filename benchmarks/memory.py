"""What the networks of `nnc.nn.zoo` need in memory, one JSON line per network and mode, in bytes.

    python benchmarks/memory.py [--only NAME ...] [--mode predict train] [--batch N] [--optimizer NAME] [--run]
                                [--peers torch onnxruntime jax]

`arena` is the plan, `lower_bound` what any plan of its order needs, `activations` that bound without the kernels'
workspace, `without_reuse` one buffer per tensor. `gradients` is what one buffer per parameter would take; updates fused
into the backward pass save them, so that they are no part of `total` = arena + weights + state.

With `--run` each line is also run, twice, in a process of its own: `ours` is how much its high-water mark (VmHWM) rises
above that after the imports, that of LLVM's library among them. `engine` is the part of it that LLVM takes to start,
and `off` = ours - engine - total. Each of the `--peers` does the same with its own network of the same sizes, if it has
that one; `ratios` are ours / theirs. Kernels that are not in the cache on disk are compiled in the process: the first
run of a network on a machine takes some 30 MB more.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np
from memory_peers import MODULES, PEERS, export
from networks import NETWORKS as TWINS
from process import high_water

from nnc import nn
from nnc.backends.llvm.run.engine import engine
from nnc.core.dtype import I32
from nnc.nn.model import KINDS
from nnc.nn.zoo import NETWORKS, network

OPTIMIZERS: dict[str, nn.Optimizer] = {
    "sgd": nn.SGD(1e-4, momentum=0.0),
    "momentum": nn.SGD(1e-4),
    "adam": nn.Adam(1e-4),
}


class MeasureError(Exception):
    """A process that did not end well, with its last line."""


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


def run_here(side: str, name: str, mode: str, batch: int, optimizer: str, backend: str, path: str) -> tuple[int, int]:
    """Bytes by which two steps raise the high-water mark of this process above that after the imports; LLVM's part."""
    for module in MODULES.get(side, ()):
        importlib.import_module(module)
    if side == "ours":
        before = high_water()
        engine()
        ready = high_water()
        run_steps(name, mode, batch, optimizer, backend)
    else:
        inputs, labels = made_up(network(name), batch)
        before = ready = high_water()
        PEERS[side](name, mode, inputs, labels, path)
    return high_water() - before, ready - before


def made_up(model: nn.Model, batch: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and labels of the right shapes."""
    inputs = np.zeros((batch, *model.input_shape), model.input_dtype.numpy)
    if model.input_dtype is not I32:
        inputs += np.linspace(-1.0, 1.0, inputs.size, dtype=inputs.dtype).reshape(inputs.shape)
    return inputs, np.zeros((batch, *model.output_shape[:-1]), np.int32)


def run_steps(name: str, mode: str, batch: int, optimizer: str, backend: str) -> None:
    """Two steps on made-up data."""
    model = network(name, optimizer=OPTIMIZERS[optimizer], backend=backend)
    inputs, labels = made_up(model, batch)
    for _ in range(2):
        if mode == "train":
            model.train_on_batch(inputs, labels)
        elif mode == "evaluate":
            model.evaluate(inputs, labels, batch)
        elif mode == "freeze":
            model.freeze(batch).run(inputs)
        else:
            model.predict(inputs, batch)


def apart(*words: str) -> list[int]:
    """The numbers that this file prints for `words` in a process of its own; MeasureError when it fails."""
    done = subprocess.run([sys.executable, __file__, *words], capture_output=True, text=True, env=dict(os.environ))
    if done.returncode:
        raise MeasureError(" ".join(done.stderr.strip().splitlines()[-1:]))
    return [int(word) for word in done.stdout.split()]


def measured(row: dict[str, object], backend: str, peers: Sequence[str]) -> dict[str, object]:
    """The same step, ours and the peers', each in a process of its own."""
    words = [str(row[key]) for key in ("network", "mode", "batch", "optimizer")]
    found: dict[str, object] = {}
    engine_bytes = 0
    with TemporaryDirectory() as folder:
        path = str(Path(folder) / "network.onnx")
        for side in ("ours", *peers):
            if side == "onnxruntime" and row["mode"] == "train":
                continue
            try:
                if side == "onnxruntime":
                    apart("--export", str(row["network"]), str(row["batch"]), path)
                found[side], started = apart("--measure", side, *words, backend, path)
                engine_bytes = max(engine_bytes, started)
            except MeasureError as error:
                found[f"{side}_error"] = str(error)
    real = found.get("ours")
    if isinstance(real, int):
        found["engine"] = engine_bytes
        found["off"] = real - engine_bytes - int(str(row["total"]))
        found["ratios"] = {side: round(real / peer, 3) for side in peers if isinstance(peer := found.get(side), int)}
    return found


def answer(options: argparse.Namespace) -> tuple[int, ...] | None:
    """What a process of its own was asked for."""
    if options.export:
        name, batch, path = options.export
        export(name, made_up(network(name), int(batch))[0], path)
        return ()
    if options.measure:
        side, name, mode, batch, optimizer, backend, path = options.measure
        return run_here(side, name, mode, int(batch), optimizer, backend, path)
    return None


def main() -> None:
    """Read the options, print the lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--mode", nargs="+", choices=KINDS, default=["predict", "train"])
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--optimizer", choices=OPTIMIZERS, default="sgd")
    parser.add_argument("--backend", default="")
    parser.add_argument("--run", action="store_true")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=[])
    parser.add_argument("--measure", nargs=7, help=argparse.SUPPRESS)
    parser.add_argument("--export", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    asked = answer(options)
    if asked is not None:
        print(*asked)
        return
    for name in options.only:
        for mode in options.mode:
            row = planned(name, mode, options.batch, options.optimizer, options.backend)
            if options.run or options.peers:
                row |= measured(row, options.backend, options.peers if name in TWINS else ())
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
