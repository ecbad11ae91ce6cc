"""nnc build."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nnc.cli.main import main


def test_a_network_becomes_a_folder_of_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["build", "digits", "--target", "thumbv7em", "--output", str(tmp_path), "--json"]
    assert main(arguments) == 0
    told = json.loads(capsys.readouterr().out)
    assert set(told["files"]) == {path.name for path in tmp_path.iterdir()}
    facts = json.loads((tmp_path / "digits.json").read_text())
    assert facts["bytes"]["arena"] == told["arena"]
    assert told["code"] <= 24 << 10


def test_what_is_no_model_is_one_line_of_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["build", "nothing", "--output", str(tmp_path / "none")]) == 2
    assert "a .onnx or .safetensors file, or one of" in capsys.readouterr().err
    assert main(["build", "digits", "--target", "z80", "--output", str(tmp_path / "none")]) == 2
    assert not (tmp_path / "none").exists()


def test_a_network_of_several_sizes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["build", "digits", "--size", "batch=1,4", "--output", str(tmp_path), "--json"]) == 0
    facts = json.loads((tmp_path / "digits.json").read_text())
    assert facts["open"]["sizes"] == {"batch": [1, 4]}
    assert facts["bytes"]["arena"] == max(row["arena"] for row in facts["open"]["arenas"])
    assert main(["build", "digits", "--size", "n=1..4", "--output", str(tmp_path / "none")]) == 2
    assert "--size batch=1..8" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()
