"""Training steps below a limit on memory, one JSON line per network and limit, in bytes.

    python benchmarks/budgets.py [--only NAME ...] [--limit BYTES ...] [--share PERCENT ...] [--batch N]
                                 [--optimizer NAME] [--run]

Without options: the limits of CASES, planned at their batch sizes and not run. A `--share` is a limit in percent of the
arena without one. `unlimited` is the arena without limit,
`any_order_bound` what no order of the execs is below, `arena` that within the limit, `work_ratio` floating-point
operations with what runs again over those without (`nnc.ops.work`), and `seconds` the time to plan. An infeasible limit
gives `smallest`, the least one that can be met.

With `--run` each line is also run, in two processes of its own, with the limit and without: `time_ratio` of the fastest
of five steps behind a first one, `same_bits` of loss and parameters behind them, and `real`, how much the high-water
mark (VmHWM) rises above that after the imports.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
from time import perf_counter

from memory import OPTIMIZERS, high_water, made_up

from nnc.errors import MemoryLimitError
from nnc.nn.zoo import NETWORKS, network

# Network, batch size, limit, and the work ratio that is not to be exceeded.
CASES = (
    ("resnet50", 32, 1_622_000_000, 1.03),
    ("resnet50", 32, 790_000_000, 1.30),
    ("densenet121", 32, 1_368_000_000, 1.07),
    ("unet", 8, 1_818_000_000, 1.01),
    ("gpt2_small", 8, 3_600_000_000, 1.20),
)
STEPS = 5


def planned(name: str, batch: int, limit: int, optimizer: str, backend: str) -> dict[str, object]:
    """The statement of one step below the limit, before anything is allocated."""
    model = network(name, optimizer=OPTIMIZERS[optimizer], backend=backend)
    row: dict[str, object] = {"network": name, "batch": batch, "optimizer": optimizer, "limit": limit}
    free = model.memory(batch).step
    row |= {"unlimited": free.arena, "any_order_bound": free.any_order_bound}
    begin = perf_counter()
    try:
        memory = network(name, optimizer=OPTIMIZERS[optimizer], backend=backend, memory_limit=limit).memory(batch)
    except MemoryLimitError as error:
        return row | {"smallest": error.smallest, "seconds": round(perf_counter() - begin, 2)}
    statement, budget = memory.step, memory.budget
    return row | {
        "arena": statement.arena,
        "lower_bound": statement.lower_bound,
        "workspace": statement.workspace,
        "work_ratio": round(budget.work_ratio, 4) if budget else 1.0,
        "repeated": budget.repeated if budget else 0,
        "seconds": round(perf_counter() - begin, 2),
    }


def run_here(name: str, batch: int, limit: int, optimizer: str, backend: str) -> tuple[int, float, str]:
    """Bytes by which steps raise the high-water mark of this process, the seconds of one, and a hash of all results."""
    before = high_water()
    bound = limit or None
    model = network(name, optimizer=OPTIMIZERS[optimizer], backend=backend, memory_limit=bound)
    inputs, labels = made_up(model, batch)
    loss, _ = model.train_on_batch(inputs, labels)
    seconds = []
    for _ in range(STEPS):
        begin = perf_counter()
        loss, _ = model.train_on_batch(inputs, labels)
        seconds.append(perf_counter() - begin)
    real = high_water() - before
    digest = hashlib.sha256(repr(loss).encode())
    for tensor in model.tensors().values():
        digest.update(tensor.numpy().tobytes())
    return real, min(seconds), digest.hexdigest()


def measured(row: dict[str, object], backend: str) -> dict[str, object]:
    """The step in processes of its own, with the limit and without."""
    found = []
    for limit in (row["limit"], 0):
        words = [str(word) for word in (row["network"], row["batch"], limit, row["optimizer"], backend)]
        command = [sys.executable, __file__, "--measure", *words]
        done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ))
        if done.returncode:
            return {"error": done.stderr.strip().splitlines()[-1:]}
        real, seconds, digest = done.stdout.split()
        found.append((int(real), float(seconds), digest))
    (real, seconds, digest), (unlimited, before, expected) = found
    return {
        "real": real,
        "real_unlimited": unlimited,
        "step_seconds": round(seconds, 4),
        "time_ratio": round(seconds / before, 3),
        "same_bits": digest == expected,
    }


def main() -> None:
    """Read the options, print the lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--limit", type=int, nargs="+", default=[])
    parser.add_argument("--share", type=int, nargs="+", default=[])
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--optimizer", choices=OPTIMIZERS, default="sgd")
    parser.add_argument("--backend", default="")
    parser.add_argument("--run", action="store_true")
    parser.add_argument("--measure", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        name, batch, limit, optimizer, backend = options.measure
        print(*run_here(name, int(batch), int(limit), optimizer, backend))
        return
    given = [(name, options.batch, limit, None) for name in options.only for limit in options.limit]
    for name in options.only if options.share else ():
        arena = network(name, optimizer=OPTIMIZERS[options.optimizer], backend=options.backend).memory(options.batch)
        given += [(name, options.batch, arena.step.arena * share // 100, None) for share in options.share]
    for name, batch, limit, goal in given or [case for case in CASES if case[0] in options.only]:
        row = planned(name, batch, limit, options.optimizer, options.backend)
        if goal is not None:
            row["goal"] = goal
        if options.run and "arena" in row:
            row |= measured(row, options.backend)
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
