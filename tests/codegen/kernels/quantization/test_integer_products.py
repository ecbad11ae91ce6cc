"""Integer products and convolutions are those of NumPy's i64 modulo 2^32, bit by bit, on every kind of processor."""

from __future__ import annotations

from dataclasses import replace
from itertools import product as combinations

import numpy as np
import pytest
from tests.backends.llvm.harness import Array, extent, pool

from nnc.backends.llvm.run.host import host_target
from nnc.backends.llvm.run.jit import Jit
from nnc.backends.llvm.run.object_code import assembly
from nnc.backends.llvm.run.runtime import NativeProgram, ZeroedMemory
from nnc.backends.llvm.run.steps import Launch
from nnc.codegen.frame.row import view_of
from nnc.codegen.ir.builder import Module
from nnc.codegen.ir.target import ByteDots, TargetDescription, describe
from nnc.codegen.kernels.quantization.integer_sums_writer import IntegerSums
from nnc.codegen.kernels.table import ROWS
from nnc.core.precautions.disk_cache import DiskCache
from nnc.core.running.llvm_library import llvm
from nnc.core.settings import SETTINGS
from nnc.core.values.tensor import Tensor
from nnc.ops.quantization.quantization import INTEGER_PRODUCT, IntegerProductAttrs
from nnc.ops.rules import infer

BYTES = (np.uint8, np.int8)
WITHOUT_DOTS = Jit(replace(host_target(), byte_dots=ByteDots.NONE), DiskCache(SETTINGS.cache_folder))
HOST = Jit(host_target(), DiskCache(SETTINGS.cache_folder))
JITS = {"host": HOST, "pairs": WITHOUT_DOTS}


def generator_of(*operands: Array) -> IntegerSums:
    """The generator of a product."""
    attrs = IntegerProductAttrs()
    given = tuple(Tensor.from_numpy(one).spec for one in operands)
    results = infer(INTEGER_PRODUCT, attrs, (*given, *(None,) * (4 - len(given))))
    generator = ROWS[INTEGER_PRODUCT].generate(
        attrs, [view_of(one) for one in given], [view_of(one) for one in results]
    )
    assert isinstance(generator, IntegerSums)
    return generator


def native(jit: Jit, *operands: Array, workers: int = 1) -> Array:
    """What native code makes of operands."""
    kernel = jit.kernel(generator_of(*operands))
    y = np.full((*operands[0].shape[:-1], operands[1].shape[-1]), -7, np.int32)
    memory = ZeroedMemory.allocate(kernel.workspace)
    addresses = [one.ctypes.data for one in (*operands, y)]
    writes = [extent(y)]
    if kernel.workspace:
        addresses.append(memory.address)
        writes.append(memory.extent)
    launch = Launch(kernel, tuple(addresses), tuple(map(extent, operands)), tuple(writes))
    NativeProgram(pool(), [launch], workers).run()
    return y


def wanted(a: Array, b: Array, a_zero: Array | int = 0, b_zero: Array | int = 0) -> Array:
    """The product in i64, modulo 2^32."""
    left, right = (one.astype(np.int64) - np.asarray(zero, np.int64) for one, zero in ((a, a_zero), (b, b_zero)))
    found: Array = (left @ right).astype(np.int32)
    return found


def drawn(kind: type[np.generic], *shape: int) -> Array:
    """All bits alike."""
    limits = np.iinfo(kind)
    return np.random.default_rng(sum(shape)).integers(limits.min, limits.max + 1, shape, dtype=kind)


@pytest.mark.turns(4)
@pytest.mark.parametrize("way", JITS)
@pytest.mark.parametrize(("left", "right"), list(combinations(BYTES, BYTES)))
@pytest.mark.parametrize("sizes", [(1, 1, 1), (30, 31, 33), (65, 68, 130)], ids=str)
def test_products_of_any_size_and_sign(
    sizes: tuple[int, int, int], left: type[np.generic], right: type[np.generic], way: str
) -> None:
    rows, inner, columns = sizes
    a, b = drawn(left, rows, inner), drawn(right, inner, columns)
    zeros = (), (drawn(left, rows, 1), drawn(right, columns))
    for given in zeros:
        for workers in (1, 2):
            np.testing.assert_array_equal(native(JITS[way], a, b, *given, workers=workers), wanted(a, b, *given))


@pytest.mark.parametrize("way", JITS)
def test_sums_of_the_largest_products_wrap_and_do_not_saturate(way: str) -> None:
    inner = 70_000
    for left, right in ((255, -128), (0, -128), (255, 127)):
        a, b = np.full((2, inner), left, np.uint8), np.full((inner, 17), right, np.int8)
        zero = np.array(255, np.uint8)
        np.testing.assert_array_equal(native(JITS[way], a, b), wanted(a, b))
        np.testing.assert_array_equal(native(JITS[way], a, b, zero), wanted(a, b, zero))
    a, b = np.full((2, inner), -128, np.int8), np.full((inner, 17), 255, np.uint8)
    assert wanted(a, b)[0, 0] > 0
    np.testing.assert_array_equal(native(JITS[way], a, b), wanted(a, b))


@pytest.mark.parametrize("way", JITS)
def test_a_sum_of_nothing_is_0(way: str) -> None:
    assert not native(JITS[way], drawn(np.uint8, 3, 0), drawn(np.int8, 0, 5)).any()


def test_dot_products_of_bytes_are_chosen_by_features() -> None:
    wide = frozenset({"avx512f", "avx512bw", "avx512dq", "avx512vl"})
    assert describe("x86_64", "cpu", wide | {"avx512vnni"}, "").byte_dots is ByteDots.MIXED
    assert describe("x86_64", "cpu", wide | {"avxvnni"}, "").byte_dots is ByteDots.NONE
    assert describe("x86_64", "cpu", frozenset({"avx2", "fma", "avxvnni"}), "").byte_dots is ByteDots.MIXED
    assert describe("aarch64", "cpu", frozenset({"neon", "dotprod"}), "").byte_dots is ByteDots.ALIKE
    assert describe("aarch64", "cpu", frozenset({"neon"}), "").byte_dots is ByteDots.NONE


TARGETS = {
    "vpdpbusd\t%zmm": ("x86_64", "x86-64-v4", "+avx512vnni", 512, 32, ByteDots.MIXED, np.int8),
    "{vex}\tvpdpbusd": ("x86_64", "x86-64-v3", "+avxvnni", 256, 16, ByteDots.MIXED, np.uint8),
    "vpmaddwd": ("x86_64", "x86-64-v3", "", 256, 16, ByteDots.NONE, np.int8),
    "pmaddwd": ("x86_64", "x86-64-v2", "", 128, 16, ByteDots.NONE, np.int8),
    "sdot": ("aarch64", "generic", "+neon,+dotprod", 128, 32, ByteDots.ALIKE, np.int8),
    "udot": ("aarch64", "generic", "+neon,+dotprod", 128, 32, ByteDots.ALIKE, np.uint8),
    "smull": ("aarch64", "generic", "+neon", 128, 32, ByteDots.NONE, np.int8),
}


@pytest.mark.parametrize("instruction", TARGETS)
def test_each_processor_has_its_instruction(instruction: str) -> None:
    """Assembled, and not run: which of these processors is here is chance."""
    machine, cpu, features, bits, registers, dots, kind = TARGETS[instruction]
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    triple = f"{machine}-unknown-linux-gnu"
    target = TargetDescription(triple, cpu, features, bits, registers, fused=True, byte_dots=dots)
    module = Module(target)
    generator_of(drawn(np.uint8, 64, 64), drawn(kind, 64, 64)).emit(module, "kernel")
    text = assembly(str(module), target)
    assert instruction in text
    assert "pmaddubsw" not in text
