"""Models in files that need no code."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnc import nn, ops
from nnc.core.values.dtype import BF16, I32
from nnc.core.values.serialize import load_tensors, save_tensors
from nnc.errors import FormatError, UsageError
from nnc.nn.files import checkpoint
from nnc.nn.files.model_spec import _read
from nnc.nn.layers.layer import Layer
from nnc.nn.model.model_saving import FACT, _parts, _written
from nnc.nn.zoo import NETWORKS, network


@dataclass(frozen=True, slots=True)
class Doubled(Layer):
    """y = factor · x"""

    factor: float = 2.0

    def build(self, scope: Any, x: Any) -> Any:
        return x * self.factor


class Listed(Layer):
    """y = x times each factor, of a list."""

    def __init__(self, factors: list[float]) -> None:
        self.factors = factors

    def build(self, scope: Any, x: Any) -> Any:
        for factor in self.factors:
            x = x * factor
        return x


class Tripled(Layer):
    """y = 3 · x, the number an attribute like any other."""

    def __init__(self) -> None:
        self.factor = 3.0

    def build(self, scope: Any, x: Any) -> Any:
        return x * self.factor


def net(*layers: Layer, **options: Any) -> nn.Model:
    return nn.Model(nn.Sequential(nn.Dense(4), *layers, head=nn.Dense(2)), (3,), seed=5, **options)


X = np.random.default_rng(0).standard_normal((6, 3)).astype(np.float32)


def again(model: nn.Model, folder: Path, **options: Any) -> nn.Model:
    nn.save_model(folder / "model.safetensors", model)
    return nn.load_model(folder / "model.safetensors", **options)


def test_a_model_is_read_without_its_code(tmp_path: Path) -> None:
    model = net(
        nn.Dropout(0.5),
        loss=nn.Weighted(nn.SoftmaxCrossEntropy(), 0.5),
        optimizer=nn.AdamW(nn.Warmup(3, nn.Cosine(0.1, 30))).without("head.*"),
        clip_norm=1.0,
        precision=BF16,
        passes=(),
    )
    found = again(model, tmp_path)
    np.testing.assert_array_equal(found.predict(X), model.predict(X))
    assert _parts(found).keys() == _parts(model).keys()
    assert checkpoint.describe(found) == checkpoint.describe(model)
    labels = np.array([0, 1, 0, 1, 0, 1])
    for one in (model, found):
        one.train_on_batch(X, labels)
    for name, value in model.state_dict().items():
        np.testing.assert_array_equal(found.state_dict()[name], value)


def test_functional_models_open_sizes_and_functions_of_nnc(tmp_path: Path) -> None:
    a, b = nn.Input((3,)), nn.Input((nn.UpTo(8), 3))
    shared = nn.Dense(4)
    sums = nn.Lambda(ops.add)(shared(a, name="tower"), nn.LSTM(4, return_sequences=False)(b))
    model = nn.Model(nn.Functional([a, b], [nn.Dense(1)(sums), shared(a)]), loss=[nn.Huber(), nn.MeanSquaredError()])
    found = again(model, tmp_path)
    sequences = np.ones((6, 5, 3), np.float32)
    for mine, theirs in zip(found.predict_all((X, sequences)), model.predict_all((X, sequences)), strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("name", NETWORKS)
def test_every_network_of_the_zoo_has_a_description(name: str) -> None:
    model = network(name)
    text = json.dumps(_written(_parts(model), "model"))
    found = _read(json.loads(text), {})
    assert checkpoint.text_of(found["layer"]) == checkpoint.text_of(model.layer)


@pytest.mark.parametrize("layer", [Doubled(5.0), Tripled()], ids=["dataclass", "class"])
def test_layers_of_one_s_own_are_named_by_the_reader(layer: Layer, tmp_path: Path) -> None:
    model = net(layer)
    with pytest.raises(FormatError, match="classes="):
        again(model, tmp_path)
    found = again(model, tmp_path, classes=[type(layer)])
    np.testing.assert_array_equal(found.predict(X), model.predict(X))


def test_a_function_without_a_name_is_told_and_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="layer of your own"):
        nn.save_model(tmp_path / "model.safetensors", net(nn.Lambda(lambda x: x)))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "value",
    [
        {"object": ["os.system", {"map": []}]},
        {"object": ["nnc.nn.callbacks.callbacks.CSVLog", {"map": [["path", "log.csv"]]}]},
        {"object": ["nnc.__main__.main", {"map": []}]},
        {"object": ["nnc.nn.layers.Dense", {"map": [["units", -1]]}]},
        {"object": ["nnc.nn.layers.dense.Dense", {"map": [["unknown", 1]]}]},
        {"name": "nnc.nn.files.files.save"},
        {"name": "builtins.eval"},
        {"other": 1},
        {"float": 1, "tuple": 2},
        3,
        None,
    ],
    ids=str,
)
def test_a_file_that_names_anything_else_is_refused(value: object, tmp_path: Path) -> None:
    model, path = net(), tmp_path / "model.safetensors"
    nn.save_model(path, model)
    facts = json.loads(load_tensors(path).metadata[FACT])
    facts["model"]["map"] = [[key, value if key == "layer" else one] for key, one in facts["model"]["map"]]
    save_tensors(path, model.tensors(), {FACT: json.dumps(facts)})
    with pytest.raises(FormatError):
        nn.load_model(path)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("text", [None, "", "[]", '{"version": 9}', '{"version": 1}', "[" * 100_000])
def test_a_file_without_a_description_is_refused(text: str | None, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_tensors(path, net().tensors(), {} if text is None else {FACT: text})
    with pytest.raises(FormatError):
        nn.load_model(path)


def test_tensors_of_other_layers_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    nn.save_model(path, net())
    found = load_tensors(path)
    save_tensors(path, {"0.weight": found.tensors["0.weight"]}, found.metadata)
    with pytest.raises(FormatError):
        nn.load_model(path)


def test_integer_inputs_stay_integers(tmp_path: Path) -> None:
    model = nn.Model(nn.Sequential(nn.Embedding(7, 4), nn.Flatten(), nn.Dense(2)), (3,), input_dtype=I32)
    found = again(model, tmp_path)
    assert found.inputs == model.inputs


def test_values_that_json_has_no_word_for_are_read_again(tmp_path: Path) -> None:
    found = again(net(Doubled(float("inf")), Listed([2.0, 3.0])), tmp_path, classes=[Doubled, Listed])
    inner = found.layer.parts
    assert [inner[1][1].factor, inner[2][1].factors] == [float("inf"), [2.0, 3.0]]


def test_layers_with_tensors_of_their_own_are_read_with_them(tmp_path: Path) -> None:
    images = np.random.default_rng(1).standard_normal((2, 3, 8, 8)).astype(np.float32)
    convolution = nn.Conv2d(3, 4, 3)
    convolution.bias.requires_grad = False
    layer = nn.Sequential(convolution, nn.BatchNorm2d(4), nn.Flatten(), nn.Dense(2))
    model = nn.Model(layer, (3, 8, 8), optimizer=nn.SGD(0.1))
    model.train_on_batch(images, np.array([0, 1]))
    found = again(model, tmp_path)
    np.testing.assert_array_equal(found.predict(images), model.predict(images))
    kept = found.state_dict()
    found.train_on_batch(images, np.array([0, 1]))
    changed = {name for name, value in found.state_dict().items() if not np.array_equal(value, kept[name])}
    assert "0.weight" in changed
    assert "0.bias" in kept.keys() - changed
