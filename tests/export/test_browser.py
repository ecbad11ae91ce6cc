"""Programs for browsers, run by node: results, training, several instances, errors."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.export.compiled_c import Array, tool
from tests.onnx import models

import nnc.onnx
import onnx
from nnc import export, nn
from nnc.export.program_ports import Function


def told(folder: Path, script: str) -> Any:
    """What a script prints as JSON, that stands beside the module."""
    (folder / "script.mjs").write_text(script)
    ran = subprocess.run([tool("node"), "script.mjs"], cwd=folder, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def elements(array: Array) -> str:
    return f"new Float32Array({json.dumps(array.reshape(-1).tolist())})"


@pytest.fixture(scope="module")
def model() -> nn.Model:
    layers = nn.Sequential(nn.Convolution(8), nn.ReLU(), nn.MaxPool(2), nn.Flatten(), nn.Dense(10))
    return nn.Model(layers, (8, 8, 1), optimizer=nn.SGD(0.1))


X = np.random.default_rng(0).random((4, 8, 8, 1), np.float32)


@pytest.mark.parametrize("target", ["wasm32", "wasm32-simd", "browser"])
def test_a_module_gives_our_results(model: nn.Model, target: str, tmp_path: Path) -> None:
    export.library(model, "net", target=target, batch=4).write(tmp_path)
    run = f"const n = await load(); const {{ output }} = n.run({{ input: {elements(X)} }});"
    script = f'import {{ load }} from "./net.mjs"; {run} console.log(JSON.stringify(Array.from(output)));'
    got = np.array(told(tmp_path, script), np.float32).reshape(4, 10)
    np.testing.assert_allclose(got, model.predict(X), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("function", ["predict", "train"])
def test_the_recorded_answers_are_met_and_others_are_not(model: nn.Model, function: Function, tmp_path: Path) -> None:
    export.library(model, "net", target="wasm32", function=function, batch=4).write(tmp_path)
    ran = subprocess.run([tool("node"), "check.mjs"], cwd=tmp_path, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (0, "net: the recorded answers\n"), ran.stderr
    script = (tmp_path / "check.mjs").read_text()
    (tmp_path / "check.mjs").write_text(script.replace("16777216", "16000000"))
    ran = subprocess.run([tool("node"), "check.mjs"], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 1
    assert "elements differ" in ran.stdout


def test_weights_in_a_file_are_loaded_beside_the_module(model: nn.Model, tmp_path: Path) -> None:
    export.library(model, "net", target="browser", batch=4, constants_inside=False).write(tmp_path)
    run = f"const n = await load(); const {{ output }} = n.run({{ input: {elements(X)} }});"
    script = f'import {{ load }} from "./net.mjs"; {run} console.log(JSON.stringify(Array.from(output)));'
    got = np.array(told(tmp_path, script), np.float32).reshape(4, 10)
    np.testing.assert_allclose(got, model.predict(X), rtol=1e-4, atol=1e-5)


def test_a_page_trains_saves_and_goes_on(model: nn.Model, tmp_path: Path) -> None:
    export.library(model, "learn", target="browser", function="train", batch=4).write(tmp_path)
    labels = np.array([1, 2, 3, 4], np.int32)
    script = f"""
        import {{ load }} from "./learn.mjs";
        const one = await load(), other = await load();
        const batch = {{ input: {elements(X)}, target: new Int32Array([1, 2, 3, 4]), rate: new Float32Array([0.1]) }};
        const losses = [];
        for (let update = 0; update < 4; ++update) losses.push(one.run(batch).loss[0]);
        other.state.set(one.state);
        losses.push(other.run(batch).loss[0]);
        one.reset();
        losses.push(one.run(batch).loss[0]);
        console.log(JSON.stringify(losses));
    """
    losses = told(tmp_path, script)
    ours = [model.train_on_batch(X, labels)[0] for _ in range(5)]
    np.testing.assert_allclose(losses, [*ours, ours[0]], rtol=1e-4)


def test_wrong_inputs_are_errors_that_name_them(model: nn.Model, tmp_path: Path) -> None:
    export.library(model, "net", target="browser").write(tmp_path)
    script = """
        import { load } from "./net.mjs";
        const net = await load(), told = [];
        for (const given of [{}, { input: new Float32Array(3) }]) {
            try { net.run(given); } catch (error) { told.push(String(error)); }
        }
        console.log(JSON.stringify(told));
    """
    assert told(tmp_path, script) == [
        "RangeError: input: got nothing; need 64 elements",
        "RangeError: input: got 3; need 64 elements",
    ]


def test_types_name_every_port(model: nn.Model) -> None:
    made = export.library(model, "net", target="wasm32", function="train", batch=4)
    types = made.files["net.d.ts"].decode()
    assert "  input: Float32Array;\n  target: Int32Array;\n  rate: Float32Array;\n" in types
    assert "  loss: Float32Array;\n" in types


def test_a_module_takes_any_of_its_sizes_by_its_inputs_or_by_name(model: nn.Model, tmp_path: Path) -> None:
    made = export.library(model, "net", target="browser", batch=(1, 2, 4))
    made.write(tmp_path)
    assert "run(inputs: Inputs, batch?: 1 | 2 | 4): Outputs;" in made.files["net.d.ts"].decode()
    script = f"""
        import {{ load }} from "./net.mjs";
        const net = await load(), x = {elements(X)}, made = [], told = [];
        for (const size of [4, 1, 2, 4]) made.push(Array.from(net.run({{ input: x.subarray(0, 64 * size) }}).output));
        made.push(Array.from(net.run({{ input: x.subarray(0, 128) }}, 2).output));
        for (const given of [[{{ input: x.subarray(0, 192) }}], [{{ input: x }}, 3], [{{ input: x }}, 2], []]) {{
            try {{ net.run(...given); }} catch (error) {{ told.push(String(error)); }}
        }}
        console.log(JSON.stringify([made, told]));
    """
    results, errors = told(tmp_path, script)
    for size, result in zip((4, 1, 2, 4, 2), results, strict=True):
        np.testing.assert_allclose(np.reshape(result, (size, 10)), model.predict(X[:size]), rtol=1e-4, atol=1e-5)
    assert errors == [
        "RangeError: batch: got input: 192; need one of 1 | 2 | 4",
        "RangeError: batch: got 3; need one of 1 | 2 | 4",
        "RangeError: input: got 256; need 128 elements",
        "RangeError: batch: got input: nothing; need one of 1 | 2 | 4",
    ]


def test_a_file_of_two_open_dimensions_runs_at_each_row(tmp_path: Path) -> None:
    weights = np.random.default_rng(1).standard_normal((4, 5)).astype(np.float32)
    described = models.model([models.node("MatMul", "x w", "y")], {"x": ("n", "m", 4)}, ["y"], {"w": weights})
    onnx.save(described, tmp_path / "open.onnx")
    made = export.library(
        nnc.onnx.load(tmp_path / "open.onnx"), "net", target="wasm32", sizes={"n": (1, 2), "m": (2, 4)}
    )
    made.write(tmp_path)
    x = np.random.default_rng(0).random((2, 4, 4), np.float32)
    script = f"""
        import {{ load }} from "./net.mjs";
        const net = await load(), x = {elements(x)}, made = [Array.from(net.run({{ x }}).y)];
        for (const sizes of [[1, 4], [2, 2]]) made.push(Array.from(net.run({{ x: x.subarray(0, 16) }}, ...sizes).y));
        for (const sizes of [[], [1], [1, 3]]) {{
            try {{ net.run({{ x: x.subarray(0, 16) }}, ...sizes); }} catch (error) {{ made.push(error.message); }}
        }}
        console.log(JSON.stringify(made));
    """
    whole, first, other, *errors = told(tmp_path, script)
    np.testing.assert_allclose(np.reshape(whole, (2, 4, 5)), x @ weights, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(np.reshape(first, (4, 5)), x[0] @ weights, rtol=1e-5, atol=1e-6)
    assert first == other
    assert errors == [
        "n,m: got x: 16; say which of 1,4 | 2,2",
        "n,m: got 1; need one of 1,2 | 1,4 | 2,2 | 2,4",
        "n,m: got 1,3; need one of 1,2 | 1,4 | 2,2 | 2,4",
    ]
