"""Losses and seconds of steps on two ranks of one thread beside one process of two, the same whole batch.

One JSON line a case.

    python benchmarks/rank_losses.py [--cases resnet20 gpt lstm] [--steps 50] [--types f32 f64] [--rounds 2]

`apart` is the largest difference of the losses of a step over the loss itself, up to `steps` updates by SGD; goal 1e-6.
`repeated` says whether a second launch gave the same bits. `ratio` is the median time of a step on two ranks over that
of one process, started in turns; the goal is 1.1.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

import nnc
from nnc import nn, parallel
from nnc.nn.zoo import resnet20
from nnc.nn.zoo.language import GPT
from nnc.parallel.launching import command_of

BATCH, VOCABULARY, LENGTH = 64, 65, 64
CASES = ("resnet20", "gpt", "lstm")


def case_of(name: str, dtype: str, mesh: parallel.Mesh | None) -> tuple[nn.Model, Any, Any]:
    """A model, and a batch for all ranks."""
    draw = np.random.default_rng(0)
    options: dict[str, Any] = {"mesh": mesh, "dtype": getattr(nnc, dtype)}
    if name == "gpt":
        tokens = draw.integers(0, VOCABULARY, (16, LENGTH + 1))
        net = GPT(VOCABULARY, LENGTH, 128, 4, 4)
        model = nn.Model(net, (LENGTH,), optimizer=nn.SGD(0.01), input_dtype=nnc.i32, **options)
        return model, tokens[:, :-1].astype(np.int32), tokens[:, 1:]
    shape = (32, 32, 3) if name == "resnet20" else (32, 32)
    lstm = nn.Sequential(
        nn.LSTM(64, return_sequences=True),
        nn.BatchNorm(),
        nn.LSTM(64, return_sequences=False),
        nn.BatchNorm(),
        nn.Dense(10),
    )
    model = nn.Model(resnet20(10) if name == "resnet20" else lstm, shape, optimizer=nn.SGD(0.01), **options)
    return model, draw.standard_normal((BATCH, *shape)).astype(np.dtype(model.dtype.numpy)), draw.integers(0, 10, BATCH)


def steps(name: str, dtype: str, count: int) -> None:
    """Run by one process or two."""
    ranks = parallel.world()
    model, x, y = case_of(name, dtype, parallel.Mesh(data=ranks.size))
    rows = len(x) // ranks.size
    own = slice(ranks.rank * rows, (ranks.rank + 1) * rows)
    times, losses = [], []
    for _ in range(count):
        began = perf_counter()
        losses.append(model.train_on_batch(x[own], y[own])[0])
        times.append(perf_counter() - began)
    if ranks.rank == 0:
        print(json.dumps({"seconds": median(times[2:]), "losses": losses}))


def launched(ranks: int, *arguments: str) -> dict[str, Any]:
    script = [__file__, *arguments]
    line = command_of(ranks, script) if ranks > 1 else [sys.executable, *script]
    environment = os.environ | {"NNC_THREADS": str(2 // ranks)}
    output = subprocess.run(line, env=environment, capture_output=True, text=True, check=True).stdout
    read: dict[str, Any] = json.loads(output)
    return read


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=CASES)
    parser.add_argument("--types", nargs="+", default=["f32", "f64"])
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--run", nargs=2, metavar=("CASE", "TYPE"))
    options = parser.parse_args()
    if options.run:
        name, dtype = options.run
        return steps(name, dtype, options.steps)
    for name in options.cases:
        for dtype in options.types:
            arguments = ("--steps", str(options.steps), "--run", name, dtype)
            ones, twos = zip(*[[launched(ranks, *arguments) for ranks in (1, 2)] for _ in range(options.rounds)])
            one, two = (np.array(runs[0]["losses"]) for runs in (ones, twos))
            seconds = [median(run["seconds"] for run in runs) for runs in (ones, twos)]
            row = {"case": name, "type": dtype, "steps": options.steps, "apart": float(np.max(np.abs(two / one - 1)))}
            row |= {"repeated": all(run["losses"] == twos[0]["losses"] for run in twos)}
            row |= {"first": one[0], "last": one[-1], "one": seconds[0], "two": seconds[1]}
            print(json.dumps(row | {"ratio": round(seconds[1] / seconds[0], 3)}), flush=True)
    return None


if __name__ == "__main__":
    main()
