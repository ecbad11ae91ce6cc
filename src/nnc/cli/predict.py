"""nnc predict: what a trained model sees in examples, drawn in the terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from nnc.cli.options import AsJson, BackendName, Checkpoint, DataSetName, NoCache, checkpoint_of, leave_cache
from nnc.cli.recipes import RECIPES
from nnc.cli.terminal import Json, output, write_json
from nnc.core.dispatch import DISPATCHER
from nnc.nn import load_checkpoint, read_position
from nnc.nn.data import load

SHOWN_TESTS = 3
BAR_WIDTH = 24

Indices = Annotated[
    list[int] | None,
    typer.Option("--index", min=0, help="An example, counted over the whole data set; may be given many times."),
]


@dataclass(frozen=True, slots=True)
class Ink:
    """Characters for drawing: `shades` from empty to full, one for bars."""

    shades: str
    bar: str


BLOCKS = Ink(" ░▒▓█", "█")
LETTERS = Ink(" .+*#", "=")


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


def predict(
    data_set: DataSetName,
    checkpoint: Checkpoint = None,
    index: Indices = None,
    backend: BackendName = "",
    no_cache: NoCache = False,
    json: AsJson = False,
) -> int:
    """Draw examples with the class probabilities that a trained model gives them, and the true class."""
    leave_cache(no_cache)
    place = checkpoint_of(data_set, checkpoint)
    predictions = _predict(data_set, str(place), index, backend)
    if json:
        write_json({"data_set": data_set, "checkpoint": str(place), "predictions": [p.facts() for p in predictions]})
        return 0
    console = output()
    ink = LETTERS if console.options.ascii_only else BLOCKS
    for prediction in predictions:
        console.print("\n".join([*drawn(prediction, ink), ""]), soft_wrap=True)
    return 0


def _predict(data_set: str, checkpoint: str, indices: Sequence[int] | None, backend: str) -> list[Prediction]:
    split = load(data_set)
    recipe = RECIPES[data_set]
    chosen = indices or range(0, SHOWN_TESTS * recipe.test_every, recipe.test_every)
    places = [recipe.locate(split, index) for index in chosen]
    DISPATCHER.candidates(backend)
    position = read_position(checkpoint)
    model = recipe.model(split, position.batch_size, position.batches.seed, backend)
    load_checkpoint(checkpoint, model)
    images = np.stack([part.inputs[row] for part, row in places])
    scores = model.predict(images).astype(np.float64)
    return [
        Prediction(index, part.name, image, int(part.labels[row]), part.classes, tuple(probabilities(score).tolist()))
        for index, (part, row), image, score in zip(chosen, places, images, scores, strict=True)
    ]


def probabilities(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """p[c] = e^scores[c] / sum_k e^scores[k]"""
    powers = np.exp(scores - scores.max())
    return np.asarray(powers / powers.sum(), dtype=np.float64)


def drawn(prediction: Prediction, ink: Ink) -> list[str]:
    """A title, then the image with the probabilities beside it."""
    best = prediction.classes[prediction.best]
    truth = prediction.classes[prediction.label]
    verdict = "right" if best == truth else f"wrong: it is {truth}"
    title = f"example {prediction.index} ({prediction.part}) is {truth}; the model says {best}, {verdict}"
    pixels = picture(prediction.image[:, :, 0], ink)
    blank = " " * max(map(len, pixels), default=0)
    rows = zip_longest(pixels, bars(prediction, ink), fillvalue="")
    return [title, *(f"  {left or blank}  {right}".rstrip() for left, right in rows)]


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
