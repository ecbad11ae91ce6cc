"""GGUF files written: whole or not at all, tensor by tensor, so that no two of them need be in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from struct import pack

import numpy as np
from numpy.typing import NDArray

from nnc.arguments import checked
from nnc.classes import dataclass
from nnc.core.precautions.replacement import Chunk, write_atomically
from nnc.core.values.spec import Shape
from nnc.errors import UsageError
from nnc.language.gguf.file_format import (
    ALIGNMENT_KEY,
    BY_NAME,
    ELEMENT_KINDS,
    MAGIC,
    NUMBERS,
    USUAL_ALIGNMENT,
    VERSIONS,
    MetadataValue,
    Plain,
    TensorRow,
    ValueKind,
)


@dataclass(frozen=True, slots=True, eq=False)
class TensorSource:
    """A tensor to be written: its name, shape, element type, and what gives its bytes when their turn comes."""

    name: str
    shape: Shape
    kind: str
    read: Callable[[], NDArray[np.uint8]]

    @classmethod
    def of(cls, name: str, array: NDArray[np.generic]) -> TensorSource:
        """Numbers in f32, f16, f64 or integers, as they are."""
        codes = {"f4": "f32", "f2": "f16", "f8": "f64", "i1": "i8", "i2": "i16", "i4": "i32", "i8": "i64"}
        kind = codes.get(array.dtype.str[1:], "")
        if not kind:
            raise UsageError("write_gguf", got=f"{name}: {array.dtype}", need=f"one of {', '.join(codes.values())}")
        whole = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False))
        return cls(name, array.shape, kind, lambda: whole.reshape(-1).view(np.uint8))

    def row(self, start: int) -> TensorRow:
        """What the table says of it; UsageError where rows are no whole blocks."""
        kind = BY_NAME.get(self.kind)
        if kind is None or not 1 <= len(self.shape) <= 4 or self.shape[-1] % kind.block:
            got, need = f"{self.name}: {self.kind} {list(self.shape)}", "1 to 4 axes, and a type whose blocks fill rows"
            raise UsageError("write_gguf", got=got, need=need, fix="keep this tensor in f16")
        return TensorRow(self.name, kind, self.shape, start)


@checked
def write_gguf(
    path: Path | str, metadata: Mapping[str, MetadataValue | Plain], tensors: Iterable[TensorSource]
) -> None:
    """Write a file of version 3. Plain integers are u32 where they fit, floats f32, lists of texts arrays."""
    values = {
        key: value if isinstance(value, MetadataValue) else value_of(key, value) for key, value in metadata.items()
    }
    held = values.get(ALIGNMENT_KEY)
    alignment = held.value if held is not None and isinstance(held.value, int) else USUAL_ALIGNMENT
    sources, rows, start = list(tensors), list[TensorRow](), 0
    for source in sources:
        rows.append(source.row(start))
        start += -(-rows[-1].nbytes // alignment) * alignment
    if len({row.name for row in rows}) < len(rows):
        raise UsageError("write_gguf", got="two tensors of one name", need="a name for each")
    write_atomically(Path(path), _chunks(values, sources, rows, alignment))


def value_of(key: str, value: Plain | Sequence[str]) -> MetadataValue:
    """A plain value with the kind that GGUF's own tools give it."""
    if isinstance(value, np.ndarray):
        if value.dtype not in ELEMENT_KINDS or value.ndim != 1:
            raise UsageError("write_gguf", got=f"{key}: {value.dtype} {list(value.shape)}", need="a list of numbers")
        return MetadataValue(ELEMENT_KINDS[value.dtype], value)
    if isinstance(value, str):
        return MetadataValue(ValueKind.TEXT, value)
    if isinstance(value, bool):
        return MetadataValue(ValueKind.BOOL, value)
    if isinstance(value, int):
        fits = 0 <= value < 1 << 32
        return MetadataValue(ValueKind.U32 if fits else ValueKind.I64, value)
    if isinstance(value, float):
        return MetadataValue(ValueKind.F32, value)
    return MetadataValue(ValueKind.TEXT, tuple(value))


def _chunks(
    values: Mapping[str, MetadataValue], sources: Sequence[TensorSource], rows: Sequence[TensorRow], alignment: int
) -> Iterator[Chunk]:
    header = [MAGIC, pack("<IQQ", VERSIONS[-1], len(rows), len(values))]
    for key, value in values.items():
        header += [_text(key), *_value(value)]
    for row in rows:
        sizes = pack(f"<{len(row.shape)}Q", *reversed(row.shape))
        header += [_text(row.name), pack("<I", len(row.shape)), sizes, pack("<IQ", row.kind.number, row.start)]
    whole = b"".join(header)
    yield whole + bytes(-len(whole) % alignment)
    for source, row in zip(sources, rows, strict=True):
        data = np.ascontiguousarray(source.read()).reshape(-1).view(np.uint8)
        if data.nbytes != row.nbytes:
            got = f"{row.name}: {data.nbytes:,} bytes for {row.kind.name} {list(row.shape)}"
            raise UsageError("write_gguf", got=got, need=f"{row.nbytes:,}")
        yield data.data
        yield bytes(-row.nbytes % alignment)


def _text(text: str) -> bytes:
    content = text.encode()
    return pack("<Q", len(content)) + content


def _value(held: MetadataValue) -> list[bytes]:
    value = held.value
    if isinstance(value, tuple):
        return [pack("<IIQ", ValueKind.ARRAY, ValueKind.TEXT, len(value)), *map(_text, value)]
    if isinstance(value, np.ndarray):
        content = value.astype(NUMBERS[held.kind], copy=False).tobytes()
        return [pack("<IIQ", ValueKind.ARRAY, held.kind, len(value)), content]
    if isinstance(value, str):
        return [pack("<I", ValueKind.TEXT), _text(value)]
    return [pack("<I", held.kind), np.asarray(value, NUMBERS[held.kind]).tobytes()]
