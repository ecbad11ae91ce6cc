from __future__ import annotations

import hashlib
import pickle
from pathlib import Path

import numpy as np
import pytest
from tests.onnx.models import model, node

import onnx
from nnc.errors import FormatError
from nnc.onnx import load, read
from nnc.onnx.runner import IMPORTER
from nnc.onnx.stored.message import LARGE, DividedMessage, divided

RANDOM = np.random.default_rng(0)
WEIGHTS = {
    "small": np.float32([[2]]),
    "w": RANDOM.standard_normal((192, 128)).astype(np.float32),
    "h": RANDOM.standard_normal((128, 512)).astype(np.float16),
    "b": RANDOM.integers(0, 2, LARGE + 1).astype(bool),
}
NODES = [
    node("MatMul", "x w", "y"), node("MatMul", "y v", "z"), node("Cast", "h", "v", to=1), node("Mul", "z small", "q"),
]  # fmt: skip
MODEL = model(NODES, {"x": ["n", 192]}, ["q"], WEIGHTS)
BYTES = MODEL.SerializeToString()


def parted(data: bytes) -> DividedMessage:
    def copy(target: memoryview, offset: int) -> None:
        target[:] = data[offset : offset + len(target)]

    return divided(lambda offset, nbytes: data[offset : offset + nbytes], copy, len(data))


def test_elements_of_large_initializers_are_apart_and_the_rest_is_a_message_without_them() -> None:
    message = parted(BYTES)
    assert {number: content.tobytes() for number, content in message.elements.items()} == {
        number: array.tobytes() for number, array in enumerate(WEIGHTS.values()) if number
    }
    assert message.digest == hashlib.sha256(BYTES).hexdigest()
    rest = onnx.ModelProto.FromString(message.rest)
    for number, content in message.elements.items():
        assert not rest.graph.initializer[number].HasField("raw_data")
        rest.graph.initializer[number].raw_data = content.tobytes()
    assert rest == MODEL
    assert all(content.ctypes.data % 64 == 0 and not content.flags.writeable for content in message.elements.values())


@pytest.mark.parametrize("source", ["path", "bytes", "message"])
def test_a_file_computes_the_same_however_it_was_read(source: str, tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(BYTES)
    file = read({"path": tmp_path / "m.onnx", "bytes": BYTES, "message": MODEL}[source])
    assert bool(file.contents) == (source != "message")
    for tensor, want in zip(file.graph.initializer, WEIGHTS.values(), strict=True):
        np.testing.assert_array_equal(file.array(tensor), want)
    assert file.message().graph == MODEL.graph
    x = np.ones((2, 192), np.float32)
    loaded = load(tmp_path / "m.onnx")
    for again in (loaded, pickle.loads(pickle.dumps(loaded))):
        np.testing.assert_array_equal(again.run({"x": x})["q"], load(MODEL).run({"x": x})["q"])


def test_a_model_of_elements_apart_states_them_once(tmp_path: Path) -> None:
    weight = np.ones((512, 1024), np.float32)
    onnx.save(model([node("MatMul", "x w", "y")], {"x": ["n", 512]}, ["y"], {"w": weight}), tmp_path / "m.onnx")
    loaded = load(tmp_path / "m.onnx")
    stated, alone = loaded.memory(n=1), load(tmp_path / "m.onnx").compiled(n=1).memory()
    assert alone.bound == weight.nbytes
    assert alone.process + IMPORTER < stated.process < alone.process + IMPORTER + 1000
    x = np.ones((1, 512), np.float32)
    for _ in range(3):
        loaded.run({"x": x})  # kept on the disk
    assert load(tmp_path / "m.onnx").memory(n=1).process == stated.process


def test_types_that_have_no_array_of_their_own_are_read_by_onnx(tmp_path: Path) -> None:
    packed = onnx.TensorProto(name="w", data_type=onnx.TensorProto.INT4, dims=[4 * LARGE], raw_data=bytes(2 * LARGE))
    made = model([node("Cast", "w", "v", to=1), node("Mul", "x v", "y")], {"x": [1]}, ["y"])
    made.graph.initializer.append(packed)
    onnx.save(made, tmp_path / "m.onnx")
    file = read(tmp_path / "m.onnx")
    assert file.contents
    assert file.array(file.graph.initializer[0]).shape == (4 * LARGE,)


def test_sizes_that_are_not_those_of_the_elements_are_refused() -> None:
    made = onnx.ModelProto.FromString(BYTES)
    made.graph.initializer[1].dims[0] = 191
    with pytest.raises(FormatError, match=r"tensor w: got shape \[191, 128\] and other data"):
        load(made.SerializeToString()).run({"x": np.ones((2, 192), np.float32)})


@pytest.mark.parametrize(
    ("what", "more"),
    [
        ("a second graph", MODEL.SerializeToString()),
        ("a graph that is a number", b"\x38\x01"),
        ("a group", b"\x3b\x3c"),
        ("field 0", b"\x00\x01"),
        ("a length that does not end", b"\x3a" + b"\xff" * 12),
        ("a field beyond the end", b"\x12\x7f"),
    ],
)
def test_what_cannot_be_told_apart_is_left_to_protobuf(what: str, more: bytes) -> None:
    data = BYTES + more
    message = parted(data)
    assert message.rest == data, what
    assert not message.elements


def test_a_file_cut_anywhere_is_one_of_our_errors() -> None:
    for end in (*range(40), LARGE, 2 * LARGE, len(BYTES) // 2, len(BYTES) - 200):
        with pytest.raises(FormatError):
            load(BYTES[:end])


def test_elements_that_stand_twice_are_the_last_ones_as_protobuf_has_them() -> None:
    made = onnx.ModelProto.FromString(BYTES)
    tensor = made.graph.initializer[1].SerializeToString()
    other = WEIGHTS["w"] * 2
    twice = tensor + onnx.TensorProto(raw_data=other.tobytes()).SerializeToString()
    del made.graph.initializer[:]
    graph = made.graph.SerializeToString() + b"\x2a" + length(len(twice)) + twice
    made.ClearField("graph")
    data = made.SerializeToString() + b"\x3a" + length(len(graph)) + graph
    file = read(data)
    np.testing.assert_array_equal(file.array(file.graph.initializer[0]), other)


def length(value: int) -> bytes:
    digits = bytearray()
    while value > 127:
        digits.append(value & 127 | 128)
        value >>= 7
    return bytes([*digits, value])
