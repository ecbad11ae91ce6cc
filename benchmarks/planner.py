"""Memory planning, one JSON line per case: bytes, bound, gap, solver and seconds.

    python benchmarks/planner.py [--data DIR] [--time-limit S] [--only TEXT] [--all-solvers] [--python]

The files are those of `--data` (`minimalloc/*.csv`, `nets/*.csv`; a number before `.csv` is the capacity to fit).
Four large cases are made here: a training step of a GPT with 2,800 layers, irregular lives from two distributions, and
a million blocks that share ten steps, of which `seconds` may be a tenth over the limit.
`planted` is one line for 200 problems with planted solutions: the share that `solve(capacity=…)` fits within 5 seconds.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter

from nnc.planning import SOLVERS, Block, Problem, faults, read_csv, smallest_plan, solve
from nnc.planning.native import use_compiler
from nnc.planning.planted import CAPACITY, planted

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "planning"
ACTIVATIONS = (1, 1, 3, 1, 12, 12, 1, 1, 1, 4, 4, 1, 1)  # bytes per layer, in units of batch * steps * width
PARAMETERS = (3, 1, 4, 4)  # bytes of weight gradients per layer, in units of width * width
SMALL_ENOUGH_FOR_ALL = 800
PLANTED, PLANTED_SECONDS = 200, 5.0


def gpt_training_step(layers: int, unit: int = 1 << 20, weights: int = 1 << 22) -> Problem:
    """Forward keeps some activations for backward; backward makes a gradient per activation and updates at once."""
    blocks: list[Block] = []
    last = layers * len(ACTIVATIONS)
    end = 2 * last
    for layer in range(layers):
        for place, units in enumerate(ACTIVATIONS):
            step = layer * len(ACTIVATIONS) + place
            back = end - step
            kept = place % 3 != 1
            blocks.append(Block(f"a{step}", units * unit, step, back + 1 if kept else step + 2))
            blocks.append(Block(f"g{step}", units * unit, back - 1, back + 1))
            if not kept:
                blocks.append(Block(f"r{step}", units * unit, back - 2, back))
        for place, units in enumerate(PARAMETERS):
            moment = end - layer * len(ACTIVATIONS) - 3 * place
            blocks.append(Block(f"w{layer}.{place}", units * weights, moment, moment + 1))
    return Problem(tuple(blocks))


def irregular(count: int, seed: int) -> Problem:
    """Geometric lives and log-normal sizes: nothing repeats."""
    draw = random.Random(seed)
    blocks = []
    for i in range(count):
        lower = draw.randrange(count)
        life = 1 + int(draw.expovariate(1 / 60)) if draw.random() < 0.95 else 1 + int(draw.expovariate(1 / 3000))
        blocks.append(Block(str(i), 64 * (1 + int(draw.lognormvariate(4, 2))), lower, lower + life))
    return Problem(tuple(blocks))


def nested(count: int, seed: int) -> Problem:
    """Lives as of calls within calls, cut short at random, sizes from a few classes with noise."""
    draw = random.Random(seed)
    blocks = []
    step = 0
    open_until: list[int] = []
    for i in range(count):
        step += draw.randrange(3)
        while open_until and open_until[-1] <= step:
            open_until.pop()
        horizon = open_until[-1] if open_until else step + 40_000
        life = min(horizon - step, 1 + int((horizon - step) * draw.random() ** 3))
        if life > 200 and draw.random() < 0.3:
            open_until.append(step + life)
        size = (1 << draw.randrange(8, 22)) + 64 * draw.randrange(32)
        blocks.append(Block(str(i), size, step, step + life))
    return Problem(tuple(blocks))


def few_steps(count: int, seed: int, steps: int = 10) -> Problem:
    """Hundreds of thousands of blocks alive at each step: whatever looks at one after the other takes long."""
    draw = random.Random(seed)
    births = [draw.randrange(steps) for _ in range(count)]
    return Problem(
        tuple(
            Block(str(i), draw.randrange(1, 4096), lower, lower + 1 + draw.randrange(3), 64)
            for i, lower in enumerate(births)
        )
    )


LARGE: dict[str, Callable[[], Problem]] = {
    "gpt_2800_layers": lambda: gpt_training_step(2800),
    "irregular_60000": lambda: irregular(60_000, 1),
    "nested_60000": lambda: nested(60_000, 1),
    "few_steps_1000000": lambda: few_steps(1_000_000, 1),
}


def cases(data: Path) -> Iterator[tuple[str, Problem, int | None]]:
    """Name, problem and capacity of every case."""
    for path in sorted(data.glob("*/*.csv")):
        last = path.name.split(".")[-2]
        yield path.stem, read_csv(path), int(last) if last.isdigit() else None
    for name, make in LARGE.items():
        yield name, make(), None


def measure(name: str, problem: Problem, capacity: int | None, solver: str, time_limit: float) -> dict[str, object]:
    """One line of the result: the plan is checked before it is believed."""
    begin = perf_counter()
    plan = solve(problem, solver=solver, time_limit=time_limit)
    seconds = perf_counter() - begin
    return {
        "case": name,
        "blocks": len(problem.blocks),
        "asked": solver,
        "solver": plan.solver,
        "arena_bytes": plan.arena_bytes,
        "lower_bound_bytes": plan.lower_bound,
        "ratio": round(plan.arena_bytes / max(plan.lower_bound, 1), 5),
        "optimal": plan.optimal,
        "fits": None if capacity is None else plan.arena_bytes <= capacity,
        "seconds": round(seconds, 3),
        "faults": len(faults(problem, plan)),
    }


def measure_planted(count: int) -> dict[str, object]:
    """How many of the planted problems are planned within their capacity in time."""
    smallest_plan(planted(0), capacity=CAPACITY)  # so that the search is compiled before the clock runs
    seconds, solved, broken = [], 0, 0
    for seed in range(count):
        problem = planted(seed)
        begin = perf_counter()
        plan = smallest_plan(problem, capacity=CAPACITY, time_limit=PLANTED_SECONDS)
        seconds.append(perf_counter() - begin)
        broken += len(faults(problem, plan))
        solved += plan.arena_bytes <= CAPACITY
    return {
        "case": "planted",
        "problems": count,
        "time_limit": PLANTED_SECONDS,
        "solved": solved,
        "share": round(solved / count, 3),
        "median_seconds": round(sorted(seconds)[count // 2], 3),
        "faults": broken,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--time-limit", type=float, default=20.0)
    parser.add_argument("--only", default="", help="cases whose name holds this text")
    parser.add_argument("--all-solvers", action="store_true", help="every solver alone, beside the portfolio")
    parser.add_argument("--python", action="store_true", help="the exact search in Python, not as native code")
    parser.add_argument("--planted", type=int, default=PLANTED, help="how many problems with planted solutions")
    arguments = parser.parse_args()
    if arguments.python:
        use_compiler(None)
    for name, problem, capacity in cases(arguments.data):
        if arguments.only not in name:
            continue
        alone = tuple(SOLVERS) if arguments.all_solvers and len(problem.blocks) <= SMALL_ENOUGH_FOR_ALL else ()
        for solver in ("portfolio", *alone):
            print(json.dumps(measure(name, problem, capacity, solver, arguments.time_limit)), flush=True)
    if arguments.planted > 0 and arguments.only in "planted":
        print(json.dumps(measure_planted(arguments.planted)), flush=True)


if __name__ == "__main__":
    main()
