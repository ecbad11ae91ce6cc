"""Kernels of products are assembled for processors with NEON, whichever processor is here."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from tests.backends.llvm.test_machine import CASES

from nnc.backends.llvm.run.object_code import assembly, compile_source
from nnc.codegen.frame.row import view_of
from nnc.codegen.ir.builder import Module
from nnc.codegen.ir.target import TargetDescription, describe
from nnc.codegen.kernels.table import ROWS
from nnc.core.running.llvm_library import llvm
from nnc.core.values.command import AnyCommand, Command
from nnc.core.values.dtype import BF16, F16, F32, F64, I8, DType
from nnc.core.values.spec import Shape, TensorSpec, spec
from nnc.ops.convolutions.convolutions import CONVOLUTION
from nnc.ops.normalization.normalization import LAYER_NORM
from nnc.ops.normalization.softmaxes import softmax
from nnc.ops.products.products import GEMM
from nnc.ops.quantization.quantization import INTEGER_PRODUCT, IntegerProductAttrs
from nnc.ops.rules import infer
from nnc.ops.sequence.attention import ATTENTION

FEATURES = frozenset({"neon", "dotprod"})
ABSENT = {GEMM.name: 1, CONVOLUTION.name: 1, ATTENTION.name: 1, INTEGER_PRODUCT.name: 2}
PRODUCTS = [case for case in CASES if case[0].op not in (softmax, LAYER_NORM)]
PROCESSORS = {"neoverse-n1": "aarch64-unknown-linux-gnu", "apple-m1": "arm64-apple-darwin"}


def neon(processor: str) -> TargetDescription:
    """Whatever is here."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return describe(PROCESSORS[processor], processor, FEATURES, "")


def source(command: AnyCommand, shapes: tuple[Shape, ...], dtype: DType, target: TargetDescription) -> str:
    """The text of a kernel."""
    return written(command, [spec(shape, dtype) for shape in shapes], target)


def written(command: AnyCommand, given: Sequence[TensorSpec], target: TargetDescription) -> str:
    """The same, of operands."""
    results = infer(command.op, command.attrs, (*given, *(None,) * ABSENT.get(command.op.name, 0)))
    module = Module(target)
    views = [view_of(one) for one in given], [view_of(one) for one in results]
    ROWS[command.op].generate(command.attrs, *views).emit(module, "kernel")
    return str(module)


@pytest.mark.turns(4)
@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize("case", PRODUCTS, ids=lambda case: f"{case[0].op.name} {case[1]}")
def test_kernels_multiply_and_add_in_vectors(case: tuple[AnyCommand, tuple[Shape, ...]], processor: str) -> None:
    target = neon(processor)
    text = assembly(source(*case, F32, target), target)
    # Linux writes the shape behind each register, macOS behind the instruction.
    assert re.search(r"fmla(\.4s)?\tv\d+", text)
    assert target.vector_bits == 128


@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize("dtype", [F64, F16, BF16], ids=str)
@pytest.mark.parametrize("case", [CASES[0], CASES[4]], ids=lambda case: case[0].op.name)
def test_products_of_other_floats_are_objects(
    case: tuple[AnyCommand, tuple[Shape, ...]], dtype: DType, processor: str
) -> None:
    target = neon(processor)
    assert compile_source(source(*case, dtype, target), target)


@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize("quads", [False, True])
def test_products_of_bytes_sum_in_fours(quads: bool, processor: str) -> None:
    target = neon(processor)
    command = Command(INTEGER_PRODUCT, IntegerProductAttrs(quads=quads))
    given = [spec((40, 64), I8), spec((16, 50, 4) if quads else (64, 50), I8)]
    assert "sdot" in assembly(written(command, given, target), target)
