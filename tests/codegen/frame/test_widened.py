"""Kernels of 16 bits on copies in f32: the same as the f32 kernel on widened operands, rounded once."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from tests.backends.llvm.harness import Array

from nnc.backends.llvm.backend import LlvmBackend
from nnc.backends.llvm.run.engine import engine
from nnc.codegen.frame.widened import CHUNK, StoredOperand, Widened
from nnc.codegen.ir import builder
from nnc.codegen.kernels.products.gemm import Gemm
from nnc.codegen.kernels.products.gemm_plan import MatrixProduct
from nnc.core.running.dispatch import Call
from nnc.core.values.command import AnyCommand, Command
from nnc.core.values.dtype import BF16, F16, F32, U8, DType
from nnc.core.values.spec import TensorSpec
from nnc.core.values.tensor import Tensor
from nnc.ops.convolutions.convolutions import CONVOLUTION_WEIGHT_GRADIENT, ConvolutionGradientAttrs
from nnc.ops.convolutions.window import window_of
from nnc.ops.rules import infer
from nnc.ops.sequence.attention import ATTENTION, AttentionAttrs

BACKEND = LlvmBackend()
TYPES = {BF16: ml_dtypes.bfloat16, F16: np.float16, F32: np.float32}


def random(shape: tuple[int, ...], dtype: DType) -> Array:
    values = np.random.default_rng(len(shape) + shape[-1]).standard_normal(shape).astype(np.float32) / 4
    return values.astype(ml_dtypes.bfloat16 if dtype is BF16 else np.float16).astype(TYPES[dtype])


def results(command: AnyCommand, arrays: list[Array], dtype: DType) -> list[Array]:
    given = [Tensor.from_numpy(array.astype(TYPES[dtype])) for array in arrays]
    inputs = (*given, None) if command.op is ATTENTION else tuple(given)
    specs = tuple(None if tensor is None else tensor.spec for tensor in inputs)
    made = infer(command.op, command.attrs, specs)
    kernel = BACKEND.kernel(command, specs, made)
    workspace = Tensor.empty(TensorSpec((kernel.workspace_bytes,), U8)) if kernel.workspace_bytes else None
    outputs = tuple(Tensor.empty(spec) for spec in made)
    BACKEND.program([Call(kernel, inputs, outputs, workspace)])()
    return [np.array(tensor.numpy()) for tensor in outputs]


COMMANDS = {
    "weight gradient": (
        Command(CONVOLUTION_WEIGHT_GRADIENT, ConvolutionGradientAttrs(window_of(3, padding=1), 1, (3, 3))),
        [(2, 9, 9, 8), (2, 9, 9, 16)],
    ),
    "attention": (Command(ATTENTION, AttentionAttrs(0.3, causal=True)), [(2, 70, 3, 16)] * 3),
}


@pytest.mark.parametrize("dtype", [BF16, F16])
@pytest.mark.parametrize("name", COMMANDS)
def test_results_are_those_of_f32_rounded_once(name: str, dtype: DType) -> None:
    if dtype is F16 and not engine().target.half:
        pytest.skip("this processor does not convert f16")
    command, shapes = COMMANDS[name]
    arrays = [random(shape, dtype) for shape in shapes]
    for got, want in zip(results(command, arrays, dtype), results(command, arrays, F32), strict=True):
        assert got.tobytes() == want.astype(got.dtype).tobytes()


def test_memory_is_that_of_the_copies_and_of_the_kernel() -> None:
    inner = Gemm(MatrixProduct(builder.F32, (), 4, 4, 4, (), 4, 1, (), 4, 1, (), 4))
    operands = StoredOperand(builder.BF16, CHUNK + 1, copied=True), StoredOperand(builder.F32, 16, copied=False)
    assert [operand.chunks(CHUNK) for operand in operands] == [2, 0]
    widened = Widened(inner, operands, (StoredOperand(builder.BF16, 16, copied=True),))
    target = engine().target
    assert widened.starts == (0, 4 * (CHUNK + 16), 4 * (CHUNK + 16), 4 * (CHUNK + 32))
    assert widened.workspace(target) == 4 * (CHUNK + 32) + inner.workspace(target)
    assert widened.scratch(target) == inner.scratch(target)
