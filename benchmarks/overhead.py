"""What runs cost beside their kernels: nanoseconds per node of a native program, and Python calls of a training step.

    python benchmarks/overhead.py [--nodes N] [--repeats N] [--threads N]

One JSON line per shape of the program, and one per call of the training of a small perceptron.

Each node adds 1 to one element. In a `chain` each node reads what the one before wrote; `independent` nodes do not
touch each other. The time holds the work of the node itself: a load, an addition and a store. `assembly_s` is what
making the program out of its calls takes. `branches` are two chains of nodes of some thousand elements, in turns: each
runs on a worker of its own, and `alone` is their time on one worker.

A warm `train_on_batch`, and a `fit` of two batches, are followed by `sys.setprofile`: how many Python functions are
called, in how many files, how often one is called from another file than the one before, and how many of them look at
arguments (`nnc/arguments.py`).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from types import FrameType

import numpy as np

from nnc import nn
from nnc.backends.llvm.backend import LlvmBackend
from nnc.core.running.dispatch import Call, Program
from nnc.core.settings import SETTINGS
from nnc.core.values.command import Command
from nnc.core.values.tensor import Tensor
from nnc.ops.elementwise.pointwise import AFFINE, AffineAttrs

BACKEND = LlvmBackend()


def chain(node: int) -> tuple[int, int]:
    return node, node + 1


def independent(node: int) -> tuple[int, int]:
    return 0, node + 1


def branches(node: int) -> tuple[int, int]:
    """Two chains in turns, each between two tensors of its own."""
    step, branch = divmod(node, 2)
    return 2 * branch + step % 2, 2 * branch + (step + 1) % 2


def calls(nodes: int, places: Callable[[int], tuple[int, int]], elements: int) -> list[Call]:
    """`nodes` calls of x + 1 that read and write the tensors at their places."""
    pairs = [places(node) for node in range(nodes)]
    tensors = [Tensor.from_numpy(np.zeros(elements, np.float32)) for _ in range(max(map(max, pairs)) + 1)]
    specs = (tensors[0].spec,)
    kernel = BACKEND.kernel(Command(AFFINE, AffineAttrs(1.0, 1.0)), specs, specs)
    return [Call(kernel, (tensors[source],), (tensors[target],)) for source, target in pairs]


def nanoseconds(run: Program, nodes: int) -> float:
    start = time.perf_counter_ns()
    run()
    return (time.perf_counter_ns() - start) / nodes


def entered_files(work: Callable[[], object]) -> list[str]:
    """The file of each Python function that `work` calls, in the order of the calls."""
    files: list[str] = []

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            files.append(frame.f_code.co_filename)

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return files


def print_calls() -> None:
    """Figures of a warm update, and of a `fit` of two batches."""
    generator = np.random.default_rng(0)
    inputs, labels = generator.standard_normal((64, 8)).astype(np.float32), np.arange(64) % 4
    model = nn.Model(nn.Sequential(nn.Dense(16), nn.ReLU(), nn.Dense(4)), (8,), optimizer=nn.SGD(0.1))
    ways: dict[str, Callable[[], object]] = {
        "train_on_batch": lambda: model.train_on_batch(inputs[:32], labels[:32]),
        "fit": lambda: model.fit(inputs, labels, batch_size=32),
    }
    for name, way in ways.items():
        way()
        files = entered_files(way)
        figures = {"calls": len(files), "files": len(set(files)), "changes": sum(a != b for a, b in pairwise(files))}
        doors = sum(file.endswith(os.path.join("nnc", "arguments.py")) for file in files)
        print(json.dumps({"way": name} | figures | {"arguments": doors}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=10_000, help="nodes of the program")
    parser.add_argument("--repeats", type=int, default=15, help="runs per program")
    parser.add_argument("--threads", type=int, default=0, help="workers; 0 means one per usable core")
    options = parser.parse_args()
    print_calls()
    for places, elements in ((chain, 1), (independent, 1), (branches, 8192)):
        nodes = calls(options.nodes, places, elements)
        SETTINGS.threads = 1
        alone = BACKEND.program(nodes)
        SETTINGS.threads = options.threads
        start = time.perf_counter()
        run = BACKEND.program(nodes)
        assembled = time.perf_counter() - start
        times: dict[str, list[float]] = {"together": [], "alone": []}
        for _ in range(options.repeats + 1):
            times["together"].append(nanoseconds(run, options.nodes))
            times["alone"].append(nanoseconds(alone, options.nodes))
        row = {"program": places.__name__, "nodes": options.nodes, "load": round(os.getloadavg()[0], 2)}
        figures = {
            "nanoseconds": statistics.median(times["together"][1:]),
            "best": min(times["together"]),
            "alone": statistics.median(times["alone"][1:]),
        }
        print(json.dumps(row | {k: round(v, 1) for k, v in figures.items()} | {"assembly_s": round(assembled, 3)}))


if __name__ == "__main__":
    main()
