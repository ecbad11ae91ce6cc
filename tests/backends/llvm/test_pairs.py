"""Products of bf16 summed in pairs, and the same on a target without such sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import ml_dtypes
import numpy as np
import pytest
from tests.backends.llvm.harness import Array, extent, pool

from nnc.backends.llvm.run.host import host_target
from nnc.backends.llvm.run.jit import Jit
from nnc.backends.llvm.run.runtime import NativeProgram
from nnc.backends.llvm.run.steps import Launch
from nnc.codegen.ir.builder import BF16
from nnc.codegen.ir.target import describe
from nnc.codegen.kernels.products.gemm import Gemm
from nnc.codegen.kernels.products.gemm_plan import MatrixProduct
from nnc.core.precautions.disk_cache import DiskCache
from nnc.core.settings import SETTINGS
from nnc.core.values import dtype

SIZES = [(1, 1, 1), (3, 5, 7), (14, 32, 2), (17, 33, 31), (65, 130, 129), (1, 100, 50), (100, 1, 51), (28, 64, 64)]


@lru_cache(maxsize=2)
def jit(pairs: bool) -> Jit:
    return Jit(replace(host_target(), pairs=pairs), DiskCache(SETTINGS.cache_folder))


def product(a: Array, b: Array, flips: tuple[bool, bool], pairs: bool, workers: int) -> Array:
    """c = a b, each operand read transposed where it is flipped."""
    (rows, inner), columns = a.shape[:: -1 if flips[0] else 1], b.shape[0 if flips[1] else 1]
    a_strides = (1, rows) if flips[0] else (inner, 1)
    b_strides = (1, inner) if flips[1] else (columns, 1)
    problem = Gemm(MatrixProduct(BF16, (), rows, columns, inner, (), *a_strides, (), *b_strides, (), columns))
    c = np.full((rows, columns), np.nan, ml_dtypes.bfloat16)
    words = [one.view(np.uint16) for one in (a, b, c)]
    reads, writes = tuple(map(extent, words[:2])), (extent(words[2]),)
    launch = Launch(jit(pairs).kernel(problem), tuple(one.ctypes.data for one in words), reads, writes)
    NativeProgram(pool(), [launch], workers).run()
    return c


def operands(rows: int, columns: int, inner: int, flips: Sequence[bool]) -> tuple[Array, Array]:
    generator = np.random.default_rng(rows + columns + inner)
    shapes = (inner, rows) if flips[0] else (rows, inner), (columns, inner) if flips[1] else (inner, columns)
    a, b = (generator.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in shapes)
    return a, b


def needs_pairs(pairs: bool) -> None:
    # Where they are slower they are not used, but the code for them runs.
    if pairs and "+avx512bf16" not in host_target().features:
        pytest.skip("this processor does not sum products of bf16 in pairs (AVX-512 BF16)")


@pytest.mark.turns(5)
@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("flips", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_products_of_any_size_and_order(sizes: tuple[int, int, int], flips: tuple[bool, bool], pairs: bool) -> None:
    needs_pairs(pairs)
    a, b = operands(*sizes, flips)
    left, right = a.astype(np.float64), b.astype(np.float64)
    want = (left.T if flips[0] else left) @ (right.T if flips[1] else right)
    got = product(a, b, flips, pairs, workers=1)
    tolerance = dtype.TOLERANCE[dtype.BF16]
    np.testing.assert_allclose(got.astype(np.float64), want, tolerance.relative, tolerance.absolute)
    assert product(a, b, flips, pairs, workers=3).tobytes() == got.tobytes()


@pytest.mark.parametrize("pairs", [False, True])
def test_infinities_and_nan_go_where_they_belong(pairs: bool) -> None:
    needs_pairs(pairs)
    a, b = (one.copy() for one in operands(20, 40, 33, (False, False)))
    a[3, 32], a[5, 0], b[7, 11] = np.inf, np.nan, -np.inf
    with np.errstate(invalid="ignore"):
        want = a.astype(np.float64) @ b.astype(np.float64)
    got = product(a, b, (False, False), pairs, workers=2).astype(np.float64)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(got[np.isinf(want)], want[np.isinf(want)])


def test_only_wide_registers_sum_in_pairs() -> None:
    wide = frozenset({"avx512f", "avx512bw", "avx512dq", "avx512vl"})
    assert describe("x86_64", "cpu", wide | {"avx512bf16"}, "").pairs
    assert not describe("x86_64", "cpu", wide, "").pairs
    assert not describe("x86_64", "cpu", frozenset({"avx2", "fma", "avx512bf16"}), "").pairs


def test_processors_whose_sums_of_pairs_are_slow_widen() -> None:
    wide = frozenset({"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512bf16"})
    assert describe("x86_64", "znver4", wide, "").pairs
    assert not describe("x86_64", "emeraldrapids", wide, "").pairs
