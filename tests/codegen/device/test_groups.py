"""Kernels of groups of threads: which products they serve, in which tiles, and that their text is valid everywhere."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.codegen.device.test_launch import compiled, machine

from nnc.codegen.device.device_targets import cuda_target, vulkan_target
from nnc.codegen.device.groups.device_rows import group_kernel, tile_variants
from nnc.codegen.device.groups.matrices.group_attention import GroupAttention
from nnc.codegen.device.groups.products import GroupProduct
from nnc.codegen.device.groups.tiles import FEW_BYTES, PROCESSORS, SIDE, THREADS
from nnc.codegen.device.launch import device_kernel
from nnc.codegen.device.spirv.module import spirv_module
from nnc.codegen.frame.kernel import Generator
from nnc.codegen.frame.row import view_of
from nnc.codegen.frame.widened import StoredOperand, Widened
from nnc.codegen.ir.builder import F32 as F32_SCALAR
from nnc.codegen.kernels.products.gemm import Gemm
from nnc.codegen.kernels.table import ROWS
from nnc.core.values.dtype import BF16, F16, F32, F64, DType
from nnc.core.values.spec import Shape, spec
from nnc.ops.convolutions.convolutions import CONVOLUTION, ConvolutionAttrs
from nnc.ops.convolutions.window import Window
from nnc.ops.elementwise.pointwise import tanh
from nnc.ops.movement.broadcast import REDUCE_SUM, ReduceAttrs
from nnc.ops.movement.movement import TRANSPOSE, TransposeAttrs
from nnc.ops.normalization.normalization import LAYER_NORM, NormalizationAttrs
from nnc.ops.normalization.softmaxes import softmax
from nnc.ops.products.products import GEMM, GemmAttrs
from nnc.ops.rules import NoAttrs, infer

CUDA, VULKAN = cuda_target(9, 0), vulkan_target(32)
assert CUDA is not None
VALIDATOR, PTXAS = shutil.which("spirv-val"), shutil.which("ptxas")


def product_of(a: Shape, b: Shape, dtype: DType = F32, bias: bool = False, attrs: GemmAttrs | None = None) -> Generator:
    attrs = attrs or GemmAttrs()
    specs = [spec(a, dtype), spec(b, dtype), *([spec((b[-1],), dtype)] if bias else [])]
    (c,) = infer(GEMM, attrs, specs if bias else [*specs, None])
    return ROWS[GEMM].generate(attrs, [view_of(each) for each in specs], [view_of(c)])


def product(a: Shape, b: Shape, dtype: DType = F32, bias: bool = False, attrs: GemmAttrs | None = None) -> Gemm:
    generator = product_of(a, b, dtype, bias, attrs)
    assert isinstance(generator, Gemm)
    return generator


def shares(generator: Gemm) -> tuple[int, int] | None:
    kernel = GroupProduct.of(generator, CUDA)
    return None if kernel is None else (kernel.height, kernel.width)


def test_tiles_are_as_large_as_there_are_many() -> None:
    assert shares(product((4096, 4096), (4096, 4096))) == (8, 16)
    assert shares(product((4096, 4096), (4096, 4096), attrs=GemmAttrs(transpose_b=True))) == (16, 8)
    assert shares(product((1024, 1024), (1024, 1024))) == (8, 4)
    assert shares(product((256, 64), (64, 256))) == (4, 4)
    assert shares(product((128 * PROCESSORS, 64), (64, 64))) == (8, 4)
    assert shares(product((2048, 64), (64, 2048), F64)) == (4, 4)


def test_groups_of_vulkan_fit_the_memory_that_every_device_has() -> None:
    for dtype in (F32, F16, F64):
        text = device_kernel(product((2048, 64), (64, 2048), dtype), VULKAN, "k").text
        arrays = re.findall(r"addrspace\(3\) global \[(\d+) x (\w+)\]", text)
        used = sum(int(count) * {"float": 4, "double": 8}[kind] for count, kind in arrays)
        assert 8 * 1024 < used <= (FEW_BYTES if dtype is not F64 else 2 * FEW_BYTES)


def test_tiles_that_a_measurement_may_choose_among() -> None:
    plain = tile_variants(product((300, 64), (64, 300)), CUDA)
    assert set(plain) >= {"tiles 128x64", "tiles 64x128"}
    # The one that it has anyway is none of them.
    assert "tiles 64x64" not in plain
    assert {group_kernel(variant, CUDA) for variant in plain.values()} == {variant.group for variant in plain.values()}
    assert set(tile_variants(product((256, 64), (64, 256), BF16), CUDA)) >= {"warpgroups 128x256", "warpgroups 128x128"}
    assert not tile_variants(product((3, 64), (64, 512)), CUDA)


def test_few_rows_and_empty_sums_are_left_to_registers() -> None:
    assert shares(product((3, 64), (64, 512))) is None
    assert shares(product((64, 0), (0, 64))) is None


def test_a_launch_has_a_group_for_each_tile() -> None:
    generator = product((5, 300, 64), (5, 64, 200))
    kernel = device_kernel(generator, CUDA, "k")
    (phase,) = kernel.phases
    assert phase.items == phase.groups == 5 * -(-300 // (4 * SIDE)) * -(-200 // (4 * SIDE))
    assert (phase.threads, phase.worker, phase.scratch) == (THREADS, THREADS, 0)
    assert group_kernel(generator, CUDA) is not None


@pytest.mark.skipif(VALIDATOR is None or PTXAS is None, reason="no spirv-val or no ptxas")
@pytest.mark.parametrize("dtype", [F32, F16, BF16, F64], ids=str)
def test_texts_are_valid_for_both_kinds_of_devices(dtype: DType, tmp_path: Path) -> None:
    made = machine(target=CUDA)
    for number, generator in enumerate(
        (
            product((200, 70), (70, 150), dtype, bias=True),
            product((70, 200), (70, 150), dtype, attrs=GemmAttrs(transpose_a=True)),
            product((3, 40, 33), (3, 50, 33), dtype, attrs=GemmAttrs(transpose_b=True)),
        )
    ):
        module, assembly = tmp_path / f"{number}.spv", tmp_path / f"{number}.ptx"
        module.write_bytes(spirv_module(device_kernel(generator, VULKAN, "k")).code)
        subprocess.run([str(VALIDATOR), "--target-env", "vulkan1.2", str(module)], check=True)
        assembly.write_text(compiled(device_kernel(generator, CUDA, "k"), made, 2))
        subprocess.run([str(PTXAS), f"-arch={CUDA.processor}", str(assembly), "-o", str(tmp_path / "out")], check=True)


@pytest.mark.skipif(VALIDATOR is None or PTXAS is None, reason="no spirv-val or no ptxas")
def test_texts_of_rows_and_convolutions_are_valid(tmp_path: Path) -> None:
    window = Window((1, 1), ((1, 1), (1, 1)), (1, 1))
    made = machine(target=CUDA)
    operands = (
        (softmax, NoAttrs(), [spec((7, 4000))]),
        (LAYER_NORM, NormalizationAttrs((1,), (1,)), [spec((7, 2048)), spec((2048,)), spec((2048,))]),
        (CONVOLUTION, ConvolutionAttrs(window), [spec((4, 28, 28, 32)), spec((3, 3, 32, 64)), None]),
        (tanh, NoAttrs(), [spec((64, 128), BF16)]),
        (TRANSPOSE, TransposeAttrs((1, 0)), [spec((64, 100), F16)]),
        (REDUCE_SUM, ReduceAttrs((0, 1)), [spec((64, 200))]),
    )
    for number, (op, attrs, specs) in enumerate(operands):
        results = [view_of(each) for each in infer(op, attrs, specs)]
        generator = ROWS[op].generate(attrs, [view_of(each) for each in specs if each is not None], results)
        module, assembly = tmp_path / f"{number}.spv", tmp_path / f"{number}.ptx"
        module.write_bytes(spirv_module(device_kernel(generator, VULKAN, "k")).code)
        subprocess.run([str(VALIDATOR), "--target-env", "vulkan1.2", str(module)], check=True)
        kernel = device_kernel(generator, CUDA, "k")
        assert {phase.worker for phase in kernel.phases} == {THREADS}
        text = compiled(kernel, made, 2)
        assert op is not tanh or ("ld.global.v4" in text and "st.global.v4" in text)
        assembly.write_text(text)
        subprocess.run(
            [str(PTXAS), f"-arch={CUDA.processor}", "-v", str(assembly), "-o", str(tmp_path / "out")], check=True
        )


def test_what_computes_in_f32_and_is_no_attention_is_told_apart() -> None:
    inner = product((64, 64), (64, 64))
    operand = StoredOperand(F32_SCALAR, 4096, copied=False)
    assert GroupAttention.of(Widened(inner, (operand, operand), (operand,)), CUDA) is None
