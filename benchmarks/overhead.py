"""Nanoseconds per node of a native program of many tiny nodes; one JSON line per shape of the program.

    python benchmarks/overhead.py [--nodes N] [--repeats N] [--threads N]

Each node adds 1 to one element. In a `chain` each node reads what the one before wrote; `independent` nodes do not
touch each other. The time holds the work of the node itself: a load, an addition and a store. `assembly_s` is what
making the program out of its calls takes. `branches` are two chains of nodes of some thousand elements, in turns: each
runs on a worker of its own, and `alone` is their time on one worker.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable

import numpy as np

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=10_000, help="nodes of the program")
    parser.add_argument("--repeats", type=int, default=15, help="runs per program")
    parser.add_argument("--threads", type=int, default=0, help="workers; 0 means one per usable core")
    options = parser.parse_args()
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
