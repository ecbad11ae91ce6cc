"""nnc memplan: a memory problem from a file, planned."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from nnc.cli.options import AsJson, bytes_of
from nnc.cli.terminal import Json, add_row, complain, count, output, print_map, table, write_json
from nnc.errors import UsageError
from nnc.planning import SOLVERS, Plan, Problem, beyond, read_csv, smallest_plan

SHOWN_BLOCKS = 20

File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE.csv",
        help="A header line with id,lower,upper,size and, if needed, alignment,offset,memory; then one block per "
        "line, alive in the steps lower to upper - 1.",
    ),
]
Capacity = Annotated[
    int | None,
    typer.Option(parser=bytes_of, metavar="BYTES", help="Stop at a plan that fits; exit code 1 if none is found."),
]
SolverName = Annotated[str, typer.Option(metavar="NAME", help=f"portfolio or one of: {', '.join(SOLVERS)}.")]
TimeLimit = Annotated[float, typer.Option(min=0.0, metavar="SECONDS", help="inf for none.")]


def memplan(
    file: File,
    capacity: Capacity = None,
    solver: SolverName = "portfolio",
    time_limit: TimeLimit = 10.0,
    json: AsJson = False,
) -> int:
    """Plan a memory problem: an offset for each block in an arena that is as small as can be found.

    --json gives arena_bytes, lower_bound_bytes, optimal, solver, seconds and the offsets in the order of the file,
    of the smallest plan found even where it does not fit the capacity.

    nnc memplan blocks.csv --capacity 1.5GiB --time-limit 60
    """
    if math.isnan(time_limit):
        raise UsageError("--time-limit", got="nan", need="seconds, 0 or more, or inf")
    problem = read_csv(file)
    limit = None if math.isinf(time_limit) else time_limit
    plan = smallest_plan(problem, solver=solver, capacity=capacity, time_limit=limit)
    fits = capacity is None or plan.arena_bytes <= capacity
    if json:
        write_json(_facts(plan))
    elif fits:
        _print(problem, plan)
    if capacity is not None and not fits:
        complain(str(beyond(plan, capacity)))
    return 0 if fits else 1


def _facts(plan: Plan) -> dict[str, Json]:
    return {
        "arena_bytes": plan.arena_bytes,
        "lower_bound_bytes": plan.lower_bound,
        "optimal": plan.optimal,
        "solver": plan.solver,
        "seconds": plan.seconds,
        "offsets": list(plan.offsets),
    }


def _print(problem: Problem, plan: Plan) -> None:
    console = output()
    largest = sorted(range(len(problem.blocks)), key=lambda i: (-problem.blocks[i].size, i))[:SHOWN_BLOCKS]
    numbers = ("lower", "upper", "size", "offset")
    blocks = table(
        f"The {len(largest)} largest of {len(problem.blocks)} blocks", "block", "memory", *numbers, numbers=numbers
    )
    for i in largest:
        block = problem.blocks[i]
        add_row(blocks, block.name, block.memory, *map(count, (block.lower, block.upper, block.size, plan.offsets[i])))
    console.print(blocks)
    for memory in plan.arenas:
        print_map(problem, plan, memory)
    proof = "optimal, proven" if plan.optimal else f"{plan.gap:.2%} above the bound"
    console.print(f"arena {count(plan.arena_bytes)} B, lower bound {count(plan.lower_bound)} B: {proof}")
    console.print(f"solver {plan.solver or 'none needed'}, {plan.seconds:.3f} s")
