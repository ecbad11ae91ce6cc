"""A bar on the terminal while a model trains."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Mapping
from typing import TextIO

from nnc.nn.callbacks.callbacks import write_line
from nnc.nn.training.training import Callback, Progress, Run

__all__ = ["ProgressBar"]

BAR = 20
# Seconds between two pictures.
PAUSE = 0.1
GREEN, PLAIN = "\x1b[32m", "\x1b[0m"


class ProgressBar(Callback):
    """A line that moves, on standard error or another file, and one that stays per epoch.

    Where the file is no terminal nothing is written, or with `always` the lines that stay. No colour where NO_COLOR is
    set (https://no-color.org) or the terminal is dumb.
    """

    def __init__(self, file: TextIO | None = None, *, always: bool = False) -> None:
        self._file, self._always = file, always
        self._drawn = 0.0

    def on_batch_end(self, run: Run, progress: Progress) -> None:
        now = time.monotonic()
        if not self._out.isatty() or now - self._drawn < PAUSE:
            return
        self._drawn = now
        share = progress.batch / progress.batches if progress.batches else 0.0
        done = "━" * round(BAR * min(share, 1.0))
        rest = "─" * (BAR - len(done))
        batches = f"{progress.batch}/{progress.batches or '?'}"
        text = f"  epoch {progress.epoch + 1}/{progress.epochs}  {batches}  loss {progress.loss:.4g}"
        self._line(done + rest + text, coloured=len(done))

    def on_epoch_end(self, run: Run, row: Mapping[str, float]) -> None:
        if not (self._out.isatty() or self._always):
            return
        figures = "  ".join(f"{name} {value:.4g}" for name, value in row.items() if name != "epoch")
        self._line(f"epoch {row['epoch']:g}/{run.last}  {figures}")
        write_line(self._out, "\n")

    def on_train_end(self, run: Run) -> None:
        if self._out.isatty():
            self._line(run.history.reason)

    @property
    def _out(self) -> TextIO:
        return self._file or sys.stderr

    def _line(self, text: str, coloured: int = 0) -> None:
        """Write over the line; the first characters in colour."""
        if not self._out.isatty():
            write_line(self._out, text)
            return
        text = text[: shutil.get_terminal_size().columns - 1]
        if coloured and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb":
            text = f"{GREEN}{text[:coloured]}{PLAIN}{text[coloured:]}"
        # To the start of the line, and what was there before behind the text away.
        write_line(self._out, f"\r{text}\x1b[K")
