"""nnc train digits: handwritten digits, drawn in the terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

from nnc.classes import dataclass
from nnc.cli.recipe import Arguments, Blueprint, Facts, Ink, Questions, Recipe, TrainingTask
from nnc.cli.terminal import Json
from nnc.errors import DataError
from nnc.nn import Model
from nnc.nn.data import DataSet, Split, load
from nnc.nn.data.digits import TEST_EVERY
from nnc.nn.zoo import digits_network

SHOWN_TESTS = 3
BAR_WIDTH = 24


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """An example, `image[h, w, 1]` in 0..1, and the probability of each class."""

    index: int
    part: str
    image: NDArray[np.float32]
    label: int
    classes: tuple[str, ...]
    probabilities: tuple[float, ...]

    @property
    def best(self) -> int:
        """The class of the largest probability."""
        return max(range(len(self.classes)), key=self.probabilities.__getitem__)

    def facts(self) -> dict[str, Json]:
        """The entry of --json."""
        return {
            "index": self.index,
            "part": self.part,
            "label": self.classes[self.label],
            "predicted": self.classes[self.best],
            "correct": self.best == self.label,
            "probabilities": dict(zip(self.classes, self.probabilities, strict=True)),
        }

    def lines(self, ink: Ink) -> list[str]:
        """A title, then the image with the probabilities beside it."""
        best, truth = self.classes[self.best], self.classes[self.label]
        verdict = "right" if best == truth else f"wrong: it is {truth}"
        title = f"example {self.index} ({self.part}) is {truth}; the model says {best}, {verdict}"
        pixels = picture(self.image[:, :, 0], ink)
        blank = " " * max(map(len, pixels), default=0)
        rows = zip_longest(pixels, bars(self, ink), fillvalue="")
        return [title, *(f"  {left or blank}  {right}".rstrip() for left, right in rows), ""]


def task(arguments: Arguments) -> TrainingTask:
    """The images that ship with nnc."""
    split = load("digits")
    return TrainingTask.of({}, split.train, split.test)


def network(facts: Facts) -> Blueprint:
    """A small convolutional network."""
    return Blueprint(digits_network(), (8, 8, 1))


def answers(model: Model, facts: Facts, questions: Questions) -> Sequence[Prediction]:
    """Examples by their places in the whole data set."""
    split = load("digits")
    chosen = questions.indices or range(0, SHOWN_TESTS * TEST_EVERY, TEST_EVERY)
    places = [locate(split, index) for index in chosen]
    images = np.stack([part.inputs[row] for part, row in places])
    scores = model.predict(images).astype(np.float64)
    return [
        Prediction(index, part.name, image, int(part.labels[row]), part.classes, tuple(probabilities(score).tolist()))
        for index, (part, row), image, score in zip(chosen, places, images, scores, strict=True)
    ]


def locate(split: Split, index: int) -> tuple[DataSet, int]:
    """The part and the row of example `index` of the whole data set."""
    total = len(split.train) + len(split.test)
    if not 0 <= index < total:
        raise DataError("index", got=str(index), need=f"0 to {total - 1}")
    before = index // TEST_EVERY
    return (split.test, before) if index % TEST_EVERY == 0 else (split.train, index - before - 1)


def probabilities(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """p[c] = e^scores[c] / sum_k e^scores[k]"""
    powers = np.exp(scores - scores.max())
    return np.asarray(powers / powers.sum(), dtype=np.float64)


def picture(image: NDArray[np.float32], ink: Ink) -> list[str]:
    """One line per row of the image, two characters per pixel, darker for more ink."""
    levels = np.rint(np.clip(image, 0.0, 1.0) * (len(ink.shades) - 1)).astype(int)
    return ["".join(ink.shades[level] * 2 for level in row) for row in levels.tolist()]


def bars(prediction: Prediction, ink: Ink) -> list[str]:
    """One line per class: its name, a bar as long as its probability, the percentage."""
    pairs = zip(prediction.classes, prediction.probabilities, strict=True)
    return [f"{name} {_bar(share, ink):<{BAR_WIDTH}} {share:7.2%}" for name, share in pairs]


def _bar(share: float, ink: Ink) -> str:
    return ink.bar * round(share * BAR_WIDTH) if math.isfinite(share) else ""


DIGITS = Recipe(
    "1,437 handwritten digits that ship with nnc",
    task,
    network,
    answers,
    epochs=20,
    batch_size=64,
    rate=3e-3,
    last_rate=1e-5,
    falling=20,
    decay=0.1,
    asked="indices",
)
