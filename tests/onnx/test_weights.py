from __future__ import annotations

import copy
import gc
import pickle
import threading
from pathlib import Path

import numpy as np
import pytest
from tests.onnx.models import model, node

import onnx
from nnc.core.settings import SETTINGS
from nnc.core.values.tensor import Tensor
from nnc.errors import UsageError
from nnc.onnx import load
from nnc.onnx.made.onnx_program import OnnxProgram
from nnc.onnx.runner import OnnxModel

SIZE = 192


@pytest.fixture(autouse=True)
def _no_programs_of_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program of an earlier run of these tests is bound to what it read from the disk."""
    monkeypatch.setattr(SETTINGS, "cache_folder", tmp_path)


def two_layers() -> onnx.ModelProto:
    """Two products by matrices of one shape: weights that kernels want in blocks."""
    random = np.random.default_rng(0)
    weights = {name: random.normal(size=(SIZE, SIZE)).astype(np.float32) for name in ("v", "w")}
    nodes = [node("Gemm", "x v", "h", transB=1), node("Relu", "h", "r"), node("Gemm", "r w", "y", transB=1)]
    return model(nodes, {"x": ["n", SIZE]}, ["y"], weights)


def rows(count: int) -> np.ndarray:
    return np.random.default_rng(count).normal(size=(count, SIZE)).astype(np.float32)


def expected(file: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    v, w = (onnx.numpy_helper.to_array(one).astype(np.float64) for one in file.graph.initializer)
    return np.maximum(x @ v.T, 0) @ w.T


def tensors(loaded: OnnxModel, place: int) -> list[Tensor]:
    """The tensors that a program is bound to, the first of a model being the one used longest ago."""
    program = loaded._programs.values()[place]
    assert isinstance(program, OnnxProgram)
    assert program.compiled is not None
    return list(program.compiled.bindings.tensors.values())


def test_programs_of_two_signatures_share_weights_in_blocks() -> None:
    file = two_layers()
    loaded = load(file)
    for count in (48, 96):
        np.testing.assert_allclose(
            loaded.run({"x": rows(count)})["y"], expected(file, rows(count)), rtol=1e-3, atol=1e-2
        )
    first, second = ({one.address for one in tensors(loaded, place)} for place in (0, 1))
    assert any("/" in str(one.spec) for one in tensors(loaded, 0))
    assert first == second
    assert len(first) == 2


def test_files_that_are_read_in_order_share_their_elements() -> None:
    random = np.random.default_rng(0)
    nodes = [node("Gather", "table x", "y")]
    table = random.normal(size=(400, 64)).astype(np.float32)
    file = model(nodes, {}, ["y"], {"table": table})
    file.graph.input.append(onnx.helper.make_tensor_value_info("x", onnx.TensorProto.INT64, ["n"]))
    loaded = load(file)
    for count in (3, 5):
        np.testing.assert_array_equal(loaded.run({"x": np.arange(count)})["y"], table[:count])
    first, second = ({one.address for one in tensors(loaded, place) if one.spec.rank == 2} for place in (0, 1))
    assert first == second


def test_copies_share_weights_and_pickles_do_not() -> None:
    loaded = load(two_layers())
    want = loaded.run({"x": rows(16)})["y"]
    for twin in (copy.copy(loaded), copy.deepcopy(loaded), pickle.loads(pickle.dumps(loaded))):
        np.testing.assert_array_equal(twin.run({"x": rows(16)})["y"], want)
        is_same = {one.address for one in tensors(twin, 0)} == {one.address for one in tensors(loaded, 0)}
        assert is_same == (twin.file is loaded.file)
    assert copy.deepcopy(loaded.file).weights.messages == {}


def test_weights_go_with_the_last_program() -> None:
    loaded = load(two_layers())
    loaded.run({"x": rows(16)})
    assert len(loaded.file.weights._tensors) == 2
    file = loaded.file
    del loaded
    gc.collect()
    assert len(file.weights._tensors) == 0
    assert len(file.weights._arrays) == 0


def test_threads_make_programs_of_one_model_and_of_copies_side_by_side() -> None:
    file = two_layers()
    loaded = load(file)
    models, found = [loaded, loaded, copy.copy(loaded), copy.copy(loaded)], dict[int, object]()

    def predict(number: int) -> None:
        found[number] = models[number].run({"x": rows(16 + number)})["y"]

    threads = [threading.Thread(target=predict, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(4):
        np.testing.assert_allclose(found[number], expected(file, rows(16 + number)), rtol=1e-3, atol=1e-2)


def test_branches_have_weights_of_one_name_each() -> None:
    """Only the outermost tensors of a file have names of their own."""

    def branch(value: float) -> onnx.GraphProto:
        weight = onnx.numpy_helper.from_array(np.full((SIZE, SIZE), value, np.float32), "w")
        info = onnx.helper.make_empty_tensor_value_info("y")
        return onnx.helper.make_graph([node("MatMul", "x w", "y")], "branch", [], [info], [weight])

    choice = node("If", "which", "y", then_branch=branch(1), else_branch=branch(2))
    file = model([choice], {"x": ["n", SIZE]}, ["y"])
    file.graph.input.append(onnx.helper.make_tensor_value_info("which", onnx.TensorProto.BOOL, []))
    loaded = load(file)
    loaded.by_value.add("which")
    for which, factor in ((True, 1), (False, 2)):
        y = loaded.run({"x": rows(16), "which": np.array(which)})["y"]
        want = factor * rows(16).sum(1, keepdims=True) * np.ones(SIZE)
        np.testing.assert_allclose(y, want, rtol=1e-3, atol=1e-2)


def test_wrong_types_and_no_rows_leave_shared_weights_as_they_are() -> None:
    file = two_layers()
    loaded = load(file)
    assert loaded.run({"x": rows(0)})["y"].shape == (0, SIZE)
    with pytest.raises(UsageError, match="float32"):
        loaded.run({"x": rows(16).astype(np.float64)})
    np.testing.assert_allclose(loaded.run({"x": rows(16)})["y"], expected(file, rows(16)), rtol=1e-3, atol=1e-2)
