"""GGUF files read: every count, size, offset and text is checked against the file before it is used.

A file is read, or mapped where that is asked for (`SECURITY.md`). Nothing of the tensors is touched before they are
asked for by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from struct import unpack_from

import numpy as np
from numpy.typing import NDArray

from nnc.arguments import checked
from nnc.classes import dataclass
from nnc.core.precautions.reading import HeldFile, MappedFile
from nnc.errors import FormatError
from nnc.language.gguf.file_format import (
    ALIGNMENT_KEY,
    ELEMENT_TYPES,
    MAGIC,
    MOST_ALIGNMENT,
    MOST_ELEMENTS,
    MOST_HEADER_BYTES,
    MOST_KEY_BYTES,
    MOST_RANK,
    MOST_TENSORS,
    MOST_TEXTS,
    MOST_VALUES,
    NUMBERS,
    USUAL_ALIGNMENT,
    VERSIONS,
    MetadataValue,
    Plain,
    TensorRow,
    ValueKind,
    malformed,
)

NEED = "a readable GGUF file"
# Bytes that are read at first, and more of them each time: a vocabulary is some megabytes.
FIRST_PART = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class GgufFile:
    """What a file holds: metadata by key, and rows of tensors by name, whose bytes are read when asked for."""

    path: Path
    metadata: Mapping[str, MetadataValue]
    tensors: Mapping[str, TensorRow]
    file: HeldFile

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self.file.size

    @property
    def mapping(self) -> MappedFile | None:
        """Its map, where it is mapped."""
        return self.file if isinstance(self.file, MappedFile) else None

    def bytes(self, name: str) -> NDArray[np.uint8]:
        """The bytes of a tensor, rows [rows, bytes of a row]; read-only views of the file where it is mapped."""
        row = self._row(name)
        shape = (row.nbytes // max(row.row_bytes, 1), row.row_bytes)
        if self.mapping is not None:
            self.mapping.check()
            return np.frombuffer(self.mapping.content, np.uint8, row.nbytes, row.start).reshape(shape)
        data = np.empty(shape, np.uint8)
        self.read(name, 0, data)
        return data

    def read(self, name: str, start: int, rows: NDArray[np.uint8]) -> None:
        """Read rows from `start` on into `rows` [rows, bytes of a row], in C order: nothing else is read."""
        row = self._row(name)
        place = row.start + start * row.row_bytes
        if start < 0 or rows.shape[1:] != (row.row_bytes,) or place + rows.nbytes > row.start + row.nbytes:
            got = f"rows {list(rows.shape)} from {start} on"
            raise FormatError(str(self.path), got=got, need=f"rows of {row.row_bytes} bytes of {name}")
        self.file.read(rows.reshape(-1).data, place)

    def _row(self, name: str) -> TensorRow:
        row = self.tensors.get(name)
        if row is None:
            raise FormatError(str(self.path), got=f"no tensor {name!r}", need=f"one of its {len(self.tensors)}")
        return row

    def without_texts(self) -> GgufFile:
        """The same file without its arrays of texts: a vocabulary takes some 10 MB, and is read once."""
        kept = {key: held for key, held in self.metadata.items() if not isinstance(held.value, tuple)}
        return replace(self, metadata=kept)

    def value(self, key: str) -> Plain | None:
        """A metadata value; None where there is none of this key."""
        held = self.metadata.get(key)
        return None if held is None else held.value

    def integer(self, key: str, default: int | None = None) -> int:
        """An integer ≥ 0; FormatError where it is none, or absent without a default."""
        value = self.value(key)
        value = default if value is None else value
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise malformed(str(self.path), f"{key} that is {_said(value)}", "an integer ≥ 0")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """A finite number."""
        value = self.value(key)
        value = default if value is None else value
        if not isinstance(value, int | float) or isinstance(value, bool) or not np.isfinite(value):
            raise malformed(str(self.path), f"{key} that is {_said(value)}", "a finite number")
        return float(value)

    def text(self, key: str, default: str | None = None) -> str:
        """A text."""
        value = self.value(key)
        value = default if value is None else value
        if not isinstance(value, str):
            raise malformed(str(self.path), f"{key} that is {_said(value)}", "a text")
        return value

    def flag(self, key: str, default: bool) -> bool:
        """A truth value."""
        value = self.value(key)
        value = default if value is None else value
        if not isinstance(value, bool):
            raise malformed(str(self.path), f"{key} that is {_said(value)}", "a truth value")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """An array of texts; none where the key is absent."""
        value = self.value(key)
        if value is None or (isinstance(value, np.ndarray) and not len(value)):
            return ()
        if not isinstance(value, tuple):
            raise malformed(str(self.path), f"{key} that is {_said(value)}", "an array of texts")
        return value

    def numbers(self, key: str) -> NDArray[np.generic]:
        """An array of numbers; none where the key is absent."""
        value = self.value(key)
        if value is None or (isinstance(value, tuple) and not value):
            return np.zeros(0, np.float32)
        if not isinstance(value, np.ndarray):
            raise malformed(str(self.path), f"{key} that is {_said(value)}", "an array of numbers")
        return value


def _said(value: Plain | None) -> str:
    return "missing" if value is None else type(value).__name__


@checked
def read_gguf(path: Path | str, *, mapped: bool = False) -> GgufFile:
    """The metadata and the table of tensors of a GGUF file; FormatError for anything that is not whole.

    With `mapped` the bytes of tensors are those of the file on the disk, read where they are touched. Nobody may change
    such a file meanwhile: where it was shortened, the next use of a tensor is a FormatError.
    """
    place = Path(path)
    file = MappedFile(place, NEED) if mapped else HeldFile(place, NEED)
    header = _Header(file)
    metadata, rows, alignment = _parsed(header)
    return GgufFile(place, metadata, _placed(header, rows, alignment), file)


class _Header:
    """The beginning of a file, of which more is read as it is asked for."""

    def __init__(self, file: HeldFile) -> None:
        self.place, self._file, self.size = file.path, file, file.size
        self._content = bytearray()
        self.position = 0
        self._texts = 0

    def take(self, count: int, what: str) -> int:
        """The place of the next `count` bytes, which are there."""
        start, stop = self.position, self.position + count
        if stop > self.size:
            raise malformed(self.place, f"{what} beyond the end of {self.size:,} bytes")
        if stop > MOST_HEADER_BYTES:
            raise malformed(self.place, f"a header of {stop:,} bytes or more", f"at most {MOST_HEADER_BYTES:,}")
        if stop > len(self._content):
            have = len(self._content)
            more = bytearray(min(self.size, max(stop, 2 * have, FIRST_PART)) - have)
            self._file.read(memoryview(more), have)
            self._content += more
        self.position = stop
        return start

    def unsigned(self, nbytes: int, what: str) -> int:
        """An integer of so many bytes."""
        start = self.take(nbytes, what)
        return int.from_bytes(self._content[start : start + nbytes], "little")

    def count(self, most: int, what: str) -> int:
        """A count of 64 bits."""
        value = self.unsigned(8, f"the number of {what}")
        if value > most:
            raise malformed(self.place, f"{value:,} {what}", f"at most {most:,}")
        return value

    def text(self, most: int, what: str) -> str:
        """A text of at most so many bytes."""
        length = self.count(most, f"bytes of {what}")
        start = self.take(length, what)
        return self._decoded(start, length, what)

    def _decoded(self, start: int, length: int, what: str) -> str:
        try:
            return self._content[start : start + length].decode()
        except UnicodeDecodeError:
            raise malformed(self.place, f"{what} that is no UTF-8") from None

    def kind(self, what: str) -> ValueKind:
        """The kind of a value."""
        number = self.unsigned(4, what)
        if number >= len(ValueKind):
            raise malformed(self.place, f"{what} {number}", f"one of 0 to {len(ValueKind) - 1}")
        return ValueKind(number)

    def value(self, key: str) -> MetadataValue:
        """A value of any kind."""
        kind = self.kind(f"{key} of kind")
        if kind is not ValueKind.ARRAY:
            return MetadataValue(kind, self._single(kind, key))
        kind = self.kind(f"{key}: an array of kind")
        if kind is ValueKind.ARRAY:
            raise malformed(self.place, f"{key}: an array of arrays", "arrays of texts or numbers")
        if kind is ValueKind.TEXT:
            return MetadataValue(kind, self._many_texts(key))
        dtype = NUMBERS[kind]
        count = self.count(self.size // dtype.itemsize, f"elements of {key}")
        start = self.take(count * dtype.itemsize, key)
        with memoryview(self._content) as content:
            own = bytes(content[start : self.position])
        array = np.frombuffer(own, np.uint8 if dtype == "?" else dtype)
        return MetadataValue(kind, array.astype(bool) if dtype == "?" else array)

    def _many_texts(self, key: str) -> tuple[str, ...]:
        count = self.count(MOST_TEXTS - self._texts, f"texts in {key} and before")
        self._texts += count
        # As `text`, but in one go: a vocabulary has a hundred thousand, and half a second would pass.
        parts, position, have = [], self.position, len(self._content)
        for _ in range(count):
            if position + 8 > have:
                self.position = position
                self.take(8, key)
                have = len(self._content)
            (length,) = unpack_from("<Q", self._content, position)
            position += 8
            if position + length > have:
                self.position = position
                self.take(length, key)
                have = len(self._content)
            parts.append(self._content[position : position + length])
            position += length
        self.position = position
        self.take(0, key)
        try:
            # Between the texts, so that no character goes from one to the next.
            texts = b"\0".join(parts).decode().split("\0")
            return tuple(texts if len(texts) == count else [part.decode() for part in parts])
        except UnicodeDecodeError:
            raise malformed(self.place, f"{key} that is no UTF-8") from None

    def _single(self, kind: ValueKind, key: str) -> bool | int | float | str:
        if kind is ValueKind.TEXT:
            return self.text(MOST_HEADER_BYTES, key)
        if kind is ValueKind.BOOL:
            return self.unsigned(1, key) != 0
        dtype = NUMBERS[kind]
        start = self.take(dtype.itemsize, key)
        value: int | float = np.frombuffer(self._content[start : self.position], dtype)[0].item()
        return value


def _parsed(header: _Header) -> tuple[dict[str, MetadataValue], list[TensorRow], int]:
    """Metadata, rows of tensors with offsets from the start of the data, and the alignment of the data."""
    magic, version = header.unsigned(4, "the first bytes").to_bytes(4, "little"), header.unsigned(4, "the version")
    if magic != MAGIC:
        raise malformed(header.place, f"a file that begins with {magic!r}", f"{MAGIC!r}")
    if version not in VERSIONS:
        turned = int.from_bytes(version.to_bytes(4, "little"), "big") in VERSIONS
        got = "big-endian numbers" if turned else f"version {version}"
        raise malformed(header.place, got, "a little-endian file of version 2 or 3", "convert it again")
    tensors, values = header.count(MOST_TENSORS, "tensors"), header.count(MOST_VALUES, "metadata values")
    metadata: dict[str, MetadataValue] = {}
    for _ in range(values):
        key = header.text(MOST_KEY_BYTES, "a key")
        if key in metadata:
            raise malformed(header.place, f"two values of key {key!r}", "one of each")
        metadata[key] = header.value(key)
    rows = [_row(header) for _ in range(tensors)]
    alignment = metadata.get(ALIGNMENT_KEY, MetadataValue(ValueKind.U32, USUAL_ALIGNMENT)).value
    if not isinstance(alignment, int) or not 1 <= alignment <= MOST_ALIGNMENT or alignment & (alignment - 1):
        raise malformed(header.place, f"{ALIGNMENT_KEY} that is no such number", f"a power of 2 ≤ {MOST_ALIGNMENT}")
    return metadata, rows, int(alignment)


def _row(header: _Header) -> TensorRow:
    """What is said of a tensor, its offset in the place of its start."""
    name = header.text(MOST_KEY_BYTES, "the name of a tensor")
    rank = header.unsigned(4, f"the rank of {name}")
    if rank > MOST_RANK:
        raise malformed(header.place, f"{name} of {rank} axes", f"at most {MOST_RANK}")
    sizes, elements = [], 1
    for _ in range(rank):
        sizes.append(header.count(MOST_ELEMENTS, f"elements along an axis of {name}"))
        elements *= sizes[-1]
    if elements > MOST_ELEMENTS:
        raise malformed(header.place, f"{name} of {elements} elements", "at most 2^62")
    number = header.unsigned(4, f"the element type of {name}")
    kind = ELEMENT_TYPES.get(number)
    if kind is None:
        raise malformed(header.place, f"{name} of element type {number}", "a type of ggml", "quantize it otherwise")
    shape = tuple(reversed(sizes))
    if (shape[-1] if shape else 1) % kind.block:
        raise malformed(header.place, f"{name} of {kind.name} {list(shape)}", f"rows of whole blocks of {kind.block}")
    return TensorRow(name, kind, shape, header.unsigned(8, f"the offset of {name}"))


def _placed(header: _Header, rows: list[TensorRow], alignment: int) -> dict[str, TensorRow]:
    """The rows by name with places in the file: aligned, inside, and none over another."""
    start = -(-header.position // alignment) * alignment
    placed: dict[str, TensorRow] = {}
    end, before = start, ""
    for row in sorted(rows, key=lambda row: (row.start, row.nbytes)):
        begin = start + row.start
        if row.start % alignment:
            raise malformed(header.place, f"{row.name} at offset {row.start}", f"a multiple of {alignment}")
        if begin + row.nbytes > header.size:
            got = f"{row.name}: bytes {begin:,} to {begin + row.nbytes:,} of a file of {header.size:,}"
            raise malformed(header.place, got, "tensors inside of the file")
        if begin < end:
            raise malformed(header.place, f"{row.name} over {before}", "tensors that do not overlap")
        if row.name in placed:
            raise malformed(header.place, f"two tensors named {row.name!r}", "one of each")
        placed[row.name] = TensorRow(row.name, row.kind, row.shape, begin)
        end, before = begin + row.nbytes, row.name
    return {row.name: placed[row.name] for row in rows}
