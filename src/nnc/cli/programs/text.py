"""nnc train text: a language model of characters, from text files."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from nnc.classes import dataclass
from nnc.cli.recipe import Arguments, Blueprint, Facts, Ink, Measure, Questions, Recipe, TrainingTask
from nnc.cli.terminal import Json
from nnc.core.precautions.reading import read_file
from nnc.core.values.dtype import I32
from nnc.errors import DataError, FormatError, UsageError
from nnc.nn import Evaluation, Model, UpTo
from nnc.nn.data import Examples
from nnc.nn.zoo import GPT

# Characters that the model sees at once, features, layers; a head for every 32 features.
SIZES = {"steps": 128, "features": 128, "layers": 4}
HEAD_FEATURES = 32
HELD_OUT = 0.1
# The number of a character that training did not meet, and how it is written.
UNKNOWN, REPLACEMENT = 0, "\N{REPLACEMENT CHARACTER}"


@dataclass(frozen=True, slots=True)
class TextAnswer:
    """How well a file was foreseen."""

    path: str
    characters: int
    bits: float

    def facts(self) -> dict[str, Json]:
        """The entry of --json."""
        return {"path": self.path, "characters": self.characters, "bits_per_character": self.bits}

    def lines(self, ink: Ink) -> list[str]:
        """`notes.txt: 1.8812 bits per character (10,240 characters)`"""
        return [f"{self.path}: {self.bits:.4f} bits per character ({self.characters:,} characters)"]


def task(arguments: Arguments) -> TrainingTask:
    """The first nine tenths of each file; the last tenth is for test."""
    sizes = {name: getattr(arguments, name) or usual for name, usual in SIZES.items()}
    if sizes["features"] % HEAD_FEATURES:
        raise UsageError("--features", got=str(sizes["features"]), need=f"a multiple of {HEAD_FEATURES}")
    texts = [text_of(path) for path in arguments.paths]
    characters = "".join(sorted(set().union(*texts)))
    ends = [len(text) - int(HELD_OUT * len(text)) for text in texts]
    train = "".join(text[:end] for text, end in zip(texts, ends, strict=True))
    test = "".join(text[end:] for text, end in zip(texts, ends, strict=True))
    steps = sizes["steps"]
    if min(len(train), len(test)) <= steps:
        need = f"more than {steps} in the first nine tenths of each file, and in the last ones"
        got = f"{len(train):,} and {len(test):,} characters"
        raise DataError("text", got=got, need=need, fix="longer files, or --steps of a smaller number")
    digest = hashlib.sha256("\0".join(texts).encode()).hexdigest()
    facts: Facts = {"characters": characters, **sizes, "data": digest}
    made, held = (
        _windows(codes_of(text, characters), steps, name) for text, name in ((train, "train"), (test, "test"))
    )
    measure = Measure("bits_per_character", "{:.4f}")
    return replace(TrainingTask.of(facts, made, held, measure), evaluate=partial(_bits, held))


def network(facts: Facts) -> Blueprint:
    """A small GPT."""
    steps, features, layers = (_size(facts, name) for name in SIZES)
    layer = GPT(len(alphabet_of(facts)) + 1, steps, features, layers, features // HEAD_FEATURES, bias=False)
    return Blueprint(layer, (UpTo(steps),), None, I32)


def answers(model: Model, facts: Facts, questions: Questions) -> Sequence[TextAnswer]:
    """Bits per character of each file."""
    answers = []
    for path in questions.inputs:
        text, steps = text_of(path), _size(facts, "steps")
        if len(text) <= steps:
            raise DataError(path, got=f"{len(text)} characters", need=f"more than {steps}")
        windows = _windows(codes_of(text, alphabet_of(facts)), steps, path)
        answers.append(TextAnswer(path, len(windows) * steps, _bits(windows, model, None).score))
    return answers


def text_of(path: str) -> str:
    """The file's text; DataError where it is none."""
    try:
        return read_file(path, "a text file").decode()
    except UnicodeDecodeError as error:
        raise DataError(path, got=f"byte {error.start} that is no UTF-8", need="a text file in UTF-8") from None


def alphabet_of(facts: Facts) -> str:
    """The characters of a checkpoint, of which the first one has the number 1."""
    characters = facts.get("characters")
    if not isinstance(characters, str) or not characters:
        raise FormatError("checkpoint", got="no characters", need="a checkpoint of nnc train text")
    return characters


def codes_of(text: str, characters: str) -> NDArray[np.int32]:
    """The number of each character; 0 for those that are not in the alphabet."""
    numbers = {character: number for number, character in enumerate(characters, UNKNOWN + 1)}
    return np.array([numbers.get(character, UNKNOWN) for character in text], np.int32)


def _windows(codes: NDArray[np.int32], steps: int, name: str) -> Examples:
    """Rows of `steps` characters one behind the other, and of the characters that follow each."""
    count = (len(codes) - 1) // steps
    rows = codes[: count * steps + 1]
    return Examples(name, rows[:-1].reshape(count, steps), rows[1:].reshape(count, steps))


def _bits(test: Examples, model: Model, batch: int | None) -> Evaluation:
    """The score is -log2 p of a character, on average."""
    evaluation = model.evaluate(test.inputs, test.labels, batch or 64)
    return replace(evaluation, score=evaluation.loss / math.log(2.0))


def _size(facts: Facts, name: str) -> int:
    value = facts.get(name)
    if not isinstance(value, int) or value < 1:
        raise FormatError("checkpoint", got=f"no {name}", need="a checkpoint of nnc train text")
    return value


TEXT = Recipe(
    "a language model of characters, for nnc generate",
    task,
    network,
    answers,
    epochs=10,
    batch_size=32,
    rate=3e-3,
    last_rate=1e-4,
    falling=10,
    decay=0.1,
    paths="FILES...",
    options=frozenset(SIZES),
    clip_norm=1.0,
)
