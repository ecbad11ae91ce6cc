"""LLVM's text into PTX, and PTX into code of one device by the driver's linker, kept on disk."""

from __future__ import annotations

import ctypes
import hashlib
from ctypes import byref, c_int, c_size_t, c_void_p
from functools import lru_cache

from nnc.backends.gpu.cuda.library import CudaLibrary
from nnc.codegen.ir.target import TargetDescription
from nnc.core.precautions.disk_cache import DiskCache
from nnc.core.precautions.forking import FORK_GUARD
from nnc.core.precautions.shield import Shield
from nnc.errors import DeviceError

try:
    import llvmlite
    from llvmlite import binding as llvm

    ABSENCE = ""
    VERSION = f"llvmlite {llvmlite.__version__}"
except (ImportError, OSError, RuntimeError, AttributeError) as error:
    llvm = None
    ABSENCE = f"llvmlite cannot be loaded: {error}"
    VERSION = ""

# Numbers of the driver's options and kinds of input.
ERROR_LOG, ERROR_LOG_BYTES, INPUT_PTX = 5, 6, 1
LOG_BYTES = 1 << 14


@lru_cache
def _machine(target: TargetDescription) -> llvm.TargetMachine:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    processor = llvm.Target.from_triple(target.triple)
    return processor.create_target_machine(cpu=target.processor, features=target.features, opt=3)


def ptx_of(text: str, target: TargetDescription) -> str:
    """PTX of LLVM's text, phases inlined into their entries. DeviceError where LLVM refuses the text."""
    with Shield(), FORK_GUARD:
        machine = _machine(target)
        try:
            module = llvm.parse_assembly(text, llvm.create_context())
            module.verify()
        except RuntimeError as error:
            raise DeviceError("ptx", got=str(error)[:2000], need="text that LLVM reads") from None
        options = llvm.create_pipeline_tuning_options(speed_level=3)
        # What generators have unrolled and vectorized is as it should be.
        options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = False
        builder = llvm.create_pass_builder(machine, options)
        builder.getModulePassManager().run(module, builder)
        return str(machine.emit_assembly(module))


def code_key(text: str, target: TargetDescription, *rest: object) -> str:
    """sha256(text, target, versions)"""
    return hashlib.sha256("\0".join((text, target.key, VERSION, *map(str, rest))).encode()).hexdigest()


def code_of(cuda: CudaLibrary, text: str, target: TargetDescription, cache: DiskCache, driver: int) -> bytes:
    """Code of the device at hand for LLVM's text, from the disk where it is there."""
    key = code_key(text, target, driver)
    code = cache.load(key)
    if code is None:
        code = _linked(cuda, ptx_of(text, target).encode())
        cache.store(key, code)
    return code


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
