"""A double of libcuda over host memory, so that the driver's logic runs everywhere.

Kernels run: what the linker is given is LLVM's text for NVIDIA's devices, whose registers of threads are made global
variables here; a launch is a loop over groups and threads. All is done when it is asked, but for what is captured.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import llvmlite.binding as llvm
import numpy as np

OUT_OF_MEMORY, INVALID_VALUE, NOT_FOUND, ILLEGAL_ADDRESS = 2, 1, 500, 700
NAMES = {OUT_OF_MEMORY: b"CUDA_ERROR_OUT_OF_MEMORY", ILLEGAL_ADDRESS: b"CUDA_ERROR_ILLEGAL_ADDRESS"}
COMPUTE_MAJOR = 75
ATTRIBUTES = {1: 1024, 8: 49152, 10: 32, 16: 4, 18: 0, COMPUTE_MAJOR: 7, 76: 5}
REGISTERS = ("tid.x", "ntid.x", "ctaid.x", "nctaid.x")


def host_text(text: str) -> str:
    """Text for the device as text for this processor, with a loop over the threads of each entry."""
    lines, entries = [], []
    for line in text.splitlines():
        if line.startswith("target "):
            continue
        if line.startswith("define ptx_kernel"):
            entries.append(line.partition("@")[2].partition("(")[0])
            line = line.replace("ptx_kernel ", "")
        if line.startswith("declare") and "llvm.nvvm.read" in line:
            continue
        for name in REGISTERS:
            line = line.replace(f"call i32 @llvm.nvvm.read.ptx.sreg.{name}()", f"load i32, ptr @{name}")
        lines.append(line)
    lines += [f"@{name} = internal global i32 0" for name in REGISTERS]
    return "\n".join([f'target triple = "{llvm.get_process_triple()}"', *lines, *map(_grid, entries)])


def _grid(entry: str) -> str:
    given = "i64 %a, i64 %b, i64 %c, i64 %d, i64 %e"
    return f"""define void @{entry}_grid({given}, i32 %groups, i32 %threads) {{
start:
store i32 %threads, ptr @ntid.x
store i32 %groups, ptr @nctaid.x
br label %outer
outer:
%g = phi i32 [ 0, %start ], [ %g2, %behind ]
store i32 %g, ptr @ctaid.x
br label %inner
inner:
%t = phi i32 [ 0, %outer ], [ %t2, %inner ]
store i32 %t, ptr @tid.x
call void @{entry}({given})
%t2 = add i32 %t, 1
%m = icmp ult i32 %t2, %threads
br i1 %m, label %inner, label %behind
behind:
%g2 = add i32 %g, 1
%n = icmp ult i32 %g2, %groups
br i1 %n, label %outer, label %end
end:
ret void
}}"""


def number(value: Any) -> int:
    """A ctypes number, or a Python one."""
    return int(getattr(value, "value", value) or 0)


@dataclass(eq=False)
class FakeCuda:
    """Functions by the names of the driver's. `memory_bytes` is what there is; `failing` fails once at a function."""

    memory_bytes: int = 1 << 28
    devices: int = 1
    contexts: int = 0
    failing: dict[str, int] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    memory: dict[int, np.ndarray[Any, Any]] = field(default_factory=dict)
    pinned: dict[int, np.ndarray[Any, Any]] = field(default_factory=dict)
    modules: dict[int, Any] = field(default_factory=dict)
    functions: dict[int, Callable[..., None]] = field(default_factory=dict)
    graphs: dict[int, list[Callable[[], None]]] = field(default_factory=dict)
    programs: dict[int, list[Callable[[], None]]] = field(default_factory=dict)
    _capturing: list[Callable[[], None]] | None = None
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))
    _linked: dict[int, Any] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Callable[..., int]:
        if not name.startswith("cu"):
            raise AttributeError(name)

        def call(*arguments: Any) -> int:
            self.calls.append(name)
            if failure := self.failing.pop(name, 0):
                return failure
            return getattr(self, f"_{name}")(*arguments) or 0

        return call

    def _do(self, action: Callable[[], None]) -> None:
        if self._capturing is None:
            action()
        else:
            self._capturing.append(action)

    # -- the driver and its devices

    def _cuInit(self, flags: int) -> None:
        pass

    def _cuDriverGetVersion(self, version: Any) -> None:
        version._obj.value = 12000

    def _cuDeviceGetCount(self, count: Any) -> None:
        count._obj.value = self.devices

    def _cuDeviceGet(self, device: Any, ordinal: int) -> None:
        device._obj.value = ordinal

    def _cuDeviceGetName(self, name: Any, length: int, device: int) -> None:
        name.value = b"double of a device"

    def _cuDeviceTotalMem_v2(self, nbytes: Any, device: int) -> None:
        nbytes._obj.value = self.memory_bytes

    def _cuDeviceGetAttribute(self, value: Any, attribute: int, device: int) -> None:
        value._obj.value = ATTRIBUTES[attribute]

    def _cuDevicePrimaryCtxRetain(self, context: Any, device: int) -> None:
        self.contexts += 1
        context._obj.value = 1000 + device

    def _cuDevicePrimaryCtxRelease_v2(self, device: int) -> None:
        self.contexts -= 1

    def _cuCtxSetCurrent(self, context: Any) -> int:
        return 0 if number(context) >= 1000 else INVALID_VALUE

    def _cuGetErrorName(self, error: int, text: Any) -> None:
        text._obj.value = NAMES.get(error, b"CUDA_ERROR_OTHER")

    def _cuGetErrorString(self, error: int, text: Any) -> None:
        text._obj.value = b"what went wrong"

    # -- memory and copies

    def _cuMemAlloc_v2(self, address: Any, nbytes: int) -> int:
        if sum(array.nbytes for array in self.memory.values()) + nbytes > self.memory_bytes:
            return OUT_OF_MEMORY
        raw = np.full(nbytes + 256, 0x5A, np.uint8)
        begin = raw.ctypes.data + -raw.ctypes.data % 256
        self.memory[begin] = raw
        address._obj.value = begin
        return 0

    def _cuMemFree_v2(self, address: Any) -> int:
        return 0 if self.memory.pop(number(address), None) is not None else INVALID_VALUE

    def _cuMemHostAlloc(self, address: Any, nbytes: int, flags: int) -> None:
        raw = np.empty(nbytes, np.uint8)
        self.pinned[raw.ctypes.data] = raw
        address._obj.value = raw.ctypes.data

    def _cuMemFreeHost(self, address: Any) -> None:
        del self.pinned[number(address)]

    def _move(self, target: Any, source: Any, nbytes: int) -> None:
        self._do(lambda: ctypes.memmove(number(target), number(source), nbytes))

    def _cuMemcpyHtoDAsync_v2(self, target: Any, source: Any, nbytes: int, stream: Any) -> None:
        self._move(target, source, nbytes)

    def _cuMemcpyDtoHAsync_v2(self, target: Any, source: Any, nbytes: int, stream: Any) -> None:
        self._move(target, source, nbytes)

    def _cuMemcpyDtoDAsync_v2(self, target: Any, source: Any, nbytes: int, stream: Any) -> None:
        self._move(target, source, nbytes)

    def _cuMemsetD8Async(self, target: Any, byte: int, nbytes: int, stream: Any) -> None:
        self._do(lambda: ctypes.memset(number(target), byte, nbytes))

    # -- streams and graphs

    def _cuStreamCreate(self, stream: Any, flags: int) -> None:
        stream._obj.value = 77

    def _cuStreamDestroy_v2(self, stream: Any) -> None:
        pass

    def _cuStreamSynchronize(self, stream: Any) -> int:
        return INVALID_VALUE if self._capturing is not None else 0

    def _cuStreamBeginCapture_v2(self, stream: Any, mode: int) -> None:
        self._capturing = []

    def _cuStreamEndCapture(self, stream: Any, graph: Any) -> None:
        key = next(self._numbers)
        self.graphs[key], self._capturing = self._capturing or [], None
        graph._obj.value = key

    def _cuGraphInstantiateWithFlags(self, program: Any, graph: Any, flags: int) -> None:
        key = next(self._numbers)
        self.programs[key] = list(self.graphs[number(graph)])
        program._obj.value = key

    def _cuEventCreate(self, event: Any, flags: int) -> None:
        event._obj.value = next(self._numbers)

    def _cuEventDestroy_v2(self, event: Any) -> None:
        pass

    def _cuEventRecord(self, event: Any, stream: Any) -> None:
        pass

    def _cuEventSynchronize(self, event: Any) -> None:
        pass

    def _cuGraphUpload(self, program: Any, stream: Any) -> None:
        pass

    def _cuGraphLaunch(self, program: Any, stream: Any) -> None:
        for action in self.programs[number(program)]:
            action()

    def _cuGraphExecDestroy(self, program: Any) -> None:
        del self.programs[number(program)]

    def _cuGraphDestroy(self, graph: Any) -> None:
        del self.graphs[number(graph)]

    # -- code

    def _cuLinkCreate_v2(self, options: int, keys: Any, values: Any, state: Any) -> None:
        state._obj.value = next(self._numbers)

    def _cuLinkAddData_v2(self, state: Any, kind: int, data: bytes, size: int, *rest: Any) -> None:
        self._linked[number(state)] = data

    def _cuLinkComplete(self, state: Any, code: Any, size: Any) -> None:
        data = self._linked[number(state)]
        kept = ctypes.create_string_buffer(data)
        self._linked[-number(state)] = kept
        code._obj.value, size._obj.value = ctypes.addressof(kept), len(data)

    def _cuLinkDestroy(self, state: Any) -> None:
        pass

    def _cuModuleLoadData(self, module: Any, code: bytes) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        # Conversions of f16 are functions of a library elsewhere.
        features = llvm.get_host_cpu_features().flatten()
        host = llvm.Target.from_default_triple()
        machine = host.create_target_machine(cpu=llvm.get_host_cpu_name(), features=features, jit=True, opt=1)
        parsed = llvm.parse_assembly(host_text(code.decode()), llvm.create_context())
        parsed.verify()
        engine = llvm.create_mcjit_compiler(parsed, machine)
        engine.finalize_object()
        key = next(self._numbers)
        self.modules[key] = engine
        module._obj.value = key

    def _cuModuleUnload(self, module: Any) -> None:
        del self.modules[number(module)]

    def _cuModuleGetFunction(self, function: Any, module: Any, name: bytes) -> int:
        address = self.modules[number(module)].get_function_address(name.decode() + "_grid")
        if not address:
            return NOT_FOUND
        kinds = (*[ctypes.c_int64] * 5, ctypes.c_uint32, ctypes.c_uint32)
        key = next(self._numbers)
        self.functions[key] = ctypes.CFUNCTYPE(None, *kinds)(address)
        function._obj.value = key
        return 0

    def _cuLaunchKernel(self, function: Any, *rest: Any) -> None:
        groups, _, _, threads, _, _, _, _, parameters, _ = rest
        words = [ctypes.cast(parameters[place], ctypes.POINTER(ctypes.c_int64))[0] for place in range(5)]
        entry = self.functions[number(function)]
        self._do(lambda: entry(*words, groups, threads))
