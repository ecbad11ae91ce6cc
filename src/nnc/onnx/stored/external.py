"""Tensors outside of an ONNX file, in files beside it: read, or mapped when asked.

Nothing outside the folder of the model is opened: a location is relative, has no `..`, and no link on its way. What is
opened later has to be as it was when the model was read.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import onnx
from nnc.classes import dataclass
from nnc.core.precautions.reading import MappedFile, fill, opened
from nnc.errors import FormatError

Array = NDArray[Any]

MOST_BYTES = 1 << 40


@dataclass(frozen=True, slots=True)
class FileState:
    """Which file it is, its bytes, and when it was last written, in nanoseconds."""

    device: int
    number: int
    nbytes: int
    written: int

    @classmethod
    def of(cls, status: os.stat_result) -> FileState:
        """As the system tells it."""
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


@dataclass(frozen=True, slots=True, eq=False)
class ExternalFiles:
    """The files in the `folder` of a model that its tensors may name, and how they were when it was read."""

    folder: Path | None = None
    is_mapped: bool = False
    _states: dict[Path, FileState] = field(default_factory=dict)
    _maps: dict[Path, MappedFile] = field(default_factory=dict)

    @classmethod
    def named_by(cls, tensors: Iterable[onnx.TensorProto], folder: Path | None, *, is_mapped: bool) -> ExternalFiles:
        """How the files are now that tensors name; those that are not there are told when they are read."""
        files = cls(folder, is_mapped)
        if folder is not None:
            outside = [each for each in tensors if each.data_location == onnx.TensorProto.EXTERNAL]
            for place in {entry.value for each in outside for entry in each.external_data if entry.key == "location"}:
                with suppress(OSError, FormatError):
                    path = _inside("onnx", folder, place)
                    files._states[path] = FileState.of(path.lstat())
        return files

    def elements(self, tensor: onnx.TensorProto, shape: tuple[int, ...]) -> Array:
        """The elements of a tensor, in memory of their own or in the file's; FormatError for what is not whole."""
        subject = f"tensor {tensor.name}"
        entries = {entry.key: entry.value for entry in tensor.external_data}
        if tensor.data_type not in onnx.TensorProto.DataType.values() or kind_name(tensor.data_type) in ("?", "object"):
            got = f"element type {tensor.data_type}"
            raise FormatError(subject, got=got, need="one whose elements are all of a size")
        twin = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
        try:
            offset, count = int(entries.get("offset", "0")), int(np.prod(shape, dtype=object))
            length = int(entries.get("length", str(count * twin.itemsize)))
        except ValueError:
            raise FormatError(subject, got="an offset or length that is no number", need="bytes") from None
        if offset < 0 or length != count * twin.itemsize or length > MOST_BYTES:
            raise FormatError(subject, got=f"{length} bytes for {list(shape)}", need=f"{count * twin.itemsize} bytes")
        if self.folder is None:
            got = "external data of a model without a folder"
            raise FormatError(subject, got=got, need="a file", fix="load a path")
        path = _inside(subject, self.folder, entries.get("location", ""))
        with opened(path) as (handle, size):
            self._check(subject, path, os.fstat(handle))
            if size < offset + length:
                raise FormatError(subject, got=f"{path.name} of {size} bytes", need=f"{offset + length} bytes")
            # Elements off their alignment are read: kernels do not take them.
            if self.is_mapped and length and offset % twin.itemsize == 0:
                file = self._maps.setdefault(path, MappedFile(path))
                file.check()
                return np.frombuffer(file.content, twin, count, offset).reshape(shape)
            elements = np.empty(shape, twin)
            fill(path, handle, memoryview(elements.reshape(-1).view(np.uint8).data), offset)
        return elements

    def _check(self, subject: str, path: Path, status: os.stat_result) -> None:
        """FormatError for a file that others may have under another name, or that changed."""
        if status.st_nlink != 1:
            raise FormatError(subject, got=f"{path.name}, a file of several names", need="a file of the model alone")
        if self._states.get(path, state := FileState.of(status)) != state:
            got = f"{path.name}, which has changed since the model was read"
            raise FormatError(subject, got=got, need="the file as it was", fix="load the model again")

    def map_of(self, tensor: onnx.TensorProto) -> MappedFile | None:
        """The map in which the elements of a tensor lie, where there is one."""
        if not self._maps or tensor.data_location != onnx.TensorProto.EXTERNAL or self.folder is None:
            return None
        location = next((entry.value for entry in tensor.external_data if entry.key == "location"), "")
        return self._maps.get(self.folder / location)


def kind_name(number: int) -> str:
    """What NumPy calls an element type of ONNX; `?` for one that there is not."""
    try:
        return str(onnx.helper.tensor_dtype_to_np_dtype(number))
    except KeyError:
        return "?"


def _inside(subject: str, folder: Path, location: str) -> Path:
    """A regular file inside the folder, reached without links."""
    parts = Path(location).parts
    if not parts or Path(location).is_absolute() or ".." in parts or "\0" in location or "\\" in location:
        raise FormatError(subject, got=f"location {location!r}", need="a path inside the folder of the model")
    path = folder
    for part in parts:
        path = path / part
        try:
            mode = os.lstat(path).st_mode
        except OSError as error:
            raise FormatError(subject, got=f"location {location!r}: {error.strerror}", need="a file") from None
        if stat.S_ISLNK(mode):
            raise FormatError(subject, got=f"location {location!r} through a link", need="a file that is no link")
    if not stat.S_ISREG(mode):
        raise FormatError(subject, got=f"location {location!r}", need="a regular file")
    return path
