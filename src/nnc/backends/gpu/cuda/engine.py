"""One device of NVIDIA's: the primary context, one stream, memory, modules, and programs as graphs.

The context is retained until the device is closed. Copies go through pinned memory of the process's own, in pieces, so
that the host's bytes may change, or go, when a copy returns.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from ctypes import byref, c_int, c_longlong, c_size_t, c_void_p

from nnc.backends.gpu.cuda.assembler import codes_of
from nnc.backends.gpu.cuda.library import OUT_OF_MEMORY, Address, CudaLibrary
from nnc.backends.gpu.engine import PhaseLaunch
from nnc.classes import dataclass
from nnc.codegen.device.launch import DeviceKernel
from nnc.codegen.ir.target import TargetDescription
from nnc.core.precautions.disk_cache import DiskCache
from nnc.core.running.devices import DeviceFacts
from nnc.core.settings import SETTINGS
from nnc.errors import DeviceError

# Attributes of a device by the driver's numbers.
GROUP_THREADS, GROUP_BYTES, SUBGROUP, UNIFIED, MAJOR, MINOR, PROCESSORS = 1, 8, 10, 18, 75, 76, 16
NON_BLOCKING, RELAXED = 1, 2
# Attribute of a function: how much memory of a group its launches may ask for.
MOST_NEAR_BYTES = 8
STAGING_BYTES = 1 << 22
# Copies of up to this many bytes the driver takes along with the call, from where they are.
INLINE_BYTES = 1 << 12


@dataclass(slots=True, eq=False, weakref_slot=True)
class CudaModule:
    """A loaded module and its functions."""

    handle: c_void_p
    functions: tuple[object, ...]
    constants: bytes
    dropped: deque[tuple[str, c_void_p]]

    def __del__(self) -> None:
        self.dropped.append(("cuModuleUnload", self.handle))


@dataclass(slots=True, eq=False)
class CudaProgram:
    """A graph that was instantiated once."""

    engine: CudaEngine
    handle: c_void_p
    kept: object

    def submit(self) -> None:
        """Queue it."""
        if result := self.engine.launch_graph(self.handle, self.engine.stream):
            raise self.engine.cuda.error("cuGraphLaunch", result)

    def __del__(self) -> None:
        self.engine.dropped.append(("cuGraphExecDestroy", self.handle))


class CudaLaunches:
    """Launches of one command, ready to be made one by one."""

    def __init__(self, engine: CudaEngine, launches: Sequence[PhaseLaunch]) -> None:
        self._engine, self._launch = engine, engine.cuda.function("cuLaunchKernel")
        self._ready = [engine.arguments(launch) for launch in launches]

    def submit(self) -> None:
        """Queue them."""
        for arguments, _ in self._ready:
            if result := self._launch(*arguments):
                raise self._engine.cuda.error("cuLaunchKernel", result)


class CudaEngine:
    """The device of a number."""

    def __init__(self, cuda: CudaLibrary, number: int, target: TargetDescription) -> None:
        self.cuda, self.target = cuda, target
        self._device = cuda.read(c_int, "cuDeviceGet", number)
        self.facts = facts_of(cuda, self._device)
        self._context = c_void_p(cuda.read(c_void_p, "cuDevicePrimaryCtxRetain", self._device))
        cuda.call("cuCtxSetCurrent", self._context)
        self.stream = c_void_p(cuda.read(c_void_p, "cuStreamCreate", NON_BLOCKING))
        # Two pieces of pinned memory, each with what says that its last copy is done.
        self._staging = [
            (cuda.read(c_void_p, "cuMemHostAlloc", STAGING_BYTES, 0), c_void_p(cuda.read(c_void_p, "cuEventCreate", 2)))
            for _ in range(2)
        ]
        self._set_context = cuda.function("cuCtxSetCurrent")
        self.launch_graph = cuda.function("cuGraphLaunch")
        self._cache = DiskCache(SETTINGS.cache_folder, "cubin", ".cubin", SETTINGS.cached_code_bytes)
        self._memory: set[int] = set()
        self._modules: set[int] = set()
        # What is to be freed when a thread is next here with the context.
        self.dropped: deque[tuple[str, c_void_p]] = deque()

    def enter(self) -> None:
        """The context is that of a thread."""
        if result := self._set_context(self._context):
            raise self.cuda.error("cuCtxSetCurrent", result)
        while self.dropped:
            name, handle = self.dropped.popleft()
            if name == "cuModuleUnload":
                # What is queued may run its code.
                self.synchronize()
                self._modules.remove(handle.value or 0)
            self.cuda.call(name, handle)

    def close(self) -> None:
        """Free all that was made, and the context where no other library has it; a lost device has nothing to free."""
        with suppress(DeviceError):
            self.enter()
            self.synchronize()
            for module in self._modules:
                self.cuda.call("cuModuleUnload", c_void_p(module))
            for address in self._memory:
                self.cuda.call("cuMemFree_v2", address)
            for place, event in self._staging:
                self.cuda.call("cuEventDestroy_v2", event)
                self.cuda.call("cuMemFreeHost", place)
            self.cuda.call("cuStreamDestroy_v2", self.stream)
        with suppress(DeviceError):
            self.cuda.call("cuDevicePrimaryCtxRelease_v2", self._device)

    def reserve(self, nbytes: int) -> int:
        """Memory; 0 where there is none."""
        address = Address()
        result = self.cuda.result("cuMemAlloc_v2", byref(address), max(nbytes, 1))
        if result not in (0, OUT_OF_MEMORY):
            raise self.cuda.error("cuMemAlloc_v2", result)
        if result:
            return 0
        self._memory.add(address.value)
        return int(address.value)

    def release(self, address: int) -> None:
        """Waits by itself for what uses it."""
        self.cuda.call("cuMemFree_v2", address)
        self._memory.remove(address)

    def load(self, kernels: Sequence[DeviceKernel]) -> list[CudaModule]:
        """A module each."""
        texts = [kernel.text for kernel in kernels]
        codes = codes_of(self.cuda, texts, self.target, self._cache, self._make_current)
        return [self._module(kernel, code) for kernel, code in zip(kernels, codes, strict=True)]

    def _make_current(self) -> None:
        self.cuda.call("cuCtxSetCurrent", self._context)

    def _module(self, kernel: DeviceKernel, code: bytes) -> CudaModule:
        handle = c_void_p(self.cuda.read(c_void_p, "cuModuleLoadData", code))
        self._modules.add(handle.value or 0)
        functions = [
            c_void_p(self.cuda.read(c_void_p, "cuModuleGetFunction", handle, phase.entry.encode()))
            for phase in kernel.phases
        ]
        for function, phase in zip(functions, kernel.phases, strict=True):
            if phase.near:
                self.cuda.call("cuFuncSetAttribute", function, MOST_NEAR_BYTES, phase.near)
        return CudaModule(handle, tuple(functions), b"", self.dropped)

    def upload(self, target: int, source: int, nbytes: int) -> None:
        """Through pinned memory: one piece is copied there while the one before goes to the device."""
        if nbytes <= INLINE_BYTES:
            self.cuda.call("cuMemcpyHtoDAsync_v2", target, source, nbytes, self.stream)
            return
        for number, first in enumerate(range(0, nbytes, STAGING_BYTES)):
            size, (place, event) = min(STAGING_BYTES, nbytes - first), self._staging[number % 2]
            self.cuda.call("cuEventSynchronize", event)
            ctypes.memmove(place, source + first, size)
            self.cuda.call("cuMemcpyHtoDAsync_v2", target + first, place, size, self.stream)
            self.cuda.call("cuEventRecord", event, self.stream)

    def download(self, target: int, source: int, nbytes: int) -> None:
        """Through pinned memory, in the same way; waits."""
        firsts = list(range(0, nbytes, STAGING_BYTES))
        for number in range(len(firsts) + 1):
            if number < len(firsts):
                place, event = self._staging[number % 2]
                size = min(STAGING_BYTES, nbytes - firsts[number])
                self.cuda.call("cuMemcpyDtoHAsync_v2", place, source + firsts[number], size, self.stream)
                self.cuda.call("cuEventRecord", event, self.stream)
            if number:
                first, (place, event) = firsts[number - 1], self._staging[(number - 1) % 2]
                self.cuda.call("cuEventSynchronize", event)
                ctypes.memmove(target + first, place, min(STAGING_BYTES, nbytes - first))

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """On the stream."""
        self.cuda.call("cuMemcpyDtoDAsync_v2", target, source, nbytes, self.stream)

    def fill(self, target: int, nbytes: int, byte: int) -> None:
        """On the stream."""
        self.cuda.call("cuMemsetD8Async", target, byte, nbytes, self.stream)

    def arguments(self, launch: PhaseLaunch) -> tuple[tuple[object, ...], object]:
        """What cuLaunchKernel is given, and the memory that this names."""
        words = (c_longlong * 5)(*launch.words[:5])
        first = ctypes.addressof(words)
        parameters = (c_void_p * 5)(*range(first, first + 40, 8))
        sizes = (launch.groups, 1, 1, launch.threads, 1, 1, launch.near)
        return (launch.function, *sizes, self.stream, parameters, None), words

    def launch(self, launches: Sequence[PhaseLaunch]) -> None:
        """On the stream, one after another."""
        for launch in launches:
            arguments, _held = self.arguments(launch)
            self.cuda.call("cuLaunchKernel", *arguments)

    def prepare(self, launches: Sequence[PhaseLaunch]) -> CudaLaunches:
        """Ready to be queued one by one."""
        return CudaLaunches(self, launches)

    def record(self, launches: Sequence[PhaseLaunch]) -> CudaProgram:
        """A graph of the launches, captured from the stream: one launch of 5 us of the host, 9 us without a graph."""
        graph = c_void_p()
        self.cuda.call("cuStreamBeginCapture_v2", self.stream, RELAXED)
        try:
            self.launch(launches)
        finally:
            # Ends a capture that failed, too: the stream would be of no use.
            self.cuda.call("cuStreamEndCapture", self.stream, byref(graph))
        try:
            ready = c_void_p(self.cuda.read(c_void_p, "cuGraphInstantiateWithFlags", graph, 0))
        finally:
            self.cuda.call("cuGraphDestroy", graph)
        self.cuda.call("cuGraphUpload", ready, self.stream)
        return CudaProgram(self, ready, [launch.function for launch in launches])

    def synchronize(self) -> None:
        """Wait for the stream."""
        self.cuda.call("cuStreamSynchronize", self.stream)


def compute_capability(cuda: CudaLibrary, device: int) -> tuple[int, int]:
    """The major and the minor number of what its code is."""
    major, minor = (cuda.read(c_int, "cuDeviceGetAttribute", number, device) for number in (MAJOR, MINOR))
    return int(major), int(minor)


def facts_of(cuda: CudaLibrary, device: int) -> DeviceFacts:
    """What the driver tells of a device."""
    name = ctypes.create_string_buffer(256)
    cuda.call("cuDeviceGetName", name, len(name), device)
    memory = cuda.read(c_size_t, "cuDeviceTotalMem_v2", device)
    numbers = (SUBGROUP, GROUP_THREADS, GROUP_BYTES, UNIFIED, PROCESSORS)
    subgroup, threads, shared, unified, processors = (
        int(cuda.read(c_int, "cuDeviceGetAttribute", number, device)) for number in numbers
    )
    major, minor = compute_capability(cuda, device)
    features = {"f16", "bf16", "f64", "i8", "i16", "i64", f"sm_{major}{minor}", f"{processors} processors"}
    return DeviceFacts(name.value.decode(), memory, subgroup, threads, shared, bool(unified), frozenset(features))
