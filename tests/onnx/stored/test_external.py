"""External data that is mapped: in the file's own pages, and looked after."""

from __future__ import annotations

import copy
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
from tests.onnx.models import model, node

import onnx
from nnc.errors import FormatError, UsageError
from nnc.onnx import load, read

W = np.random.default_rng(0).standard_normal((256, 128)).astype(np.float32)
X = np.ones((2, 256), np.float32)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = model([node("MatMul", "x w", "y")], {"x": ["n", 256]}, ["y"], {"w": W})
    onnx.save(made, tmp_path / "m.onnx", save_as_external_data=True, location="weights", size_threshold=0)
    return tmp_path / "m.onnx"


def overwrite(path: Path, content: bytes) -> None:
    with (path.parent / "weights").open("r+b") as file:
        file.write(content)


def test_mapped_weights_are_the_pages_of_the_file_and_give_the_same_bits(path: Path) -> None:
    mapped, plain = load(path, mapped=True), load(path)
    np.testing.assert_array_equal(mapped.run({"x": X})["y"], plain.run({"x": X})["y"])
    overwrite(path, np.zeros_like(W).tobytes())  # what is written is seen, as the docs say
    assert not mapped.run({"x": X})["y"].any()  # type: ignore[union-attr]
    assert plain.run({"x": X})["y"].any()  # type: ignore[union-attr]


@pytest.mark.parametrize("when", ["before the first run", "behind it", "before another size", "with the array at hand"])
def test_a_mapped_file_that_was_shortened_is_an_error_of_ours(path: Path, when: str) -> None:
    loaded = load(path, mapped=True)
    if when != "before the first run":
        loaded.run({"x": X})
    held = loaded.file.array(loaded.file.graph.initializer[0]) if "array" in when else None
    os.truncate(path.parent / "weights", 100)
    count = 3 if "size" in when or held is not None else 2
    with pytest.raises(FormatError, match="became shorter meanwhile|has changed since the model was read"):
        loaded.run({"x": np.ones((count, 256), np.float32)})


def test_a_file_that_was_removed_while_mapped_is_still_there_for_its_model(path: Path) -> None:
    loaded = load(path, mapped=True)
    want = loaded.run({"x": X})["y"]
    (path.parent / "weights").unlink()
    np.testing.assert_array_equal(loaded.run({"x": X})["y"], want)
    np.testing.assert_array_equal(loaded.run({"x": np.ones((3, 256), np.float32)})["y"][:1], want[:1])  # type: ignore[index]


def test_elements_off_their_alignment_are_read(path: Path) -> None:
    made = onnx.load(path, load_external_data=False)
    (path.parent / "weights").write_bytes(b"\0" + W.tobytes())
    del made.graph.initializer[0].external_data[:]
    for key, value in (("location", "weights"), ("offset", "1")):
        made.graph.initializer[0].external_data.add(key=key, value=value)
    path.write_bytes(made.SerializeToString())
    loaded = load(path, mapped=True)
    np.testing.assert_allclose(loaded.run({"x": X})["y"], X @ W, rtol=1e-4, atol=1e-5)
    overwrite(path, bytes(1 + W.nbytes))
    assert loaded.run({"x": X})["y"].any()  # type: ignore[union-attr]


def test_copies_share_the_map_and_another_process_needs_the_path(path: Path) -> None:
    loaded = load(path, mapped=True)
    for twin in (copy.copy(loaded), copy.deepcopy(loaded)):
        np.testing.assert_array_equal(twin.run({"x": X})["y"], loaded.run({"x": X})["y"])
    with pytest.raises(UsageError, match="a model with external data"):
        pickle.dumps(loaded)


def test_who_has_no_path_cannot_map(path: Path) -> None:
    for source in (path.read_bytes(), onnx.load(path)):
        with pytest.raises(UsageError, match="mapped=True without a path"):
            read(source, mapped=True)
