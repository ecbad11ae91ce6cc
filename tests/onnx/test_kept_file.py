"""Files that another process has looked at: parsed when somebody asks for their graph, and never wrong."""

from __future__ import annotations

import copy
import pickle
import threading
from pathlib import Path

import numpy as np
import pytest
from tests.onnx.models import model, node
from tests.program_folder import entries, folder

import onnx
from nnc.core.settings import SETTINGS
from nnc.errors import BackendError, DTypeError, FormatError, NncError, ShapeError, UsageError
from nnc.onnx import load, read
from nnc.onnx.made.kept_file import FileFacts, KeptFile
from nnc.onnx.runner import OnnxModel

__all__ = ["folder"]
X = np.random.default_rng(2).standard_normal((2, 40)).astype(np.float32)
# More bytes than stay in the message.
LARGE = np.random.default_rng(3).standard_normal((40, 500)).astype(np.float32)
SMALL = np.random.default_rng(4).standard_normal(500).astype(np.float32)


def content(*, listed: bool = False) -> bytes:
    """y = x · w + b, and b · 2, of which the elements of b are raw, or a list of numbers."""
    nodes = [node("MatMul", "x w", "p"), node("Add", "p b", "y"), node("Add", "b b", "twice")]
    made = model(nodes, {"x": ["n", 40]}, ["y", "twice"], {"w": LARGE, "b": SMALL})
    if listed:
        made.graph.initializer[1].CopyFrom(onnx.helper.make_tensor("b", onnx.TensorProto.FLOAT, [500], SMALL.tolist()))
    return made.SerializeToString()


@pytest.fixture(name="known", params=[False, True])
def _known(request: pytest.FixtureRequest) -> OnnxModel:
    """A file whose program is on the disk."""
    load(content(listed=request.param)).run({"x": X})
    loaded = load(content(listed=request.param))
    assert isinstance(loaded.source, KeptFile)
    return loaded


def test_a_run_has_the_same_bits_without_the_graph(known: OnnxModel, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(known.source, KeptFile)
    if known.source.bound(1, SMALL.nbytes).spec.dtype.name == "u8":
        monkeypatch.setattr(KeptFile, "parsed", None)
    answer = known.run({"x": X})
    planned = OnnxModel(read(onnx.load_from_string(content()))).run({"x": X})
    assert {name: value.tobytes() for name, value in answer.items()} == {  # type: ignore[union-attr]
        name: value.tobytes()  # type: ignore[union-attr]
        for name, value in planned.items()
    }
    assert known.outputs == ("y", "twice")


def test_what_else_is_asked_of_it_is_told(known: OnnxModel) -> None:
    assert repr(known) == "OnnxModel(x: float[n, 40]; y; twice)"
    twin = pickle.loads(pickle.dumps(known))
    first = known.run({"x": X})["y"]
    for other in (twin, copy.copy(known), copy.deepcopy(known)):
        assert np.array_equal(other.run({"x": X})["y"], first)
    assert known.memory(n=2).arena > 0
    assert known.compiled(n=2).memory().arena == known.memory(n=2).arena


def test_inputs_that_do_not_fit_are_told_as_ever(known: OnnxModel) -> None:
    planned = load(onnx.load_from_string(content()))
    wrong: list[tuple[dict[str, object], type[NncError]]] = [
        ({}, UsageError),
        ({"x": X, "z": X}, UsageError),
        ({"x": X[:, :39]}, ShapeError),
        ({"x": X.astype(np.float64)}, UsageError),
    ]
    for feeds, kind in wrong:
        messages = []
        for each in (known, planned):
            with pytest.raises(kind) as told:
                each.run(feeds)  # type: ignore[arg-type]
            messages.append(str(told.value))
        assert messages[0] == messages[1]
    assert np.array_equal(known.run({"x": X[:1]})["y"], planned.run({"x": X[:1]})["y"])


def test_sizes_and_devices_are_refused_as_ever(folder: Path) -> None:
    load(content())
    with pytest.raises(UsageError, match="a size of m; need one of n"):
        load(content(), {"m": 3})
    with pytest.raises(UsageError, match="mapped=True without a path"):
        load(content(), mapped=True)
    with pytest.raises(NncError):
        load(content(), device="cuda:77")


@pytest.mark.parametrize("text", [b"", b"[]", b"{", b'{"name": 1}', b'{"name": "g", "outputs": 3}', b"[" * 9000])
def test_facts_that_are_none_are_asked_of_the_file(text: bytes, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    load(content())
    assert len(entries(folder, "support")) == 1
    monkeypatch.setattr("nnc.core.precautions.disk_cache.DiskCache.load", lambda *_: text)
    assert load(content()).outputs == ("y", "twice")


def test_nothing_is_known_of_files_that_are_refused(folder: Path) -> None:
    unsupported = model([node("NoSuch", "x", "y")], {"x": [1]}, ["y"], {}).SerializeToString()
    for _ in range(2):
        with pytest.raises(BackendError):
            load(unsupported)
        with pytest.raises(FormatError):
            load(b"no message")
    assert entries(folder, "support") == []


def test_without_a_cache_folder_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SETTINGS, "cache_folder", None)
    load(content())
    assert not isinstance(load(content()).source, KeptFile)


def test_one_thread_parses_and_all_have_the_same(known: OnnxModel) -> None:
    files = []
    threads = [threading.Thread(target=lambda: files.append(known.file)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(file) for file in files}) == 1
    assert files[0].weights is known.source.weights


def test_names_that_are_no_text_are_not_kept(folder: Path) -> None:
    FileFacts(b"\xff", ("y",)).keep("digest")  # type: ignore[arg-type]
    assert entries(folder, "support") == []


def test_numbers_of_no_tensor_are_index_errors(known: OnnxModel) -> None:
    for number in (-1, 2, 1 << 40):
        with pytest.raises(IndexError):
            known.source.bound(number, 4)


def test_other_types_of_sources_are_told() -> None:
    for source in (3, None, onnx.GraphProto()):
        with pytest.raises((NncError, TypeError)):
            load(source)  # type: ignore[arg-type]


def test_elements_of_another_size_are_read_by_the_package() -> None:
    packed = onnx.helper.make_tensor("b", onnx.TensorProto.INT4, [2], np.array([0x21], np.uint8).tobytes(), raw=True)
    made = model([node("Cast", "b", "y", to=1)], {"x": [1]}, ["y"], {})
    made.graph.initializer.append(packed)
    for _ in range(2):
        try:
            answer = load(made.SerializeToString()).run({"x": X[0, :1]})
        except DTypeError:
            pytest.skip("no elements of 4 bits here")
        assert np.array_equal(answer["y"], [1, 2])
