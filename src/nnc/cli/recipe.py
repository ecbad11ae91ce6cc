"""What a program of `nnc train` is made of: its data, its network, and what its checkpoint says of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

from nnc.classes import dataclass
from nnc.cli.terminal import Json
from nnc.core.values.dtype import F32, DType
from nnc.errors import FormatError, UsageError
from nnc.nn import Adam, Cosine, Evaluation, Input, Layer, Loss, Model, SoftmaxCrossEntropy, UpTo, read_notes
from nnc.nn.data import Batches, BatchSource, DataSet, Examples

# What a program knows of its data: in its checkpoint, so that predictions need nothing else.
Facts = Mapping[str, Json]
Evaluate = Callable[[Model, int | None], Evaluation]


@dataclass(frozen=True, slots=True)
class Arguments:
    """What is asked of one program, beside what is asked of all."""

    paths: tuple[str, ...] = ()
    target: str = ""
    task: str = ""
    steps: int = 0
    features: int = 0
    layers: int = 0


@dataclass(frozen=True, slots=True)
class Questions:
    """What a prediction is asked for: files or values, or examples by their numbers."""

    inputs: tuple[str, ...] = ()
    indices: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Ink:
    """Characters for drawing: `shades` from empty to full, one for bars."""

    shades: str
    bar: str


BLOCKS = Ink(" ░▒▓█", "█")
LETTERS = Ink(" .+*#", "=")


class Answer(Protocol):
    """What a model says of one input."""

    def facts(self) -> dict[str, Json]:
        """The entry of --json."""
        ...

    def lines(self, ink: Ink) -> list[str]:
        """The same for people."""
        ...


@dataclass(frozen=True, slots=True)
class Blueprint:
    """An untrained network: its layer, what an example is, and what it is judged by."""

    layer: Layer
    input_shape: tuple[int | UpTo | Input, ...] | None
    loss: Loss | None = None
    input_dtype: DType = F32


@dataclass(frozen=True, slots=True)
class Measure:
    """The figure that tells how good a model is."""

    name: str = "accuracy"
    form: str = "{:.2%}"

    def shown(self, value: float) -> str:
        """`96.45%`, or as the form says."""
        return self.form.format(value)


@dataclass(frozen=True, slots=True, eq=False)
class TrainingTask:
    """What is to be learned: so many examples in an epoch, where they come from, and what the model is tested on.

    `source` is asked for batches of (model, batch size, seed). With `whole_epochs` a stop waits for the epoch's end.
    """

    facts: Facts
    examples: int
    source: Callable[[Model, int, int], BatchSource]
    evaluate: Evaluate
    measure: Measure = Measure()
    whole_epochs: bool = False

    @staticmethod
    def of(
        facts: Facts, train: DataSet | Examples, test: DataSet | Examples, measure: Measure = Measure()
    ) -> TrainingTask:
        """Of examples in memory."""
        return TrainingTask(
            facts, len(train), lambda _, size, seed: Batches(train, size, seed=seed), partial(_tested, test), measure
        )


def _tested(test: DataSet | Examples, model: Model, batch: int | None) -> Evaluation:
    return model.evaluate(test.inputs, test.labels, batch or 256)


@dataclass(frozen=True, slots=True, eq=False)
class Recipe:
    """A program: where its examples come from, its network and its training, and how it answers.

    It takes `paths` of that name, and `options` of `Arguments`. The rate falls over `falling` epochs and then stays
    low. It does not depend on how many epochs are asked for, so twenty epochs and twenty more are the same as forty.
    """

    summary: str
    task: Callable[[Arguments], TrainingTask]
    network: Callable[[Facts], Blueprint]
    answers: Callable[[Model, Facts, Questions], Sequence[Answer]]
    epochs: int
    batch_size: int
    rate: float
    last_rate: float
    falling: int
    decay: float
    paths: str = ""
    options: frozenset[str] = frozenset()
    asked: str = "inputs"
    clip_norm: float | None = None

    def model(
        self,
        facts: Facts,
        examples: int,
        batch_size: int,
        seed: int,
        backend: str = "",
        memory_limit: int | None = None,
    ) -> Model:
        """The untrained model; with a `memory_limit`, in bytes, the arena of each of its steps takes no more."""
        updates_per_epoch = -(-examples // batch_size)
        schedule = Cosine(self.rate, self.falling * updates_per_epoch, self.last_rate)
        network = self.network(facts)
        return Model(
            network.layer,
            network.input_shape,
            loss=network.loss or SoftmaxCrossEntropy(),
            optimizer=Adam(schedule, decay=self.decay, decoupled=True),
            seed=seed,
            input_dtype=network.input_dtype,
            backend=backend,
            clip_norm=self.clip_norm,
            memory_limit=memory_limit,
        )

    def check(self, name: str, arguments: Arguments) -> None:
        """UsageError for arguments that this program does not take, or where it lacks some."""
        for option in ("target", "task", "steps", "features", "layers"):
            if getattr(arguments, option) and option not in self.options:
                raise UsageError(
                    f"--{option}", got=f"it for {name}", need="a program that takes it", fix="leave it out"
                )
        if bool(self.paths) != bool(arguments.paths):
            got = f"{len(arguments.paths)} paths for {name}"
            need = self.paths or "none"
            raise UsageError("nnc train", got=got, need=need, fix=f"nnc train {name} {self.paths}".rstrip())


@dataclass(frozen=True, slots=True)
class Notes:
    """What a checkpoint says of the program that made it."""

    program: str
    examples: int
    batch_size: int
    facts: Facts

    def as_json(self) -> dict[str, Json]:
        """For the file."""
        return {
            "program": self.program,
            "examples": self.examples,
            "batch_size": self.batch_size,
            "facts": dict(self.facts),
        }

    @staticmethod
    def of(path: Path) -> Notes:
        """Those in a file; FormatError where no program wrote them."""
        match read_notes(path):
            case {"program": str(name), "examples": int(examples), "batch_size": int(size), "facts": dict(facts)}:
                return Notes(name, max(examples, 0), max(size, 1), facts)
        need = "a checkpoint that nnc train wrote"
        raise FormatError(str(path), got="a checkpoint without a program", need=need, fix="name another file")
