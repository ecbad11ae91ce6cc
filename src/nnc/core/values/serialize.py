"""Safetensors files: tensors by name, written whole or not at all, read without a copy.

    file = u64 header length | JSON header, padded with spaces | the elements, one tensor after another

A file replaces an older one whole or not at all (`nnc.core.precautions.replacement`). Nothing in a file is executed,
and every offset is checked against the shapes and the file's size before use. Files are read, whole or tensor by tensor
(`file_tensors`), and mapped where that is asked for: then their bytes are those on the disk, whoever changes them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from nnc.arguments import checked
from nnc.classes import dataclass
from nnc.core.precautions.reading import HeldFile, MappedFile, kind_of_bytes
from nnc.core.precautions.replacement import Chunk, write_atomically
from nnc.core.values.device import CPU
from nnc.core.values.dtype import C64, DTYPES, U16, U32, U64, DType
from nnc.core.values.spec import Shape, TensorSpec
from nnc.core.values.storage import Storage
from nnc.core.values.tensor import Array, Tensor
from nnc.errors import FormatError, UsageError

# A header of this many tensors is read in 4 s, and there are models of 60,000 tensors in one file.
MAX_TENSORS = 100_000
MAX_HEADER_BYTES = 1 << 25
ALIGNMENT = 8
METADATA = "__metadata__"
NEED = "a readable safetensors file"

_NAMES: dict[DType, str] = {dtype: dtype.name.upper() for dtype in (*DTYPES, U64, U32, U16, C64)}
_DTYPES = {name: dtype for dtype, name in _NAMES.items()}
_LIMITS = f"at most {MAX_TENSORS:,} tensors and {MAX_HEADER_BYTES:,} bytes of header"


@dataclass(frozen=True, slots=True)
class TensorFile:
    """What a file holds: tensors, which are views of one memory, and its text metadata."""

    tensors: Mapping[str, Tensor]
    metadata: Mapping[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class FileTensor:
    """A tensor that stays in its file, from byte `offset` on: each time that elements are asked for they are read."""

    spec: TensorSpec
    file: HeldFile
    offset: int

    @property
    def shape(self) -> Shape:
        """Sizes, slowest axis first."""
        return self.spec.shape

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self.spec.dtype

    def numpy(self) -> Array:
        """All elements, in memory of their own. FormatError where the file has become shorter."""
        return self.flat(0, self.spec.elements).reshape(self.shape)

    def flat(self, start: int, stop: int) -> Array:
        """Elements start … stop - 1 in row-major order."""
        content = np.empty((stop - start) * self.dtype.itemsize, np.uint8)
        self.file.read(content.data, self.offset + start * self.dtype.itemsize)
        return content.view(self.dtype.numpy)


@checked
def save_tensors(
    path: Path | str,
    tensors: Mapping[str, Tensor | FileTensor],
    metadata: Mapping[str, str] | None = None,
    *,
    keep: int = 1,
) -> None:
    """Write all tensors, in order of name, and the metadata. The same content gives the same bytes.

    With `keep` older files are kept too (`write_atomically`). UsageError for more than a reader takes.
    """
    header: dict[str, object] = {}
    if METADATA in tensors:
        raise UsageError("save", got=f"a tensor named {METADATA}", need="another name: the format keeps this one")
    if metadata:
        header[METADATA] = dict(sorted(metadata.items()))
    start = 0
    for name, tensor in sorted(tensors.items()):
        if isinstance(tensor, Tensor):
            tensor.check_file()
        if tensor.dtype not in _NAMES:
            raise UsageError("save", got=f"{name}: {tensor.spec}", need="an element type of safetensors", fix="cast it")
        stop = start + tensor.spec.nbytes
        header[name] = {"dtype": _NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [start, stop]}
        start = stop
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % ALIGNMENT)
    if len(tensors) > MAX_TENSORS or len(text) > MAX_HEADER_BYTES:
        got, need = f"{len(tensors)} tensors in a header of {len(text)} bytes", f"{_LIMITS} in one file"
        raise UsageError("save", got=got, need=need, fix="write several files")

    def chunks() -> Iterator[Chunk]:
        yield len(text).to_bytes(8, "little")
        yield text
        for _, tensor in sorted(tensors.items()):
            yield _bytes_of(tensor)

    write_atomically(Path(path), chunks(), keep=keep)


@checked
def checksum(tensors: Mapping[str, Tensor], facts: str = "") -> str:
    """sha256 of what is said of the tensors, their names, specs and elements."""
    digest = hashlib.sha256(facts.encode("utf-8", "surrogatepass"))
    for name, tensor in sorted(tensors.items()):
        digest.update(json.dumps([name, str(tensor.spec.on(CPU))]).encode())
        digest.update(_bytes_of(tensor))
    return digest.hexdigest()


def _bytes_of(tensor: Tensor | FileTensor) -> memoryview:
    """The elements, one behind the other; those of a device in a copy."""
    array = tensor.numpy() if isinstance(tensor, FileTensor) else tensor.to(CPU).numpy()
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


@checked
def load_tensors(path: Path | str, *, mapped: bool = False, private: bool = False) -> TensorFile:
    """Read a safetensors file, straight into the memory of its tensors. FormatError says what is wrong with it.

    With `mapped` nothing is read before it is touched, and the tensors are read-only: for files larger than memory.
    Nobody may change such a file meanwhile: what is written into it is seen, and where it was shortened the next use of
    a tensor is a FormatError. Where they are `private` too they may be written: such pages are this process's own then.
    """
    if mapped:
        mapping = MappedFile(path, NEED, private=private)
        table = _table(mapping)
        body = Storage.mapping(mapping, table.start)
    else:
        file = HeldFile(path, NEED)
        table = _table(file)
        body = Storage.allocate(file.size - table.start, "file")
        file.read(body.bytes.data, table.start)
    tensors = {name: Tensor(spec, body, begin) for name, (spec, begin) in table.places.items()}
    return TensorFile(tensors, table.metadata)


@checked
def file_tensors(path: Path | str) -> Mapping[str, FileTensor]:
    """The tensors of a safetensors file, each read when it is asked for. FormatError as `load_tensors` has it."""
    file = HeldFile(path, NEED)
    table = _table(file)
    return {name: FileTensor(spec, file, table.start + begin) for name, (spec, begin) in table.places.items()}


@checked
def read_metadata(path: Path | str) -> Mapping[str, str]:
    """The text metadata of a safetensors file, of which no tensor is read."""
    return _table(HeldFile(path, NEED)).metadata


@dataclass(frozen=True, slots=True)
class _Table:
    """What a header says: metadata, and spec and first byte of each tensor, counted from `start` of the file on."""

    metadata: Mapping[str, str]
    places: Mapping[str, tuple[TensorSpec, int]]
    start: int


def _table(file: HeldFile) -> _Table:
    """What the header of a file says, once every part of it fits the others and the file's size."""
    place = Path(file.path)
    header, start = _header(place, file)
    metadata = header.pop(METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise _malformed(place, "metadata that is not text")
    places: dict[str, tuple[TensorSpec, int]] = {}
    ranges: list[tuple[int, int]] = []
    for name, entry in header.items():
        spec, begin, end = _entry(place, name, entry, file.size - start)
        ranges.append((begin, end))
        places[name] = (spec, begin)
    _check_ranges(place, ranges, file.size - start)
    return _Table(metadata, places, start)


def _header(place: Path, file: HeldFile) -> tuple[dict[str, object], int]:
    """The header and where it ends."""
    if file.size < 8:
        raise _malformed(place, f"{file.size} bytes")
    front = bytearray(8)
    file.read(memoryview(front), 0)
    length = int.from_bytes(front, "little")
    if length > file.size - 8:
        kind = kind_of_bytes(front)
        if kind:
            fix = "read it with what wrote it, and nnc.save its arrays"
            raise FormatError(str(place), got=kind, need="a safetensors file", fix=fix)
        raise _malformed(place, f"a header of {length} bytes in a file of {file.size}")
    if length > MAX_HEADER_BYTES:
        raise _too_large(place, f"a header of {length:,} bytes")
    content = bytearray(length)
    file.read(memoryview(content), 8)
    try:
        header = json.loads(content.decode(), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise _malformed(place, f"a header that is not JSON ({type(error).__name__})") from None
    if not isinstance(header, dict):
        raise _malformed(place, "a header that is not an object")
    if len(header) > MAX_TENSORS + 1:
        raise _too_large(place, f"{len(header):,} tensors")
    return header, 8 + length


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("duplicate key")
    return result


def _entry(place: Path, name: str, entry: object, available: int) -> tuple[TensorSpec, int, int]:
    """The spec and byte range of one tensor, checked against each other and against the file."""
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise _malformed(place, f"an entry for {name!r} without dtype, shape and data_offsets")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    known = isinstance(dtype, str) and dtype in _DTYPES
    if not (known and _are_counts(shape) and _are_counts(offsets) and len(offsets) == 2):
        raise _malformed(place, f"dtype {dtype!r}, shape {shape!r} or offsets {offsets!r} of {name!r}")
    try:
        spec = TensorSpec(tuple(shape), _DTYPES[dtype])
    except UsageError as error:
        raise _malformed(place, f"the shape of {name!r}: {error}") from None
    begin, end = offsets
    if end - begin != spec.nbytes or end > available:
        raise _malformed(place, f"bytes {begin}..{end} for {name!r} ({spec}) in {available} bytes of data")
    return spec, begin, end


def _are_counts(value: object) -> bool:
    return isinstance(value, list) and all(type(item) is int and item >= 0 for item in value)


def _check_ranges(place: Path, ranges: list[tuple[int, int]], available: int) -> None:
    """The tensors follow each other without holes or overlaps and fill the file."""
    position = 0
    for begin, end in sorted(ranges):
        if begin != position:
            raise _malformed(place, f"a hole or an overlap at byte {position} of the data")
        position = end
    if position != available:
        raise _malformed(place, f"{available - position} bytes behind the last tensor")


def _too_large(place: Path, got: str) -> FormatError:
    return FormatError(str(place), got=got, need=_LIMITS, fix="split the file")


def _malformed(place: Path, got: str) -> FormatError:
    return FormatError(
        str(place), got=got, need="a whole safetensors file", fix="write the file again, or name another"
    )
