"""nnc predict: the drawing, the probabilities, the choice of examples."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from nnc.cli.programs.digits import Prediction, probabilities
from nnc.cli.recipe import BLOCKS, LETTERS
from nnc.nn.data import load

GOLDEN_BLOCKS = """\
example 10 (digits/test) is 0; the model says 0, right
        ▒▒██▓▓      0 ████████████              50.00%
      ▓▓██▒▒██▒▒    1                            0.00%
      ██▒▒  ▒▒▒▒    2                            0.00%
      ██░░  ▒▒▒▒    3                            0.00%
    ░░██░░  ▒▒▒▒    4                            0.00%
      ██░░  ▓▓░░    5                            0.00%
      ▓▓▓▓▒▒▒▒      6 ██████                    25.00%
        ▒▒▓▓░░      7                            0.00%
                    8 ██████                    25.00%
                    9                            0.00%
"""

GOLDEN_LETTERS = """\
example 10 (digits/test) is 0; the model says 9, wrong: it is 0
        ++##**      0                            -inf%
      **##++##++    1                            -inf%
      ##++  ++++    2                            -inf%
      ##..  ++++    3                            -inf%
    ..##..  ++++    4                            -inf%
      ##..  **..    5                            -inf%
      ****++++      6                            -inf%
        ++**..      7                            -inf%
                    8                            -inf%
                    9 ======================== 100.00%
"""


def prediction(*shares: float) -> Prediction:
    test = load("digits").test
    return Prediction(10, test.name, test.inputs[2], int(test.labels[2]), test.classes, shares)


def test_the_drawing_is_as_it_was() -> None:
    shown = prediction(0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.25, 0.0, 0.25, 0.0).lines(BLOCKS)
    assert "\n".join(shown) == GOLDEN_BLOCKS


def test_letters_do_where_blocks_cannot_be_shown() -> None:
    shown = prediction(*[-np.inf] * 9, 1.0).lines(LETTERS)
    assert "\n".join(shown) == GOLDEN_LETTERS


def test_probabilities_do_not_overflow() -> None:
    assert probabilities(np.array([1000.0, 1000.0, -1000.0])).tolist() == [0.5, 0.5, 0.0]


@pytest.fixture
def model(folder: Path, trained: Path) -> Path:
    """The trained model where predict looks for it."""
    return Path(shutil.copy(trained, folder / "digits.safetensors"))


def test_json_has_an_entry_for_each_index(call, model) -> None:
    arguments = ("--index", "1796", "--index", "0", "--index", "3")
    ran = call("predict", model, *arguments, "--json")
    assert (ran.code, ran.err) == (0, "")
    facts = json.loads(ran.out)
    assert facts.keys() == {"program", "checkpoint", "predictions"}
    rows = facts["predictions"]
    assert [row["index"] for row in rows] == [1796, 0, 3]
    assert [row["part"] for row in rows] == ["digits/train", "digits/test", "digits/train"]
    assert [row["label"] for row in rows] == ["8", "0", "3"]
    for row in rows:
        assert list(row["probabilities"]) == list("0123456789")
        assert sum(row["probabilities"].values()) == pytest.approx(1.0)
        assert row["probabilities"][row["predicted"]] == max(row["probabilities"].values())
        assert row["correct"] == (row["predicted"] == row["label"])


def test_the_model_knows_most_digits(call, model) -> None:
    indices = [argument for index in range(0, 500, 5) for argument in ("--index", str(index))]
    rows = json.loads(call("predict", "digits", *indices, "--json").out)["predictions"]
    assert sum(row["correct"] for row in rows) >= 85


def test_some_test_images_are_shown_unless_told(call, model) -> None:
    ran = call("predict", "digits")
    assert (ran.code, ran.err) == (0, "")
    assert [line.split(";")[0] for line in ran.out.splitlines() if line.startswith("example")] == [
        "example 0 (digits/test) is 0",
        "example 5 (digits/test) is 5",
        "example 10 (digits/test) is 0",
    ]
    drawing = [line.split(" 0 ")[0].rstrip() for line in GOLDEN_BLOCKS.splitlines()[1:3]]
    assert all(any(line.startswith(row) for line in ran.out.splitlines()) for row in drawing)


@pytest.mark.parametrize(
    ("name", "value"), [("NO_COLOR", "1"), ("FORCE_COLOR", "1"), ("TERM", "dumb")], ids=lambda word: word
)
def test_the_drawing_needs_no_colour(call, model, monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    ran = call("predict", "digits", "--index", "10")
    assert (ran.code, ran.err) == (0, "")
    assert "\x1b" not in ran.out
    assert "      ██" in ran.out


def test_the_drawing_needs_no_more_than_ascii(shell, model) -> None:
    ran = shell("predict", "digits", "--index", "10", PYTHONIOENCODING="ascii", FORCE_COLOR="1")
    assert (ran.code, ran.err) == (0, "")
    assert "\x1b" not in ran.out
    assert "      ##" in ran.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["digits", "--index", "1797"], "index: got 1797; need 0 to 1796"),
        (["digits", "--index", "-1"], "--index"),
        (["digits", "--index", "one"], "--index"),
        (["digitz"], "no such file or directory"),
        (["digits", "--backend", "nope"], "got nope; need one of"),
        (["digits", "more.csv"], "INPUT for a model of digits"),
        (["."], "is a directory"),
    ],
    ids=str,
)
def test_bad_options_are_refused(call, model, arguments: list[str], words: str) -> None:
    assert words in call("predict", *arguments).complaint()
