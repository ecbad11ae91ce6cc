"""The bytes of an ONNX file before they are parsed: read once, the elements of large tensors apart."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Self

from nnc.classes import dataclass
from nnc.core.precautions.reading import fill, opened
from nnc.core.settings import SETTINGS
from nnc.errors import FormatError, UsageError
from nnc.onnx.stored.message import DividedMessage, divided

# More is no message of protobuf.
MOST_MESSAGE_BYTES = 1 << 31
# The key of external data as a message has it.
MARKS = (b"\n\x08location",)


@dataclass(frozen=True, slots=True, eq=False)
class OpenedFile:
    """A message of `nbytes`, the folder of its external data where it has one, and whether elements are mapped.

    `digest` is sha256 of all of it; empty where nothing is kept, and where other files belong to it.
    """

    message: DividedMessage
    nbytes: int
    folder: Path | None
    is_mapped: bool
    digest: str

    @classmethod
    def of(cls, message: DividedMessage, nbytes: int, folder: Path | None, *, is_mapped: bool) -> Self:
        """With its digest."""
        # Of a file to which others belong nothing is kept, as its digest does not stand for these.
        is_whole = SETTINGS.cache_folder is not None and not any(mark in message.rest for mark in MARKS)
        return cls(message, nbytes, folder, is_mapped, message.digest if is_whole else "")


def open_file(source: str | os.PathLike[str] | bytes, *, mapped: bool) -> OpenedFile:
    """A file, or bytes; FormatError for more than a message can have, UsageError for bytes that are to be mapped."""
    if isinstance(source, bytes):
        refuse_maps(mapped=mapped)
        message = divided(partial(_slice, source), partial(_copy, source), len(source))
        return OpenedFile.of(message, len(source), None, is_mapped=False)
    folder, need = Path(source).absolute().parent, "an ONNX model"
    with opened(os.fspath(source), need) as (handle, size):
        if size > MOST_MESSAGE_BYTES:
            raise FormatError(str(source), got=f"{size:,} bytes", need=f"{need} of at most {MOST_MESSAGE_BYTES:,}")
        place = Path(source)
        message = divided(partial(_part, place, handle), partial(fill, place, handle), size, mapped=mapped)
    return OpenedFile.of(message, size, folder, is_mapped=mapped)


def refuse_maps(*, mapped: bool) -> None:
    """UsageError where something without a path is to be mapped."""
    if mapped:
        raise UsageError("onnx", got="mapped=True without a path", need="a file", fix="load a path")


def _slice(data: bytes, offset: int, nbytes: int) -> bytes:
    return data[offset : offset + nbytes]


def _copy(data: bytes, target: memoryview, offset: int) -> None:
    target[:] = memoryview(data)[offset : offset + len(target)]


def _part(path: Path, handle: int, offset: int, nbytes: int) -> bytes:
    content = bytearray(nbytes)
    fill(path, handle, memoryview(content), offset)
    return bytes(content)
