"""Tensors from elsewhere without a copy, and how far apart two of them are.

from_dlpack   any array with DLPack (NumPy, PyTorch, JAX, CuPy on the host)
map_file      a file's bytes as a tensor, read when touched; sparse files may be larger than memory
ulp_distance  the number of floating-point numbers between two values
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from nnc.arguments import checked
from nnc.core.precautions.reading import MappedFile
from nnc.core.values.dlpack import KINDS, taken
from nnc.core.values.spec import TensorSpec
from nnc.core.values.storage import Storage
from nnc.core.values.tensor import Tensor
from nnc.errors import DTypeError, ShapeError


class SupportsDLPack(Protocol):
    """What an array must offer to be exchanged."""

    def __dlpack__(self, *, stream: int | None = None) -> object:
        """A capsule over its memory."""

    def __dlpack_device__(self) -> tuple[int, int]:
        """Where its memory is."""


@checked
def from_dlpack(array: SupportsDLPack) -> Tensor:
    """A tensor over `array`'s memory, on its device; DeviceError where nnc has no driver for that.

    >>> source = np.arange(3, dtype=np.float32)
    >>> tensor = from_dlpack(source)
    >>> tensor.address == source.ctypes.data
    True
    """
    kind, _ = array.__dlpack_device__()
    if kind in KINDS:
        return Tensor(*taken(array.__dlpack__(stream=-1)))
    try:
        return Tensor.from_numpy(np.from_dlpack(array))  # type: ignore[arg-type]  # NumPy's stub asks for more than it uses
    except (BufferError, RuntimeError) as error:
        need = "host memory and an element type that NumPy knows"
        raise DTypeError("from_dlpack", got=str(error), need=need) from None


@checked
def map_file(path: Path | str, spec: TensorSpec, offset: int = 0, *, writable: bool = False) -> Tensor:
    """The bytes of a file from `offset` on as a tensor; pages are read when they are touched."""
    file = MappedFile(path, writable=writable)
    if offset < 0 or offset + spec.nbytes > file.size:
        raise ShapeError("map_file", got=f"{spec} at byte {offset} of {file.size}", need="bytes inside the file")
    return Tensor(spec, Storage.mapping(file), offset)


@checked
def ulp_distance(first: NDArray[np.floating], other: NDArray[np.floating]) -> NDArray[np.int64]:
    """Element by element, how many steps of the float format lie between the values; 0 and -0 are equal.

    NaN beside NaN counts 0, NaN beside a number counts the most. Works for f64, f32 and f16.

    >>> ulp_distance(np.float32([1.0]), np.nextafter(np.float32([1.0]), np.float32(2.0)))
    array([1])
    """
    if first.dtype != other.dtype or first.shape != other.shape:
        got = f"{first.dtype}{list(first.shape)}, {other.dtype}{list(other.shape)}"
        raise ShapeError("ulp_distance", got=got, need="equal shapes and types")
    integers = np.dtype(f"i{first.dtype.itemsize}")
    lowest = int(np.iinfo(integers).min)

    def ordered(values: NDArray[np.floating]) -> list[int]:
        bits = np.ascontiguousarray(values).view(integers).reshape(-1)
        return [int(bit) if bit >= 0 else lowest - int(bit) for bit in bits]

    most = int(np.iinfo(np.int64).max)
    distances = [min(abs(a - b), most) for a, b in zip(ordered(first), ordered(other), strict=True)]
    result = np.array(distances, np.int64).reshape(first.shape)
    nan_one, nan_other = np.isnan(first), np.isnan(other)
    result[nan_one & nan_other] = 0
    result[nan_one ^ nan_other] = most
    return result
