"""Weights in files that processes share: the same bytes in one file, or in memory where there can be none."""

from __future__ import annotations

import copy
import errno
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.onnx.models import model, node
from tests.program_folder import folder

import nnc
from nnc import nn
from nnc.core.precautions import disk_cache
from nnc.core.settings import SETTINGS
from nnc.core.values.dtype import F32
from nnc.core.values.spec import TensorSpec
from nnc.core.values.tensor import Tensor
from nnc.nn.inference.frozen_step import FrozenWeights
from nnc.symbolic.sharing.mapped_weights import WeightBlock, mapped_weights

__all__ = ["folder"]
SPECS = [TensorSpec((3, 5), F32), TensorSpec((7,), F32)]
X = np.linspace(-1, 1, 2 * 24, dtype=np.float32).reshape(2, 24)


def block() -> WeightBlock:
    """Weights that are filled."""
    made = WeightBlock.empty(SPECS)
    for number, tensor in enumerate(made.tensors):
        tensor.numpy()[...] = number + 1
    return made


def file_of(tensor: Tensor) -> str:
    """Where it lies; empty for memory."""
    return "" if tensor.storage.file is None else tensor.storage.file.path


def test_the_first_who_keeps_weights_decides_which_file_all_map(folder: Path) -> None:
    first = block().kept("name")
    number = os.stat(file_of(first[0])).st_ino
    again, later = block().kept("name"), mapped_weights("name", SPECS)
    assert later is not None
    for tensors in (first, again, later):
        assert [tensor.numpy().tolist() for tensor in tensors] == [np.ones((3, 5)).tolist(), [2.0] * 7]
        assert all(tensor.storage.read_only and tensor.address % 64 == 0 for tensor in tensors)
        assert {os.stat(file_of(tensor)).st_ino for tensor in tensors} == {number}
    assert mapped_weights("another", SPECS) is None
    assert mapped_weights("name", SPECS[:1]) is None


def test_what_is_mapped_stays_when_its_file_goes(folder: Path) -> None:
    tensors = block().kept("name")
    Path(file_of(tensors[0])).unlink()
    assert tensors[1].numpy().tolist() == [2.0] * 7
    assert mapped_weights("name", SPECS) is None


def _damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def _shorten(path: Path) -> None:
    os.truncate(path, 60)


def _link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


@pytest.mark.parametrize("spoil", [_damage, _shorten, _link, lambda path: path.chmod(0o666)])
@pytest.mark.filterwarnings("ignore:nnc. mappedweight cache")
def test_a_file_that_is_not_what_was_kept_is_not_used(folder: Path, spoil: Callable[[Path], None]) -> None:
    spoil(Path(file_of(block().kept("name")[0])))
    assert mapped_weights("name", SPECS) is None
    assert [tensor.numpy().tolist()[0] for tensor in block().kept("name")][1] == 2.0


@pytest.mark.parametrize("obstacle", ["full", "none", "limit"])
def test_where_no_file_can_be_the_weights_stay_in_memory(
    folder: Path, obstacle: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "no room")

    if obstacle == "full":
        monkeypatch.setattr(disk_cache, "_write", full)
    elif obstacle == "none":
        monkeypatch.setattr(SETTINGS, "cache_folder", None)
    else:
        monkeypatch.setattr(SETTINGS, "cached_weight_bytes", 64)
    tensors = block().kept("name")
    assert [file_of(tensor) for tensor in tensors] == ["", ""]
    assert tensors[1].numpy().tolist() == [2.0] * 7


def network(seed: int, backend: str = "") -> nn.Model:
    """A model of two products, each large enough that its weights are packed."""
    layers = nn.Sequential(nn.Dense(256, activation="relu"), nn.Dense(8))
    return nn.Model(layers, (24,), seed=seed, loss=nn.MeanSquaredError(), optimizer=nn.SGD(0.1), backend=backend)


def test_models_over_one_file_share_it_and_train_apart(folder: Path) -> None:
    path, source = folder / "w.safetensors", network(1, "reference")
    source.save_weights(path)
    content, expected = path.read_bytes(), source.predict(X)
    one, two = network(2, "reference"), network(3, "reference")
    for each in (one, two):
        nnc.load(path, each, mapped=True)
        np.testing.assert_array_equal(each.predict(X), expected)
    stated, own = one.memory(2, "predict"), source.memory(2, "predict")
    assert stated.mapped == stated.weights == own.weights
    assert stated.process == own.process - own.weights
    assert "of a file that others may share" in str(stated)
    assert one.memory(2, "train").mapped == 0
    losses = [each.train_on_batch(X, expected)[0] for each in (one, source) for _ in range(3)]
    assert losses[:3] == losses[3:]
    np.testing.assert_array_equal(one.predict(X), source.predict(X))
    np.testing.assert_array_equal(two.predict(X), expected)
    assert path.read_bytes() == content


def test_a_model_that_is_mapped_in_part_or_copied_has_the_rest_of_its_own(folder: Path) -> None:
    path, source = folder / "w.safetensors", network(1)
    tensors = source.state_dict()
    name = sorted(tensors)[0]
    tensors[name] = tensors[name].astype(np.float64)
    nnc.save(path, tensors)
    mapped = network(2)
    nnc.load(path, mapped, mapped=True)
    stated = mapped.memory(2, "predict")
    assert stated.weights - stated.mapped == source.tensors()[name].spec.nbytes
    twin = copy.deepcopy(mapped)
    assert twin.memory(2, "predict").mapped == 0
    for each in (mapped, twin):
        np.testing.assert_array_equal(each.predict(X), source.predict(X))


def test_frozen_weights_of_a_mapped_model_are_computed_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, source = folder / "w.safetensors", network(1)
    source.save_weights(path)
    expected = source.freeze(2).run(X)
    one, two = network(2), network(3)
    nnc.load(path, one, mapped=True)
    nnc.load(path, two, mapped=True)
    first = one.freeze(2)
    computed: list[object] = []
    monkeypatch.setattr(FrozenWeights, "_computed", lambda *arguments: computed.append(arguments))
    second = two.freeze(2)
    assert not computed
    stated = two.memory(2, "freeze")
    assert stated.mapped == stated.weights > 0
    two.zip_map(lambda tensor: tensor * 2)
    for step in (first, second):
        np.testing.assert_array_equal(step.run(X), expected)
    monkeypatch.undo()
    assert not np.array_equal(two.freeze(2).run(X), expected)


def test_a_file_of_onnx_is_mapped_whichever_way_its_program_comes(folder: Path) -> None:
    generator = np.random.default_rng(1)
    weights = {"w": (128, 24, 3, 3), "u": (32, 128, 3, 3)}
    arrays = {name: generator.standard_normal(shape).astype(np.float32) / 8 for name, shape in weights.items()}
    nodes = [node("Conv", "x w", "c"), node("Relu", "c", "r"), node("Conv", "r u", "y")]
    path = folder / "net.onnx"
    path.write_bytes(model(nodes, {"x": (1, 24, 9, 9)}, ["y"], arrays).SerializeToString())
    x = {"x": generator.standard_normal((1, 24, 9, 9)).astype(np.float32)}
    expected = nnc.onnx.load(path).run(x)["y"]
    made = [nnc.onnx.load(path, mapped=True) for _ in range(3)]
    for served in made:
        np.testing.assert_array_equal(served.run(x)["y"], expected)
        assert served.memory().mapped >= sum(array.nbytes for array in arrays.values())
    plain, shared = nnc.onnx.load(path), made[-1]
    assert plain.run(x)
    assert plain.memory().process - shared.memory().process >= shared.memory().mapped // 2
