"""What callbacks of `nnc.keras` are told, the history, and all callbacks of one run."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from nnc.arguments import shown
from nnc.core.precautions.named_functions import HoldsFunctions
from nnc.core.precautions.origin import caller_origin
from nnc.errors import ArgumentError

Logs = Mapping[str, float]


class Callback(HoldsFunctions):
    """What happens in training: subclasses say what they care for. `self.model` is the model, `self.params` its run."""

    def __init__(self) -> None:
        self.model: Any = None
        self.params: dict[str, Any] = {}

    def set_model(self, model: Any) -> None:
        """The model that is trained."""
        self.model = model

    def set_params(self, params: dict[str, Any]) -> None:
        """Epochs and steps of the run."""
        self.params = params

    def on_train_begin(self, logs: Any = None) -> None:
        """Before the first update."""

    def on_train_end(self, logs: Any = None) -> None:
        """After the last one."""

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Before an epoch, counted from 0."""

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """After an epoch and its validation."""

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Before an update."""
        self.on_batch_begin(batch, logs)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """After an update."""
        self.on_batch_end(batch, logs)

    def on_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Before an update."""

    def on_batch_end(self, batch: int, logs: Any = None) -> None:
        """After an update."""

    def on_test_begin(self, logs: Any = None) -> None:
        """Before an evaluation."""

    def on_test_end(self, logs: Any = None) -> None:
        """After an evaluation."""

    def on_test_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Before a batch of an evaluation."""

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        """After a batch of an evaluation."""

    def on_predict_begin(self, logs: Any = None) -> None:
        """Before predictions."""

    def on_predict_end(self, logs: Any = None) -> None:
        """After predictions."""

    def on_predict_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Before a batch of predictions."""

    def on_predict_batch_end(self, batch: int, logs: Any = None) -> None:
        """After a batch of predictions."""


class History(Callback):
    """The figures of all epochs: `history["loss"]`, and their numbers, `epoch`."""

    def __init__(self) -> None:
        super().__init__()
        self.history: dict[str, list[float]] = {}
        self.epoch: list[int] = []

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Keep the figures."""
        self.epoch.append(epoch)
        for name, value in (logs or {}).items():
            self.history.setdefault(name, []).append(value)


class Progress(Callback):
    """A line for each epoch, on standard output."""

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Look at the clock."""
        self._began = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Print the figures."""
        print(f"Epoch {epoch + 1}/{self.params.get('epochs')}")
        print(self.line(self.params.get("steps") or 0, time.perf_counter() - self._began, logs or {}))

    @staticmethod
    def line(steps: int, seconds: float, logs: Logs) -> str:
        """`8/8 - 0.1s - loss: 0.5 - accuracy: 0.75`"""
        figures = "".join(f" - {name}: {value:.4g}" for name, value in logs.items())
        return (f"{steps}/{steps} - " if steps else "") + f"{seconds:.1f}s{figures}"


class CallbackList:
    """All callbacks of one run, the history among them."""

    def __init__(self, given: Any, model: Any, params: dict[str, Any]) -> None:
        self.model, self.params = model, params
        self.callbacks: list[Callback] = []
        rows = given if isinstance(given, list | tuple) else [] if given is None else [given]
        for entry in rows:
            if not isinstance(entry, Callback):
                fix = f"{entry.__name__}(…)" if isinstance(entry, type) else "keras.callbacks.LambdaCallback(…)"
                need = "callbacks of nnc.keras"
                raise ArgumentError("fit", got=shown(entry), need=need, fix=fix, origin=caller_origin())
            self._take(entry)
        kept = next((entry for entry in self.callbacks if isinstance(entry, History)), None)
        self.history = kept or self._take(History())

    def _take(self, callback: Any) -> Any:
        callback.set_model(self.model)
        callback.set_params(self.params)
        self.callbacks.append(callback)
        return callback

    def add_progress(self, verbose: Any) -> None:
        """Print a line for each epoch, unless it is to be quiet."""
        if verbose not in (0, "0"):
            self._take(Progress())

    def tell(self, moment: str, *values: Any) -> None:
        """Tell all of it."""
        for callback in self.callbacks:
            getattr(callback, moment)(*values)
