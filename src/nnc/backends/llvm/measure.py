"""The machine's profile, measured in a second or two."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from time import perf_counter, thread_time

import numpy as np

from nnc.backends.llvm.run.engine import Engine
from nnc.backends.llvm.run.jit import Jit
from nnc.backends.llvm.run.peak import peak
from nnc.backends.llvm.run.profile import CacheLevel, MachineProfile, caches, huge_pages
from nnc.backends.llvm.run.rates import Loads, Stopwatch, Stores, timed
from nnc.backends.llvm.run.runtime import NativeProgram
from nnc.backends.llvm.run.steps import Launch
from nnc.codegen.ir.builder import F32, F64
from nnc.codegen.ir.native_kernel import AddressRange
from nnc.codegen.kernels.products.gemm import Gemm
from nnc.codegen.kernels.products.gemm_plan import MatrixProduct
from nnc.core.precautions.disk_cache import DiskCache
from nnc.core.running.processor import processor_name
from nnc.core.settings import SETTINGS

# What no cache of a core holds, and what is there for all measurements.
MEMORY_BYTES = 64 << 20
WIDTHS = (128, 256, 512)
PAGES = (16, 64, 256, 1024, 4096)
# Rows, inner and columns of products, and runs of each plan, in turn. Of powers of two both plans may be alike where
# a transformer's product takes 2.2 to 3.2 times as long in place: alone they chose that once, and BERT took 1.6 times
# as long.
SIZES, ROUNDS = ((512, 512, 512), (128, 768, 3072)), 5
# Another plan than the usual one takes less than this share of its time.
CLEARLY = 0.95


def measure(engine: Engine, *, whole: bool = False) -> MachineProfile:
    """Of one worker, and of two for meetings where they may be used. What else runs makes the machine look slower.

    What plans and costs follow; the `whole` of it has peaks and pages as well.
    """
    several = SETTINGS.worker_count() > 1
    watch = Stopwatch(engine, MEMORY_BYTES + (4 << 20))
    begun, ran = perf_counter(), thread_time()
    profile = MachineProfile(
        processor=processor_name(),
        clock=watch.clock(),
        multiply_adds=peak(engine) / 1e9,
        peaks=tuple(_peaks(engine)) if whole else (),
        caches=tuple(_timed_level(watch, level) for level in caches()),
        memory_loads=watch.bytes_per_nanosecond(Loads, MEMORY_BYTES, runs=2),
        memory_stores=watch.bytes_per_nanosecond(Stores, MEMORY_BYTES, runs=2),
        page_touches=watch.touches(PAGES, huge=False) if whole else (),
        huge_touches=watch.touches(PAGES, huge=True) if whole else (),
        huge_pages=huge_pages(),
        meeting=0.0,
        handing=0.0,
        waking=0.0,
        in_place=_in_place(engine),
    )
    profile = replace(profile, absent=min(max(1 - (thread_time() - ran) / max(perf_counter() - begun, 1e-9), 0.0), 1.0))
    if not several:
        return profile
    return replace(profile, meeting=watch.meeting(), handing=watch.handing(), waking=watch.waking())


def _timed_level(watch: Stopwatch, level: CacheLevel) -> CacheLevel:
    """With the rates of loads of an array that fills half of it, and of one that is twice as large."""
    inside, beyond = min(level.nbytes // 2, MEMORY_BYTES) // 4096 * 4096, 2 * level.nbytes
    if not inside:
        return level
    timed = replace(level, loads=watch.bytes_per_nanosecond(Loads, inside, runs=3))
    if beyond > MEMORY_BYTES:
        return timed
    return replace(timed, beyond=watch.bytes_per_nanosecond(Loads, beyond, runs=3))


def _peaks(engine: Engine) -> Iterator[tuple[str, int, float]]:
    """Operations per nanosecond of one worker by element type and bits of a register."""
    for scalar in (F32, F64):
        for bits in (bits for bits in WIDTHS if bits <= engine.target.vector_bits):
            yield scalar.name, bits, peak(engine, 3, scalar, bits) / 1e9


def _in_place(engine: Engine) -> bool:
    """Whether products read their operands in place: as the processor's family does, unless the other way is faster."""
    there, packed = (sum(each) for each in zip(*(_both_plans(engine, sizes) for sizes in SIZES), strict=True))
    return bool(there * CLEARLY <= packed if engine.target.in_place else there < CLEARLY * packed)


def _both_plans(engine: Engine, sizes: tuple[int, int, int]) -> list[float]:
    """Nanoseconds of c = a · b in place, and packed."""
    rows, inner, columns = sizes
    arrays = [np.ones(shape, np.float32) for shape in ((rows, inner), (inner, columns), (rows, columns))]
    spans = [AddressRange(array.ctypes.data, array.ctypes.data + array.nbytes) for array in arrays]
    addresses = tuple(array.ctypes.data for array in arrays)
    product = Gemm(MatrixProduct(F32, (), rows, columns, inner, (), inner, 1, (), columns, 1, (), columns))
    programs = []
    for in_place in (True, False):
        jit = Jit(replace(engine.target, in_place=in_place), DiskCache(None))
        launch = Launch(jit.kernel(product), addresses, tuple(spans[:2]), (spans[2],))
        programs.append(NativeProgram(engine.pool, [launch], 1))
    taken = [tuple(timed(program) for program in programs) for _ in range(ROUNDS)]
    return [min(each) for each in zip(*taken, strict=True)]
