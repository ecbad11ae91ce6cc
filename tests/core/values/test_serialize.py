from __future__ import annotations

import copy
import json
import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import safetensors
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st

from nnc.core.values.dtype import BF16, DTYPES, DType
from nnc.core.values.serialize import (
    MAX_HEADER_BYTES,
    MAX_TENSORS,
    METADATA,
    checksum,
    file_tensors,
    load_tensors,
    read_metadata,
    save_tensors,
)
from nnc.core.values.spec import Shape, spec
from nnc.core.values.tensor import Tensor
from nnc.errors import FormatError, UsageError


def numbers(dtype: DType, shape: Shape) -> np.ndarray:
    values = np.arange(int(np.prod(shape))).reshape(shape)
    return (values % 2 if dtype.kind == "bool" else values - 3).astype(dtype.numpy)


def tensor_of(dtype: DType, shape: Shape) -> Tensor:
    return Tensor.from_numpy(numbers(dtype, shape))


def written(path: Path, header: object, data: bytes = b"", *, raw: bool = False) -> Path:
    """A file of this header (as JSON unless `raw`) and these bytes behind it."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes((b"" if raw else len(text).to_bytes(8, "little")) + text + data)
    return path


def entry(dtype: object = "F32", shape: object = (2,), offsets: object = (0, 8)) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


# ---- round trips


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0,), (2, 0, 3), (1, 1, 1, 1, 1, 1, 1, 2)])
def test_every_type_and_shape_comes_back(tmp_path: Path, dtype: DType, shape: Shape) -> None:
    save_tensors(tmp_path / "f", {"x": tensor_of(dtype, shape)})
    (tensor,) = load_tensors(tmp_path / "f").tensors.values()
    assert tensor.spec == spec(shape, dtype)
    np.testing.assert_array_equal(tensor.numpy(), numbers(dtype, shape))


def test_names_metadata_and_views_come_back(tmp_path: Path) -> None:
    strided = Tensor.from_numpy(np.arange(6.0).reshape(2, 3).T)
    tensors = {
        "ü.weight 0": strided,
        "a": tensor_of(BF16, (5,)),
        "": tensor_of(BF16, ()),
        'q"\\': tensor_of(BF16, (1,)),
    }
    save_tensors(tmp_path / "f", tensors, {"who": "Zoë", "empty": ""})
    file = load_tensors(str(tmp_path / "f"))
    assert file.metadata == {"who": "Zoë", "empty": ""}
    assert set(file.tensors) == set(tensors)
    np.testing.assert_array_equal(file.tensors["ü.weight 0"].numpy(), np.arange(6.0).reshape(2, 3).T)


def test_no_tensors_are_a_file_too(tmp_path: Path) -> None:
    save_tensors(tmp_path / "f", {})
    assert load_tensors(tmp_path / "f").tensors == load_tensors(tmp_path / "f").metadata == {}


def test_the_same_content_is_the_same_bytes_in_any_order(tmp_path: Path) -> None:
    tensors = {name: tensor_of(BF16, (3,)) for name in "abc"}
    save_tensors(tmp_path / "one", tensors, {"x": "1", "y": "2"})
    save_tensors(tmp_path / "two", dict(reversed(tensors.items())), {"y": "2", "x": "1"})
    data = (tmp_path / "one").read_bytes()
    assert data == (tmp_path / "two").read_bytes()
    assert int.from_bytes(data[:8], "little") % 8 == 0


def test_what_is_mapped_is_read_only(tmp_path: Path) -> None:
    save_tensors(tmp_path / "f", {"x": tensor_of(BF16, (3,)), "y": tensor_of(BF16, (3,))})
    one, two = load_tensors(tmp_path / "f", mapped=True).tensors.values()
    assert one.storage is two.storage
    assert one.storage.read_only
    with pytest.raises(UsageError, match="read-only"):
        one.copy_from(np.zeros(3, BF16.numpy))


@pytest.mark.parametrize("mapped", [False, True])
def test_a_file_may_be_replaced_while_its_tensors_are_used(tmp_path: Path, mapped: bool) -> None:
    save_tensors(tmp_path / "f", {"x": Tensor.from_numpy(np.arange(3.0))})
    old = load_tensors(tmp_path / "f", mapped=mapped).tensors["x"]
    save_tensors(tmp_path / "f", {"x": Tensor.from_numpy(np.arange(3.0) + 10)})
    np.testing.assert_array_equal(old.numpy(), np.arange(3.0))
    np.testing.assert_array_equal(load_tensors(tmp_path / "f").tensors["x"].numpy(), np.arange(3.0) + 10)


def test_what_is_read_is_nobody_else_s(tmp_path: Path) -> None:
    """Of a mapped file somebody's writes were seen, and a shortened one ended the process."""
    path = tmp_path / "f"
    save_tensors(path, {"x": Tensor.from_numpy(np.arange(2048.0))})
    read = load_tensors(path).tensors["x"]
    with path.open("r+b") as file:
        file.seek(-8 * 2048, 2)
        file.write(bytes(8 * 2048))
    np.testing.assert_array_equal(read.numpy(), np.arange(2048.0))
    os.truncate(path, 100)
    np.testing.assert_array_equal(read.numpy(), np.arange(2048.0))


def test_a_mapped_file_that_was_shortened_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "f"
    save_tensors(path, {"x": Tensor.from_numpy(np.arange(2048.0))})
    whole = load_tensors(path, mapped=True).tensors["x"]
    np.testing.assert_array_equal(whole.numpy(), np.arange(2048.0))
    os.truncate(path, 100)
    with pytest.raises(FormatError, match="100 bytes of the .* that were mapped: it became shorter.* without mapped="):
        whole.numpy()


MAPPED_ARRAY = """
import os, sys
from nnc.core.values.serialize import load_tensors
values = load_tensors(sys.argv[1], mapped=True).tensors["x"].numpy()
values[-1]
os.truncate(sys.argv[1], 100)
print("read on", flush=True)
values[-1]
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs files that become shorter while they are mapped")
def test_an_array_of_a_mapped_file_that_was_shortened_ends_the_process_as_security_says(tmp_path: Path) -> None:
    path = tmp_path / "f"
    save_tensors(path, {"x": Tensor.from_numpy(np.arange(1 << 16, dtype=np.float64))})
    child = subprocess.run([sys.executable, "-c", MAPPED_ARRAY, str(path)], capture_output=True, text=True)
    assert (child.stdout, child.returncode) == ("read on\n", -signal.SIGBUS)
    security = (Path(__file__).parents[3] / "SECURITY.md").read_text()
    assert "reading it behind the new end of the file ends the process with SIGBUS" in " ".join(security.split())


def test_tensors_that_stay_in_their_file_are_those_of_the_file_that_was_opened(tmp_path: Path) -> None:
    path, values = tmp_path / "f", np.arange(12.0).reshape(3, 4)
    save_tensors(path, {"x": Tensor.from_numpy(values), "e": Tensor.zeros(spec((0, 3)))}, {"note": "ä"})
    assert read_metadata(path) == {"note": "ä"}
    kept = file_tensors(path)
    again = pickle.loads(pickle.dumps(kept["x"]))
    save_tensors(path, {"x": Tensor.from_numpy(values + 10), "e": Tensor.zeros(spec((0, 3)))})
    np.testing.assert_array_equal(kept["x"].numpy(), values)
    np.testing.assert_array_equal(kept["x"].flat(3, 6), [3, 4, 5])
    assert (kept["e"].numpy().shape, kept["x"].shape) == ((0, 3), (3, 4))
    np.testing.assert_array_equal(again.numpy(), values)
    save_tensors(tmp_path / "g", kept)
    np.testing.assert_array_equal(load_tensors(tmp_path / "g").tensors["x"].numpy(), values)
    copied = copy.copy(file_tensors(path)["x"].file)
    assert copied.size == path.stat().st_size
    kept = file_tensors(path)
    os.truncate(path, 100)
    with pytest.raises(FormatError, match="became shorter while it was read"):
        kept["x"].numpy()


# ---- with the safetensors library


def test_the_library_reads_our_files(tmp_path: Path) -> None:
    ours = {dtype.name: tensor_of(dtype, (2, 3)) for dtype in DTYPES} | {"none": tensor_of(BF16, (0, 2))}
    save_tensors(tmp_path / "f", ours, {"note": "ä"})
    theirs = safetensors.numpy.load_file(tmp_path / "f")
    assert set(theirs) == set(ours)
    for name, tensor in ours.items():
        got = theirs[name].view(ml_dtypes.bfloat16) if tensor.dtype is BF16 and name != "none" else theirs[name]
        np.testing.assert_array_equal(got, tensor.numpy())
    with safetensors.safe_open(tmp_path / "f", "numpy") as file:
        assert file.metadata() == {"note": "ä"}


def test_we_read_the_library_s_files(tmp_path: Path) -> None:
    arrays = {dtype.name: numbers(dtype, (3, 2)) for dtype in DTYPES if dtype is not BF16}
    arrays |= {"scalar": np.array(2.5, np.float32), "empty": np.zeros((0, 4), np.int8)}
    safetensors.numpy.save_file(arrays, tmp_path / "f", {"by": "library"})
    file = load_tensors(tmp_path / "f")
    assert file.metadata == {"by": "library"}
    assert set(file.tensors) == set(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(file.tensors[name].numpy(), array)


# ---- files that are not what they should be

HEADERS: dict[str, object] = {
    "not JSON": b"{nonsense}",
    "empty": b"",
    "a list": [1, 2],
    "a number": b"7",
    "null": b"null",
    "not UTF-8": b'{"\xff": 1}',
    "UTF-16": json.dumps({"x": entry()}).encode("utf-16"),
    "deep": b"[" * 200_000,
    "duplicate names": b'{"x":' + json.dumps(entry()).encode() + b',"x":' + json.dumps(entry()).encode() + b"}",
    "duplicate keys": b'{"x":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}}',
    "an entry that is no object": {"x": 3},
    "an entry without dtype": {"x": {"shape": [2], "data_offsets": [0, 8]}},
    "an entry with more": {"x": {**entry(), "more": 1}},
    "an unknown type": {"x": entry("F99")},
    "a type that is a list": {"x": entry([])},
    "a type that is an object": {"x": entry({})},
    "a type that is null": {"x": entry(None)},
    "a shape that is a number": {"x": entry(shape=2)},
    "a negative size": {"x": entry(shape=[-2])},
    "a fractional size": {"x": entry(shape=[2.0])},
    "a size that is true": {"x": entry(shape=[True, 2])},
    "too many dimensions": {"x": entry(shape=[1] * 8 + [2])},
    "a huge size": {"x": entry(shape=[2**62])},
    "sizes that overflow": {"x": entry(shape=[2**33, 2**33])},
    "nothing of a huge size": {"x": entry(shape=[0, 2**70], offsets=[0, 0])},
    "nothing of sizes that overflow": {"x": entry(shape=[2**40, 0, 2**40], offsets=[0, 0])},
    "endless digits": b'{"x":{"dtype":"F32","shape":[' + b"9" * 5000 + b'],"data_offsets":[0,8]}}',
    "one offset": {"x": entry(offsets=[0])},
    "three offsets": {"x": entry(offsets=[0, 4, 8])},
    "negative offsets": {"x": entry(offsets=[-8, 0])},
    "offsets the wrong way round": {"x": entry(offsets=[8, 0])},
    "offsets of another length": {"x": entry(offsets=[0, 4])},
    "offsets beyond the file": {"x": entry(offsets=[8, 16])},
    "huge offsets": {"x": entry(offsets=[2**64, 2**64 + 8])},
    "a hole at the start": {"x": entry(shape=[1], offsets=[4, 8])},
    "a hole inside": {"x": entry(shape=[0], offsets=[0, 0]), "y": entry(shape=[1], offsets=[4, 8])},
    "an overlap": {"x": entry(), "y": entry(shape=[1], offsets=[4, 8])},
    "the same place twice": {"x": entry(), "y": entry()},
    "bytes that nobody names": {"x": entry(shape=[1], offsets=[0, 4])},
    "an empty tensor inside another": {"x": entry(), "y": entry(shape=[0], offsets=[4, 4])},
    "no tensors but data": {},
    "metadata that is a list": {METADATA: [], "x": entry()},
    "metadata that is null": {METADATA: None, "x": entry()},
    "metadata with a number": {METADATA: {"n": 1}, "x": entry()},
}


@pytest.mark.parametrize("name", HEADERS)
def test_a_malformed_header_is_refused(tmp_path: Path, name: str) -> None:
    path = written(tmp_path / "f", HEADERS[name], bytes(8))
    with pytest.raises(FormatError, match="need a whole safetensors file") as caught:
        load_tensors(path)
    assert caught.value.subject == str(path)


def test_a_well_formed_header_is_not_refused(tmp_path: Path) -> None:
    file = load_tensors(written(tmp_path / "f", {"x": entry(), "e": entry(shape=[0, 3], offsets=[8, 8])}, bytes(8)))
    assert {name: tensor.shape for name, tensor in file.tensors.items()} == {"x": (2,), "e": (0, 3)}


@pytest.mark.parametrize(
    "content",
    [b"", b"\x01", bytes(7), bytes(8), (9).to_bytes(8, "little") + b"{}", (2**64 - 1).to_bytes(8, "little") + b"{}"],
)
def test_a_file_without_a_whole_header_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "f"
    path.write_bytes(content)
    with pytest.raises(FormatError):
        load_tensors(path)


def test_a_header_beyond_the_limit_is_not_read(tmp_path: Path) -> None:
    """A sparse file: a byte too much of header, none of which is on the disk."""
    path, length = tmp_path / "f", MAX_HEADER_BYTES + 1
    path.write_bytes(length.to_bytes(8, "little"))
    os.truncate(path, length + 100)
    with pytest.raises(FormatError, match=f"a header of {length:,} bytes; need at most .* Fix: split the file"):
        load_tensors(path)


def test_more_tensors_than_can_be_read_soon_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_TENSORS >= 60_000
    monkeypatch.setattr("nnc.core.values.serialize.MAX_TENSORS", 10)
    nothing = {str(number): tensor_of(BF16, (0,)) for number in range(12)}
    header = {name: entry("BF16", [0], [0, 0]) for name in nothing}
    with pytest.raises(FormatError, match="got 12 tensors; need at most .* Fix: split the file"):
        load_tensors(written(tmp_path / "f", header))
    with pytest.raises(UsageError, match="got 12 tensors in a header of .* Fix: write several files"):
        save_tensors(tmp_path / "g", nothing)
    assert os.listdir(tmp_path) == ["f"]


def test_a_header_that_nobody_could_read_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"need at most .* {MAX_HEADER_BYTES:,} bytes of header"):
        save_tensors(tmp_path / "f", {}, {"long": "x" * MAX_HEADER_BYTES})
    assert os.listdir(tmp_path) == []


def test_a_checksum_tells_names_types_shapes_and_elements_apart() -> None:
    numbers = np.arange(4, dtype=np.int32)
    contents = [
        {"x": numbers},
        {"y": numbers},
        {"x": numbers + 1},
        {"x": numbers.reshape(2, 2)},
        {"x": numbers.view(np.float32)},
        {"x": numbers[:2], "y": numbers[2:]},
    ]
    tensors = [{name: Tensor.from_numpy(array) for name, array in content.items()} for content in contents]
    sums = [checksum(one) for one in tensors] + [checksum(tensors[0], "facts")]
    assert len(set(sums)) == len(sums)
    assert checksum({"x": Tensor.from_numpy(np.arange(8, dtype=np.int32)[::2] // 2)}) == sums[0]


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    save_tensors(tmp_path / "f", {"x": tensor_of(BF16, (7,)), "y": tensor_of(BF16, (3,))})
    data = (tmp_path / "f").read_bytes()
    for length in range(len(data)):
        (tmp_path / "f").write_bytes(data[:length])
        with pytest.raises(FormatError):
            load_tensors(tmp_path / "f")


def test_what_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="no such file"):
        load_tensors(tmp_path / "nowhere")
    with pytest.raises(FormatError, match="is a directory"):
        load_tensors(tmp_path)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.binary(max_size=120), st.integers(0, 200), st.integers(0, 255))
def test_any_bytes_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, noise: bytes, at: int, to: int
) -> None:
    """Noise as a whole file, noise as a header, and one byte of a good file changed: tensors or a FormatError."""
    path = tmp_path_factory.mktemp("noise") / "f"
    save_tensors(path, {"x": tensor_of(BF16, (3,)), "y": tensor_of(BF16, ())}, {"a": "b"})
    good = bytearray(path.read_bytes())
    good[at % len(good)] = to
    for content in (noise, len(noise).to_bytes(8, "little") + noise, bytes(good)):
        path.write_bytes(content)
        try:
            tensors = load_tensors(path).tensors
        except FormatError:
            continue
        assert all(tensor.spec.nbytes <= len(content) for tensor in tensors.values())


def test_the_name_of_the_metadata_is_no_name_for_a_tensor(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=METADATA):
        save_tensors(tmp_path / "f", {METADATA: tensor_of(BF16, (1,))})
    assert os.listdir(tmp_path) == []


def test_an_element_type_that_the_format_lacks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"wide: c128\[2\]; need an element type of safetensors"):
        save_tensors(tmp_path / "some.safetensors", {"wide": Tensor.from_numpy(np.ones(2, np.complex128))})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("first", "kind"), [(b"PK\3\4", "ZIP"), (b"\x80\4}q", "pickle"), (b"\x93NUMPY", "array of NumPy")]
)
def test_files_of_other_kinds_are_named(tmp_path: Path, first: bytes, kind: str) -> None:
    (tmp_path / "other").write_bytes(first.ljust(64, b"x"))
    with pytest.raises(FormatError, match=f"got an? {kind}.*; need a safetensors file"):
        load_tensors(tmp_path / "other")
