from __future__ import annotations

import copy
import os
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import nnc
from nnc import language, nn, ops
from nnc.core.values.tensor import Tensor
from nnc.errors import DeviceError, DTypeError, FormatError, NncError, UsageError
from nnc.export import library
from nnc.planning import read_csv
from nnc.symbolic import SymbolicGraph, compile

ARRAY = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_arrays_in_the_format_of_numpy_replace_a_file_or_leave_it(tmp_path: Path) -> None:
    path = tmp_path / "values"
    nnc.savez(path, ARRAY, x=nnc.ones(2))
    written = path.with_suffix(".npz")
    assert np.load(written)["arr_0"].tolist() == ARRAY.tolist()
    assert nnc.load(written)["x"].tolist() == [1.0, 1.0]
    with pytest.raises(NncError, match="two arrays named arr_0"):
        nnc.savez(written, ARRAY, arr_0=ARRAY)
    with pytest.raises(UsageError, match="no such file or directory"):
        nnc.savez(tmp_path / "no" / "values.npz", ARRAY)
    assert sorted(np.load(written).files) == ["arr_0", "x"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["values.npz"]


def test_one_array_in_the_format_of_numpy(tmp_path: Path) -> None:
    path = tmp_path / "value.npy"
    for value in (ARRAY, ARRAY.T, nnc.ones(2), 3.5, np.zeros((0, 3)), np.array(True), np.ones(2, ">i4")):
        nnc.save(path, value)
        wanted = np.asarray(value.numpy() if isinstance(value, nnc.Variable) else value)
        for held in (nnc.load(path).numpy(), np.load(path)):
            assert held.shape == wanted.shape
            np.testing.assert_array_equal(held, wanted)
    with pytest.raises(DTypeError, match=r"an array of bf16; need element types of NumPy. Fix: nnc.save\("):
        nnc.save(path, nnc.ones(2).astype(nnc.bf16))
    with pytest.raises(UsageError, match=r'one value without a name.*Fix: .* nnc.save\("x.npy", value\)'):
        nnc.save(tmp_path / "value", ARRAY)
    assert [entry.name for entry in tmp_path.iterdir()] == ["value.npy"]


def test_hostile_files_of_numpy_are_refused(tmp_path: Path) -> None:
    head = b"{'descr': '<f8', 'fortran_order': False, 'shape': (9999999999999,), }\n"
    longest = b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head + bytes(16)
    for content in (
        b"junk",
        b"",
        longest,
        b"\x93NUMPY\x01\x00\x14\x00{'descr':(((((((((((",
        longest.replace(b"<f8", b"|O "),
    ):
        for name in ("value.npy", "value.npz"):
            (tmp_path / name).write_bytes(content)
            with pytest.raises(FormatError, match="of NumPy, without pickled objects"):
                nnc.load(tmp_path / name)


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


def test_what_is_loaded_is_nobody_else_s_unless_it_is_mapped(tmp_path: Path) -> None:
    path, ones = tmp_path / "w.safetensors", np.ones((64, 64), np.float32)
    nnc.save(path, {"w": ones})
    read, mapped = nnc.load(path)["w"], nnc.load(path, mapped=True)["w"]
    row = nnc.tensor(ones[:1])
    graph = SymbolicGraph()
    x, w = graph.input(row.spec), graph.input(mapped.spec)
    y = ops.matmul(x, w)
    compiled = compile(graph, [y], given={w: mapped.tensor})
    for each in (read, mapped):
        np.testing.assert_array_equal((row @ each).numpy(), np.full((1, 64), 64.0))
    compiled({x: ones[:1]}, y)
    os.truncate(path, 4096)
    np.testing.assert_array_equal((row @ read).numpy(), np.full((1, 64), 64.0))
    for use in (lambda: row @ mapped, mapped.numpy, lambda: compiled({x: ones[:1]}, y), lambda: mapped.sum()):
        with pytest.raises(FormatError, match="it became shorter meanwhile"):
            use()


def test_values_may_come_before_the_path(tmp_path: Path) -> None:
    path = tmp_path / "values.safetensors"
    nnc.save({"a": ARRAY}, path)
    np.testing.assert_array_equal(nnc.load(path)["a"], ARRAY)


def test_files_are_read_as_pytorch_reads_them(tmp_path: Path) -> None:
    nnc.save({"x": nnc.arange(3)}, tmp_path / "x.pt")
    stored = nnc.load(tmp_path / "x.pt", map_location="cpu", weights_only=True)
    assert stored["x"].tolist() == [0, 1, 2]
    with pytest.raises(DeviceError, match="nowhere"):
        nnc.load(tmp_path / "x.pt", map_location="nowhere")


def network() -> nn.Model:
    return nn.Model(nn.Dense(2), (3,))


X, Y = np.ones((4, 3), np.float32), np.zeros(4, np.int64)

DOORS: dict[str, Callable[[str], object]] = {
    "load": nnc.load,
    "load into a model": lambda path: nnc.load(path, network()),
    "load weights": lambda path: network().load_weights(path),
    "a GGUF file": lambda path: language.load(path),
    "a planning problem": read_csv,
    "a log": lambda path: network().fit(X, Y, callbacks=[nn.CSVLog(path)]),
    "a log of lines": lambda path: network().fit(X, Y, callbacks=[nn.JSONLog(path)]),
    "a log of TensorBoard": lambda path: network().fit(X, Y, callbacks=[nn.TensorBoardLog(path)]),
    "a folder of a library": lambda path: library(network(), "net", batch=1).write(path),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", ["n" * 5000, "n" * 300 + ".safetensors", "a\0b", "a/" + "n" * 300 + ".csv"])
def test_a_name_that_no_file_can_have_is_an_error_of_ours(door: str, name: str, tmp_path: Path) -> None:
    with pytest.raises(NncError):
        DOORS[door](f"{tmp_path}/{name}")


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder that nobody can write to")
def test_a_library_is_not_written_where_no_folder_can_be() -> None:
    with pytest.raises(UsageError, match="/proc/nnc: got no such file or directory; need a folder that can be written"):
        library(network(), "net", batch=1).write("/proc/nnc")


USES: dict[str, Callable[[nnc.Variable], object]] = {
    "an operator": lambda x: x + 1,
    "its numbers": lambda x: x.numpy(),
    "its text": repr,
    "a copy": copy.deepcopy,
    "a pickle": pickle.dumps,
    "DLPack": np.from_dlpack,
    "DLPack of the tensor": lambda x: np.from_dlpack(x.tensor),
    "a compiled function": nnc.compile(lambda x: x * 2),
    "what a compiled function captured": lambda x: nnc.compile(lambda y: x * y)(np.float32(2)),
    "a gradient": nnc.grad(lambda x: (x * x).sum()),
    "another file": lambda x: nnc.save("/dev/null", {"x": x}),
}


@pytest.mark.parametrize("use", USES)
def test_a_mapped_file_that_was_shortened_is_told_by_each_use(use: str, tmp_path: Path) -> None:
    nnc.save(tmp_path / "x.safetensors", {"x": np.ones((1000, 1000), np.float32)})
    x = nnc.load(tmp_path / "x.safetensors", mapped=True)["x"]
    if "captured" not in use and use != "another file":
        USES[use](x)
    os.truncate(tmp_path / "x.safetensors", 5000)
    with pytest.raises(FormatError, match="became shorter meanwhile"):
        USES[use](x)
