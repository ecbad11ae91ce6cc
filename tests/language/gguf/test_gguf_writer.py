"""Files that are written are read back, value by value and byte by byte."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnc.errors import FormatError, UsageError
from nnc.language.gguf import MetadataValue, TensorSource, ValueKind, read_gguf, write_gguf

VALUES = {
    "general.architecture": "llama",
    "count": 7,
    "below": -7,
    "rate": 0.5,
    "flag": True,
    "tokens": ("a", "ä", ""),
    "kinds": np.array([1, 3, 6], np.int32),
    "small": MetadataValue(ValueKind.U8, 255),
    "long": MetadataValue(ValueKind.U64, 2**64 - 1),
    "flags": np.array([True, False]),
}


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    place = tmp_path / "a.gguf"
    arrays = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "h": np.ones((1, 5), np.float16)}
    packed = TensorSource("q", (2, 64), "q4_0", lambda: np.arange(72, dtype=np.uint8))
    write_gguf(place, VALUES, [*(TensorSource.of(name, array) for name, array in arrays.items()), packed])
    file = read_gguf(place)
    assert list(file.metadata) == list(VALUES)
    assert file.metadata["small"] == VALUES["small"]
    assert file.value("long") == 2**64 - 1
    assert file.value("below") == -7
    assert file.texts("tokens") == ("a", "ä", "")
    assert file.numbers("flags").tolist() == [True, False]
    assert {name: row.shape for name, row in file.tensors.items()} == {"w": (2, 3), "h": (1, 5), "q": (2, 64)}
    assert file.bytes("w").view(np.float32).tolist() == arrays["w"].tolist()
    assert file.bytes("q").tolist() == np.arange(72).reshape(2, 36).tolist()
    second = np.empty((1, 36), np.uint8)
    file.read("q", 1, second)
    assert second.tolist() == [list(range(36, 72))]
    for start, rows in ((-1, second), (2, second), (0, np.empty((1, 35), np.uint8))):
        with pytest.raises(FormatError, match=r"rows \[1, 3[56]\] from .* need rows of 36 bytes of q"):
            file.read("q", start, rows)


def test_written_again_it_is_the_same_file(tmp_path: Path) -> None:
    first, second = tmp_path / "a.gguf", tmp_path / "b.gguf"
    write_gguf(first, VALUES, [TensorSource.of("w", np.zeros((3, 3), np.float32))])
    file = read_gguf(first)
    rows = [
        TensorSource(row.name, row.shape, row.kind.name, lambda row=row: file.bytes(row.name))
        for row in file.tensors.values()
    ]
    write_gguf(second, file.metadata, rows)
    assert first.read_bytes() == second.read_bytes()


def test_what_cannot_be_written_leaves_no_file(tmp_path: Path) -> None:
    place = tmp_path / "a.gguf"
    zeros = np.zeros(10, np.uint8)
    for source, match in (
        (TensorSource("w", (1, 33), "q4_0", lambda: zeros), "blocks fill rows"),
        (TensorSource("w", (1, 32), "q9", lambda: zeros), "blocks fill rows"),
        (TensorSource("w", (1, 32), "q4_0", lambda: zeros), "10 bytes"),
    ):
        with pytest.raises(UsageError, match=match):
            write_gguf(place, {}, [source])
    with pytest.raises(UsageError, match="one of f32"):
        TensorSource.of("w", np.zeros(3, bool))
    assert not place.exists()


def test_a_file_without_its_texts_has_the_same_tensors(tmp_path: Path) -> None:
    write_gguf(tmp_path / "a.gguf", {"a": 1, "b": ("x", "y")}, [TensorSource.of("w", np.ones((2, 3), np.float32))])
    file = read_gguf(tmp_path / "a.gguf")
    lean = file.without_texts()
    assert (file.texts("b"), lean.texts("b"), lean.integer("a")) == (("x", "y"), (), 1)
    assert lean.bytes("w").tolist() == file.bytes("w").tolist()
