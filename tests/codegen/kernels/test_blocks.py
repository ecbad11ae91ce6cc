"""Weights in blocks: kernels that read them as they lie give the bits of those that pack them, without the memory."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

import nnc
from nnc.core.running.dispatch import DISPATCHER, Call
from nnc.core.settings import SETTINGS
from nnc.core.values.command import AnyCommand, Command
from nnc.core.values.dtype import BF16, F16, F32, F64, U8, DType
from nnc.core.values.spec import Blocked, Shape, TensorSpec, spec
from nnc.core.values.tensor import Tensor
from nnc.ops.composed.fused import FUSED_OUTPUT, FusedAttrs, FusedStep
from nnc.ops.convolutions.convolutions import (
    CONVOLUTION,
    CONVOLUTION_DATA_GRADIENT,
    ConvolutionAttrs,
    ConvolutionGradientAttrs,
)
from nnc.ops.convolutions.window import output_sizes, window_of
from nnc.ops.elementwise.pointwise import relu
from nnc.ops.movement.layout import CONVERT_LAYOUT, LayoutAttrs
from nnc.ops.products.products import GEMM, GemmAttrs
from nnc.ops.rules import NoAttrs, infer

# Importing the package puts its backends into the dispatcher.
assert nnc.__name__ == "nnc"
LLVM = DISPATCHER.backend("llvm")
ROWS = ((49, 100, 65), (33, 7, 1), (5, 160, 500), (5, 300, 65))


def products() -> Iterator[tuple[AnyCommand, tuple[Shape, ...]]]:
    for (rows, columns, inner), flip_a, flip_b in itertools.product(ROWS, (False, True), (False, True)):
        a, b = (inner, rows) if flip_a else (rows, inner), (columns, inner) if flip_b else (inner, columns)
        yield Command(GEMM, GemmAttrs(flip_a, flip_b)), (a, b)


def convolutions() -> Iterator[tuple[AnyCommand, tuple[Shape, ...]]]:
    # Size, channels, filters, kernel, stride, groups; the last two are packed in pieces.
    for size, channels, filters, kernel, stride, groups in (
        (9, 24, 50, 1, 1, 1),
        (9, 24, 96, 1, 2, 1),
        (9, 3, 40, 7, 2, 1),
        (9, 20, 36, 3, 1, 1),
        (9, 24, 60, 3, 2, 3),
        (7, 512, 64, 3, 2, 1),
        (7, 512, 96, 1, 2, 1),
    ):
        window = window_of(kernel, stride=stride, padding="same")
        shapes = (2, size, size, channels), (kernel, kernel, channels // groups, filters)
        yield Command(CONVOLUTION, ConvolutionAttrs(window, groups)), shapes
    for size, channels, filters, kernel in ((9, 64, 20, 3), (8, 40, 24, 2), (7, 256, 128, 3)):
        window = window_of(kernel, stride=2, padding=kernel // 3)
        outputs = output_sizes("test", (size, size), (kernel, kernel), window)
        attrs = ConvolutionGradientAttrs(window, 1, (size, size))
        yield Command(CONVOLUTION_DATA_GRADIENT, attrs), ((1, *outputs, filters), (kernel, kernel, channels, filters))


def fused() -> Iterator[tuple[AnyCommand, tuple[Shape, ...]]]:
    steps = FusedStep(Command(GEMM, GemmAttrs(False, True)), (0, 1)), FusedStep(Command(relu, NoAttrs()), (2,))
    yield Command(FUSED_OUTPUT, FusedAttrs(2, steps)), ((40, 60), (100, 60))


CASES = [*products(), *convolutions(), *fused()]


def operands(command: AnyCommand, shapes: tuple[Shape, ...], dtype: DType) -> list[Tensor | None]:
    generator = np.random.default_rng(0)
    made: list[Tensor | None] = [
        Tensor.from_numpy(generator.standard_normal(shape, dtype=np.float32).astype(dtype.numpy)) for shape in shapes
    ]
    return [*made, None] if command.op in (GEMM, CONVOLUTION) else made


def run(command: AnyCommand, inputs: list[Tensor | None], backend: str = "llvm") -> bytes:
    specs = tuple(None if one is None else one.spec for one in inputs)
    kernel = DISPATCHER.claim(command, specs, infer(command.op, command.attrs, specs), backend).kernel
    (result,) = (Tensor.zeros(one) for one in infer(command.op, command.attrs, specs))
    need = kernel.workspace_bytes
    room = Tensor.zeros(TensorSpec((need,), U8)) if need else None
    DISPATCHER.backend(backend).program([Call(kernel, tuple(inputs), (result,), room)])()
    return result.numpy().tobytes()


def in_blocks(x: Tensor, layout: Blocked, backend: str = "llvm") -> Tensor:
    content = run(Command(CONVERT_LAYOUT, LayoutAttrs(layout)), [x], backend)
    return Tensor.holding(TensorSpec(layout.shape, x.dtype, layout), content)


@pytest.mark.turns(8)
@pytest.mark.parametrize(("dtype", "threads"), [(F32, 1), (F32, 2), (BF16, 2), (F16, 1), (F64, 2)], ids=str)
def test_blocks_and_packing_give_the_same_bits(dtype: DType, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SETTINGS, "threads", threads)
    served, refused = 0, False
    for command, shapes in CASES if dtype in (F32, BF16) else CASES[::4]:
        inputs = operands(command, shapes, dtype)
        specs = tuple(None if one is None else one.spec for one in inputs)
        results = infer(command.op, command.attrs, specs)
        refused |= bool(LLVM.refusal(command, specs, results))
        for wish in DISPATCHER.preferences(command, specs, results, "llvm"):
            weights = inputs[wish.place]
            assert weights is not None
            laid = [in_blocks(weights, wish.layout, backend) for backend in ("llvm", "reference")]
            assert laid[0].numpy().tobytes() == laid[1].numpy().tobytes(), wish
            given = [laid[0] if place == wish.place else one for place, one in enumerate(inputs)]
            named = tuple(None if one is None else one.spec for one in given)
            assert LLVM.refusal(command, named, results) == ""
            assert LLVM.kernel(command, named, results).workspace_bytes == 0
            assert run(command, given) == run(command, inputs), (command, shapes, wish)
            served += 1
    assert served or refused


def test_a_kernel_claims_no_blocks_but_its_own() -> None:
    command = Command(GEMM, GemmAttrs())
    a, layout = spec((64, 130)), Blocked((130, 100), 1, 7)
    b = TensorSpec(layout.shape, layout=layout)
    assert LLVM.refusal(command, (a, b, None), (spec((64, 100)),)) == "an operand in blocks"
    assert DISPATCHER.claim(command, (a, b, None), (spec((64, 100)),)).backend.name == "reference"


def test_blocks_with_gaps_between_elements_are_copied() -> None:
    command = Command(GEMM, GemmAttrs(transpose_b=True))
    a, b, _ = operands(command, ((64, 130), (100, 130)), F32)
    assert a is not None
    assert b is not None
    (wish,) = DISPATCHER.preferences(command, (a.spec, b.spec, None), (spec((64, 100)),), "llvm")
    laid = in_blocks(b, wish.layout)
    apart = Tensor.zeros(spec((2 * laid.spec.elements,))).view(
        laid.spec, 0, tuple(2 * stride for stride in laid.strides)
    )
    np.copyto(apart.numpy(), laid.numpy())
    assert run(command, [a, apart, None]) == run(command, [a, b, None])


def test_no_vendor_kernel_takes_blocks_for_axes_in_order() -> None:
    layout = Blocked((4, 4), 1, 4)
    specs = spec((1, 4)), TensorSpec(layout.shape, layout=layout), None
    for name in ("blas", "onednn"):
        backend = DISPATCHER.backends[name]
        if not backend.absence():
            assert backend.refusal(Command(GEMM, GemmAttrs()), specs, (spec((1, 4)),)) == "an operand in blocks"
