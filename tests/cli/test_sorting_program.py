"""nnc train sorting: sequences in and out by an encoder and a decoder, and the same bits after a stop."""

from __future__ import annotations

import json
import signal

import numpy as np
import pytest

from nnc.cli.programs import sorting
from nnc.cli.recipe import Arguments
from nnc.cli.recipes import RECIPES
from nnc.nn import Model

OPTIONS = ("--backend", "reference", "--batch-size", "16", "--json")


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few short sequences of few numbers."""
    for name, value in {"TRAIN": 48, "TEST": 8, "LENGTH": 4, "NUMBERS": 5}.items():
        monkeypatch.setattr(sorting, name, value)


def test_examples_are_numbers_what_was_said_and_what_comes_next() -> None:
    recipe = RECIPES["sorting"]
    batch = recipe.task(Arguments()).source(recipe.model({}, 48, 16, 0), 16, 0).next_batch()
    source, said = batch.inputs
    for numbers, before, after in zip(source, said, batch.labels, strict=True):
        length = np.count_nonzero(numbers)
        np.testing.assert_array_equal(after, [*sorted(numbers[:length]), *[sorting.NOTHING] * (4 - length)])
        np.testing.assert_array_equal(before, [sorting.BEGIN, *after[:-1]])


def test_a_stop_and_a_resume_change_nothing(call, monkeypatch) -> None:
    options = ("train", "sorting", "--epochs", "2", *OPTIONS)
    whole = json.loads(call(*options, "--checkpoint", "whole").out)
    assert (whole["updates"], whole["test_examples"]) == (6, 8)
    assert 0 <= whole["test_sorted"] <= 1
    original = Model.training_pass

    def training_pass(model: Model, *batch: object, **named: object) -> object:
        if model.updates == 4:
            signal.raise_signal(signal.SIGINT)
        return original(model, *batch, **named)

    with monkeypatch.context() as patch:
        patch.setattr(Model, "training_pass", training_pass)
        assert call(*options).code == 130
    assert json.loads(call(*options, "--resume").out)["sha256"] == whole["sha256"]


def test_sequences_are_answered_token_by_token(call) -> None:
    call("train", "sorting", "--epochs", "0", *OPTIONS)
    rows = json.loads(call("predict", "sorting", "3,1,2", "4 0", "--json").out)["predictions"]
    assert [row["numbers"] for row in rows] == [[3, 1, 2], [4, 0]]
    assert [len(row["predicted"]) for row in rows] == [3, 2]
    assert call("predict", "sorting", "3,1").out.startswith("3 1: ")


def test_what_is_no_sequence_is_refused(call) -> None:
    call("train", "sorting", "--epochs", "0", *OPTIONS)
    for text in ("", "a", "5", "1,2,3,4,0", "-1"):
        assert "need 1 to 4 numbers from 0 to 4" in call("predict", "sorting", "--", text).complaint(), text
