"""`nnc plan` and `nnc run` on a small ONNX file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.onnx.test_runner import DENSE, W

from nnc.cli.main import main


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "dense.onnx"
    path.write_bytes(DENSE.SerializeToString())
    return path


def test_plan_tells_bytes_before_a_run(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(file), "--size", "n=100", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["arena_bytes"] == facts["lower_bound_bytes"] > 100 * 7 * 4
    assert facts["weight_bytes"] == W.nbytes
    assert main(["plan", str(file), "--size", "n=100"]) == 0
    assert "at the peak" in capsys.readouterr().out


def test_a_limit_that_is_not_met_is_exit_code_1(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(file), "--size", "n=100", "--limit", "10"]) == 1
    assert "need at most 10" in capsys.readouterr().err


def test_an_open_dimension_is_named(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(file)]) == 2
    assert "open dimension n of x" in capsys.readouterr().err


def test_run_reads_and_writes_arrays(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.ones((2, 4), np.float32)
    np.save(tmp_path / "x.npy", x)
    folder = tmp_path / "results"
    assert main(["run", str(file), "--input", f"x={tmp_path / 'x.npy'}", "--output", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["outputs"] == {"y": "float32[2, 3]"}
    np.testing.assert_allclose(np.load(folder / "y.npy"), x @ W, rtol=1e-6)


def test_run_with_random_inputs(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(file), "--random", "--size", "n=3"]) == 0
    assert "[3, 3]" in capsys.readouterr().out


@pytest.mark.parametrize(
    "wrong", [["--input", "x"], ["--input", "x=nowhere.npy"], ["--size", "n=many", "--random"], ["--random"]]
)
def test_wrong_options_are_one_line(file: Path, wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(file), *wrong]) == 2
    assert capsys.readouterr().err.count("\n") == 1
