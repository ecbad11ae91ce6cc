"""Devices that code is made for: a row for each family of processors, as generators see them.

    cuda_target(9, 0)           by compute capability
    vulkan_target(8)            by the threads of a subgroup

A register is as many elements as threads run in step, each of which has many registers of its own. Nothing is packed:
caches are small, and what neighbouring threads read lies side by side. Products of 16 bits are computed in f32.
"""

from __future__ import annotations

from dataclasses import replace

from nnc.classes import dataclass
from nnc.codegen.device.preamble import PTX_TRIPLE
from nnc.codegen.ir.target import Machine, TargetDescription

# Threads of a warp.
WARP = 32
# What generators may hold in registers: more, and fewer groups fit a processor at once.
REGISTERS = 32
# A device has one memory for what is near and far; costs only order kernels among each other.
MACHINE = Machine(level_one_bytes=32 * 1024, level_two_bytes=1024 * 1024)
VULKAN_TRIPLE = "spirv64-unknown-vulkan"


@dataclass(frozen=True, slots=True)
class CudaRow:
    """A compute capability from `major`.`minor` on: LLVM's name, and the version of PTX that knows it."""

    major: int
    minor: int
    processor: str
    features: str


# Best first. A device runs the code of the last row that is not beyond it: PTX is assembled for what is at hand. What
# sm_90a has beyond sm_90, products of warpgroups, no other capability runs.
CUDA_ROWS = (
    CudaRow(9, 1, "sm_90", "+ptx78"),
    CudaRow(9, 0, "sm_90a", "+ptx80"),
    CudaRow(8, 9, "sm_89", "+ptx78"),
    CudaRow(8, 6, "sm_86", "+ptx71"),
    CudaRow(8, 0, "sm_80", "+ptx70"),
    CudaRow(7, 5, "sm_75", "+ptx63"),
    CudaRow(7, 0, "sm_70", "+ptx60"),
)
# From here on f32 becomes bf16 in one instruction.
SHORT_FORMS = (8, 0)
OLDEST = (CUDA_ROWS[-1].major, CUDA_ROWS[-1].minor)


def cuda_target(major: int, minor: int) -> TargetDescription | None:
    """The target of a compute capability; None below the oldest row, which has no shuffles of threads in step."""
    row = next((row for row in CUDA_ROWS if (row.major, row.minor) <= (major, minor)), None)
    if row is None:
        return None
    short = (row.major, row.minor) >= SHORT_FORMS
    return replace(_described(PTX_TRIPLE, row.processor, row.features, WARP, fused=True), short_forms=short)


def vulkan_target(threads: int) -> TargetDescription:
    """The target of a device whose subgroups are so many threads, a power of two; 1 where they exchange nothing.

    Vulkan lets a multiply-add round twice, as drivers on processors do: nothing may rely on it.
    """
    return _described(VULKAN_TRIPLE, "vulkan1.2", f"subgroup{threads}", threads, fused=False)


def _described(triple: str, processor: str, features: str, threads: int, *, fused: bool) -> TargetDescription:
    return TargetDescription(
        triple, processor, features, 32, REGISTERS, fused, half=True, rounding=True, threads=threads, machine=MACHINE
    )
