"""nnc train table: classes or numbers from the columns of a CSV file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nnc.classes import dataclass
from nnc.cli.programs.digits import probabilities
from nnc.cli.recipe import Arguments, Blueprint, Facts, Ink, Measure, Questions, Recipe, TrainingTask
from nnc.cli.terminal import Json
from nnc.errors import DataError, FormatError, UsageError
from nnc.nn import (
    Concatenate,
    Dense,
    Dropout,
    Evaluation,
    Identity,
    MeanSquaredError,
    Model,
    ReLU,
    Sequential,
)
from nnc.nn.data import Examples, TableColumn, TableScheme, read_inputs, read_table

TASKS = ("classification", "regression")
# Without noise, dropout and decay the hidden layers learn a few hundred rows by heart: iris 91 % instead of 95 %,
# R² of diabetes 0.45 instead of 0.51 (benchmarks/tables.py).
HIDDEN, DROPOUT, NOISE = 64, 0.3, 0.1
TEST_EVERY = 5
# Whole numbers of more values than this are numbers, not names of classes.
MOST_NUMBERED_CLASSES = 20


@dataclass(frozen=True, slots=True)
class RowAnswer:
    """A class with its probability, or a number."""

    row: int
    predicted: str | float
    probability: float | None = None

    def facts(self) -> dict[str, Json]:
        """The entry of --json."""
        return {"row": self.row, "predicted": self.predicted, "probability": self.probability}

    def lines(self, ink: Ink) -> list[str]:
        """`row 2: cat 98.12%`"""
        if self.probability is None:
            return [f"row {self.row}: {self.predicted:.6g}"]
        return [f"row {self.row}: {self.predicted} {self.probability:.2%}"]


def task(arguments: Arguments) -> TrainingTask:
    """The rows of the file; every fifth is for test."""
    path, classes = _path(arguments.paths), _classes(arguments.task)
    if not arguments.target:
        raise UsageError("--target", got="none", need="the column that is to be learned", fix="--target COLUMN")
    examples, scheme = read_table(path, arguments.target, classes=classes, held_out=TEST_EVERY)
    if classes is None and not scheme.classes and _looks_like_classes(np.asarray(examples.labels)):
        examples, scheme = read_table(path, arguments.target, classes=True, held_out=TEST_EVERY)
    if len(examples) < 2:
        raise DataError(str(path), got=f"{len(examples)} rows", need="at least 2, to learn from and to test on")
    if len(scheme.classes) == 1:
        got = f"{scheme.classes[0]!r} in each row of column {arguments.target!r}"
        raise DataError(str(path), got=got, need="at least two classes")
    facts = json.loads(json.dumps({"scheme": asdict(scheme), "data": hashlib.sha256(path.read_bytes()).hexdigest()}))
    train, test = _parts(examples)
    if scheme.classes:
        return TrainingTask.of(facts, train, test)
    labels = np.asarray(train.labels, np.float64)
    facts |= {"mean": float(labels.mean()), "deviation": float(labels.std()) or 1.0}
    train, test = _standardized(train, facts), _standardized(test, facts)
    return replace(TrainingTask.of(facts, train, test, Measure("r2", "{:.4f}")), evaluate=partial(_r2, test))


def network(facts: Facts) -> Blueprint:
    """y = dense(x) + dense(relu(dense(relu(dense(x))))): what is linear need not be learned by the hidden layers."""
    scheme = scheme_of(facts)
    outputs = len(scheme.classes) or 1
    hidden = Sequential(hidden1=Dense(HIDDEN), relu1=ReLU(), dropout1=Dropout(0.1), hidden2=Dense(HIDDEN), relu2=ReLU())
    layer = Sequential(features=Concatenate(linear=Identity(), hidden=hidden), answer=Dense(outputs))
    return Blueprint(layer, (scheme.features,), None if scheme.classes else MeanSquaredError())


def answers(model: Model, facts: Facts, questions: Questions) -> Sequence[RowAnswer]:
    """One for each row of the file."""
    scheme = scheme_of(facts)
    outputs = model.predict(read_inputs(_path(questions.inputs), scheme)).astype(np.float64)
    if scheme.classes:
        shares = [probabilities(row) for row in outputs]
        best = [int(share.argmax()) for share in shares]
        rows = zip(best, shares, strict=True)
        return [
            RowAnswer(place, scheme.classes[entry], float(share[entry])) for place, (entry, share) in enumerate(rows, 2)
        ]
    values = outputs[:, 0] * _figure(facts, "deviation") + _figure(facts, "mean")
    return [RowAnswer(place, float(value)) for place, value in enumerate(values, 2)]


def scheme_of(facts: Facts) -> TableScheme:
    """The scheme that a checkpoint keeps; FormatError where it keeps none."""
    try:
        match facts["scheme"]:
            case {"columns": list(columns), "target": dict(target)}:
                return TableScheme(tuple(_column_of(column) for column in columns), _column_of(target))
    except (KeyError, TypeError, ValueError):
        pass
    raise FormatError("checkpoint", got="no scheme of a table", need="the columns that it was trained on")


def _column_of(row: Json) -> TableColumn:
    match row:
        case {"name": str(name), "mean": float(mean), "deviation": float(scale), "categories": list(categories)}:
            return TableColumn(name, mean, scale, tuple(map(str, categories)))
    raise ValueError


def _figure(facts: Facts, name: str) -> float:
    value = facts.get(name)
    if not isinstance(value, int | float):
        raise FormatError("checkpoint", got=f"no {name} of the target", need="the checkpoint of a regression")
    return float(value)


def _path(paths: Sequence[str]) -> Path:
    if len(paths) != 1:
        raise UsageError("table", got=f"{len(paths)} files", need="one CSV file", fix="name one")
    return Path(paths[0])


def _classes(name: str) -> bool | None:
    """What a task says of the target; None where its column is to say it."""
    if name and name not in TASKS:
        raise UsageError("--task", got=repr(name), need=" or ".join(TASKS))
    return None if not name else name == TASKS[0]


def _looks_like_classes(labels: NDArray[np.generic]) -> bool:
    """Few whole numbers, each of them in several rows."""
    values = np.unique(labels)
    return len(values) <= MOST_NUMBERED_CLASSES and 2 * len(values) <= len(labels) and bool((values % 1 == 0).all())


def _parts(examples: Examples) -> tuple[Examples, Examples]:
    """To learn from, and every fifth row to test on."""
    held = np.arange(len(examples)) % TEST_EVERY == 0
    inputs, labels = np.asarray(examples.inputs), np.asarray(examples.labels)
    train = Examples(f"{examples.name}/train", inputs[~held], labels[~held])
    return train, Examples(f"{examples.name}/test", inputs[held], labels[held])


def _standardized(part: Examples, facts: Facts) -> Examples:
    labels = (np.asarray(part.labels, np.float64) - _figure(facts, "mean")) / _figure(facts, "deviation")
    return Examples(part.name, part.inputs, labels.astype(np.float32))


def _r2(test: Examples, model: Model, batch: int | None) -> Evaluation:
    """The score is the share of the variance that is explained."""
    evaluation = model.evaluate(test.inputs, test.labels, batch or 256, metrics=["r2"])
    return replace(evaluation, score=evaluation.metrics["r2"])


TABLE = Recipe(
    "classes or numbers from the columns of a CSV file",
    task,
    network,
    answers,
    epochs=100,
    batch_size=32,
    rate=3e-3,
    last_rate=1e-5,
    falling=100,
    decay=1.0,
    paths="FILE.csv",
    options=frozenset({"target", "task"}),
)
