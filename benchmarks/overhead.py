"""Nanoseconds per node of a native program of many tiny nodes; one JSON line per shape of the program.

    python benchmarks/overhead.py [--nodes N] [--repeats N] [--threads N]

Each node adds 1 to one element. In a `chain` each node reads what the one before wrote; `independent` nodes do not
touch each other. The time holds the work of the node itself: a load, an addition and a store. `assembly_s` is what
making the program out of its calls takes.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time

import numpy as np

from nnc.backends.llvm.backend import LlvmBackend
from nnc.core.command import Command
from nnc.core.dispatch import Call, Program
from nnc.core.settings import SETTINGS
from nnc.core.tensor import Tensor
from nnc.ops.pointwise import AFFINE, AffineAttrs

BACKEND = LlvmBackend()


def calls(nodes: int, chained: bool) -> list[Call]:
    """`nodes` calls of x + 1."""
    tensors = [Tensor.from_numpy(np.zeros(1, np.float32)) for _ in range(nodes + 1)]
    specs = (tensors[0].spec,)
    kernel = BACKEND.kernel(Command(AFFINE, AffineAttrs(1.0, 1.0)), specs, specs)
    sources = tensors if chained else [tensors[-1]] * nodes
    return [Call(kernel, (sources[node],), (tensors[node + chained],)) for node in range(nodes)]


def nanoseconds(run: Program, nodes: int) -> float:
    start = time.perf_counter_ns()
    run()
    return (time.perf_counter_ns() - start) / nodes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=10_000, help="nodes of the program")
    parser.add_argument("--repeats", type=int, default=15, help="runs per program")
    parser.add_argument("--threads", type=int, default=0, help="workers; 0 means one per usable core")
    options = parser.parse_args()
    SETTINGS.threads = options.threads
    for name in ("chain", "independent"):
        nodes = calls(options.nodes, name == "chain")
        start = time.perf_counter()
        run = BACKEND.program(nodes)
        assembled = time.perf_counter() - start
        times = [nanoseconds(run, options.nodes) for _ in range(options.repeats + 1)][1:]
        row = {"program": name, "nodes": options.nodes, "load": round(os.getloadavg()[0], 2)}
        figures = {"nanoseconds": statistics.median(times), "best": min(times)}
        print(json.dumps(row | {k: round(v, 1) for k, v in figures.items()} | {"assembly_s": round(assembled, 3)}))


if __name__ == "__main__":
    main()
