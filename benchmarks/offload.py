"""Training steps within a limit, with an offload folder and without: what is said of them, and what they take.

    python benchmarks/offload.py [--folder PATH] [--rounds N] [--only NAME:BATCH:PERCENT ...]

One JSON line per network and share of its arena, of steps in turns: without a limit, computing again alone, with files.
`seconds` are the least of the rounds, `ratio` those over the step without a limit, and `stated` what the statement says
that this is: 1 + what runs again / work + `offload_seconds` / seconds without a limit. `gigaflops` are operations of
the step without a limit in a second. `same_bits` compares the losses of all rounds.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from time import perf_counter

from memory import made_up

from nnc.errors import MemoryLimitError
from nnc.nn import Model
from nnc.nn.zoo import network

CASES = ("resnet20:128:60", "resnet20:128:40", "mobilenet_v2:8:40", "gpt_6x384:8:40", "unet:2:40")


def step(model: Model, batch: int) -> tuple[float, float]:
    """Seconds of an update, and its loss."""
    inputs, labels = made_up(model, batch)
    begin = perf_counter()
    loss, _ = model.train_on_batch(inputs, labels)
    return perf_counter() - begin, float(loss)


def row_of(name: str, batch: int, percent: int, folder: str, rounds: int) -> dict[str, object]:
    """The statements, and the least seconds of `rounds`."""
    plain = network(name)
    arena = plain.memory(batch).step.arena
    limit = arena * percent // 100
    models = {"plain": plain, "again": network(name, memory_limit=limit)}
    models["file"] = network(name, memory_limit=limit, offload_folder=folder)
    row: dict[str, object] = {"network": name, "batch": batch, "percent": percent, "arena": arena}
    budgets = {}
    for kind in ("again", "file"):
        begin = perf_counter()
        try:
            memory = models[kind].memory(batch)
        except MemoryLimitError as error:
            row[f"{kind}_smallest"] = error.smallest
            del models[kind]
            continue
        budgets[kind] = memory.budget
        row[f"{kind}_planned"] = round(perf_counter() - begin, 1)
    seconds: dict[str, list[float]] = {kind: [] for kind in models}
    losses: dict[str, list[float]] = {kind: [] for kind in models}
    for _ in range(rounds + 1):
        for kind, model in models.items():
            taken, loss = step(model, batch)
            seconds[kind].append(taken)
            losses[kind].append(loss)
    least = {kind: min(taken[1:]) for kind, taken in seconds.items()}
    row["seconds"] = {kind: round(value, 4) for kind, value in least.items()}
    row["ratio"] = {kind: round(value / least["plain"], 3) for kind, value in least.items()}
    row["same_bits"] = len({tuple(values) for values in losses.values()}) == 1
    for kind, budget in budgets.items():
        if budget is not None:
            again = budget.extra_work - budget.offload_work
            stated = 1 + again / budget.work + budget.offload_seconds / least["plain"]
            row[f"{kind}_stated"] = round(stated, 3)
            row[f"{kind}_budget"] = str(budget)
            row["gigaflops"] = round(budget.work / least["plain"] / 1e9, 1)
    return row


def main() -> None:
    """Read the options, print the lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", default=tempfile.gettempdir())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", default=CASES)
    options = parser.parse_args()
    for case in options.only:
        name, batch, percent = case.split(":")
        print(json.dumps(row_of(name, int(batch), int(percent), options.folder, options.rounds)), flush=True)


if __name__ == "__main__":
    main()
