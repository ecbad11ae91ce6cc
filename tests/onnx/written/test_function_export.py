"""Modules and functions as ONNX files in PyTorch's words: onnxruntime gives what they give, at other sizes too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import nnc
import onnx
from nnc import nn
from nnc.errors import ArgumentError, BackendError, UsageError


class Encoder(nn.Module):
    """Positions as a part of a buffer and as numbers, heads whose shapes follow two sizes, two results."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(10, 8), nn.Embedding(32, 8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.norm, self.drop, self.head = nn.LayerNorm(8), nn.Dropout(0.5), nn.Linear(8, 3)
        self.register_buffer("table", nnc.ones((32, 8)) * 0.5)

    def forward(self, ids: Any) -> tuple[Any, Any]:
        length = ids.size(1)
        x = self.tokens(ids) + self.places(nnc.arange(length).unsqueeze(0)) + self.table[:length]
        x = self.drop(self.norm(x + self.attention(x, x, x)[0]))
        flat = x.reshape(ids.size(0) * length, 8)
        return self.head(flat).reshape(ids.size(0), length, 3), x.mean(dim=1)


def told(path: Path, *inputs: Any) -> list[Any]:
    onnx.checker.check_model(str(path), full_check=True)
    session = onnxruntime.InferenceSession(str(path))
    names = [port.name for port in session.get_inputs()]
    return session.run(None, {name: value.numpy() for name, value in zip(names, inputs, strict=True)})  # type: ignore[no-any-return]


def test_a_module_with_two_open_sizes(tmp_path: Path) -> None:
    net, path = Encoder(), tmp_path / "net.onnx"
    ids = nnc.randint(0, 10, (1, 5))
    axes = {"ids": {0: "batch", 1: "length"}, "logits": {0: "batch", 1: "length"}}
    nnc.onnx.export(net, (ids,), path, input_names=["ids"], output_names=["logits", "mean"], dynamic_axes=axes)
    assert net.training
    assert net.drop.training
    graph = onnx.load(path).graph
    shapes = [[dim.dim_param or dim.dim_value for dim in port.type.tensor_type.shape.dim] for port in graph.output]
    assert shapes == [["batch", "length", 3], ["batch", 8]]
    assert {row.name for row in graph.initializer} >= {"tokens.weight", "head.bias", "table"}
    net.eval()
    for size in ((1, 5), (3, 9), (2, 1)):
        ids = nnc.randint(0, 10, size)
        for got, want in zip(told(path, ids), net(ids), strict=True):
            np.testing.assert_allclose(got, want.detach().numpy(), rtol=1e-5, atol=1e-6)
    assert nnc.onnx.load(path).run({"ids": ids.numpy()})["logits"].shape == (2, 1, 3)


def test_sizes_stay_as_they_are_given_and_names_are_those_of_parameters(tmp_path: Path) -> None:
    a, b, path = nnc.rand(2, 3), nnc.rand(3, 4), tmp_path / "f.onnx"
    nnc.onnx.export(lambda left, right: left @ right + 1.0, (a, b), path)
    graph = onnx.load(path).graph
    assert [port.name for port in (*graph.input, *graph.output)] == ["left", "right", "y"]
    np.testing.assert_allclose(told(path, a, b)[0], (a @ b + 1.0).numpy(), rtol=1e-6)
    nnc.onnx.export(nn.Flatten(), nnc.rand(1, 2, 3), path, dynamic_axes={"x": [0]}, input_names=["x"])
    assert told(path, nnc.rand(4, 2, 3))[0].shape == (4, 6)


def shifted(x: Any) -> Any:
    """Sizes that follow one of the input in several ways."""
    rows = x.size(0)
    joined = nnc.cat([x, nnc.zeros((1, 3)), x])
    odd = nnc.arange(rows, dtype=nnc.float32) * 2.0 + 1.0
    return joined[: 2 * rows], x[:, 0] + odd, joined.sum(0).expand(rows + 2, 3)


def test_sizes_that_follow_an_open_one(tmp_path: Path) -> None:
    path = tmp_path / "f.onnx"
    nnc.onnx.export(shifted, nnc.rand(4, 3), path, input_names=["x"], dynamic_axes={"x": {0: "rows"}})
    for rows in (1, 7):
        x = nnc.rand(rows, 3)
        for got, want in zip(told(path, x), shifted(x), strict=True):
            np.testing.assert_allclose(got, want.numpy(), rtol=1e-6)


OPEN = {"input_names": ["x"], "dynamic_axes": {"x": {0: "n", 1: "m"}}}


@pytest.mark.parametrize(
    ("function", "options", "error", "match"),
    [
        (lambda x: x, {"opset_version": 11}, ArgumentError, "got opset_version=11; need 18. Fix: leave opset_version"),
        (lambda x: x + nnc.rand(3), {}, UsageError, "one that gives the same each time. Fix: draw outside"),
        (lambda x: x * nnc.tensor(np.tri(*x.shape, dtype=np.float32)), OPEN, UsageError, "depends on n or m.*arange"),
        (lambda x: x.reshape(-1).expand(2, x.size(0) * x.size(1)), OPEN, UsageError, "no sum of multiples"),
        (lambda x: 3.0, {}, UsageError, "results that do not follow the arguments"),
        (lambda x: x, {"input_names": ["a", "b"]}, ArgumentError, "input_names=.*need 1 names that are apart"),
        (lambda x: x, {"output_names": ["x", "x"]}, ArgumentError, "output_names"),
        (lambda x: x, {"dynamic_axes": {"x": {2: "n"}}}, ArgumentError, "an axis of 'x', which has 2"),
        (lambda x: x, {"dynamic_axes": {"z": {0: "n"}}}, ArgumentError, "dynamic_axes of 'z'; need one of x, y"),
        (lambda x: x, {"dynamic_axes": {"y1": {0: "n"}, "z": {0: "n"}}}, ArgumentError, "dynamic_axes of 'z'"),
        (nnc.linalg.inv, {}, BackendError, "operators of nnc.onnx.EXPORTS"),
        (nn.Model(nn.Dense(2), (3,)), {}, UsageError, r"Fix: nnc.onnx.save\(model, path\)"),
    ],
)
def test_what_has_no_file_is_told_and_nothing_is_written(
    function: Callable[..., Any], options: dict[str, Any], error: type[Exception], match: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=match):
        nnc.onnx.export(function, nnc.rand(3, 3), tmp_path / "f.onnx", **options)
    assert not [*tmp_path.iterdir()]
    with pytest.raises(ArgumentError, match="arguments that are no arrays"):
        nnc.onnx.export(lambda x, n: x * n, (nnc.rand(2), 3), tmp_path / "f.onnx")
