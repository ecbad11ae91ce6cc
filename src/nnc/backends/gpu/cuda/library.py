"""libcuda, the library of NVIDIA's driver, through ctypes: what is called here and no more.

    cuda = CudaLibrary(load())
    count = cuda.read(c_int, "cuDeviceGetCount")
    cuda.call("cuCtxSetCurrent", context)

A result other than 0 is a DeviceError with the driver's name and text for it.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from ctypes import POINTER, c_char_p, c_float, c_int, c_size_t, c_uint, c_ulonglong, c_void_p
from typing import Any

from nnc.backends.gpu.signatures import declare
from nnc.errors import DeviceError

NAMES = {"linux": "libcuda.so.1", "win32": "nvcuda.dll"}
OUT_OF_MEMORY = 2
# Kernels that write where no memory is, and the like: the context of the process is of no use behind them.
STICKY = frozenset({700, 701, 710, 714, 715, 716, 717, 718, 719, 999})
Address = c_ulonglong
Number = c_int | c_size_t | c_void_p

# `Any`: argument types of ctypes have no common name.
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "cuInit": (c_uint,),
    "cuDriverGetVersion": (POINTER(c_int),),
    "cuDeviceGetCount": (POINTER(c_int),),
    "cuDeviceGet": (POINTER(c_int), c_int),
    "cuDeviceGetName": (c_char_p, c_int, c_int),
    "cuDeviceTotalMem_v2": (POINTER(c_size_t), c_int),
    "cuDeviceGetAttribute": (POINTER(c_int), c_int, c_int),
    "cuDevicePrimaryCtxRetain": (POINTER(c_void_p), c_int),
    "cuDevicePrimaryCtxRelease_v2": (c_int,),
    "cuCtxSetCurrent": (c_void_p,),
    "cuMemGetInfo_v2": (POINTER(c_size_t), POINTER(c_size_t)),
    "cuMemAlloc_v2": (POINTER(Address), c_size_t),
    "cuMemFree_v2": (Address,),
    "cuMemFreeHost": (c_void_p,),
    "cuMemHostAlloc": (POINTER(c_void_p), c_size_t, c_uint),
    "cuMemcpyHtoDAsync_v2": (Address, c_void_p, c_size_t, c_void_p),
    "cuMemcpyDtoHAsync_v2": (c_void_p, Address, c_size_t, c_void_p),
    "cuMemcpyDtoDAsync_v2": (Address, Address, c_size_t, c_void_p),
    "cuMemsetD8Async": (Address, ctypes.c_ubyte, c_size_t, c_void_p),
    "cuStreamCreate": (POINTER(c_void_p), c_uint),
    "cuStreamDestroy_v2": (c_void_p,),
    "cuStreamSynchronize": (c_void_p,),
    "cuStreamBeginCapture_v2": (c_void_p, c_int),
    "cuStreamEndCapture": (c_void_p, POINTER(c_void_p)),
    "cuGraphInstantiateWithFlags": (POINTER(c_void_p), c_void_p, c_ulonglong),
    "cuGraphUpload": (c_void_p, c_void_p),
    "cuGraphLaunch": (c_void_p, c_void_p),
    "cuGraphExecDestroy": (c_void_p,),
    "cuGraphDestroy": (c_void_p,),
    "cuLinkCreate_v2": (c_uint, POINTER(c_int), POINTER(c_void_p), POINTER(c_void_p)),
    "cuLinkAddData_v2": (
        c_void_p, c_int, c_char_p, c_size_t, c_char_p, c_uint, POINTER(c_int), POINTER(c_void_p),
    ),
    "cuLinkComplete": (c_void_p, POINTER(c_void_p), POINTER(c_size_t)),
    "cuLinkDestroy": (c_void_p,),
    "cuModuleLoadData": (POINTER(c_void_p), c_char_p),
    "cuModuleUnload": (c_void_p,),
    "cuModuleGetFunction": (POINTER(c_void_p), c_void_p, c_char_p),
    "cuFuncSetAttribute": (c_void_p, c_int, c_int),
    "cuLaunchKernel": (c_void_p, *[c_uint] * 7, c_void_p, POINTER(c_void_p), POINTER(c_void_p)),
    "cuEventCreate": (POINTER(c_void_p), c_uint),
    "cuEventDestroy_v2": (c_void_p,),
    "cuEventRecord": (c_void_p, c_void_p),
    "cuEventSynchronize": (c_void_p,),
    "cuEventElapsedTime": (POINTER(c_float), c_void_p, c_void_p),
    "cuGetErrorName": (c_int, POINTER(c_char_p)),
    "cuGetErrorString": (c_int, POINTER(c_char_p)),
}  # fmt: skip


def load_cuda() -> object:
    """The library; OSError where there is none, or an older one without what is needed."""
    name = NAMES.get(sys.platform)
    if name is None:
        raise OSError(f"no driver of NVIDIA's for {sys.platform}")
    library = ctypes.CDLL(name)
    signatures = {function: (c_int, arguments) for function, arguments in _SIGNATURES.items()}
    declare(library, signatures, f"{name} is older than CUDA 11.4")
    return library


class CudaLibrary:
    """Calls whose result is looked at."""

    def __init__(self, library: object) -> None:
        self.functions = library

    def function(self, name: str) -> Callable[..., int]:
        """The function itself, for what is called often."""
        return getattr(self.functions, name)  # type: ignore[no-any-return]

    def result(self, name: str, *arguments: object) -> int:
        """What the function returns."""
        return int(getattr(self.functions, name)(*arguments))

    def call(self, name: str, *arguments: object) -> None:
        """Call it; DeviceError where it fails."""
        if result := self.result(name, *arguments):
            raise self.error(name, result)

    def read(self, kind: type[Number], name: str, *arguments: object) -> int:
        """What the function writes through its first argument, which is not given; 0 for no address."""
        value = kind()
        self.call(name, ctypes.byref(value), *arguments)
        return int(value.value or 0)

    def error(self, name: str, result: int, log: str = "") -> DeviceError:
        """The error that a result stands for."""
        code, text = c_char_p(), c_char_p()
        self.result("cuGetErrorName", result, ctypes.byref(code))
        self.result("cuGetErrorString", result, ctypes.byref(text))
        told = f"{(code.value or b'error').decode()} ({result}): {(text.value or b'').decode()}"
        fix = "the device is lost to this process: keep what the host has, and start again" if result in STICKY else ""
        return DeviceError(name, got=told + (f"\n{log}" if log else ""), need="a call that succeeds", fix=fix)
