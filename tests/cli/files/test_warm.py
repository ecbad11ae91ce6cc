"""`nnc warm`: kernels on disk before anybody waits for them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.onnx.test_runner import DENSE

from nnc.cli.main import main
from nnc.core.settings import SETTINGS


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(SETTINGS, "cache_folder", tmp_path / "cache")
    path = tmp_path / "dense.onnx"
    path.write_bytes(DENSE.SerializeToString())
    return path


def test_each_size_is_run_once(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["warm", str(file), "--sizes", "n=1,3", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert [one["sizes"] for one in facts["runs"]] == [{"n": 1}, {"n": 3}]
    assert main(["warm", str(file), "--sizes", "n=2..6:2"]) == 0
    out = capsys.readouterr().out
    assert [f"n={size}" in out for size in range(2, 8)] == [True, False, True, False, True, False]
    assert "of a processor" in out


@pytest.mark.parametrize("text", ["n=", "n=a", "n=4..1", "n=1..4:0", "n=1..", "n=1,,2", "n=1..2000000"])
def test_sizes_that_are_none_are_told(file: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["warm", str(file), "--sizes", text]) == 2
    assert "--sizes" in capsys.readouterr().err


def test_an_open_dimension_without_sizes_is_named(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["warm", str(file)]) == 2
    assert "open dimension n of x" in capsys.readouterr().err


def test_without_a_folder_there_is_nothing_to_fill(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(SETTINGS, "cache_folder", None)
    assert main(["warm", str(file), "--sizes", "n=1"]) == 2
    assert "NNC_CACHE_DIR" in capsys.readouterr().err
