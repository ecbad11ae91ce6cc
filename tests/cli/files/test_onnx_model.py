"""`nnc plan`, `run`, `inspect`, `verify`, `bench`, `convert` and `finetune` on a small ONNX file."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from tests.onnx.test_runner import DENSE, W

from nnc.cli.files.verify import _difference
from nnc.cli.main import main
from nnc.core.values.serialize import load_tensors, save_tensors
from nnc.nn.zoo import network
from nnc.onnx import load


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
    assert facts["process_bytes"] > facts["arena_bytes"] + facts["weight_bytes"] + facts["result_bytes"]
    assert main(["plan", str(file), "--size", "n=100"]) == 0
    assert "at the peak" in capsys.readouterr().out


def test_a_limit_that_is_not_met_is_exit_code_1(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(file), "--size", "n=100", "--limit", "10"]) == 1
    assert "need at most 10" in capsys.readouterr().err


def test_an_open_dimension_is_named(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(file)]) == 2
    assert "open dimension n of x" in capsys.readouterr().err


@pytest.mark.parametrize("option", [("--prefix", "256"), ("--cache", "int8"), ("--batch", "2"), ("--draft", "ngram")])
def test_plan_refuses_what_only_language_models_have(
    file: Path, option: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", str(file), "--size", "n=4", *option]) == 2
    assert "need a language model for these" in capsys.readouterr().err


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


def test_inspect_says_what_is_in_a_file(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(file), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["inputs"] == {"x": "float32[n, 4]"}
    assert facts["operators"] == {"MatMul": 1, "Relu": 1}
    assert (facts["elements"], facts["weight_bytes"], facts["unsupported"]) == (W.size, W.nbytes, [])
    assert main(["inspect", str(file)]) == 0
    assert "MatMul 1" in capsys.readouterr().out


def test_verify_compares_the_ways_with_the_reference(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(file), "--size", "n=2", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert set(facts["relative_differences"]) >= {"llvm", "llvm without passes", "llvm in poisoned memory"}
    assert facts["equal"]
    assert max(facts["relative_differences"].values()) <= 1e-5


def test_verify_is_exit_code_1_beyond_what_is_asked_for(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nnc.cli.files.verify._difference", lambda want, got: 0.5)
    assert main(["verify", str(file), "--size", "n=2"]) == 1
    assert "relative difference of 5.00e-01" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("want", "got", "difference"),
    [([1.0, 2.0], [1.0, 3.0], 0.5), ([np.nan], [np.nan], 0.0), ([1.0], [np.nan], np.inf), ([[1.0]], [1.0], np.inf)],
)
def test_differences_are_relative_to_the_largest_element(want: object, got: object, difference: float) -> None:
    assert _difference(np.array(want), np.array(got)) == difference


def test_bench_measures_runs(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", str(file), "--size", "n=2", "--runs", "2", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["seconds"] > 0
    assert facts["arena_bytes"] > 0
    assert main(["bench", str(file), "--size", "n=2", "--against", "nobody"]) == 2


def test_plan_of_many_sizes_tells_the_worst(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    alone = []
    for size in (1, 3, 5):
        assert main(["plan", str(file), "--size", f"n={size}", "--json"]) == 0
        alone.append(json.loads(capsys.readouterr().out)["arena_bytes"])
    assert main(["plan", str(file), "--size", "n=1..5:2", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert [row["arena_bytes"] for row in facts["runs"]] == alone
    assert (facts["largest"], facts["arena_bytes"]) == ({"n": 5}, max(alone))
    assert main(["plan", str(file), "--size", "n=1,5"]) == 0
    assert "at n=5" in capsys.readouterr().out
    assert main(["plan", str(file), "--size", "n=1..5", "--limit", str(max(alone) - 1)]) == 1
    assert "at n=5; need at most" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["n=4..1", "n=1..4:0", "n=1,,2", "n=1..2000000", "n=1..-2"])
def test_plan_of_sizes_that_are_none_is_told(file: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(file), "--size", text]) == 2
    assert "--size" in capsys.readouterr().err


def test_plan_of_many_sizes_is_of_runs(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(file), "--size", "n=1..3", "--train"]) == 2
    assert "one size of each for --train" in capsys.readouterr().err


def test_plan_proves_what_no_order_is_below(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(file), "--size", "n=3", "--prove", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    least, again = facts["least_of_any_order_bytes"], facts["least_with_execs_again_bytes"]
    assert facts["any_order_bound_bytes"] <= again <= least <= facts["lower_bound_bytes"]


def test_a_curve_of_limits_never_costs_less_below(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["plan", str(file), "--size", "n=100", "--train", "--curve"]
    page = tmp_path / "curve.html"
    assert main([*command, "--json", "--html", str(page)]) == 0
    points = json.loads(capsys.readouterr().out)["curve"]
    assert len(points) == 20
    assert points[0]["work_ratio"] == 1
    for larger, smaller in pairwise(points):
        assert larger["limit_bytes"] >= smaller["limit_bytes"] >= smaller["arena_bytes"]
        assert larger["work_ratio"] <= smaller["work_ratio"]
    assert "work at ever smaller limits" in page.read_text()
    assert main(["plan", str(file), "--size", "n=100", "--curve"]) == 2
    assert "--train beside it" in capsys.readouterr().err


def test_plan_of_training_keeps_within_a_limit(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["plan", str(file), "--size", "n=100", "--train", "--json"]
    assert main(command) == 0
    arena = json.loads(capsys.readouterr().out)["arena_bytes"]
    assert main([*command, "--limit", "1MB"]) == 0
    assert json.loads(capsys.readouterr().out)["arena_bytes"] == arena > 100 * 7 * 4
    assert main([*command, "--limit", "10B"]) == 2


def test_convert_goes_from_a_network_to_onnx_and_to_tensors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = network("digits")
    save_tensors(tmp_path / "digits.safetensors", model.tensors())
    path = tmp_path / "digits.onnx"
    assert main(["convert", str(tmp_path / "digits.safetensors"), str(path), "--network", "digits", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["bytes"] == path.stat().st_size
    x = np.ones((2, 8, 8, 1), np.float32)
    np.testing.assert_allclose(load(path).run({"x": x})["y"], model.predict(x), rtol=1e-4)
    assert main(["convert", str(path), str(tmp_path / "again.onnx"), "--size", "batch=2"]) == 0
    np.testing.assert_allclose(load(tmp_path / "again.onnx").run({"x": x})["y"], model.predict(x), rtol=1e-4)
    assert main(["convert", str(path), str(tmp_path / "tensors.safetensors")]) == 0
    assert set(load_tensors(tmp_path / "tensors.safetensors").tensors) >= set(model.tensors())
    assert main(["convert", str(path), str(tmp_path / "model.h5")]) == 2


@pytest.mark.parametrize("kind", ["npz", "csv", "folders"])
def test_finetune_learns_a_new_head(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    random = np.random.default_rng(0)
    x = random.standard_normal((60, 4)).astype(np.float32)
    y = (x @ W).argmax(1)
    (tmp_path / "dense.onnx").write_bytes(DENSE.SerializeToString())
    data = tmp_path / f"data.{kind}"
    if kind == "npz":
        np.savez(data, x=x, y=y)
    elif kind == "csv":
        np.savetxt(data, np.column_stack([x, y]), delimiter=",")
    else:
        for place, (row, label) in enumerate(zip(x, y, strict=True)):
            (data / str(label)).mkdir(parents=True, exist_ok=True)
            np.save(data / str(label) / f"{place}.npy", row)
    target = tmp_path / "tuned.onnx"
    command = ["finetune", str(tmp_path / "dense.onnx"), "--data", str(data), "--head", "p", "--classes", "3"]
    options = ["--epochs", "40", "--rate", "0.02", "--limit", "100KB", "--output", str(target), "--json"]
    assert main([*command, *options]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["accuracy"] >= 0.8
    assert facts["arena_bytes"] <= 100_000
    assert np.asarray(load(target).run({"x": x})["y"]).shape == (60, 3)


@pytest.mark.parametrize("wrong", ["nothing.npz", "empty"])
def test_finetune_says_what_is_wrong_with_the_data(
    wrong: str, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    command = ["finetune", str(file), "--data", str(tmp_path / wrong), "--head", "p", "--classes", "3"]
    assert main(command) == 2
    assert capsys.readouterr().err.count("\n") == 1
