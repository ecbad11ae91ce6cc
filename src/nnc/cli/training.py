"""Training as the command line does it: prepared from options, kept in a checkpoint, stopped on request."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import field
from pathlib import Path
from time import perf_counter

from nnc.classes import dataclass
from nnc.cli.recipe import Arguments, Notes, TrainingTask
from nnc.cli.recipes import recipe_of
from nnc.core.precautions.replacement import check_writable
from nnc.core.running.dispatch import DISPATCHER
from nnc.errors import FormatError, UsageError
from nnc.nn import (
    Evaluation,
    Model,
    Position,
    Progress,
    load_checkpoint,
    position_of,
    read_position,
    save_checkpoint,
)
from nnc.nn.data import BatchSource
from nnc.parallel import Mesh, world

Show = Callable[[Progress, float], None]


@dataclass(frozen=True, slots=True)
class Options:
    """What was asked for; None where the recipe, or the checkpoint that is resumed, decides."""

    program: str
    checkpoint: Path
    arguments: Arguments = field(default_factory=Arguments)
    seed: int | None = None
    epochs: int | None = None
    batch_size: int | None = None
    backend: str = ""
    resume: bool = False
    memory_limit: int | None = None


@dataclass(frozen=True, slots=True)
class Epoch:
    """A finished epoch; `examples` are those seen in this run, fewer than all where it was resumed midway."""

    epoch: int
    examples: int
    loss: float
    score: float
    seconds: float


@dataclass(slots=True, eq=False)
class Training:
    """A model with its data, standing somewhere between the first and the last epoch."""

    checkpoint: Path
    program: str
    task: TrainingTask
    model: Model
    batches: BatchSource
    batch_size: int
    epochs: int
    backend: str
    seconds: float = 0.0
    examples: int = 0
    history: list[Epoch] = field(default_factory=list)
    saved_at: int = -1

    @property
    def speed(self) -> float:
        """Examples per second of this run."""
        return self.examples / self.seconds if self.seconds else 0.0

    @property
    def step_batch(self) -> int:
        """Examples in a full step of this rank: of the batch size, or of all where there are fewer."""
        return max(min(self.batch_size, self.task.examples) // world().size, 1)

    def run(self, show: Show, stop: Callable[[], bool]) -> None:
        """Train to the last epoch or until `stop`; the checkpoint is written after each epoch and at the end."""
        began = perf_counter()
        trained_before = self._trained()

        def listen(progress: Progress) -> None:
            self.seconds = perf_counter() - began
            self.examples = self._trained() - trained_before
            show(progress, self.speed)
            if progress.epoch_done:
                self._finish_epoch(progress)

        left = self.epochs - self.batches.state().epoch
        self.model.fit(self.batches, epochs=left, callbacks=[listen], stop=lambda: stop() and self._may_stop())
        self.save()

    def evaluate(self) -> Evaluation:
        """Loss and score of the test, under a limit on memory in steps no larger than those of the training."""
        return self.task.evaluate(self.model, None if self.model.memory_limit is None else self.step_batch)

    def save(self) -> None:
        """Write the checkpoint unless it already holds this update; of several ranks the first does."""
        if self.saved_at != self.model.updates and world().rank == 0:
            notes = Notes(self.program, self.task.examples, self.batch_size, self.task.facts).as_json()
            save_checkpoint(self.checkpoint, self.model, position_of(self.model, self.batches), notes=notes)
            self.saved_at = self.model.updates

    def checksum(self) -> str:
        """SHA-256 of the checkpoint."""
        with self.checkpoint.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def _finish_epoch(self, progress: Progress) -> None:
        seconds = self.seconds - sum(epoch.seconds for epoch in self.history)
        self.history.append(Epoch(progress.epoch + 1, progress.examples, progress.loss, progress.score, seconds))
        self.save()

    def _trained(self) -> int:
        state = self.batches.state()
        examples = state.position * self.batch_size // self.batches.size
        return state.epoch * self.task.examples + min(examples, self.task.examples)

    def _may_stop(self) -> bool:
        return not self.task.whole_epochs or not self.batches.state().position


def prepare(options: Options) -> Training:
    """All checks that can be made before any work, and the model at the place where training begins."""
    recipe = recipe_of(options.program)
    recipe.check(options.program, options.arguments)
    preferred = DISPATCHER.candidates(options.backend)[0].name
    check_checkpoint(options.checkpoint)
    position = _resumed(options) if options.resume else None
    seed = _agree("--seed", options.seed, 0, None if position is None else position.batches.seed)
    notes = None if position is None else Notes.of(options.checkpoint)
    saved_size = None if notes is None else notes.batch_size
    batch_size = _agree("--batch-size", options.batch_size, recipe.batch_size, saved_size)
    task = recipe.task(options.arguments)
    _check_same(options, task, notes)
    model = recipe.model(task.facts, task.examples, batch_size, seed, options.backend, options.memory_limit)
    if world().size > 1:
        model.mesh = Mesh(data=world().size)
    batches = task.source(model, batch_size, seed)
    epochs = recipe.epochs if options.epochs is None else options.epochs
    device = next(iter(model.tensors().values())).spec.device
    backend = preferred if device.is_host else str(device)
    training = Training(options.checkpoint, options.program, task, model, batches, batch_size, epochs, backend)
    if position is not None:
        _restore(training, position)
    return training


def _check_same(options: Options, task: TrainingTask, notes: Notes | None) -> None:
    """UsageError where a checkpoint is of another program, or of other data."""
    if notes is None:
        return
    fix = "name another file with --checkpoint, or leave --resume out to start anew"
    if notes.program != options.program:
        got = f"{options.checkpoint}, a checkpoint of {notes.program}"
        raise UsageError("--resume", got=got, need=f"a checkpoint of {options.program}", fix=fix)
    if (notes.examples, notes.facts) != (task.examples, json.loads(json.dumps(dict(task.facts)))):
        got = "data or columns that are not those of the checkpoint"
        raise UsageError("--resume", got=got, need="the same data", fix=fix)


def check_checkpoint(path: Path) -> None:
    """UsageError unless a checkpoint can be written there; a device or a pipe would be replaced by a file."""
    if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
        raise UsageError("checkpoint", got=f"{path}, which is no plain file", need="the name of a file")
    check_writable(path)


def _resumed(options: Options) -> Position:
    if not os.path.lexists(options.checkpoint):
        raise UsageError(
            "--resume",
            got=f"no file {options.checkpoint}",
            need="the checkpoint of an earlier training",
            fix="name it with --checkpoint, or leave --resume out to start anew",
        )
    return read_position(options.checkpoint)


def _agree(option: str, given: int | None, usual: int, saved: int | None) -> int:
    """The value given, saved or usual, in this order; a value given must not contradict one that is saved."""
    if given is not None and saved is not None and given != saved:
        raise UsageError(
            option, got=f"{given} for a checkpoint of {saved}", need="the same value", fix=f"leave {option} out"
        )
    return next(value for value in (given, saved, usual) if value is not None)


def _restore(training: Training, position: Position) -> None:
    load_checkpoint(training.checkpoint, training.model)
    training.batches.restore(position.batches)
    training.saved_at = position.updates
    state, per_epoch = position.batches, len(training.batches)
    if position.updates != state.epoch * per_epoch + state.position // training.batches.size:
        raise FormatError(
            str(training.checkpoint),
            got=f"{position.updates} updates at {state}",
            need=f"{per_epoch} updates in each epoch",
            fix="start anew without --resume",
        )
    if (state.epoch, state.position) > (training.epochs, 0):
        done = f"{state.epoch} epochs" + (" and a part of the next" if state.position else "")
        raise UsageError(
            "--epochs",
            got=f"{training.epochs} for a checkpoint of {done}",
            need="at least as many as are done",
            fix=f"ask for {state.epoch + 1} or more",
        )
