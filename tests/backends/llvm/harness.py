"""Runs one generator on NumPy arrays: what all tests of this folder share."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from nnc.backends.llvm.run.host import host_target
from nnc.backends.llvm.run.jit import Jit
from nnc.backends.llvm.run.runtime import NativeProgram, WorkerPool, ZeroedMemory, make_pool
from nnc.backends.llvm.run.steps import Launch
from nnc.codegen.frame.access import StridedAccess
from nnc.codegen.frame.kernel import Generator
from nnc.codegen.ir.builder import BOOL, F16, F32, F64, I8, I16, I32, I64, U8, Scalar
from nnc.codegen.ir.native_kernel import AddressRange
from nnc.codegen.ir.targets import small
from nnc.core.precautions.disk_cache import DiskCache
from nnc.core.settings import SETTINGS

Array = NDArray[Any]

SCALAR_OF = {
    np.dtype(np.float64): F64,
    np.dtype(np.float32): F32,
    np.dtype(np.float16): F16,
    np.dtype(np.int64): I64,
    np.dtype(np.int32): I32,
    np.dtype(np.int16): I16,
    np.dtype(np.int8): I8,
    np.dtype(np.uint8): U8,
    np.dtype(np.bool_): BOOL,
}
TOLERANCE = {F64: 1e-12, F32: 1e-5, F16: 2e-3}


@lru_cache(maxsize=2)
def jit(*, small_code: bool = False) -> Jit:
    """A JIT that keeps what it compiles where the environment says, for the next run."""
    target = small(host_target()) if small_code else host_target()
    return Jit(target, DiskCache(SETTINGS.cache_folder))


@lru_cache(maxsize=1)
def pool() -> WorkerPool:
    """The workers of the tests."""
    return make_pool(jit())


def scalar_of(array: Array) -> Scalar:
    """The element type of an array."""
    return SCALAR_OF[array.dtype]


def access(array: Array) -> StridedAccess:
    """An array in an iteration over its own shape."""
    return StridedAccess(scalar_of(array), steps(array))


def steps(array: Array) -> tuple[int, ...]:
    """Strides in elements."""
    return tuple(stride // array.itemsize for stride in array.strides)


def extent(array: Array) -> AddressRange:
    """The memory that an array touches."""
    low, high = np.lib.array_utils.byte_bounds(array)
    return AddressRange(low, high)


def launch(
    generator: Generator, inputs: Sequence[Array], outputs: Sequence[Array], keep: list[ZeroedMemory], *,
    small_code: bool = False,
) -> Launch:  # fmt: skip
    """A launch of the generator's kernel; its workspace is put into `keep`. Skips f16 where it is not converted."""
    if not host_target().half and any(array.dtype == np.float16 for array in (*inputs, *outputs)):
        pytest.skip("no conversion of f16 here")
    kernel = (jit(small_code=True) if small_code else jit()).kernel(generator)
    addresses = [array.ctypes.data for array in (*inputs, *outputs)]
    writes = [extent(array) for array in outputs]
    if kernel.workspace:
        keep.append(ZeroedMemory.allocate(kernel.workspace))
        addresses.append(keep[-1].address)
        writes.append(keep[-1].extent)
    return Launch(kernel, tuple(addresses), tuple(extent(array) for array in inputs), tuple(writes))


def run(
    generator: Generator, inputs: Sequence[Array], outputs: Sequence[Array], workers: int = 1, *,
    small_code: bool = False,
) -> None:  # fmt: skip
    """Run the generator's kernel once."""
    keep: list[ZeroedMemory] = []
    NativeProgram(pool(), [launch(generator, inputs, outputs, keep, small_code=small_code)], workers).run()


def check(generator: Generator, inputs: Sequence[Array], wanted: Sequence[Array], spread: float = 1.0) -> None:
    """The results are as wanted, within the tolerance of their type times `spread`; 3 workers give the same bits."""
    results = [np.full(want.shape, 113, want.dtype) for want in wanted]
    again = [np.full(want.shape, 7, want.dtype) for want in wanted]
    run(generator, inputs, results)
    run(generator, inputs, again, workers=3)
    for result, other, want in zip(results, again, wanted, strict=True):
        assert result.tobytes() == other.tobytes()
        scalar = SCALAR_OF[result.dtype]
        if scalar.floating:
            tolerance = TOLERANCE[scalar] * spread
            np.testing.assert_allclose(result.astype(np.float64), want.astype(np.float64), tolerance, tolerance)
        else:
            np.testing.assert_array_equal(result, want)


def random(shape: tuple[int, ...], dtype: type[np.generic] = np.float32, seed: int = 0) -> Array:
    """Normally distributed numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)
