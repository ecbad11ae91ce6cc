"""nnc train sorting: numbers in, the same numbers in order out, by an encoder and a decoder (Vaswani et al. 2017)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nnc.classes import dataclass
from nnc.cli.recipe import Arguments, Blueprint, Facts, Ink, Measure, Questions, Recipe, TrainingTask
from nnc.cli.terminal import Json
from nnc.core.values.dtype import I32
from nnc.errors import UsageError
from nnc.nn import Evaluation, Input, Model
from nnc.nn.data import Examples
from nnc.nn.zoo import EncoderDecoder

LENGTH, NUMBERS = 10, 50
# Tokens: nothing here, the beginning of the answer, and then the numbers.
NOTHING, BEGIN, FIRST = 0, 1, 2
TRAIN, TEST = 8192, 512
DATA_SEED = 2017

Tokens = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class SortedAnswer:
    """Numbers, and the order that the model gives them."""

    numbers: tuple[int, ...]
    predicted: tuple[int, ...]

    def facts(self) -> dict[str, Json]:
        """The entry of --json."""
        right = list(self.predicted) == sorted(self.numbers)
        return {"numbers": list(self.numbers), "predicted": list(self.predicted), "correct": right}

    def lines(self, ink: Ink) -> list[str]:
        """`3 1 2: 1 2 3, right`"""
        verdict = "right" if list(self.predicted) == sorted(self.numbers) else "wrong"
        return [f"{' '.join(map(str, self.numbers))}: {' '.join(map(str, self.predicted))}, {verdict}"]


def task(arguments: Arguments) -> TrainingTask:
    """Random sequences of 1 to 10 numbers below 50."""
    random = np.random.default_rng(DATA_SEED)
    train, test = (_examples(random, count) for count in (TRAIN, TEST))
    measure = Measure("sorted", "{:.2%}")
    ordinary = TrainingTask.of({}, train, test, measure)

    def evaluate(model: Model, batch_size: int | None) -> Evaluation:
        """The share of sequences that come out in order, all of them or not at all."""
        usual = ordinary.evaluate(model, batch_size)
        tokens = model.predict(test.inputs, batch_size or 256).argmax(-1)
        return Evaluation(usual.loss, float((tokens == test.labels).all(1).mean()), usual.count)

    return TrainingTask({}, TRAIN, ordinary.source, evaluate, measure)


def network(facts: Facts) -> Blueprint:
    """Two layers of 64 features on either side."""
    layer = EncoderDecoder(FIRST + NUMBERS, features=64, layers=2, heads=4, hidden=128)
    return Blueprint(layer, (Input((LENGTH,), I32), Input((LENGTH,), I32)))


def answers(model: Model, facts: Facts, questions: Questions) -> Sequence[SortedAnswer]:
    """The best token after those before it, again and again, for each sequence such as `3,1,2`."""
    rows = [_numbers(text) for text in questions.inputs]
    source = np.stack([_padded(np.array(row)) for row in rows])
    target = np.full((len(rows), LENGTH + 1), NOTHING, np.int32)
    target[:, 0] = BEGIN
    for step in range(LENGTH):
        target[:, step + 1] = model.predict((source, target[:, :-1]))[:, step].argmax(-1)
    decoded = [row[1 : len(numbers) + 1] - FIRST for row, numbers in zip(target, rows, strict=True)]
    return [
        SortedAnswer(tuple(numbers), tuple(map(int, answer))) for numbers, answer in zip(rows, decoded, strict=True)
    ]


def _examples(random: np.random.Generator, count: int) -> Examples:
    """Numbers and what was said so far, and what is to be said next."""
    rows = [random.integers(NUMBERS, size=length) for length in random.integers(1, LENGTH + 1, count)]
    source, labels = (np.stack([_padded(value) for value in part]) for part in (rows, map(np.sort, rows)))
    begin = np.full((count, 1), BEGIN, np.int32)
    return Examples("sequences", (source, np.concatenate([begin, labels[:, :-1]], 1)), labels)


def _padded(numbers: NDArray[np.integer]) -> Tokens:
    tokens = np.full(LENGTH, NOTHING, np.int32)
    tokens[: len(numbers)] = numbers + FIRST
    return tokens


def _numbers(text: str) -> list[int]:
    """`3,1,2`; UsageError for another text."""
    words = text.replace(",", " ").split()
    if 0 < len(words) <= LENGTH and all(word.isdecimal() and int(word) < NUMBERS for word in words):
        return [int(word) for word in words]
    need = f"1 to {LENGTH} numbers from 0 to {NUMBERS - 1}"
    raise UsageError("nnc predict", got=repr(text), need=need, fix="separate them by commas: 3,1,2")


SORTING = Recipe(
    "sequences of numbers, put in order by a transformer",
    task,
    network,
    answers,
    epochs=20,
    batch_size=64,
    rate=1e-3,
    last_rate=1e-5,
    falling=20,
    decay=0.01,
    clip_norm=1.0,
)
