"""Text for a device of single threads, run by the processor at hand: one worker, which does all items."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import llvmlite.binding as llvm
import numpy as np
from numpy.typing import NDArray

from nnc.codegen.device.launch import DeviceKernel, device_kernel
from nnc.codegen.frame.kernel import Generator, words_of
from nnc.codegen.ir.target import TargetDescription

# One thread alone, which computes as those of a group do, with vectors of one element.
ALONE = TargetDescription("unknown", "generic", "", 32, 32, fused=True, threads=1)
HELPERS = """
define internal i64 @nnc.worker.thread() { ret i64 0 }
define internal i64 @nnc.workers.thread() { ret i64 1 }
define internal i32 @nnc.lane() { ret i32 0 }
define internal ptr @nnc.pointer(ptr %x) {
%y = load ptr, ptr %x, align 8
ret ptr %y
}
"""


def loaded(text: str) -> llvm.ExecutionEngine:
    """The module's code in this process."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    helped = ("target", "declare i64 @nnc.", "declare i32 @nnc.", "declare ptr @nnc.")
    kept = [line for line in text.splitlines() if not line.startswith(helped)]
    module = llvm.parse_assembly("\n".join([*kept, HELPERS, "attributes #0 = { nounwind }"]), llvm.create_context())
    module.verify()
    machine = llvm.Target.from_default_triple().create_target_machine(cpu=llvm.get_host_cpu_name(), opt=1)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return engine


def run(generator: Generator, operands: Sequence[NDArray[np.generic]]) -> DeviceKernel:
    """Run all phases on contiguous operands, inputs and then results, with workspace and scratch."""
    kernel = device_kernel(generator, ALONE, "kernel", grouped=False)
    engine = loaded(kernel.text)
    workspace = np.zeros(generator.workspace(ALONE) + 64, np.uint8)
    scratch = np.zeros(max([phase.scratch for phase in kernel.phases], default=0) + 64, np.uint8)
    addresses = [*(operand.ctypes.data for operand in operands)]
    if generator.workspace(ALONE):
        addresses.append(workspace.ctypes.data)
    table = np.array([0, *addresses, *words_of(generator)], np.int64)
    for phase in kernel.phases:
        kinds = [ctypes.c_int64] * 5
        entry = ctypes.CFUNCTYPE(None, *kinds)(engine.get_function_address(phase.entry))
        entry(table.ctypes.data + 8, phase.first, phase.items, scratch.ctypes.data, phase.scratch)
    return kernel
