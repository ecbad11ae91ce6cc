"""DLPack of tensors on devices, by its C structures: capsules that others take, and theirs as tensors of ours.

    kind of device   1 CPU   2 CUDA   7 Vulkan

What was queued on a device is done before its memory changes hands. Tensors of the host go by NumPy's own capsules.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, Structure, c_char_p, c_int32, c_int64, c_uint8, c_uint16, c_uint64, c_void_p, py_object
from typing import Any

from nnc.arguments import explained
from nnc.core.values.device import Device
from nnc.core.values.dtype import BF16, BOOL, C64, C128, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64, DType
from nnc.core.values.spec import Shape, TensorSpec, contiguous_strides
from nnc.core.values.storage import DeviceStorage, memory_of
from nnc.errors import ArgumentError, DTypeError, LayoutError

NUMBERS = {"cuda": 2, "vulkan": 7}
HOST_NUMBER = (1, 0)
KINDS = {number: kind for kind, number in NUMBERS.items()}
# By code and bits.
_CODES = {
    I8: (0, 8), I16: (0, 16), I32: (0, 32), I64: (0, 64), U8: (1, 8), U16: (1, 16), U32: (1, 32), U64: (1, 64),
    F16: (2, 16), F32: (2, 32), F64: (2, 64), BF16: (4, 16), C64: (5, 64), C128: (5, 128), BOOL: (6, 8),
}  # fmt: skip
_DTYPES: dict[tuple[int, int], DType] = {code: dtype for dtype, code in _CODES.items()}
NAME, USED = b"dltensor", b"used_dltensor"


class _DLTensor(Structure):
    _fields_ = (
        ("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32), ("ndim", c_int32), ("code", c_uint8),
        ("bits", c_uint8), ("lanes", c_uint16), ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    )  # fmt: skip


class _Managed(Structure):
    _fields_ = (("tensor", _DLTensor), ("context", c_void_p), ("deleter", c_void_p))


_Deleter = ctypes.CFUNCTYPE(None, c_void_p)
_python = ctypes.pythonapi
_python.PyCapsule_New.argtypes, _python.PyCapsule_New.restype = (c_void_p, c_char_p, c_void_p), py_object
_python.PyCapsule_GetPointer.argtypes, _python.PyCapsule_GetPointer.restype = (c_void_p, c_char_p), c_void_p
_python.PyCapsule_IsValid.argtypes = (c_void_p, c_char_p)
_python.PyCapsule_SetName.argtypes = (py_object, c_char_p)

# What others hold, by the address of its structure: with the deleter it goes.
_LENT: dict[int, tuple[Any, ...]] = {}


def _give_back(address: int) -> None:
    _LENT.pop(address, None)


def _drop_capsule(capsule: int) -> None:
    """Nobody took what the capsule holds."""
    if _python.PyCapsule_IsValid(capsule, NAME):
        _LENT.pop(_python.PyCapsule_GetPointer(capsule, NAME), None)


# Kept for as long as anybody may call them.
_ENDS = (_Deleter(_give_back), _Deleter(_drop_capsule))


@explained
def number_of(device: Device) -> tuple[int, int]:
    """(kind, number) of a device; BufferError for a folder's file, which no reader knows."""
    if device.is_file:
        raise BufferError(f"got a value of {device}; need memory. Fix: x.cpu()")
    return HOST_NUMBER if device.is_host else (NUMBERS[device.kind], device.index)


@explained
def capsule_of(spec: TensorSpec, address: int, strides: Shape, owner: object) -> object:
    """A capsule over memory of a device, for one taker; `owner` lives as long as that holds it."""
    if spec.dtype not in _CODES:
        raise DTypeError("dlpack", got=str(spec), need="an element type of DLPack", fix="cast() it first")
    memory_of(spec.device).synchronize(spec.device)
    sizes = (c_int64 * max(spec.rank, 1))(*spec.shape)
    steps = (c_int64 * max(spec.rank, 1))(*strides)
    code, bits = _CODES[spec.dtype]
    place = (address, *number_of(spec.device))
    managed = _Managed(_DLTensor(*place, spec.rank, code, bits, 1, sizes, steps, 0), None, _address(_ENDS[0]))
    address = ctypes.addressof(managed)
    _LENT[address] = (managed, sizes, steps, owner)
    return _python.PyCapsule_New(address, NAME, _address(_ENDS[1]))


def _address(function: Any) -> int | None:  # noqa: ANN401  # a callback of ctypes
    return ctypes.cast(function, c_void_p).value


class _Taken:
    """What another library lent; it gets it back with the last of us who holds it."""

    __slots__ = ("_address", "_deleter")

    def __init__(self, address: int, deleter: int | None) -> None:
        self._address, self._deleter = address, deleter

    def __del__(self) -> None:
        if self._deleter:
            _Deleter(self._deleter)(self._address)


def taken(capsule: object) -> tuple[TensorSpec, DeviceStorage, int, tuple[int, ...]]:
    """Spec, storage, offset and strides of the tensor that a capsule holds, which is empty from now on."""
    if not _python.PyCapsule_IsValid(id(capsule), NAME):
        got = f"a {type(capsule).__name__}"
        raise ArgumentError("from_dlpack", got=got, need="a DLPack capsule that nobody has taken from")
    address = _python.PyCapsule_GetPointer(id(capsule), NAME)
    managed = _Managed.from_address(address)
    given = managed.tensor
    device = Device(KINDS[given.device_type], given.device_id)
    dtype = _DTYPES.get((given.code, given.bits)) if given.lanes == 1 else None
    if dtype is None:
        raise DTypeError("from_dlpack", got=f"type {given.code} of {given.bits} bits", need="an element type of nnc")
    shape = tuple(given.shape[: given.ndim])
    strides = tuple(given.strides[: given.ndim]) if given.strides else contiguous_strides(shape)
    if any(step < 0 for step in strides):
        raise LayoutError("from_dlpack", got=f"strides {list(strides)}", need="strides ≥ 0", fix="copy it first")
    spec = TensorSpec(shape, dtype, device=device)
    last = sum((size - 1) * step for size, step in zip(shape, strides, strict=True))
    nbytes = (last + 1) * dtype.itemsize if spec.elements else 0
    _python.PyCapsule_SetName(capsule, USED)
    owner = _Taken(address, managed.deleter)
    memory_of(device).synchronize(device)
    begin = (given.data or 0) + given.byte_offset
    return spec, DeviceStorage(device, owner, begin, nbytes, "numpy"), 0, strides
