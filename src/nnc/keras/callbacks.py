"""Callbacks under Keras' names: `on_epoch_end(epoch, logs)` and its like, told by `fit`, `evaluate` and `predict`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from inspect import signature
from pathlib import Path
from typing import Any, Literal

import numpy as np

from nnc.arguments import Count, Finite, Rate, Size, checked
from nnc.core.precautions.origin import caller_origin
from nnc.errors import ArgumentError
from nnc.keras.engine.callback_list import Callback as Callback
from nnc.keras.engine.callback_list import CallbackList as CallbackList
from nnc.keras.engine.callback_list import History as History
from nnc.keras.named import refused
from nnc.nn.callbacks import callbacks as log_files
from nnc.nn.callbacks.event_files import append_event, begun_events

Mode = Literal["auto", "min", "max"]


class _Monitor(Callback):
    """One figure, and whether it became better."""

    def __init__(self, monitor: str, mode: Mode, min_delta: float = 0.0) -> None:
        super().__init__()
        self.monitor = monitor
        rises = mode == "max" or (
            mode == "auto" and any(word in monitor for word in ("acc", "auc", "precision", "recall", "f1", "r2"))
        )
        self.sign = 1.0 if rises else -1.0
        self.min_delta = abs(min_delta)
        self.best: float | None = None

    def value(self, logs: Any) -> float:
        """The figure; ArgumentError names those that there are."""
        if not logs or self.monitor not in logs:
            fix = "validation_data=(x, y) in fit" if self.monitor.startswith("val_") else ""
            need = f"one of {', '.join(logs or ())}"
            raise ArgumentError(type(self).__name__, got=f"monitor={self.monitor!r}", need=need, fix=fix)
        return float(logs[self.monitor])

    def is_better(self, value: float, than: float | None) -> bool:
        """Whether it is, by more than min_delta."""
        return than is None or self.sign * (value - than) > self.min_delta


@checked
class EarlyStopping(_Monitor):
    """Stop when the figure has not become better by `min_delta` for `patience` epochs."""

    def __init__(
        self,
        monitor: str = "val_loss",
        min_delta: Finite = 0.0,
        patience: Size = 0,
        verbose: int = 0,
        mode: Mode = "auto",
        baseline: Finite | None = None,
        restore_best_weights: bool = False,
        start_from_epoch: Size = 0,
    ) -> None:
        super().__init__(monitor, mode, min_delta)
        self.patience, self.verbose, self.baseline = patience, verbose, baseline
        self.restore_best_weights, self.start_from_epoch = restore_best_weights, start_from_epoch

    def on_train_begin(self, logs: Any = None) -> None:
        """Begin anew."""
        self.wait = self.stopped_epoch = self.best_epoch = 0
        self.best = None
        self.best_weights: list[Any] | None = None

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Look at the figure."""
        if epoch < self.start_from_epoch:
            return
        value = self.value(logs)
        if self.restore_best_weights and self.best_weights is None:
            self.best_weights = self.model.get_weights()
            self.best_epoch = epoch
        self.wait += 1
        if self.is_better(value, self.best):
            self.best, self.best_epoch = value, epoch
            if self.restore_best_weights:
                self.best_weights = self.model.get_weights()
            if self.baseline is None or self.is_better(value, self.baseline):
                self.wait = 0
            return
        if self.wait >= self.patience and epoch > 0:
            self.stopped_epoch = epoch
            self.model.stop_training = True

    def on_train_end(self, logs: Any = None) -> None:
        """Give the model its best weights."""
        if self.stopped_epoch and self.verbose:
            print(f"Epoch {self.stopped_epoch + 1}: early stopping")
        if self.restore_best_weights and self.best_weights is not None:
            self.model.set_weights(self.best_weights)


@checked
class ModelCheckpoint(_Monitor):
    """Write the model after each epoch, or after each that is the best; the path may hold `{epoch:02d}` and figures."""

    def __init__(
        self,
        filepath: str | Path,
        monitor: str = "val_loss",
        verbose: int = 0,
        save_best_only: bool = False,
        save_weights_only: bool = False,
        mode: Mode = "auto",
        save_freq: str | Count = "epoch",
        initial_value_threshold: Finite | None = None,
    ) -> None:
        super().__init__(monitor, mode)
        self.filepath, self.verbose, self.save_freq = str(filepath), verbose, save_freq
        self.save_best_only, self.save_weights_only = save_best_only, save_weights_only
        self.best, self._batches, self._epoch = initial_value_threshold, 0, 0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Know which it is."""
        self._epoch = epoch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Write after so many updates."""
        self._batches += 1
        if isinstance(self.save_freq, int) and self._batches % self.save_freq == 0:
            self._save(self._epoch, logs)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Write after an epoch."""
        if self.save_freq == "epoch":
            self._save(epoch, logs)

    def _save(self, epoch: int, logs: Any) -> None:
        if self.save_best_only:
            value = self.value(logs)
            if not self.is_better(value, self.best):
                return
            self.best = value
        path = self.filepath.format(epoch=epoch + 1, **(logs or {}))
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        if self.verbose:
            print(f"Epoch {epoch + 1}: saving model to {path}")
        (self.model.save_weights if self.save_weights_only else self.model.save)(path)


@checked
class ReduceLROnPlateau(_Monitor):
    """Multiply the rate by `factor` when the figure has not become better for `patience` epochs."""

    def __init__(
        self,
        monitor: str = "val_loss",
        factor: Finite = 0.1,
        patience: Size = 10,
        verbose: int = 0,
        mode: Mode = "auto",
        min_delta: Finite = 1e-4,
        cooldown: Size = 0,
        min_lr: Rate = 0.0,
    ) -> None:
        super().__init__(monitor, mode, min_delta)
        if factor >= 1.0:
            raise ArgumentError("ReduceLROnPlateau", got=f"factor={factor}", need="less than 1")
        self.factor, self.patience, self.verbose = factor, patience, verbose
        self.cooldown, self.min_lr = cooldown, min_lr

    def on_train_begin(self, logs: Any = None) -> None:
        """Begin anew."""
        self.wait = self.resting = 0
        self.best = None

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Look at the figure."""
        value, rate = self.value(logs), float(self.model.optimizer.learning_rate)
        if isinstance(logs, dict):
            logs["learning_rate"] = rate
        if self.resting > 0:
            self.resting -= 1
            self.wait = 0
        if self.is_better(value, self.best):
            self.best, self.wait = value, 0
        elif self.resting == 0:
            self.wait += 1
            if self.wait >= self.patience and rate > self.min_lr:
                lower = max(rate * self.factor, self.min_lr)
                self.model.optimizer.learning_rate = lower
                if self.verbose:
                    print(f"Epoch {epoch + 1}: ReduceLROnPlateau reducing learning rate to {lower}.")
                self.resting, self.wait = self.cooldown, 0


@checked
class LearningRateScheduler(Callback):
    """The rate of each epoch: `schedule(epoch)`, or `schedule(epoch, rate)` of the rate so far."""

    def __init__(self, schedule: Callable[..., Any], verbose: int = 0) -> None:
        super().__init__()
        self.schedule, self.verbose = schedule, verbose
        try:
            self.takes_rate = len(signature(schedule).parameters) > 1
        except ValueError:
            # Functions of C may not say what they take.
            self.takes_rate = False

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Set it."""
        rate = float(self.model.optimizer.learning_rate)
        chosen = self.schedule(epoch, rate) if self.takes_rate else self.schedule(epoch)
        self.model.optimizer.learning_rate = float(chosen)
        if self.verbose:
            print(f"Epoch {epoch + 1}: LearningRateScheduler setting learning rate to {float(chosen)}.")

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Tell it."""
        if isinstance(logs, dict):
            logs["learning_rate"] = float(self.model.optimizer.learning_rate)


@checked
class CSVLogger(Callback):
    """A row of figures for each epoch, in a file of values with commas; FormatError where it cannot be written."""

    def __init__(self, filename: str | Path, separator: str = ",", append: bool = False) -> None:
        super().__init__()
        if len(separator) != 1 or separator in '\r\n"':
            raise ArgumentError("CSVLogger", got=f"separator={separator!r}", need="one character, no quote or line end")
        self.filename, self.separator, self.append = Path(filename), separator, append
        self._names: list[str] = []

    def on_train_begin(self, logs: Any = None) -> None:
        """Make the file, or read the columns of one that goes on."""
        log_files.check_writable(self.filename, empty=not self.append)
        self._names = log_files.head_of(self.filename, self.separator)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Write a row."""
        figures = {"epoch": epoch, **(logs or {})}
        begins, self._names = not self._names, self._names or list(figures)
        log_files.append_row(self.filename, self._names, figures, begins=begins, separator=self.separator)


@checked
class TensorBoard(Callback):
    """The figures of each epoch for TensorBoard: files in the folders `train` and `validation`.

    With `update_freq="batch"`, or a number, the figures so far after so many updates too, as `batch_loss` and its like.
    What would write graphs, images, histograms, profiles or embeddings is refused.
    """

    def __init__(
        self,
        log_dir: str | Path = "logs",
        histogram_freq: Size = 0,
        write_graph: bool = True,
        write_images: bool = False,
        write_steps_per_second: bool = False,
        update_freq: Literal["epoch", "batch"] | Count = "epoch",
        profile_batch: int | str | tuple[int, ...] = 0,
        embeddings_freq: Size = 0,
        embeddings_metadata: str | Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()
        for option, value, fix in (
            ("histogram_freq", histogram_freq, "nnc.histogram(weight) in a callback of your own"),
            ("write_images", write_images, "model.get_weights() in a callback of your own"),
            ("write_steps_per_second", write_steps_per_second, "the progress that fit prints, verbose=1"),
            ("profile_batch", profile_batch, "nnc.profile() around fit"),
            ("embeddings_freq", embeddings_freq, "layer.get_weights() of the embedding in a callback of your own"),
            ("embeddings_metadata", embeddings_metadata, "leave it out"),
        ):
            if value:
                raise refused("TensorBoard", option, value, fix)
        # A graph is Keras' default, and nothing that figures would lack: it is not written.
        self.log_dir, self.write_graph = Path(log_dir), write_graph
        self.every = {"epoch": 0, "batch": 1}[update_freq] if isinstance(update_freq, str) else update_freq
        self._updates = 0

    def on_train_begin(self, logs: Any = None) -> None:
        """A file for each."""
        self._files: dict[str, Path] = {}

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Write the figures so far, where they are asked for."""
        self._updates += 1
        if self.every and self._updates % self.every == 0:
            self._write("train", self._updates, {f"batch_{name}": value for name, value in (logs or {}).items()})

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Write the figures."""
        for part in ("train", "validation"):
            known = {
                f"epoch_{name.removeprefix('val_')}": value
                for name, value in (logs or {}).items()
                if name.startswith("val_") == (part == "validation")
            }
            self._write(part, epoch, known)

    def _write(self, part: str, step: int, figures: dict[str, float]) -> None:
        if not figures:
            return
        if part not in self._files:
            self._files[part] = begun_events(self.log_dir / part)
        append_event(self._files[part], step, figures)


class TerminateOnNaN(Callback):
    """Stop at a loss that is no number."""

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Look at the loss."""
        loss = (logs or {}).get("loss")
        if loss is not None and not np.isfinite(loss):
            print(f"Batch {batch}: Invalid loss, terminating training", file=sys.stderr)
            self.model.stop_training = True


class LambdaCallback(Callback):
    """Functions in the places of methods: `LambdaCallback(on_epoch_end=lambda epoch, logs: …)`."""

    def __init__(
        self,
        on_epoch_begin: Callable[..., Any] | None = None,
        on_epoch_end: Callable[..., Any] | None = None,
        on_train_begin: Callable[..., Any] | None = None,
        on_train_end: Callable[..., Any] | None = None,
        on_train_batch_begin: Callable[..., Any] | None = None,
        on_train_batch_end: Callable[..., Any] | None = None,
        **others: Callable[..., Any],
    ) -> None:
        super().__init__()
        given = {"on_epoch_begin": on_epoch_begin, "on_epoch_end": on_epoch_end, **others}
        given |= {"on_train_begin": on_train_begin, "on_train_end": on_train_end}
        given |= {"on_train_batch_begin": on_train_batch_begin, "on_train_batch_end": on_train_batch_end}
        for moment, function in given.items():
            if not hasattr(Callback, moment):
                need = ", ".join(name for name in dir(Callback) if name.startswith("on_"))
                raise ArgumentError("LambdaCallback", got=moment, need=need, origin=caller_origin())
            if function is not None:
                setattr(self, moment, function)
