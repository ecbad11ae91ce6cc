"""How training shows itself on standard error: a bar on a terminal, a line per epoch elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich import progress as bars

from nnc.cli.terminal import errors
from nnc.cli.training import Show, Training
from nnc.nn import Progress
from nnc.parallel import world


@contextmanager
def shown(training: Training) -> Iterator[Show]:
    """What training calls after each update, for as long as it is open; of several ranks the first shows it."""
    if world().rank:
        yield lambda progress, speed: None
    elif sys.stderr.isatty():
        with _bar() as bar:
            yield _bar_of(bar, training)
    else:
        yield _lines_of(training)


def describe(progress: Progress, speed: float, training: Training) -> str:
    """`loss 0.1234  accuracy 96.45%  6,200 samples/s`; the score only where it is what the test measures."""
    score = f"  accuracy {progress.score:7.2%}" if training.task.measure.name == "accuracy" else ""
    return f"loss {progress.loss:.4f}{score}  {speed:,.0f} samples/s"


def _lines_of(training: Training) -> Show:
    def show(progress: Progress, speed: float) -> None:
        if progress.epoch_done:
            standing = describe(progress, speed, training)
            sys.stderr.write(f"epoch {progress.epoch + 1}/{progress.epochs}  {standing}\n")
            sys.stderr.flush()

    return show


def _bar() -> bars.Progress:
    return bars.Progress(
        bars.TextColumn("epoch {task.fields[epoch]}/{task.fields[epochs]}"),
        bars.BarColumn(),
        bars.TextColumn("{task.fields[standing]}"),
        bars.TimeRemainingColumn(),
        console=errors(),
    )


def _bar_of(bar: bars.Progress, training: Training) -> Show:
    total = training.epochs * len(training.batches)
    epoch = training.batches.state().epoch
    task = bar.add_task(
        "train", total=total, completed=training.model.updates, epoch=epoch, epochs=training.epochs, standing=""
    )

    def show(progress: Progress, speed: float) -> None:
        completed = progress.epoch * progress.batches + progress.batch
        bar.update(task, completed=completed, epoch=progress.epoch + 1, standing=describe(progress, speed, training))

    return show
