"""A page about a training: curves, the memory map of its step, and where the time of a few updates goes."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol, runtime_checkable

from nnc.arguments import checked
from nnc.concrete.profiling import RunProfile, profile
from nnc.core.precautions.replacement import check_writable, write_atomically
from nnc.errors import UsageError
from nnc.nn.steps.model_step import ModelStep
from nnc.nn.training.training import Callback, Progress, Run
from nnc.planning import Curve, page_of_views
from nnc.symbolic import Compiled


@runtime_checkable
class Stepping(Protocol):
    """A model whose updates are one program for each batch size."""

    def training_step(self, batch: int) -> ModelStep:
        """The program."""


# The first update compiles, and the second is the first of the profile's programs: the four behind it are shown.
WARMING, SHOWN = 2, 4


@checked
class TrainingPage(Callback):
    """Write a page to `path` after each epoch and at the end; `fit(report=path)` adds one. Results are the same."""

    def __init__(self, path: Path | str) -> None:
        self._path = Path(path)
        self._updates, self._batch = 0, 0
        self._profile: RunProfile | None = None
        self._listening = ExitStack()

    def on_train_begin(self, run: Run) -> None:
        check_writable(self._path)
        self._updates, self._batch, self._profile = 0, 0, None

    def on_batch_end(self, run: Run, progress: Progress) -> None:
        self._updates += 1
        if self._updates == 1:
            self._batch = progress.examples // max(progress.batch, 1)
        if self._updates in (1, WARMING):
            # What warms up is thrown away.
            self._listening.close()
            self._profile = self._listening.enter_context(profile())
        elif self._updates == WARMING + SHOWN:
            self._listening.close()

    def on_epoch_end(self, run: Run, row: Mapping[str, float]) -> None:
        self._write(run)

    def on_train_end(self, run: Run) -> None:
        self._listening.close()
        self._write(run)

    def _write(self, run: Run) -> None:
        names, timeline = (
            dict.fromkeys(name for row in run.history.rows for name in row if name != "epoch"),
            self._profile,
        )
        curves = [Curve(name, [row.get(name, float("nan")) for row in run.history.rows]) for name in names]
        title = f"Training: {run.history.reason or f'{len(run.history)} epochs'}"
        compiled = self._step(run)
        if compiled is not None:
            page = compiled.page(title, profile=timeline, curves=curves)
        else:
            bars, tables = ([], []) if timeline is None else (timeline.bars(), timeline.tables())
            page = page_of_views(title, bars=bars, tables=tables, curves=curves)
        write_atomically(self._path, [page.encode()])

    def _step(self, run: Run) -> Compiled | None:
        """The program of an update; None where sizes are open, and it is one of several."""
        try:
            return (
                run.model.training_step(self._batch).compiled
                if isinstance(run.model, Stepping) and self._batch
                else None
            )
        except UsageError:
            return None
