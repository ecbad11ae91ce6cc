"""Training steps of recurrent layers below a limit on memory, one JSON line per layer, number of steps and limit.

    python benchmarks/recurrent_budgets.py [--only LSTM …] [--steps N …] [--share S …] [--run]

A layer of 64 units over 8 features and what its last step says, by SGD: 128 examples of 64 steps, 32 of 1,024.
`unlimited` is the arena without limit, `share` that with it over that, `work_ratio` floating-point operations with what
runs again over those without, as stated, and `seconds` the time to plan. `smallest` is the least share that can be met.

With `--run` `time_ratio` is the processor time of the fastest of five steps with the limit over that without, in turns,
and `same_bits` says whether losses and parameters behind these are the same.
"""

from __future__ import annotations

import argparse
import json
from time import perf_counter, process_time

import numpy as np

from nnc import nn
from nnc.errors import MemoryLimitError

CELLS = {"LSTM": nn.LSTM, "GRU": nn.GRU, "RNN": nn.RNN}
UNITS, FEATURES = 64, 8
BATCHES = {64: 128, 1024: 32}
RUNS = 5


def model(cell: str, steps: int, limit: int | None) -> nn.Model:
    """One layer and a product of its last step."""
    layers = nn.Sequential(memory=CELLS[cell](UNITS, return_sequences=False), head=nn.Dense(4))
    shape = (steps, FEATURES)
    return nn.Model(layers, shape, loss=nn.MeanSquaredError(), optimizer=nn.SGD(0.01), memory_limit=limit)


def smallest(cell: str, steps: int) -> int:
    """The least limit that can be met."""
    try:
        model(cell, steps, 1).memory(BATCHES[steps])
    except MemoryLimitError as error:
        return error.smallest
    raise AssertionError("one byte is enough")


def planned(cell: str, steps: int, limit: int) -> dict[str, object]:
    """What is stated of a step within the limit."""
    begin = perf_counter()
    memory = model(cell, steps, limit).memory(BATCHES[steps])
    ratio = memory.budget.work_ratio if memory.budget else 1.0
    return {"arena": memory.step.arena, "work_ratio": round(ratio, 3), "seconds": round(perf_counter() - begin, 1)}


def measured(cell: str, steps: int, limit: int) -> dict[str, object]:
    """The same steps with the limit and without, in turns."""
    generator = np.random.default_rng(0)
    x = generator.standard_normal((BATCHES[steps], steps, FEATURES)).astype(np.float32)
    y = generator.standard_normal((BATCHES[steps], 4)).astype(np.float32)
    models = [model(cell, steps, bound) for bound in (limit, None)]
    losses, seconds = [[trained.train_on_batch(x, y)[0]] for trained in models], [[np.inf], [np.inf]]
    for _ in range(RUNS):
        for number, trained in enumerate(models):
            begin = process_time()
            losses[number].append(trained.train_on_batch(x, y)[0])
            seconds[number].append(process_time() - begin)
    states = [[tensor.numpy().tobytes() for tensor in trained.tensors().values()] for trained in models]
    same = losses[0] == losses[1] and states[0] == states[1]
    return {"time_ratio": round(min(seconds[0]) / min(seconds[1]), 3), "same_bits": same}


def main() -> None:
    """Read the options, print the lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=CELLS, default=["LSTM", "GRU"])
    parser.add_argument("--steps", type=int, nargs="+", choices=BATCHES, default=[*BATCHES])
    parser.add_argument("--share", type=float, nargs="+", default=[0.5, 0.3, 0.15])
    parser.add_argument("--run", action="store_true")
    options = parser.parse_args()
    for cell in options.only:
        for steps in options.steps:
            unlimited = model(cell, steps, None).memory(BATCHES[steps]).step.arena
            least = smallest(cell, steps)
            row = {"cell": cell, "steps": steps, "unlimited": unlimited, "smallest": round(least / unlimited, 3)}
            print(json.dumps(row), flush=True)
            for share in options.share:
                limit = int(share * unlimited)
                if limit < least:
                    continue
                line = {"cell": cell, "steps": steps, "limit": share} | planned(cell, steps, limit)
                print(json.dumps(line | (measured(cell, steps, limit) if options.run else {})), flush=True)


if __name__ == "__main__":
    main()
