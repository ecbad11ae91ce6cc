"""Training: epochs over batches, told to callbacks, with a clean stop after any update."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import field
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from nnc.arguments import checked, shown
from nnc.classes import dataclass
from nnc.core.precautions.shield import Shield
from nnc.errors import ArgumentError, ArityError, DataError
from nnc.nn.data import BatchSource, BatchState
from nnc.nn.optimization.interruption import PassState
from nnc.nn.optimization.metrics import Tally
from nnc.nn.optimization.optimizer_base import Optimizer
from nnc.nn.steps.model_step import Values
from nnc.symbolic.text.tables import table_of, text_table

PassResult = tuple[float, float, tuple[NDArray[np.generic], ...], int]


class Trainable(Protocol):
    """What training needs of a model."""

    updates: int
    since: int
    optimizer: Optimizer

    def training_pass(
        self, inputs: Values, target: Values, *, done: Callable[[], object], update: bool, outputs: bool
    ) -> PassResult:
        """An update, or gradients alone, and a call of `done`; mean loss, summed score, outputs, and examples."""
        ...

    def apply_gradients(self, *, done: Callable[[], object]) -> None:
        """The update by the gradients of passes without one, and a call of `done`."""
        ...

    def pass_state(self) -> PassState:
        """What passes without an update change."""
        ...

    def take_back_passes(self, state: PassState) -> None:
        """Nothing of the passes since then has happened."""
        ...


@dataclass(frozen=True, slots=True)
class Progress:
    """After one update: where training stands and how this epoch has gone so far (since training was taken up).

    `epoch` is counted from the first that the batches ever gave, and `epochs` is how many there will be at the end.
    `batches` is 0 where nobody knows how many batches an epoch has.
    """

    epoch: int
    epochs: int
    batch: int
    batches: int
    examples: int
    loss: float
    score: float
    epoch_done: bool


@checked
@dataclass(slots=True, repr=False)
class History:
    """A row of figures per finished epoch, and whether all epochs were trained or why not.

    >>> history = History([{"epoch": 1, "loss": 0.5}, {"epoch": 2, "loss": 0.25}])
    >>> history["loss"]
    [0.5, 0.25]
    """

    rows: list[dict[str, float]] = field(default_factory=list)
    complete: bool = False
    reason: str = ""
    # Rows or names? And of no rows any name is a figure: Python would ask for one more for ever.
    __iter__: ClassVar[None] = None

    def __contains__(self, name: object) -> bool:
        """Whether there is a figure of this name."""
        return bool(self.rows) and name in self.rows[-1]

    def __getitem__(self, name: str) -> list[float]:
        """One figure of all epochs."""
        if self.rows and name not in self.rows[-1]:
            raise ArgumentError("history", got=repr(name), need=f"one of {', '.join(self.rows[-1])}")
        return [row[name] for row in self.rows]

    @property
    def history(self) -> dict[str, list[float]]:
        """All figures by name, as Keras has them."""
        return {name: [row[name] for row in self.rows] for name in (self.rows or [{}])[-1]}

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        last = "".join(f", {name} {value:.4g}" for name, value in (self.rows or [{}])[-1].items() if name != "epoch")
        return f"History({self._title()}{last})"

    def __str__(self) -> str:
        """The rows as a table."""
        return text_table(self._title(), *self._table())

    def _repr_html_(self) -> str:
        """The rows, for notebooks."""
        return table_of(self._title(), *self._table())

    def _title(self) -> str:
        return f"{len(self)} epochs" + (f", {self.reason}" if self.reason else "")

    def _table(self) -> tuple[tuple[str, ...], list[list[str]]]:
        # Names that any row has, in the order in which they came up.
        names = tuple(dict.fromkeys(name for row in self.rows for name in row))
        return names, [[f"{row[name]:.4g}" if name in row else "" for name in names] for row in self.rows]


class Callback:
    """Told what happens in training; what a subclass does not care for does nothing.

    `run.model` may be changed, its optimizer too, and `run.stop(reason)` ends the training after this update.
    """

    def on_train_begin(self, run: Run) -> None:
        """Before the first update."""

    def on_batch_end(self, run: Run, progress: Progress) -> None:
        """After each update."""

    def on_epoch_end(self, run: Run, row: Mapping[str, float]) -> None:
        """After each epoch and its validation: the row that joins the history."""

    def on_train_end(self, run: Run) -> None:
        """After the last update, and after an error."""


# A function is told the progress after each update.
Listener = Callable[[Progress], object]


class _Told(Callback):
    def __init__(self, listener: Listener) -> None:
        self._listener = listener

    def on_batch_end(self, run: Run, progress: Progress) -> None:
        self._listener(progress)


# Behind the last batch.
_END = object()


class Passes:
    """Any iterable of (inputs, targets) as a source: a list, a generator, a loader of another library.

    An epoch is one `for` loop over it; a generator has one epoch. The position counts batches.
    """

    size = 1

    def __init__(self, data: Iterable[tuple[Values, Values]]) -> None:
        self._data = data
        self._iterator: Iterator[tuple[Values, Values]] = iter(data)
        self._next: object = _END
        self._state = BatchState(0)

    def __len__(self) -> int:
        length = getattr(self._data, "__len__", None)
        return 0 if length is None else int(length())

    def state(self) -> BatchState:
        """Epoch, and batches done in it."""
        return self._state

    def restore(self, state: BatchState) -> None:
        """Of an iterable nothing can be had twice."""

    def close(self) -> None:
        """Nothing works ahead here."""

    def next_pair(self) -> tuple[Values, Values]:
        """The next batch; DataError where there is none, or it is no pair."""
        if self._next is _END:
            self._next = next(self._iterator, _END)
        pair = self._next
        if pair is _END:
            fix = "" if self._state.epoch == 0 else "give a list, or an object whose __iter__ begins again"
            raise DataError("fit", got=f"no batches in epoch {self._state.epoch + 1}", need="batches", fix=fix)
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            got = f"a batch that is {shown(pair)}" + (f" of {len(pair)}" if isinstance(pair, tuple | list) else "")
            raise ArityError("fit", got=got, need="pairs (inputs, targets)")
        return pair[0], pair[1]

    def advance(self) -> None:
        """The next batch is done."""
        self._next = _END
        self._state = BatchState(0, self._state.epoch, self._state.position + 1)

    def end_epoch(self) -> None:
        """Look whether there is another batch; begin the next epoch where there is none."""
        if self._next is not _END:
            return
        pair = next(self._iterator, _END)
        if pair is _END:
            self._state = BatchState(0, self._state.epoch + 1)
            self._iterator = iter(self._data)
        else:
            self._next = pair


@dataclass(slots=True, eq=False)
class Run:
    """One call of `fit`: the model, the batches, and what has come of it so far."""

    model: Trainable
    source: BatchSource | Passes
    last: int
    callbacks: tuple[Callback, ...]
    asked_to_stop: Callable[[], bool]
    tally: Tally | None
    accumulate: int
    validate: Callable[[], Mapping[str, float]]
    # Whether any rank says so, where there are several.
    together: Callable[[bool], bool] = bool
    history: History = field(default_factory=History)

    def stop(self, reason: str) -> None:
        """End the training after this update."""
        self.history.reason = self.history.reason or reason

    @property
    def epoch(self) -> int:
        """The epoch that the next batch belongs to."""
        return self.source.state().epoch

    def train(self) -> History:
        """Train to the end of epoch `last`, or until somebody stops it."""
        begun: list[Callback] = []
        try:
            for callback in self.callbacks:
                callback.on_train_begin(self)
                begun.append(callback)
            while self.epoch < self.last and not self.history.reason:
                self._train_epoch()
        finally:
            # Each is told, whatever another one raises.
            with ExitStack() as ends:
                ends.callback(self.source.close)
                for entry in reversed(begun):
                    ends.callback(entry.on_train_end, self)
        self.history.complete = self.epoch >= self.last
        return self.history

    def _train_epoch(self) -> None:
        state, done = self.source.state(), False
        epoch, batch = state.epoch, state.position // self.source.size
        loss, score, examples = 0.0, 0.0, 0
        if self.tally is not None:
            self.tally.clear()
        while not done and not self.history.reason:
            for batch_loss, batch_score, count in self._update(epoch):
                loss += batch_loss * count
                score += batch_score
                examples += count
                batch += 1
            done = self.epoch > epoch
            progress = Progress(
                epoch, self.last, batch, len(self.source), examples, loss / examples, score / examples, done
            )
            for callback in self.callbacks:
                callback.on_batch_end(self, progress)
            if self.together(self.asked_to_stop() or bool(self.history.reason)):
                self.stop("stopped")
        if done:
            self._finish_epoch({"epoch": epoch + 1, "loss": loss / examples, "score": score / examples})

    def _finish_epoch(self, row: dict[str, float]) -> None:
        if self.tally is not None:
            row |= self.tally.values()
        row |= self.validate()
        self.history.rows.append(row)
        for callback in self.callbacks:
            callback.on_epoch_end(self, row)

    def _update(self, epoch: int) -> list[tuple[float, float, int]]:
        """One update by a batch, or by as many as are accumulated within the epoch: each with loss, score, count.

        Where an accumulation is broken off, nothing of it has happened, and batches stand where they did.
        """
        if self.accumulate == 1:
            return [self._pass(update=True)]
        began, state, losses = self.source.state(), self.model.pass_state(), list[tuple[float, float, int]]()
        applied: list[bool] = []
        try:
            while len(losses) < self.accumulate and self.epoch == epoch:
                losses.append(self._pass(update=False))
            self.model.apply_gradients(done=lambda: applied.append(True))
        except BaseException:
            if not applied:
                with Shield():
                    self.model.take_back_passes(state)
                    self.source.restore(began)
            raise
        return losses

    def _pass(self, *, update: bool) -> tuple[float, float, int]:
        if isinstance(self.source, Passes):
            pair = self.source.next_pair()
        else:
            batch = self.source.next_batch()
            pair = batch.inputs, batch.labels
        outputs = self.tally is not None
        done = self.source.advance
        loss, score, arrays, count = self.model.training_pass(*pair, done=done, update=update, outputs=outputs)
        if isinstance(self.source, Passes):
            self.source.end_epoch()
        if self.tally is not None:
            self.tally.add(arrays[0], pair[1])
        return loss, score, count


def callbacks_of(values: Iterable[Callback | Listener]) -> tuple[Callback, ...]:
    """Callbacks, functions among them as such."""
    values = tuple(values)
    for entry in values:
        if isinstance(entry, type):
            raise ArgumentError("fit", got=shown(entry), need="a callback", fix=f"make one of it: {entry.__name__}(…)")
    return tuple(entry if isinstance(entry, Callback) else _Told(entry) for entry in values)
