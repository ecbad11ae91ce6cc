"""LLVM's text into PTX, and PTX into code of one device by the driver's linker, kept on disk."""

from __future__ import annotations

import ctypes
import hashlib
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from ctypes import byref, c_int, c_size_t, c_void_p
from functools import lru_cache

from nnc.backends.gpu.cuda.library import CudaLibrary
from nnc.codegen.ir.target import TargetDescription
from nnc.core.precautions.disk_cache import DiskCache
from nnc.core.running.llvm_library import content_of, llvm, undisturbed, unlocked, version
from nnc.core.settings import SETTINGS
from nnc.errors import DeviceError

# Numbers of the driver's options and kinds of input.
ERROR_LOG, ERROR_LOG_BYTES, INPUT_PTX = 5, 6, 1
LOG_BYTES = 1 << 14


@lru_cache
def _free_machines(target: TargetDescription) -> deque[llvm.TargetMachine]:
    """Code generators that no thread uses."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return deque()


def _made_machine(target: TargetDescription) -> llvm.TargetMachine:
    processor = llvm.Target.from_triple(target.triple)
    return processor.create_target_machine(cpu=target.processor, features=target.features, opt=3)


def ptx_of(text: str, target: TargetDescription) -> str:
    """PTX of LLVM's text, phases inlined into their entries. DeviceError where LLVM refuses the text.

    The caller keeps interrupts and forks away.
    """
    free = _free_machines(target)
    try:
        machine = free.pop()
    except IndexError:
        machine = _made_machine(target)
    try:
        return _emitted(text, machine)
    finally:
        free.append(machine)


def _emitted(text: str, machine: llvm.TargetMachine) -> str:
    try:
        # A context of its own: several threads work at once.
        module = llvm.parse_assembly(text, llvm.create_context())
        module.verify()
    except RuntimeError as error:
        raise DeviceError("ptx", got=str(error)[:2000], need="text that LLVM reads") from None
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    # What generators have unrolled and vectorized is as it should be.
    options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, options)
    # These passes are of one module: LLVM 22 ends the process where they meet a second one.
    unlocked("LLVMPY_RunNewModulePassManager")(builder.getModulePassManager(), module, builder)
    with llvm.ffi.OutputString() as message:
        buffer = unlocked("LLVMPY_TargetMachineEmitToMemory")(machine, module, 0, message)
        if not buffer:
            raise DeviceError("ptx", got=str(message), need="text that LLVM writes")
        return content_of(buffer).decode()


def code_key(text: str, target: TargetDescription, *rest: object) -> str:
    """sha256(text, target, versions)"""
    return hashlib.sha256("\0".join((text, target.key, version(), *map(str, rest))).encode()).hexdigest()


def codes_of(
    cuda: CudaLibrary, texts: Sequence[str], target: TargetDescription, cache: DiskCache, enter: Callable[[], None]
) -> list[bytes]:
    """Code of the device at hand for LLVM's texts; what is not on the disk is made on as many threads as may be.

    `enter` makes the device a thread's own.
    """
    driver = cuda.read(c_int, "cuDriverGetVersion")
    keys = [code_key(text, target, driver) for text in texts]
    codes = {key: content for key in keys if (content := cache.load(key)) is not None}
    fresh = {key: text for key, text in zip(keys, texts, strict=True) if key not in codes}

    def made(text: str) -> bytes:
        enter()
        return _linked(cuda, ptx_of(text, target).encode())

    if fresh:
        with undisturbed():
            workers = min(SETTINGS.worker_count(), len(fresh))
            if workers == 1:
                contents = [made(text) for text in fresh.values()]
            else:
                with ThreadPoolExecutor(workers) as crew:
                    contents = list(crew.map(made, fresh.values()))
        for key, content in zip(fresh, contents, strict=True):
            codes[key] = content
            cache.store(key, content)
    return [codes[key] for key in keys]


def _linked(cuda: CudaLibrary, ptx: bytes) -> bytes:
    """What the driver makes of PTX; its log is in the error where it refuses."""
    log = ctypes.create_string_buffer(LOG_BYTES)
    options = (c_int * 2)(ERROR_LOG, ERROR_LOG_BYTES)
    values = (c_void_p * 2)(ctypes.addressof(log), LOG_BYTES)
    state, code, size = c_void_p(), c_void_p(), c_size_t()
    cuda.call("cuLinkCreate_v2", len(options), options, values, byref(state))
    try:
        _steps = (
            ("cuLinkAddData_v2", (state, INPUT_PTX, ptx, len(ptx) + 1, b"kernel.ptx", 0, None, None)),
            ("cuLinkComplete", (state, byref(code), byref(size))),
        )
        for name, arguments in _steps:
            if result := cuda.result(name, *arguments):
                raise cuda.error(name, result, log.value.decode(errors="replace"))
        return ctypes.string_at(code.value or 0, size.value)
    finally:
        cuda.result("cuLinkDestroy", state)
