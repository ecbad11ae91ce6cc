from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import nnc
from nnc import nn
from nnc.core.values.tensor import Tensor
from nnc.errors import FormatError, UsageError

ARRAY = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_nested_arrays_come_back_by_path(tmp_path: Path) -> None:
    path = tmp_path / "values.safetensors"
    values = {
        "layer": {"weight": ARRAY.T, "bias": nnc.variable([1.0, 2.0])},
        "list": [Tensor.from_numpy(ARRAY), nnc.tensor(1.5, "bf16")],
    }
    nnc.save(path, values)
    found = nnc.load(path)
    assert list(found) == ["layer.bias", "layer.weight", "list.0", "list.1"]
    np.testing.assert_array_equal(found["layer.weight"], ARRAY.T)
    np.testing.assert_array_equal(found["layer.bias"], [1.0, 2.0])
    np.testing.assert_array_equal(found["list.0"], ARRAY)
    assert found["list.1"].dtype is nnc.bf16
    np.testing.assert_array_equal(found["list.0"] + 1, ARRAY + 1)
    nnc.save(path, found)
    assert nnc.load(path).keys() == found.keys()


def test_a_model_comes_back_with_its_bits(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    model, other = (nn.Model(nn.Sequential(nn.Dense(4), nn.BatchNorm()), (3,), seed=seed) for seed in (1, 2))
    nnc.save(path, model)
    assert nnc.load(path, other) is other
    for name, tensor in model.tensors().items():
        np.testing.assert_array_equal(other.tensors()[name].numpy(), tensor.numpy())
        np.testing.assert_array_equal(nnc.load(path)[name], tensor.numpy())
    with pytest.raises(FormatError, match="missing"):
        nnc.load(path, nn.Model(nn.Dense(4), (3,)))


def test_values_without_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="one value without a name"):
        nnc.save(tmp_path / "a", ARRAY)
    with pytest.raises(UsageError, match="two values of one path"):
        nnc.save(tmp_path / "a", {"a.b": ARRAY, "a": {"b": ARRAY}})
    with pytest.raises(FormatError):
        nnc.load(tmp_path / "a")
