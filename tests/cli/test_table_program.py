"""nnc train table and nnc predict: classes and numbers from a CSV file, from end to end."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import numpy as np
import pytest

from nnc.nn import Model

OPTIONS = ("--backend", "reference", "--epochs", "16", "--batch-size", "16", "--json")


@pytest.fixture
def csv(folder: Path) -> Path:
    random = np.random.default_rng(0)
    numbers = random.standard_normal((120, 2))
    lines = ["a,b,side,kind,y"]
    for row, (a, b) in enumerate(numbers):
        cells = (f"{a:.4f}", f"{b:.4f}" if row % 17 else "", "left" if row % 2 else "right")
        lines.append(",".join((*cells, "up" if a > 0 else "down", f"{3 * a + 10 * (row % 2):.4f}")))
    path = folder / "rows.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_numbers_are_learned_and_predicted_in_their_own_scale(call, csv) -> None:
    facts = json.loads(call("train", "table", csv, "--target", "y", *OPTIONS).out)
    assert facts["program"] == "table"
    assert facts["test_r2"] > 0.9
    assert facts["test_examples"] == 24
    answers = json.loads(call("predict", "table", csv, "--json").out)["predictions"]
    assert [answer["row"] for answer in answers] == list(range(2, 122))
    right = [float(line.rpartition(",")[2]) for line in csv.read_text().splitlines()[1:]]
    assert np.corrcoef(right, [answer["predicted"] for answer in answers])[0, 1] > 0.95
    shown = call("predict", "table.safetensors", csv)
    assert shown.out.splitlines()[0].startswith("row 2: ")


def test_classes_are_learned_and_named(call, csv) -> None:
    facts = json.loads(call("train", "table", csv, "--target", "kind", *OPTIONS).out)
    assert facts["test_accuracy"] > 0.9
    unlabelled = csv.with_name("more.csv")
    unlabelled.write_text("b,a,side,y\n0,2,left,0\n0,-2,left,0\n")
    answers = json.loads(call("predict", "table", unlabelled, "--json").out)["predictions"]
    assert [answer["predicted"] for answer in answers] == ["up", "down"]
    assert all(0.5 < answer["probability"] <= 1 for answer in answers)


def test_few_whole_numbers_are_classes_unless_told(call, folder) -> None:
    path = folder / "whole.csv"
    path.write_text("a,y\n" + "".join(f"{row},{row % 2}\n" for row in range(20)))
    options = ("--target", "y", "--epochs", "0", "--json")
    assert "test_accuracy" in json.loads(call("train", "table", path, *options).out)
    assert "test_r2" in json.loads(call("train", "table", path, *options, "--task", "regression").out)


def test_a_stop_and_a_resume_change_nothing(call, csv, monkeypatch) -> None:
    options = ("train", "table", csv, "--target", "kind", *OPTIONS)
    whole = json.loads(call(*options, "--checkpoint", "whole").out)
    original = Model.training_pass

    def training_pass(model: Model, *batch: object, **named: object) -> object:
        if model.updates == 9:
            signal.raise_signal(signal.SIGINT)
        return original(model, *batch, **named)

    with monkeypatch.context() as patch:
        patch.setattr(Model, "training_pass", training_pass)
        assert call(*options).code == 130
    assert json.loads(call(*options, "--resume").out)["sha256"] == whole["sha256"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["rows.csv"], "--target: got none"),
        (["rows.csv", "--target", "kinds"], "did you mean 'kind'?"),
        (["rows.csv", "--target", "kind", "--task", "regression"], "texts in column 'kind'"),
        (["one.csv", "--target", "y"], "'yes' in each row of column 'y'; need at least two classes"),
        (["rows.csv", "--target", "y", "--task", "both"], "need classification or regression"),
        (["absent.csv", "--target", "y"], "no such file"),
        (["rows.csv", "rows.csv", "--target", "y"], "2 files"),
        (["--target", "y"], "0 paths for table"),
    ],
    ids=str,
)
def test_bad_arguments_are_refused(call, csv, arguments: list[str], words: str) -> None:
    csv.with_name("one.csv").write_text("a,y\n1,yes\n2,yes\n")
    assert words in call("train", "table", *arguments).complaint()
    assert sorted(file.name for file in csv.parent.iterdir()) == ["one.csv", "rows.csv"]


def test_other_data_cannot_be_resumed(call, csv) -> None:
    call("train", "table", csv, "--target", "kind", "--epochs", "0")
    resume = ("train", "table", csv, "--resume", "--epochs", "1")
    assert "need the same data" in call(*resume, "--target", "side").complaint()
    csv.write_text(csv.read_text() + "1,1,left,up,1\n")
    assert "need the same data" in call(*resume, "--target", "kind").complaint()
    assert "a checkpoint of table" in call("train", "digits", "--resume", "--checkpoint", "table.safetensors").err


def test_predictions_need_inputs_and_their_columns(call, csv) -> None:
    call("train", "table", csv, "--target", "kind", "--epochs", "0")
    assert "no INPUT" in call("predict", "table").complaint()
    assert "--index for a model of table" in call("predict", "table", csv, "--index", "1").complaint()
    other = csv.with_name("other.csv")
    other.write_text("a,b\n1,2\n")
    assert "no column 'side'" in call("predict", "table", other).complaint()
    csv.with_name("table.safetensors").rename(csv.with_name("digits.safetensors"))
    assert "a checkpoint of table; need one of digits" in call("predict", "digits", "--index", "1").complaint()
