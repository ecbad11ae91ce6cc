"""Ranks of one machine: rates of a sum, and a training step shared by two; one JSON line per case.

    python benchmarks/parallel.py [--rounds N]

`microseconds` is the median time of an allreduce between two ranks of one thread, and `library` that of MPI's own
Allreduce in the same processes, in turns; `bf16` and `int8` are sums of as many numbers in few bits (`compress`).
`ratio` of training is the time of a step on 2 ranks of 1 thread over that on
1 rank of 2 threads, the same whole batch; the goal is 1.1. Both are started in turns.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from statistics import median
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from nnc import nn, parallel
from nnc.nn.zoo import resnet20
from nnc.ops.composed.custom import KERNEL
from nnc.parallel.compression import COMPRESSED_SUM, Compression, CompressionAttrs
from nnc.parallel.launching import command_of
from nnc.parallel.tensor_shards import shard_size

SIZES = (1 << 10, 1 << 20, 25_000_000, 100_000_000)
STEPS, BATCH = 12, 64


def rates(rounds: int) -> None:
    """Run by two ranks."""
    from mpi4py import MPI  # noqa: PLC0415  # initialized where there are ranks

    ranks = parallel.world()
    for nbytes in SIZES:
        values = np.ones(nbytes // 4, np.float32)
        runs = (
            partial(ranks.allreduce_into, values),
            partial(MPI.COMM_WORLD.Allreduce, MPI.IN_PLACE, values),
            *(in_few_bits(values, kind) for kind in ("bf16", "int8")),
        )
        times: tuple[list[float], ...] = ([], [], [], [])
        for _ in range(rounds):
            for taken, run in zip(times, runs, strict=True):
                values[...] = 1
                ranks.barrier()
                began = perf_counter()
                run()
                taken.append(perf_counter() - began)
        if ranks.rank == 0:
            ours, library, bf16, int8 = (round(median(taken[1:]) * 1e6) for taken in times)
            row = {"case": "allreduce", "bytes": nbytes, "microseconds": ours, "library": library}
            print(json.dumps(row | {"bf16": bf16, "int8": int8}))


def in_few_bits(values: NDArray[np.float32], kind: Compression) -> Callable[[], None]:
    """A sum of as many numbers with errors fed back."""
    ranks = parallel.world().size
    attrs = CompressionAttrs(parallel.everyone(), kind, 1)
    arrays = [values, np.zeros((1, values.size), np.float32), np.zeros(shard_size(values.size, ranks), np.float32)]
    return partial(KERNEL[COMPRESSED_SUM], attrs, arrays, [np.empty_like(array) for array in arrays])


def training() -> None:
    """Run by one rank or two: seconds of a step."""
    ranks = parallel.world()
    model = nn.Model(resnet20(10), (32, 32, 3), optimizer=nn.SGD(0.1), mesh=parallel.Mesh(data=ranks.size))
    draw = np.random.default_rng(0)
    rows = BATCH // ranks.size
    own = slice(ranks.rank * rows, (ranks.rank + 1) * rows)
    x, y = draw.standard_normal((BATCH, 32, 32, 3)).astype(np.float32)[own], draw.integers(0, 10, BATCH)[own]
    times = []
    for _ in range(STEPS):
        began = perf_counter()
        loss, _ = model.train_on_batch(x, y)
        times.append(perf_counter() - began)
    if ranks.rank == 0:
        print(json.dumps({"seconds": median(times[2:]), "loss": loss}))


def started(ranks: int, threads: int, *arguments: str) -> str:
    """What the first rank prints."""
    script = [__file__, *arguments]
    line = command_of(ranks, script) if ranks > 1 else [sys.executable, *script]
    environment = os.environ | {"NNC_THREADS": str(threads)}
    return subprocess.run(line, env=environment, capture_output=True, text=True, check=True).stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--role", choices=("", "rates", "training"), default="")
    options = parser.parse_args()
    if options.role == "rates":
        return rates(options.rounds)
    if options.role == "training":
        return training()
    print(started(2, 1, "--role", "rates", "--rounds", str(options.rounds)), end="")
    pairs = [
        tuple(json.loads(started(*ranks_and_threads, "--role", "training")) for ranks_and_threads in ((1, 2), (2, 1)))
        for _ in range(3)
    ]
    one, two = (median(pair[place]["seconds"] for pair in pairs) for place in (0, 1))
    losses = [pairs[0][place]["loss"] for place in (0, 1)]
    row = {"case": "resnet20", "batch": BATCH, "one": one, "two": two, "ratio": round(two / one, 3), "losses": losses}
    print(json.dumps(row))
    return None


if __name__ == "__main__":
    main()
