"""Products with weights in blocks: bits do not follow workers and rows, values are those of the reference, exactly."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.backends.llvm.harness import Array, extent, pool, run

from nnc.backends.llvm.run.host import host_target
from nnc.backends.llvm.run.jit import Jit
from nnc.backends.llvm.run.runtime import NativeProgram
from nnc.backends.llvm.run.steps import Launch
from nnc.codegen.frame.row import view_of
from nnc.codegen.frame.written import outline
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.kernels.products.gemm import Gemm
from nnc.codegen.kernels.quantization.blocks import MOST_ROWS, BlockRows, BlockValues
from nnc.codegen.kernels.table import ROWS
from nnc.core.precautions.disk_cache import DiskCache
from nnc.core.values.blocks import FORMATS, dequantize, quantize
from nnc.core.values.dtype import U8
from nnc.core.values.spec import spec
from nnc.ops.quantization.blocks import BLOCK_PRODUCT, BlockProductAttrs

TARGET = TargetDescription("x86_64-unknown-linux-gnu", "x86-64-v4", "", 512, 32, fused=True)


def product(format: str, rows: int, units: int, blocks: int, straight: bool = True):
    """The generator, and its operands: x, packed."""
    form = FORMATS[format]
    generator = np.random.default_rng(rows + units)
    packed = quantize(generator.normal(size=(units, blocks * form.size)), format)
    inner, columns = (blocks * form.size, units) if straight else (units, blocks * form.size)
    x = generator.normal(size=(rows, inner)).astype(np.float32)
    attrs = BlockProductAttrs(format, straight)
    views = [view_of(spec(x.shape)), view_of(spec(packed.shape, U8))], [view_of(spec((rows, columns)))]
    return ROWS[BLOCK_PRODUCT].generate(attrs, *views), x, packed


def exact(x: Array, packed: Array, format: str, straight: bool = True) -> Array:
    weights = dequantize(packed, format).astype(np.float64)
    return x.astype(np.float64) @ (weights.T if straight else weights)


def run_for(target: TargetDescription, generator: BlockValues, packed: Array, y: Array) -> None:
    kernel = Jit(target, DiskCache(None)).kernel(generator)
    addresses = packed.ctypes.data, y.ctypes.data
    NativeProgram(pool(), [Launch(kernel, addresses, (extent(packed),), (extent(y),))], 1).run()


@pytest.mark.turns(5)
@pytest.mark.parametrize("format", ["q4_1", "q8_0", "q6_k"])
def test_the_bits_do_not_follow_the_number_of_workers(format: str) -> None:
    for rows, units in ((1, 61), (7, 61), (45, 130)):
        generator, x, packed = product(format, rows, units, 3)
        results = [np.zeros((rows, units), np.float32) for _ in range(2)]
        for workers, y in enumerate(results, 1):
            run(generator, [x, packed], [y], workers)
        assert np.array_equal(*results)
        want = exact(x, packed, format)
        assert np.abs(results[0] - want).max() <= 1e-6 * np.abs(want).max()


def test_few_rows_read_bytes_and_many_are_packed_whose_code_serves_other_numbers_of_rows() -> None:
    few, many, more = (product("q4_k", rows, 2000, 2)[0] for rows in (MOST_ROWS, 200, 391))
    assert isinstance(few, BlockRows)
    assert isinstance(many, Gemm)
    assert outline(many, TARGET)[0] == outline(more, TARGET)[0]
    assert few.workspace(TARGET) == many.workspace(TARGET) == 0
    # What is dequantized is a panel of each worker, never the weights.
    assert many.scratch(TARGET) < 2000 * 512 * 4 / 8


def test_rows_of_a_table_of_any_number_have_one_code() -> None:
    assert outline(BlockValues("q8_0", 5), TARGET)[0] == outline(BlockValues("q8_0", 600), TARGET)[0]


def test_a_product_by_the_columns_of_weights_is_that_of_the_floats_for_panels_that_cut_blocks() -> None:
    for format, blocks in (("q5_1", 7), ("q4_k", 2)):
        generator, x, packed = product(format, 20, 50, blocks, straight=False)
        y = np.zeros((20, blocks * FORMATS[format].size), np.float32)
        run(generator, [x, packed], [y])
        want = exact(x, packed, format, straight=False)
        assert np.abs(y - want).max() <= 1e-6 * np.abs(want).max()


def test_a_block_of_a_long_sum_is_a_part_of_it() -> None:
    _, x, packed = product("q4_k", 12, 20, 9)
    generator, _, _ = product("q4_k", 12, 20, 9)
    y = np.zeros((12, 20), np.float32)
    run(generator, [x, packed], [y])
    want = exact(x, packed, "q4_k")
    assert np.abs(y - want).max() <= 1e-6 * np.abs(want).max()


@pytest.mark.parametrize("format", FORMATS)
def test_values_are_exact_with_narrow_registers_and_without_conversions_of_f16(format: str) -> None:
    """All bytes but for scales that are no numbers; f16 of all kinds."""
    form = FORMATS[format]
    packed = np.random.default_rng(5).integers(0, 256, (40, form.bytes), dtype=np.uint8)
    want = dequantize(packed, format)
    kept = np.isfinite(want).all(1)
    host = host_target()
    narrow = replace(host, vector_bits=128, half=False, in_place=False)
    for target in (host, narrow):
        y = np.zeros_like(want)
        run_for(target, BlockValues(format, len(packed)), packed, y)
        assert np.array_equal(y[kept].view(np.int32), want[kept].view(np.int32))
        assert not np.isfinite(y[~kept]).all(1).any()
