"""nnc train text, nnc predict and nnc generate: a language model of characters from end to end."""

from __future__ import annotations

import json
import random
import signal
from pathlib import Path

import pytest

from nnc.nn import Model

WORDS = ("the", "cat", "sat", "on", "a", "mat")
SIZES = ("--steps", "8", "--features", "32", "--layers", "1", "--batch-size", "16")
OPTIONS = (*SIZES, "--epochs", "3", "--backend", "reference")


@pytest.fixture
def text(folder: Path) -> Path:
    path = folder / "cat.txt"
    path.write_text(" ".join(random.Random(0).choices(WORDS, k=400)) + "\n")
    return path


def test_a_text_is_learned_foreseen_and_written(call, text) -> None:
    facts = json.loads(call("train", "text", text, *OPTIONS, "--epochs", "8", "--json").out)
    assert facts["program"] == "text"
    assert facts["test_bits_per_character"] < 2.0
    (answer,) = json.loads(call("predict", "text", text, "--json").out)["predictions"]
    assert answer["characters"] == (len(text.read_text()) - 1) // 8 * 8
    assert answer["bits_per_character"] == pytest.approx(facts["test_bits_per_character"], rel=0.3)
    options = ("generate", "text", "--prompt", "the c", "--length", "20", "--backend", "reference")
    written = json.loads(call(*options, "--seed", "3", "--json").out)
    assert len(written["text"]) == 20
    assert set(written["text"]) <= set("".join(WORDS) + " \n")
    assert call(*options, "--seed", "3").out == f"the c{written['text']}\n"
    assert call(*options, "--seed", "4").out != f"the c{written['text']}\n"
    quantized = json.loads(call(*options, "--quantize", "weights", "--json").out)
    assert len(quantized["text"]) == 20
    best = call(*options, "--greedy").out
    assert best == call(*options, "--top-k", "1").out == call(*options, "--top-p", "0.001", "--temperature", "2").out


def test_a_stop_and_a_resume_change_nothing(call, text, monkeypatch) -> None:
    options = ("train", "text", text, *OPTIONS, "--json")
    whole = json.loads(call(*options, "--checkpoint", "whole").out)
    original = Model.training_pass

    def training_pass(model: Model, *batch: object, **named: object) -> object:
        if model.updates == 5:
            signal.raise_signal(signal.SIGINT)
        return original(model, *batch, **named)

    with monkeypatch.context() as patch:
        patch.setattr(Model, "training_pass", training_pass)
        assert call(*options).code == 130
    assert json.loads(call(*options, "--resume").out)["sha256"] == whole["sha256"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "0 paths for text"),
        (["cat.txt", "--features", "33"], "need a multiple of 32"),
        (["cat.txt", "--steps", "600"], "need more than 600"),
        (["cat.txt", "--target", "y"], "--target: got it for text"),
        (["absent.txt"], "no such file"),
        (["bytes"], "byte 2 that is no UTF-8"),
    ],
    ids=str,
)
def test_bad_arguments_of_a_training_are_refused(call, text, arguments: list[str], words: str) -> None:
    text.with_name("bytes").write_bytes(b"ab\xff" * 40)
    assert words in call("train", "text", *arguments).complaint()


@pytest.fixture
def untrained(call, text) -> str:
    call("train", "text", text, *SIZES, "--epochs", "0")
    return "text.safetensors"


def test_bad_arguments_of_a_generation_are_refused(call, untrained: str) -> None:
    for arguments, words in (
        (["--prompt", ""], "an empty prompt"),
        (["--prompt", "Ü"], "got 'Ü'; need the 11 characters of its training"),
        (["--temperature", "0"], "temperature=0"),
        (["--top-p", "1.5"], "top_p=1.5"),
        (["--top-k", "0"], "--top-k"),
        (["--length", "0"], "--length"),
        (["--greedy", "--top-k", "2"], "one or the other"),
        (["--quantize", "half"], "quantize"),
    ):
        assert words in call("generate", untrained, *arguments).complaint(), arguments


def test_a_checkpoint_of_something_else_writes_nothing(call, trained: Path) -> None:
    assert "a checkpoint of digits; need one of nnc train text" in call("generate", trained).complaint()
    assert "need" in call("generate", "absent.safetensors").complaint()


def test_a_file_that_is_too_short_is_told(call, untrained: str, folder: Path) -> None:
    (folder / "short").write_text("the")
    assert "need more than 8" in call("predict", untrained, "short").complaint()
