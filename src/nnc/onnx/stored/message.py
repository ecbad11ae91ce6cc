"""The bytes of an ONNX message with the elements of large tensors apart, so that they are there once.

    ModelProto.graph = 7  →  GraphProto.initializer = 5  →  TensorProto.raw_data = 9

A message that protobuf has parsed holds a copy of all its bytes, and gives elements as a further copy, off their
alignment. Here elements go from the file straight into memory of their own, and protobuf parses what is left.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from nnc.classes import dataclass
from nnc.core.precautions.reading import MappedFile
from nnc.core.values.dtype import U8
from nnc.core.values.leb128 import written_number
from nnc.core.values.spec import TensorSpec
from nnc.core.values.storage import Storage
from nnc.core.values.tensor import Tensor
from nnc.symbolic.sharing.mapped_weights import WeightBlock, mapped_weights

Content: TypeAlias = NDArray[np.uint8]
# So many bytes from an offset on, and an array filled from an offset on.
Take: TypeAlias = Callable[[int, int], bytes]
Fill: TypeAlias = Callable[[memoryview, int], None]

GRAPH, INITIALIZER, RAW_DATA = 7, 5, 9
VARINT, BYTES = 0, 2
# Bytes of numbers of a fixed size, by their kind; groups, which ONNX has not, are none.
FIXED = {1: 8, 5: 4}
# Elements of fewer bytes stay in the message: a few more fields cost more time than they save memory.
LARGE = 1 << 16
# Bytes of elements that are read at a time where they do not stay.
PART = 1 << 20
# The longest tag and length that a field may begin with.
MOST_FRONT = 20


@dataclass(frozen=True, slots=True)
class WireField:
    """A field of a message: where it begins, where its length stands, and the bytes of its content."""

    number: int
    kind: int
    start: int
    length_at: int
    content: int
    stop: int

    @property
    def nbytes(self) -> int:
        """Bytes of its content."""
        return self.stop - self.content


@dataclass(frozen=True, slots=True)
class Cut:
    """Bytes `begin`..`end`, in whose place the rest has a `replacement`; `tensor` is whose elements they are."""

    begin: int
    end: int
    replacement: bytes = b""
    tensor: int = -1


@dataclass(frozen=True, slots=True, eq=False)
class DividedMessage:
    """The bytes of the message that is left, the elements of initializers by their number, and sha256 of all bytes.

    Where elements lie in a file that processes share, it is the `map`.
    """

    rest: bytes
    elements: Mapping[int, Content]
    digest: str
    map: MappedFile | None = None


def divided(take: Take, fill: Fill, size: int, *, mapped: bool = False) -> DividedMessage:
    """A message of `size` bytes in two; bytes that are none stay together, for protobuf to say so.

    Elements that are `mapped` lie aligned in a file of the cache folder, which is made where it is not there.
    """
    try:
        cuts = _cuts(take, size)
    except ValueError:
        cuts = []
    rest, elements, digest, position = list[bytes](), dict[int, Content](), hashlib.sha256(), 0
    for cut in (*cuts, Cut(size, size)):
        kept = take(position, cut.begin - position)
        digest.update(kept)
        rest += (kept, cut.replacement)
        if cut.tensor < 0:
            digest.update(take(cut.begin, cut.end - cut.begin))
        elif mapped:
            for begin in range(cut.begin, cut.end, PART):
                digest.update(take(begin, min(PART, cut.end - begin)))
        else:
            content = elements[cut.tensor] = Storage.allocate(cut.end - cut.begin, "file").bytes
            fill(content.data, cut.begin)
            digest.update(content.data)
            content.flags.writeable = False
        position = cut.end
    known = digest.hexdigest()
    if mapped and (parts := [cut for cut in cuts if cut.tensor >= 0]):
        tensors = _mapped(fill, known, parts)
        elements = {cut.tensor: tensor.numpy().view(np.uint8) for cut, tensor in zip(parts, tensors, strict=True)}
        return DividedMessage(b"".join(rest), elements, known, tensors[0].storage.file)
    return DividedMessage(b"".join(rest), elements, known)


def _mapped(fill: Fill, digest: str, parts: Sequence[Cut]) -> list[Tensor]:
    """The elements in a file that stands for this message, or in memory where there can be none."""
    specs = [TensorSpec((cut.end - cut.begin,), U8) for cut in parts]
    tensors = mapped_weights(f"elements of {digest}", specs)
    if tensors is None:
        block = WeightBlock.empty(specs)
        for cut, tensor in zip(parts, block.tensors, strict=True):
            fill(tensor.numpy().data, cut.begin)
        tensors = block.kept(f"elements of {digest}")
    return tensors


def _cuts(take: Take, size: int) -> list[Cut]:
    """Where the elements of large initializers are, and the lengths of what they lie in, in the order of the bytes.

    ValueError where fields cannot be told.
    """
    graph = _only([entry for entry in _fields(take, 0, size) if entry.number == GRAPH])
    if graph is None:
        return []
    cuts, saved = list[Cut](), 0
    tensors = (entry for entry in _fields(take, graph.content, graph.stop) if entry.number == INITIALIZER)
    for number, tensor in enumerate(tensors):
        if tensor.kind != BYTES:
            raise ValueError(f"an initializer of wire type {tensor.kind}")
        raw = None
        if tensor.nbytes > LARGE:
            raw = _only([entry for entry in _fields(take, tensor.content, tensor.stop) if entry.number == RAW_DATA])
        if raw is None or raw.nbytes <= LARGE:
            continue
        length = written_number(tensor.nbytes - (raw.stop - raw.start))
        cuts += [
            Cut(tensor.length_at, tensor.content, length),
            Cut(raw.start, raw.content),
            Cut(raw.content, raw.stop, tensor=number),
        ]
        saved += raw.stop - raw.start + tensor.content - tensor.length_at - len(length)
    return [Cut(graph.length_at, graph.content, written_number(graph.nbytes - saved)), *cuts] if cuts else []


def initializer_spans(message: bytes) -> tuple[tuple[int, int], ...]:
    """Where the initializers of a message begin and end, in order; none where fields cannot be told."""

    def take(position: int, count: int) -> bytes:
        return message[position : position + count]

    try:
        graph = _only([entry for entry in _fields(take, 0, len(message)) if entry.number == GRAPH])
        inside = () if graph is None else tuple(_fields(take, graph.content, graph.stop))
    except ValueError:
        return ()
    return tuple((entry.content, entry.stop) for entry in inside if entry.number == INITIALIZER and entry.kind == BYTES)


def raw_elements(message: bytes, begin: int, end: int) -> bytes | None:
    """The elements of the tensor that lies there, where they stand as they lie in memory; else None."""

    def take(position: int, count: int) -> bytes:
        return message[position : position + count]

    try:
        raw = _only([entry for entry in _fields(take, begin, end) if entry.number == RAW_DATA])
    except ValueError:
        return None
    return None if raw is None else message[raw.content : raw.stop]


def _only(fields: list[WireField]) -> WireField | None:
    """The field, where it stands once, as bytes: protobuf joins what stands twice."""
    return fields[0] if len(fields) == 1 and fields[0].kind == BYTES else None


def _fields(take: Take, position: int, end: int) -> Iterator[WireField]:
    """The fields of the message that lies there, whose contents are not looked at."""
    while position < end:
        front = take(position, min(MOST_FRONT, end - position))
        tag, used = _number(front, 0)
        number, kind = tag >> 3, tag & 7
        length_at = content = position + used
        if kind == BYTES:
            length, behind = _number(front, used)
            content = position + behind
            stop = content + length
        elif kind == VARINT:
            stop = position + _number(front, used)[1]
        elif kind in FIXED:
            stop = content + FIXED[kind]
        else:
            raise ValueError(f"wire type {kind}")
        if stop > end or number == 0:
            raise ValueError(f"field {number} that ends at {stop} of {end}")
        yield WireField(number, kind, position, length_at, content, stop)
        position = stop


def _number(front: bytes, place: int) -> tuple[int, int]:
    """A number of seven bits a byte, and where it ends; ValueError where it does not."""
    value = 0
    for shift, byte in enumerate(front[place : place + 10]):
        value |= (byte & 127) << 7 * shift
        if byte < 128:
            return value, place + shift + 1
    raise ValueError("a number that does not end")
