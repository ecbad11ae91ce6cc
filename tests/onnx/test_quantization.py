"""Quantized files: integer sums where files say so or mean so, weights that stay bytes, and f32 files quantized."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from tests.onnx.models import model, node

import onnx
from nnc.errors import ArgumentError
from nnc.onnx import OnnxModel, load

GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(3, 64)).astype(np.float32)
W = GENERATOR.normal(size=(64, 32)).astype(np.float32) / 8
DENSE = model([node("MatMul", "x w", "p"), node("Relu", "p", "y")], {"x": ["n", 64]}, ["y"], {"w": W})
SCALES = np.abs(W).max(0) / np.float32(127)
POINTS = {"s": np.float32(0.03), "z": np.uint8(120), "t": SCALES, "zero": np.zeros(32, np.int8)}
BYTES = np.rint(W / SCALES).astype(np.int8)


def names(loaded: OnnxModel, **sizes: int) -> set[str]:
    """The operators of the program, steps of fused ones too."""
    graph = loaded.compiled(**sizes).planned.graph
    return set(str([record.command for _, record in graph.execs.items()]).replace("(", " ").replace("[", " ").split())


def rounded(x: str, y: str, numbers: str = "s z") -> tuple[onnx.NodeProto, onnx.NodeProto]:
    """y = x in bytes by a scale and a point, and back."""
    there = node("QuantizeLinear", f"{x} {numbers}", f"{y}_bytes")
    return there, node("DequantizeLinear", f"{y}_bytes {numbers}", y)


def quantized(x: np.ndarray) -> np.ndarray:
    return np.clip(np.rint(x / POINTS["s"]) + 120, 0, 255)


def test_operands_that_were_dequantized_are_multiplied_as_bytes() -> None:
    file = model(
        [
            *rounded("x", "a"),
            node("DequantizeLinear", "w t zero", "b", axis=1),
            node("MatMul", "a b", "p"),
            node("Add", "p bias", "y"),
        ],
        {"x": ["n", 64]},
        ["y"],
        {"w": BYTES, "bias": np.arange(32, dtype=np.float32), **POINTS},
    )
    want = ((quantized(X) - 120) @ BYTES.astype(np.float64)) * (POINTS["s"] * SCALES) + np.arange(32)
    for backend in ("reference", ""):
        loaded = load(file, backend=backend)
        np.testing.assert_allclose(loaded.run({"x": X})["y"], want, rtol=1e-5, atol=1e-4)
    assert "integer_product" in str(names(load(file, backend="reference"), n=3))
    assert "gemm" not in str(names(load(file, backend="reference"), n=3))
    assert load(file, backend="reference").memory(n=3).bound < 4096


def test_two_activations_are_multiplied_as_bytes_where_only_the_right_one_has_a_point() -> None:
    nodes = [
        *rounded("x", "a", "s none"),
        *rounded("v", "b"),
        node("MatMul", "a b", "y"),
    ]
    given = {"s": POINTS["s"], "z": POINTS["z"], "none": np.uint8(0)}
    file = model(nodes, {"x": [3, 64], "v": [64, 5]}, ["y"], given)
    x, v = np.abs(X), X[:1].T @ X[1:2, :5]
    left, right = np.clip(np.rint(x / POINTS["s"]), 0, 255), quantized(v) - 120
    for backend in ("reference", ""):
        loaded = load(file, backend=backend)
        np.testing.assert_allclose(
            loaded.run({"x": x, "v": v})["y"], left @ right * POINTS["s"] ** 2, rtol=1e-5, atol=1e-4
        )
    assert "integer_product" in str(names(load(file, backend="reference")))


def test_bytes_stay_bytes_on_their_way_through_files_that_quantize_behind_every_operator() -> None:
    nodes = [
        *rounded("x", "a"),
        node("Reshape", "a shape", "r"),
        *rounded("r", "a1"),
        node("Transpose", "a1", "t", perm=[1, 0, 2]),
        *rounded("t", "a2"),
        node("Gather", "a2 place", "g", axis=0),
        *rounded("g", "a3"),
        *rounded("a3", "y", "other z"),
    ]
    given = {"s": POINTS["s"], "z": POINTS["z"], "other": np.float32(0.5)}
    given |= {"shape": np.array([3, 2, 32]), "place": np.array([1])}
    file = model(nodes, {"x": [3, 64]}, ["y", "a3"], given)
    moved = ((quantized(X) - 120) * POINTS["s"]).reshape(3, 2, 32).transpose(1, 0, 2)[1:]
    for backend in ("reference", ""):
        got = load(file, backend=backend).run({"x": X})
        np.testing.assert_allclose(got["a3"], moved, rtol=1e-6)
        np.testing.assert_allclose(got["y"], np.clip(np.rint(moved / 0.5) + 120, 0, 255) * 0.5 - 60, rtol=1e-6)
    # One for x, and one by another scale.
    graph = load(file, backend="reference").compiled().planned.graph
    commands = " ".join(str(record.command) for _, record in graph.execs.items())
    assert commands.count("quantize") - commands.count("dequantize") == 2


def test_weights_that_are_read_transposed_have_their_scales_along_rows() -> None:
    file = model(
        [
            *rounded("x", "a"),
            node("DequantizeLinear", "w t zero", "b", axis=0),
            node("Gemm", "a b bias", "y", transB=1),
        ],
        {"x": ["n", 64]},
        ["y"],
        {"w": np.ascontiguousarray(BYTES.T), "bias": np.arange(32, dtype=np.float32), **POINTS},
    )
    want = ((quantized(X) - 120) @ BYTES.astype(np.float64)) * (POINTS["s"] * SCALES) + np.arange(32)
    for backend in ("reference", ""):
        np.testing.assert_allclose(load(file, backend=backend).run({"x": X})["y"], want, rtol=1e-5, atol=1e-4)
    assert "gemm" not in str(names(load(file, backend="reference"), n=3))


def test_convolutions_of_dequantized_bytes_are_summed_as_integers() -> None:
    x = GENERATOR.normal(size=(1, 4, 7, 7)).astype(np.float32)
    w, scales = (
        GENERATOR.integers(-127, 128, (16, 4, 3, 3)).astype(np.int8),
        np.linspace(0.01, 0.02, 16, dtype=np.float32),
    )
    values = {
        "w": w,
        "t": scales,
        "zero": np.zeros(16, np.int8),
        "s": POINTS["s"],
        "z": POINTS["z"],
        "u": np.float32(0.5),
    }
    file = model(
        [
            *rounded("x", "a"),
            node("DequantizeLinear", "w t zero", "b", axis=0),
            node("Conv", "a b bias", "p", pads=[1, 1, 1, 1]),
            *rounded("p", "y", "u z"),
        ],
        {"x": [1, 4, 7, 7]},
        ["y"],
        {**values, "bias": np.linspace(-1, 1, 16, dtype=np.float32)},
    )
    plain = load(file, backend="reference")
    plain.passes = ()
    want = plain.run({"x": x})["y"]
    for backend in ("reference", ""):
        assert np.abs(load(file, backend=backend).run({"x": x})["y"] - want).max() <= 0.5
    assert "integer_convolution" in str(names(load(file, backend="reference")))


def test_what_a_quantizer_writes_for_dynamic_files_is_one_product() -> None:
    file = model(
        [
            node("DynamicQuantizeLinear", "x", "q qs qz"),
            node("MatMulInteger", "q w qz zero", "i"),
            node("Cast", "i", "f", to=onnx.TensorProto.FLOAT),
            node("Mul", "qs ws", "scale"),
            node("Mul", "f scale", "y"),
        ],
        {"x": ["n", 64]},
        ["y"],
        {"w": BYTES, "zero": np.int8(0), "ws": np.float32(0.01)},
    )
    loaded = load(file, backend="reference")
    found = str(names(loaded, n=3))
    assert "integer_product" in found
    assert "dequantize" in found
    assert "cast(dtype=f32" not in found
    np.testing.assert_allclose(loaded.run({"x": X})["y"], X @ (BYTES * 0.01), rtol=0, atol=0.1)
    np.testing.assert_allclose(load(file).run({"x": X})["y"], loaded.run({"x": X})["y"], rtol=1e-5)


def test_integer_sums_are_exact_where_f32_is_not() -> None:
    a, b = np.full((1, 3000), 255, np.uint8), np.full((3000, 1), 127, np.int8)
    b[0] = 126
    file = model([node("MatMulInteger", "a b", "y")], {"a": [1, 3000]}, ["y"], {"b": b})
    file.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.UINT8
    for backend in ("reference", ""):
        assert load(file, backend=backend).run({"a": a})["y"].item() == 255 * 127 * 3000 - 255


@pytest.mark.parametrize("mode", ["weights", "dynamic"])
def test_a_file_of_floats_is_quantized_when_it_is_loaded(mode: str) -> None:
    plain, small = load(DENSE, backend="reference"), load(DENSE, backend="reference", quantize=mode)
    want = plain.run({"x": X})["y"]
    got = small.run({"x": X})["y"]
    assert 0 < np.abs(got - want).max() < 0.02 * np.abs(want).max()
    assert small.memory(n=3).bound < 0.4 * plain.memory(n=3).bound
    for twin in (copy.copy(small), copy.deepcopy(small), pickle.loads(pickle.dumps(small))):
        np.testing.assert_array_equal(twin.run({"x": X})["y"], got)
    report = plain.quantization_report({"x": X}, mode)
    assert [one.name for one in report.layers] == ["w"]
    assert report.layers[0].decibels > 35
    assert 0 < report.error < 0.02
    np.testing.assert_array_equal(plain.run({"x": X})["y"], want)


def test_a_mode_that_does_not_exist_is_refused_when_a_file_is_loaded() -> None:
    with pytest.raises(ArgumentError, match="'weights' or 'dynamic'"):
        load(DENSE, quantize="int4")  # type: ignore[call-overload]  # what is refused
