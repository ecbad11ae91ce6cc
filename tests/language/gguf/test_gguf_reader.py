"""GGUF files as others write them, and files that are none."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from nnc.errors import FormatError
from nnc.language.gguf import MetadataValue, TensorSource, ValueKind, read_gguf, write_gguf

TENSOR = np.arange(8, dtype=np.float32).reshape(2, 4)


def text(content: str | bytes) -> bytes:
    raw = content.encode() if isinstance(content, str) else content
    return struct.pack("<Q", len(raw)) + raw


def value(key: str, kind: int, content: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + content


def row(name: str = "w", sizes: tuple[int, ...] = (4, 2), kind: int = 0, offset: int = 0) -> bytes:
    return text(name) + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, kind, offset)


def header(values: list[bytes], rows: list[bytes], counts: tuple[int, int] | None = None, version: int = 3) -> bytes:
    tensors, keys = counts or (len(rows), len(values))
    return b"GGUF" + struct.pack("<IQQ", version, tensors, keys) + b"".join(values) + b"".join(rows)


def whole(values: list[bytes], rows: list[bytes], data: bytes = TENSOR.tobytes()) -> bytes:
    start = header(values, rows)
    return start + bytes(-len(start) % 32) + data


def test_a_file_gives_its_values_and_tensors(tmp_path: Path) -> None:
    place = tmp_path / "a.gguf"
    arrays = struct.pack("<IQ", 8, 2) + text("a") + text("ä")
    numbers = struct.pack("<IQ3f", 6, 3, 1.0, 2.0, 3.0)
    values = [value("n", 4, struct.pack("<I", 7)), value("t", 9, arrays), value("f", 9, numbers), value("b", 7, b"\1")]
    place.write_bytes(whole(values, [row()]))
    for mapped in (False, True):
        file = read_gguf(place, mapped=mapped)
        assert file.integer("n") == 7
        assert file.texts("t") == ("a", "ä")
        assert file.numbers("f").tolist() == [1.0, 2.0, 3.0]
        assert file.flag("b", False) is True
        assert file.tensors["w"].shape == (2, 4)
        assert file.bytes("w").view(np.float32).tolist() == TENSOR.tolist()
    with pytest.raises(FormatError, match="n that is int; need a text"):
        file.text("n")
    with pytest.raises(FormatError, match="missing; need an integer"):
        file.integer("absent")
    with pytest.raises(FormatError, match="no tensor 'v'"):
        file.bytes("v")


HOSTILE = {
    "empty": b"",
    "another format": b"PK\3\4" + bytes(40),
    "an older version": header([], [], version=1),
    "big-endian": header([], [], version=3 << 24),
    "2^63 tensors": header([], [], (2**63, 0)),
    "2^64 - 1 values": header([], [], (0, 2**64 - 1)),
    "more tensors than there are": header([], [row()], (2, 0)),
    "a key of 2^63 bytes": header([struct.pack("<Q", 2**63)], [], (0, 1)),
    "an unknown kind": header([value("n", 13, bytes(8))], []),
    "an array of arrays": header([value("n", 9, struct.pack("<IQ", 9, 1) + bytes(12))], []),
    "an array of 2^63 numbers": header([value("n", 9, struct.pack("<IQ", 4, 2**63))], []),
    "an array of 2^63 texts": header([value("n", 9, struct.pack("<IQ", 8, 2**63))], []),
    "bytes that are no text": header([value("n", 8, text(b"\xff\xfe"))], []),
    "a key twice": header([value("n", 0, b"\1"), value("n", 0, b"\2")], []),
    "no power of 2": whole([value("general.alignment", 4, struct.pack("<I", 33))], [row()]),
    "alignment 0": whole([value("general.alignment", 4, struct.pack("<I", 0))], [row()]),
    "an alignment of text": whole([value("general.alignment", 8, text("32"))], [row()]),
    "2^32 - 1 axes": header([], [text("w") + struct.pack("<I", 2**32 - 1)]),
    "2^63 elements": whole([], [row(sizes=(2**63,))]),
    "sizes whose product overflows": whole([], [row(sizes=(2**40, 2**40))]),
    "an element type that there is not": whole([], [row(kind=4)]),
    "half a block": whole([], [row(sizes=(16, 1), kind=2)]),
    "an odd offset": whole([], [row(offset=1)]),
    "beyond the end": whole([], [row(offset=32)]),
    "an offset of 2^64 - 32": whole([], [row(offset=2**64 - 32)]),
    "one over the other": whole([], [row("a"), row("b")]),
    "a name twice": whole([], [row("a", (4,)), row("a", (4,), offset=32)], bytes(64)),
    "truncated": whole([], [row()])[:-1],
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_no_whole_file_is_refused(name: str, tmp_path: Path) -> None:
    place = tmp_path / "a.gguf"
    place.write_bytes(HOSTILE[name])
    for mapped in (False, True):
        with pytest.raises(FormatError, match=r"a\.gguf: got"):
            read_gguf(place, mapped=mapped)


def test_millions_of_texts_are_refused_before_they_are_read(tmp_path: Path) -> None:
    place = tmp_path / "a.gguf"
    values = [value(f"t{number}", 9, struct.pack("<IQ", 8, 300_000) + bytes(2_400_000)) for number in range(2)]
    last = value("t2", 9, struct.pack("<IQ", 8, 1_500_000))
    place.write_bytes(header([*values, last], []))
    with pytest.raises(FormatError, match="1,500,000 texts in t2 and before; need at most 1,400,000"):
        read_gguf(place)


def test_a_mapped_file_that_was_shortened_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "a.gguf"
    write_gguf(place, {"n": MetadataValue(ValueKind.U8, 1)}, [TensorSource.of("w", TENSOR)])
    file, read = read_gguf(place, mapped=True), read_gguf(place)
    with place.open("r+b") as handle:
        handle.truncate(40)
    for each in (file, read):
        with pytest.raises(FormatError, match="shorter"):
            each.bytes("w")
