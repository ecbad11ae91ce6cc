"""NVIDIA's devices, where the driver's library is."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import c_int

from nnc.backends.gpu.cuda.engine import CudaEngine, compute_capability
from nnc.backends.gpu.cuda.library import CudaLibrary, load_cuda
from nnc.backends.gpu.driver import GpuDriver
from nnc.codegen.device.device_targets import OLDEST, cuda_target
from nnc.core.running import llvm_library
from nnc.errors import DeviceError

KIND = "cuda"


class CudaDevices:
    """The devices that the library has; `library` stands in for it in tests."""

    def __init__(self, library: object = None) -> None:
        self.absence = ""
        self.names: Sequence[str] = ()
        self._cuda: CudaLibrary | None = None
        try:
            cuda = CudaLibrary(load_cuda() if library is None else library)
            cuda.call("cuInit", 0)
            self.names = tuple(map(str, range(cuda.read(c_int, "cuDeviceGetCount"))))
            self._cuda = cuda
            self.absence = llvm_library.absence() or ("" if self.names else "the driver has no device")
        except (OSError, DeviceError) as error:
            self.absence = str(error)

    def open(self, number: int) -> CudaEngine:
        """The device of a number. DeviceError for processors that are too old."""
        assert self._cuda is not None
        device = self._cuda.read(c_int, "cuDeviceGet", number)
        capability = compute_capability(self._cuda, device)
        target = cuda_target(*capability)
        if target is None:
            raise DeviceError(f"{KIND}:{number}", got=f"compute capability {capability}", need=f"{OLDEST} or more")
        return CudaEngine(self._cuda, number, target)


def cuda_driver() -> GpuDriver:
    """The driver of this machine."""
    return GpuDriver(KIND, CudaDevices())
