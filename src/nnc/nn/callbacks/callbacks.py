"""Callbacks that ship with nnc: when to stop, what to keep, where to write figures."""

from __future__ import annotations

import csv
import json
import math
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from io import StringIO
from pathlib import Path
from typing import TextIO

import numpy as np
from numpy.typing import NDArray

from nnc.arguments import Count, Probability, Size, checked
from nnc.core.precautions.replacement import reason_of
from nnc.errors import ArgumentError, FormatError, UsageError
from nnc.nn.files.checkpoint import position_of, save_checkpoint
from nnc.nn.model.model import Model
from nnc.nn.optimization.metrics import METRICS
from nnc.nn.optimization.schedules import RateSchedule
from nnc.nn.training.training import Callback, Progress, Run

__all__ = [
    "BestCheckpoints", "CSVLog", "EarlyStopping", "JSONLog", "LastCheckpoint", "PrintedProgress", "ReduceOnPlateau",
    "StopOnNaN",
]  # fmt: skip

# Bytes of the first line of a log: a file may be no log, and without an end.
LONGEST_HEAD = 1 << 20
# Figures that are better when they are larger; of `score` nobody knows, so it is taken to be so where it is accuracy.
RISING = frozenset({"score", *(name for name, metric in METRICS.items() if metric.rises)})


def better(monitor: str, value: float, best: float | None) -> bool:
    """Whether a figure of this name improved: a first one did; no number is worse than every number."""
    if best is None or math.isnan(best):
        return best is None or not math.isnan(value)
    name = monitor.removeprefix("val_")
    return value > best if name in RISING or name.startswith("top_") else value < best


def _figure(row: Mapping[str, float], monitor: str) -> float:
    if monitor not in row:
        raise ArgumentError("callback", got=f"monitor={monitor!r}", need=f"one of {', '.join(row)}")
    return row[monitor]


def _model(run: Run) -> Model:
    if not isinstance(run.model, Model):
        raise UsageError("callback", got=type(run.model).__name__, need="a Model")
    return run.model


def check_folder(folder: Path) -> None:
    """Make the folder; FormatError where that cannot be, before anything is trained."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise _unwritable(folder, error) from None


def check_writable(path: Path, *, empty: bool = False) -> None:
    """Make the folder and the file, which may have to be `empty`; FormatError where that cannot be."""
    check_folder(path.parent)
    try:
        path.open("wb" if empty else "ab").close()
    except (OSError, ValueError) as error:
        raise _unwritable(path, error) from None


def append(path: Path, record: bytes) -> None:
    """Write the record at the end of the file; FormatError where that fails, as on a full disk.

    What was written of a record that found no room is taken away again: the next one would go on in its middle.
    """
    try:
        # Without a buffer, which would write what is left of the record when the file is closed.
        with path.open("ab", buffering=0) as file:
            end, left = file.seek(0, os.SEEK_END), memoryview(record)
            try:
                while left:
                    left = left[file.write(left) :]
            except OSError:
                with suppress(OSError):
                    file.truncate(end)
                raise
    except (OSError, ValueError) as error:
        raise _unwritable(path, error) from None


def append_row(
    path: Path, columns: Sequence[str], row: Mapping[str, object], *, begins: bool, separator: str = ","
) -> None:
    """A line of a log, NA where the row lacks a column; behind a line of the columns where the log `begins`."""
    lines = StringIO(newline="")
    writer = csv.DictWriter(lines, columns, restval="NA", extrasaction="ignore", delimiter=separator)
    if begins:
        writer.writeheader()
    writer.writerow(row)
    append(path, lines.getvalue().encode())


def head_of(path: Path, separator: str = ",") -> list[str]:
    """The columns in the first line of a log; none of an empty one."""
    try:
        with path.open("rb") as file:
            line = file.readline(LONGEST_HEAD).decode("utf-8", "replace")
        return next(csv.reader([line], delimiter=separator), [])
    except (OSError, ValueError) as error:
        raise _unwritable(path, error) from None
    except csv.Error as error:
        # As of `/dev/full` and `/dev/zero`, which are read as zeros without end.
        raise FormatError(str(path), got=f"a first line that is none: {error}", need="columns") from None


def write_line(file: TextIO, text: str) -> None:
    """Write at once; FormatError where that fails, as into a full disk or to nobody."""
    try:
        file.write(text)
        file.flush()
    except OSError as error:
        raise _unwritable(Path(str(getattr(file, "name", "a file"))), error) from None


def _unwritable(path: Path, error: OSError | ValueError) -> FormatError:
    got = reason_of(error) if isinstance(error, OSError) else str(error)
    return FormatError(str(path), got=got, need="a place that can be written to")


@checked
class EarlyStopping(Callback):
    """Stop once `monitor` was not better for `patience` epochs; the model gets the weights of the best epoch back."""

    def __init__(self, monitor: str = "val_loss", patience: Size = 3, restore_best: bool = True) -> None:
        self._monitor, self._patience, self._restore = monitor, patience, restore_best
        self._best: float | None = None
        self._waited = 0
        self._weights: dict[str, NDArray[np.generic]] | None = None

    def on_train_begin(self, run: Run) -> None:
        self._best, self._waited, self._weights = None, 0, None

    def on_epoch_end(self, run: Run, row: Mapping[str, float]) -> None:
        value = _figure(row, self._monitor)
        if better(self._monitor, value, self._best):
            self._best, self._waited = value, 0
            self._weights = _model(run).state_dict() if self._restore else None
            return
        self._waited += 1
        if self._waited >= self._patience:
            run.stop(f"{self._monitor} was best with {self._best:g}, {self._waited} epochs ago")

    def on_train_end(self, run: Run) -> None:
        if self._weights is not None and self._waited:
            _model(run).load_state_dict(self._weights)


@checked
class BestCheckpoints(Callback):
    """Keep checkpoints of the `keep` best epochs by `monitor` in a folder, as `epoch-0007.safetensors`."""

    def __init__(self, folder: Path | str, monitor: str = "val_loss", keep: Count = 1) -> None:
        self._folder, self._monitor, self._keep = Path(folder), monitor, keep
        self.kept: list[tuple[float, Path]] = []

    def on_train_begin(self, run: Run) -> None:
        check_folder(self._folder)

    @property
    def best(self) -> Path:
        """The checkpoint of the best epoch."""
        if not self.kept:
            raise UsageError("BestCheckpoints", got="no epoch", need="a finished epoch")
        return self.kept[0][1]

    def on_epoch_end(self, run: Run, row: Mapping[str, float]) -> None:
        value = _figure(row, self._monitor)
        worse = sum(not better(self._monitor, value, entry) for entry, _ in self.kept)
        if worse >= self._keep or math.isnan(value):
            return
        path = self._folder / f"epoch-{round(row['epoch']):04d}.safetensors"
        save_checkpoint(path, _model(run), position_of(_model(run), run.source))
        self.kept.insert(worse, (value, path))
        while len(self.kept) > self._keep:
            gone = self.kept.pop()[1]
            if gone not in (entry for _, entry in self.kept):
                with suppress(OSError):
                    gone.unlink()


@checked
class LastCheckpoint(Callback):
    """A checkpoint after each epoch, after every so many `updates` where there are some, and however training ends.

    Of a model in shards (`zero_stage`) there is none after an error, which others may not have had.

    `load_checkpoint` and `Batches.restore` go on from it, to the same bits as without the break.
    """

    def __init__(self, path: Path | str, updates: Size = 0, keep: Count = 1) -> None:
        self._path, self._updates, self._keep = Path(path), updates, keep

    def on_train_begin(self, run: Run) -> None:
        check_folder(self._path.parent)

    def on_batch_end(self, run: Run, progress: Progress) -> None:
        if self._updates and run.model.updates % self._updates == 0:
            self._write(run)

    def on_epoch_end(self, run: Run, row: Mapping[str, float]) -> None:
        self._write(run)

    def on_train_end(self, run: Run) -> None:
        # Ranks save shards together, and one that failed is alone: the checkpoint before stays.
        alone = _model(run).zero_stage and sys.exception() is not None
        if run.model.updates and not alone:
            self._write(run)

    def _write(self, run: Run) -> None:
        model = _model(run)
        save_checkpoint(self._path, model, position_of(model, run.source), keep=self._keep)


@checked
class CSVLog(Callback):
    """A line per epoch in a file of comma-separated values; a file that is there goes on."""

    def __init__(self, path: Path | str) -> None:
        self._path = Path(path)

    def on_train_begin(self, run: Run) -> None:
        check_writable(self._path)

    def on_epoch_end(self, run: Run, row: Mapping[str, float]) -> None:
        head = head_of(self._path)
        if head and head != list(row):
            fix = "log to another file"
            raise FormatError(str(self._path), got=f"columns {', '.join(head)}", need=", ".join(row), fix=fix)
        append_row(self._path, list(row), row, begins=not head)


@checked
class JSONLog(Callback):
    """A JSON object per epoch, one a line; with `updates`, one per update too."""

    def __init__(self, path: Path | str, updates: bool = False) -> None:
        self._path, self._updates = Path(path), updates

    def on_train_begin(self, run: Run) -> None:
        check_writable(self._path)

    def on_batch_end(self, run: Run, progress: Progress) -> None:
        if self._updates:
            self._write({"update": run.model.updates, "epoch": progress.epoch + 1, "loss": progress.loss})

    def on_epoch_end(self, run: Run, row: Mapping[str, float]) -> None:
        self._write(row)

    def _write(self, row: Mapping[str, float]) -> None:
        # Numbers that are none are no JSON.
        finite = {name: value if math.isfinite(value) else None for name, value in row.items()}
        append(self._path, json.dumps(finite).encode() + b"\n")


class StopOnNaN(Callback):
    """Stop after an update whose loss is not finite. (A model with `nan_guard` makes no such update.)"""

    def on_batch_end(self, run: Run, progress: Progress) -> None:
        if not math.isfinite(progress.loss):
            run.stop(f"the loss was {progress.loss} at update {run.model.updates}")


@checked
class ReduceOnPlateau(Callback):
    """Multiply the rate by `factor` each time that `monitor` was not better for `patience` epochs, down to `least`."""

    def __init__(
        self, monitor: str = "val_loss", factor: Probability = 0.1, patience: Size = 3, least: float = 0.0
    ) -> None:
        self._monitor, self._factor, self._patience, self._least = monitor, factor, patience, least
        self._best: float | None = None
        self._waited = 0

    def on_epoch_end(self, run: Run, row: Mapping[str, float]) -> None:
        value = _figure(row, self._monitor)
        if better(self._monitor, value, self._best):
            self._best, self._waited = value, 0
            return
        self._waited += 1
        if self._waited >= max(self._patience, 1):
            self._waited = 0
            rate = run.model.optimizer.rate
            if isinstance(rate, RateSchedule):
                raise UsageError("ReduceOnPlateau", got=f"the schedule {rate}", need="an optimizer with a plain rate")
            run.model.optimizer = run.model.optimizer.at_rate(max(rate * self._factor, self._least))


class PrintedProgress(Callback):
    """A line per epoch on standard error, or another file."""

    def __init__(self, file: TextIO | None = None) -> None:
        self._file = file

    def on_epoch_end(self, run: Run, row: Mapping[str, float]) -> None:
        figures = "  ".join(f"{name} {value:.4g}" for name, value in row.items() if name != "epoch")
        write_line(self._file or sys.stderr, f"epoch {row['epoch']:g}/{run.last}  {figures}\n")
