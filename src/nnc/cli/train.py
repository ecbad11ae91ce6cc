"""nnc train: options in, a trained model in a checkpoint out."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import asdict
from math import isfinite
from pathlib import Path
from typing import Annotated

import typer

from nnc.cli.interrupt import Interrupts
from nnc.cli.options import (
    AsJson,
    BackendName,
    Checkpoint,
    DeviceName,
    NoCache,
    Threads,
    bytes_of,
    checkpoint_of,
    leave_cache,
    placed,
)
from nnc.cli.progress import shown
from nnc.cli.recipe import Arguments
from nnc.cli.recipes import RECIPES
from nnc.cli.terminal import Json, add_row, complain, count, output, plain, table, write_json
from nnc.cli.training import Options, Training, prepare
from nnc.cli.versions import versions
from nnc.concrete.profiling import RunProfile
from nnc.concrete.profiling import profile as run_profile
from nnc.core.precautions.replacement import check_writable
from nnc.core.settings import SETTINGS
from nnc.errors import UsageError
from nnc.nn import Evaluation, ModelMemory
from nnc.parallel.launching import launch
from nnc.parallel.places import rank_in
from nnc.symbolic import Budget

MAX_SEED = 2**63 - 1
MAX_EPOCHS = 1_000_000
MAX_BATCH = 2**31 - 1
MAX_SIZE = 2**20


def _defaults(field: str) -> str:
    return "Default: " + ", ".join(f"{getattr(row, field)} for {name}" for name, row in RECIPES.items()) + "."


PROGRAMS = "; ".join(f"{' '.join((name, row.paths)).rstrip()}: {row.summary}" for name, row in RECIPES.items())
Program = Annotated[str, typer.Argument(metavar="PROGRAM", help=f"{PROGRAMS}.")]
Paths = Annotated[list[str] | None, typer.Argument(metavar="[PATH]...", help="What the program learns from.")]
Target = Annotated[str, typer.Option(metavar="COLUMN", help="table: the column that is to be learned.")]
TaskName = Annotated[
    str, typer.Option(metavar="TASK", help="table: classification or regression, where the column does not say it.")
]
Steps = Annotated[int, typer.Option(min=0, max=MAX_SIZE, help="text: characters seen at once. Default 128.")]
Features = Annotated[int, typer.Option(min=0, max=MAX_SIZE, help="text: of each character. Default 128.")]
Layers = Annotated[int, typer.Option(min=0, max=MAX_SIZE, help="text: transformer blocks. Default 4.")]
Seed = Annotated[int | None, typer.Option(min=0, max=MAX_SEED, help="Same seed, same bits. Default 0.")]
Epochs = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=MAX_EPOCHS,
        help="Epochs in all, those of a resumed checkpoint included: the learning rate does not depend on it, so "
        f"20 epochs and then --resume --epochs 40 are the same as 40 at once. {_defaults('epochs')}",
    ),
]
BatchSize = Annotated[
    int | None, typer.Option(min=1, max=MAX_BATCH, help=f"Examples in one update. {_defaults('batch_size')}")
]
MemoryLimit = Annotated[
    int | None,
    typer.Option(
        parser=bytes_of,
        metavar="BYTES",
        help="The most that the arena of a step may take. What it has no room to keep is computed again; "
        "results are the same.",
    ),
]
Resume = Annotated[
    bool,
    typer.Option("--resume", help="Go on from the checkpoint, with its seed and batch size, to the very same result."),
]

Profiled = Annotated[
    Path | None,
    typer.Option(
        "--profile",
        metavar="FILE",
        help="Say where the time goes; FILE.html becomes a page to look at, FILE.json a trace for Perfetto.",
    ),
]


Ranks = Annotated[
    int, typer.Option("-n", "--ranks", min=1, help="Processes that share each batch, by MPI: pip install 'nnc[mpi]'.")
]


def train(
    program: Program,
    paths: Paths = None,
    target: Target = "",
    task: TaskName = "",
    steps: Steps = 0,
    features: Features = 0,
    layers: Layers = 0,
    seed: Seed = None,
    epochs: Epochs = None,
    batch_size: BatchSize = None,
    backend: BackendName = "",
    device: DeviceName = "",
    memory_limit: MemoryLimit = None,
    checkpoint: Checkpoint = None,
    resume: Resume = False,
    threads: Threads = None,
    ranks: Ranks = 1,
    profile: Profiled = None,
    no_cache: NoCache = False,
    json: AsJson = False,
) -> int:
    """Train one of the programs, and keep what it learned in a checkpoint.

    nnc train table prices.csv --target price, and then nnc predict table more.csv

    nnc train digits --memory-limit 1.5MiB --epochs 1 --profile run.html

    The checkpoint is written after each epoch, at the end, and on Ctrl-C (exit code 130) or SIGTERM (143); go on
    with --resume. A second Ctrl-C leaves at once and keeps the last checkpoint.
    """
    if ranks > 1 and rank_in() is None:
        return launch(ranks, ["-m", "nnc", *sys.argv[1:]], quiet=True)
    leave_cache(no_cache)
    if profile is not None and profile.suffix not in (".html", ".json"):
        raise UsageError("--profile", got=str(profile), need="a file that ends with .html or .json")
    if profile is not None:
        check_writable(profile)
    if threads is not None:
        SETTINGS.threads = threads
    place = checkpoint_of(program, checkpoint)
    arguments = Arguments(tuple(paths or ()), target, task, steps, features, layers)
    options = Options(program, place, arguments, seed, epochs, batch_size, backend, resume, memory_limit)
    with placed(device), Interrupts() as interrupts:
        training = prepare(options)
        memory = training.model.memory(training.step_batch)
        if not json:
            _print_plan(training, memory)
        with shown(training) as show, ExitStack() as listening:
            timeline = None if profile is None else listening.enter_context(run_profile())
            training.run(show, interrupts.pending)
        if interrupts.signal is not None:
            _tell(training, memory, profile, timeline, None, json=json)
            complain(
                f"{interrupts.signal.name}: stopped after {training.model.updates} updates. "
                f"Fix: go on with --resume --checkpoint {place}"
            )
            return 128 + interrupts.signal
    _tell(training, memory, profile, timeline, training.evaluate(), json=json)
    return 0


def _tell(
    training: Training,
    memory: ModelMemory,
    profile: Path | None,
    timeline: RunProfile | None,
    result: Evaluation | None,
    *,
    json: bool,
) -> None:
    """What came of it; there is no result of a training that was interrupted."""
    if profile is not None and timeline is not None:
        _write_profile(profile, timeline, training, quiet=json)
    if json:
        write_json(_facts(training, memory, result))
    elif result is not None:
        _print_result(training, result)


def _write_profile(place: Path, timeline: RunProfile, training: Training, *, quiet: bool) -> None:
    """The table in the terminal, and the file."""
    if not quiet:
        output().print("\n".join(map(plain, str(timeline).splitlines())), soft_wrap=True)
    if place.suffix == ".json":
        timeline.trace(place)
    else:
        training.model.training_step(training.step_batch).compiled.html(place, "nnc train", profile=timeline)


def _print_plan(training: Training, memory: ModelMemory) -> None:
    """What will be trained and the bytes it takes, before any are allocated."""
    console = output()
    layers = table("Model", "name", "layer", "output", "parameters", numbers=("parameters",))
    for row in training.model.summary():
        add_row(layers, row.name, row.layer, str(list(row.output)), count(row.parameters))
    add_row(layers, "total", "", "", count(_parameters(training)))
    console.print(layers)
    step = memory.step
    proof = "the smallest of this order, proven" if step.optimal else "not proven to be the smallest of this order"
    title = f"Memory of a step with {training.step_batch} examples"
    statement = table(title, "what", "bytes", "remark", numbers=("bytes",))
    for what, nbytes, remark in (
        ("arena", step.arena, proof),
        ("lower bound", step.lower_bound, "no plan of this order needs less"),
        ("without reuse", step.without_reuse, "one buffer for each tensor"),
        ("weights", memory.weights, ""),
        ("optimizer state", memory.optimizer_state, ""),
        ("total", memory.total, "arena, weights and optimizer state"),
    ):
        add_row(statement, what, count(nbytes), remark)
    if memory.budget is not None:
        add_row(statement, "memory limit", count(memory.budget.limit), _price(memory.budget))
    console.print(statement)


def _price(budget: Budget) -> str:
    """What a limit costs."""
    return f"{budget.repeated} commands run again, work × {budget.work_ratio:.3f}"


def _print_result(training: Training, result: Evaluation) -> None:
    measure = training.task.measure
    right = f" ({round(result.score * result.count)} of {result.count})" if measure.name == "accuracy" else ""
    loss = f", loss {result.loss:.4f}" if isfinite(result.loss) else ""
    console = output()
    console.print(
        f"trained {len(training.history)} of {training.epochs} epochs in {training.seconds:.1f} s, "
        f"{training.speed:,.0f} samples/s on {training.backend}"
    )
    console.print(f"test {measure.name} {measure.shown(result.score)}{right}{loss}")
    console.print(f"checkpoint {plain(str(training.checkpoint))}", soft_wrap=True)


def _parameters(training: Training) -> int:
    return sum(row.parameters for row in training.model.summary())


def _facts(training: Training, memory: ModelMemory, result: Evaluation | None) -> dict[str, Json]:
    """The object of --json; what an interrupted training did not come to is null."""
    history: list[Json] = [asdict(epoch) for epoch in training.history]
    return {
        "program": training.program,
        "interrupted": result is None,
        "seed": training.model.seed,
        "batch_size": training.batch_size,
        "backend": training.backend,
        "threads": SETTINGS.worker_count(),
        "summary": [
            {"name": row.name, "layer": row.layer, "output": list(row.output), "parameters": row.parameters}
            for row in training.model.summary()
        ],
        "parameters": _parameters(training),
        "memory": _memory(memory, training.step_batch),
        "epochs": training.epochs,
        "epochs_done": training.batches.state().epoch,
        "updates": training.model.updates,
        "history": history,
        "train_seconds": training.seconds,
        "samples_per_second": training.speed,
        f"test_{training.task.measure.name}": None if result is None else result.score,
        "test_loss": None if result is None else result.loss,
        "test_examples": None if result is None else result.count,
        "checkpoint": str(training.checkpoint),
        "sha256": training.checksum(),
        "versions": {**versions()},
    }


def _memory(memory: ModelMemory, batch: int) -> dict[str, Json]:
    step = memory.step
    return {
        "batch": batch,
        "arena_bytes": step.arena,
        "lower_bound_bytes": step.lower_bound,
        "without_reuse_bytes": step.without_reuse,
        "workspace_bytes": step.workspace,
        "weights_bytes": memory.weights,
        "gradients_bytes": memory.gradients,
        "optimizer_state_bytes": memory.optimizer_state,
        "total_bytes": memory.total,
        "process_bytes": memory.process,
        "repeated_commands": 0 if memory.budget is None else memory.budget.repeated,
        "work_ratio": 1.0 if memory.budget is None else memory.budget.work_ratio,
        "optimal": step.optimal,
        "peak_step": step.peak_step,
        "peak_tensors": list(step.peak_tensors),
    }
