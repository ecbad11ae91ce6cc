"""Two independent chains of matrix products on two streams against one, each product on one thread; one JSON line.

    python benchmarks/streams.py [--size N] [--length N] [--rounds N] [--backend NAME]

`ratio` is the time on two streams over the time on one, the median over rounds that take turns; the goal is 0.65.
NAME is a backend of nnc's, `llvm` unless told otherwise.
"""

from __future__ import annotations

import os

# Before NumPy is imported: its matrix product must not take the second core by itself.
os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"

import argparse
import json
from statistics import median
from time import perf_counter

import numpy as np

import nnc
from nnc.concrete import ConcreteGraph, ExecKey, GraphSchedule
from nnc.core.running.stream import Stream
from nnc.core.settings import SETTINGS
from nnc.core.values.command import Command
from nnc.core.values.tensor import Tensor
from nnc.ops.products.products import GEMM, GemmAttrs

GOAL = 0.65
CHAINS = 2


def two_chains(size: int, length: int, backend: str) -> ConcreteGraph:
    """x ← w @ x in turns between two buffers, `length` times, twice."""
    draw = np.random.default_rng(0)
    graph = ConcreteGraph(backend=backend)
    for _ in range(CHAINS):
        # Scaled so that the numbers neither grow nor vanish along the chain.
        weight = draw.standard_normal((size, size), dtype=np.float32) / np.float32(size) ** 0.5
        factor, *buffers = map(Tensor.from_numpy, (weight, weight.copy(), weight.copy()))
        last: list[ExecKey] = []
        for step in range(length):
            source, target = buffers[step % 2], buffers[(step + 1) % 2]
            last = [graph.add(Command(GEMM, GemmAttrs()), [factor, source, None], [target], after=last)]
    return graph


def seconds(graph: ConcreteGraph, schedule: GraphSchedule) -> float:
    """Of one run, from the call until the stream is idle."""
    with Stream() as stream:
        begin = perf_counter()
        graph.run(stream, schedule=schedule)
        stream.drain()
        return perf_counter() - begin


def measure(size: int, length: int, rounds: int, backend: str) -> dict[str, object]:
    """Both schedules in turn, once to warm up and then `rounds` times."""
    graph = two_chains(size, length, backend)
    schedules = [graph.schedule(count) for count in (1, CHAINS)]
    times = [[seconds(graph, schedule) for schedule in schedules] for _ in range(rounds + 1)][1:]
    one, two = (median(row[index] for row in times) for index in range(2))
    return {
        "benchmark": "streams",
        "version": nnc.__version__,
        "backend": backend,
        "gemm": f"f32 {size}x{size}x{size}",
        "chain": length,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "streams": [len(schedule.table.lanes) for schedule in schedules],
        "seconds_one_stream": round(one, 4),
        "seconds_two_streams": round(two, 4),
        "ratio": round(median(row[1] / row[0] for row in times), 3),
        "goal": GOAL,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--length", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--backend", default="llvm")
    arguments = parser.parse_args()
    SETTINGS.threads = 1
    print(json.dumps(measure(arguments.size, arguments.length, arguments.rounds, arguments.backend)))


if __name__ == "__main__":
    main()
