"""What a layer builds is named after its path and class, and stands for the user's line that made the layer."""

from __future__ import annotations

import copy
import inspect
import pickle
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import nnc
from nnc import nn
from nnc.cli.main import main
from nnc.errors import ArgumentError, ShapeError
from nnc.nn.layers.layer import Scope, T
from nnc.symbolic import SymbolicGraph, scope


def line_of(text: str) -> str:
    lines = Path(__file__).read_text().splitlines()
    (number,) = [number for number, line in enumerate(lines, 1) if line.endswith(f"# {text}")]
    return f"{Path(__file__).name}:{number}"


def network() -> nn.Sequential:
    return nn.Sequential(
        nn.Convolution(8),  # the first layer
        nn.ReLU(),
        nn.Residual(nn.Sequential(inner=nn.Convolution(8))),  # the inner layer
        nn.Flatten(),
        head=nn.Dense(10),  # the head
    )


def test_peak_tensors_say_which_layer_and_which_line() -> None:
    peak = nn.Model(network(), (8, 8, 1), passes=()).memory(64).step.peak_tensors
    text = "\n".join(peak)
    assert f"0 · convolution: f32[64, 8, 8, 8] ({line_of('the first layer')})" in text
    assert f"2.body.inner · gradient of convolution: f32[64, 8, 8, 8] ({line_of('the inner layer')})" in text


def test_gradients_stand_where_what_they_are_of_stands() -> None:
    model = nn.Model(network(), (8, 8, 1), passes=())
    graph = model.training_step(2).compiled.planned.graph
    named = {record.name: record.origin for _, record in graph.execs.items() if record.name}
    assert named["head.gemm"] == line_of("the head")
    gradients = [name for name in named if name.endswith("gradient of convolution")]
    assert gradients == ["2.body.inner.gradient of convolution", "0.gradient of convolution"]
    assert named[gradients[1]] == line_of("the first layer")
    assert "head.weight.adam" in named


def test_parameters_are_called_by_their_paths_alone() -> None:
    model = nn.Model(network(), (8, 8, 1))
    assert "head.weight" in model.parameters
    probe = SymbolicGraph()
    with scope("around"):
        x = probe.input(nnc.spec((2, 3)), "x")
        y = nn.Dense(4).build(Scope(lambda one: probe.input(one.spec, one.path)), x)
    assert [record.name for _, record in probe.tensors.items() if record.name] == [
        "around.x",
        "around.weight",
        "around.bias",
    ]
    assert [record.name for _, record in probe.execs.items()] == ["around.Dense.gemm"]
    assert y.shape == (2, 4)


def test_errors_say_which_layer_and_which_line() -> None:
    layers = nn.Sequential(
        nn.Dense(3),
        nn.Convolution(2),  # behind a dense layer
    )
    with pytest.raises(ShapeError) as caught:
        nn.Model(layers, (4,))
    assert (caught.value.place, caught.value.origin) == ("1.Convolution", line_of("behind a dense layer"))
    assert str(caught.value).endswith(f"(1.Convolution, {line_of('behind a dense layer')})")


def test_eager_layers_say_it_too() -> None:
    model = nn.Model(network(), (8, 8, 1))
    weights = {path: nnc.tensor(value) for path, value in model.tensors().items()}
    with pytest.raises(ShapeError) as caught:
        model.apply(nnc.tensor(np.ones((2, 8, 8, 3), np.float32)), weights)
    assert (caught.value.place, caught.value.origin) == ("0.Convolution", line_of("the first layer"))


@dataclass(frozen=True)
class Twice(nn.Layer):
    """A layer of a user, without slots."""

    def build(self, scope: Scope[T], x: T) -> T:
        y: T = nn.Dense(2).build(scope.inside("dense"), x)
        return nnc.ops.add(y, y)


def test_a_user_s_layer_is_named_like_ours() -> None:
    model = nn.Model(nn.Sequential(own=Twice()), (3,), passes=())
    graph = model.prediction_step(1).compiled.planned.graph
    assert [record.name for _, record in graph.execs.items()] == ["own.dense.gemm", "own.add"]


def test_layers_stay_plain_values() -> None:
    assert list(inspect.signature(nn.Dense).parameters) == ["units", "bias", "activation"]
    layer = nn.Dense(3)
    for other in (pickle.loads(pickle.dumps(layer)), copy.deepcopy(layer), nn.Dense(3)):
        assert other == layer
        assert hash(other) == hash(layer)
        assert nn.Model(other, (2,)).output_shape == (3,)
    assert "origin" not in repr(layer)


def test_the_command_line_names_no_line_of_a_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["train", "digits", "--memory-limit", "1000"]) == 2
    complaint = capsys.readouterr().err
    assert "relu2 · relu: f32" in complaint
    assert ".py:" not in complaint


def test_layers_refuse_sizes_that_no_shape_holds_and_say_which() -> None:
    layers = {
        "units": lambda size: nn.Dense(size),
        "kernel": lambda size: nn.Convolution3D(3, size),
        "stride": lambda size: nn.MaxPool(2, size),
        "features": lambda size: nn.Embedding(3, size),
        "heads": lambda size: nn.MultiHeadAttention(size),
    }
    for name, make in layers.items():
        for size in (2**63, 10**400):
            with pytest.raises(ArgumentError, match=rf"got {name}=.* and < 2\^63"):
                make(size)
