"""nnc train images: a class for each folder of images."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from nnc.classes import dataclass
from nnc.cli.programs.digits import probabilities
from nnc.cli.recipe import Arguments, Blueprint, Facts, Ink, Questions, Recipe, TrainingTask
from nnc.cli.terminal import Json
from nnc.errors import DataError, FormatError, UsageError
from nnc.nn import BatchNorm, Convolution, Dense, Evaluation, GlobalAveragePool, Layer, MaxPool, Model, ReLU, Sequential
from nnc.nn.data import Augmentation, Brightness, Crop, DataFrame, Flip, ImageFolder, read_image

SIDE = 32
CHANNELS = (16, 32, 64)
TEST_EVERY = 5


@dataclass(frozen=True, slots=True)
class ImageAnswer:
    """A file with its class and the probability of that."""

    path: str
    predicted: str
    probability: float

    def facts(self) -> dict[str, Json]:
        """The entry of --json."""
        return {"path": self.path, "predicted": self.predicted, "probability": self.probability}

    def lines(self, ink: Ink) -> list[str]:
        """`pets/cat/1.png: cat 98.12%`"""
        return [f"{self.path}: {self.predicted} {self.probability:.2%}"]


def task(arguments: Arguments) -> TrainingTask:
    """The images of a folder, flipped and moved at random; every fifth of each class is for test."""
    if len(arguments.paths) != 1:
        raise UsageError("images", got=f"{len(arguments.paths)} folders", need="one folder with one for each class")
    folder = ImageFolder(arguments.paths[0], (SIDE, SIDE))
    if len(folder.classes) < 2:
        got = f"images of {', '.join(folder.classes)} alone"
        raise DataError(arguments.paths[0], got=got, need="at least two classes, a folder for each")
    train, test = _parts(folder)
    if not train:
        raise DataError(arguments.paths[0], got=f"{len(folder)} images", need="some class of more than one image")
    facts: dict[str, Json] = {"classes": list(folder.classes), "data": _digest(folder)}

    def frame(model: Model, batch_size: int, seed: int) -> DataFrame:
        images = DataFrame.from_items(folder.part(train), seed=seed).examples("image", "label")
        change = Augmentation(Flip(), Crop(SIDE // 8), Brightness())
        return images.map("image", change, random=True).shuffle().batch(batch_size).prefetch(2, workers=2)

    def evaluate(model: Model, batch_size: int | None) -> Evaluation:
        held = DataFrame.from_items(folder.part(test)).examples("image", "label").in_memory()
        return model.evaluate(held.inputs, held.labels, batch_size or 64)

    return TrainingTask(facts, len(train), frame, evaluate)


def network(facts: Facts) -> Blueprint:
    """Three times convolution, batch norm, ReLU and pooling, and the mean of what they see."""
    parts: dict[str, Layer] = {}
    for number, channels in enumerate(CHANNELS, 1):
        parts |= {
            f"conv{number}": Convolution(channels, bias=False),
            f"norm{number}": BatchNorm(),
            f"relu{number}": ReLU(),
            f"pool{number}": MaxPool(),
        }
    layer = Sequential(**parts, mean=GlobalAveragePool(), classes=Dense(len(_classes(facts))))
    return Blueprint(layer, (SIDE, SIDE, 3))


def answers(model: Model, facts: Facts, questions: Questions) -> Sequence[ImageAnswer]:
    """One for each image file."""
    classes = _classes(facts)
    images = np.stack([read_image(path, (SIDE, SIDE)) for path in questions.inputs])
    answers = []
    for path, scores in zip(questions.inputs, model.predict(images, 64).astype(np.float64), strict=True):
        shares = probabilities(scores)
        best = int(shares.argmax())
        answers.append(ImageAnswer(path, classes[best], float(shares[best])))
    return answers


def _classes(facts: Facts) -> list[str]:
    match facts.get("classes"):
        case [_, _, *_] as classes:
            return [str(name) for name in classes]
    raise FormatError("checkpoint", got="no names of classes", need="a checkpoint of images")


def _parts(folder: ImageFolder) -> tuple[list[int], list[int]]:
    """The places to learn from, and every fifth of each class to test on."""
    train, test = list[int](), list[int]()
    for label in range(len(folder.classes)):
        for number, place in enumerate(np.flatnonzero(folder.labels == label).tolist()):
            (test if number % TEST_EVERY == 0 else train).append(place)
    return train, test


def _digest(folder: ImageFolder) -> str:
    """What tells this folder from another: names and sizes of its files."""
    rows = [f"{path.relative_to(folder.folder)} {path.stat().st_size}" for path in folder.paths]
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()


IMAGES = Recipe(
    "a class for each folder of images",
    task,
    network,
    answers,
    epochs=30,
    batch_size=32,
    rate=3e-3,
    last_rate=1e-5,
    falling=30,
    decay=0.1,
    paths="DIR",
)
