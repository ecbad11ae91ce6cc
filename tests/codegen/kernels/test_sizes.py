"""One kernel serves many sizes, with the bits of kernels that are made for one size each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from tests.backends.llvm.harness import Array, jit, run
from tests.conformance.case import NONE, Case
from tests.conformance.cases import CASES

from nnc.codegen.frame.kernel import Generator, WithSizes
from nnc.codegen.frame.row import view_of
from nnc.codegen.frame.written import outline, write
from nnc.codegen.ir.builder import Module
from nnc.codegen.ir.native_kernel import Phase
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.kernels.table import ROWS
from nnc.core.values.spec import Shape, spec
from nnc.graph import Op
from nnc.ops.convolutions.convolutions import ConvolutionAttrs, ConvolutionGradientAttrs
from nnc.ops.convolutions.pooling import PoolAttrs
from nnc.ops.convolutions.window import Window, window_of
from nnc.ops.indexing.order import ScanAttrs
from nnc.ops.loss.loss import LossAttrs, LossReduction
from nnc.ops.movement.broadcast import ReduceAttrs
from nnc.ops.movement.movement import ConcatenateAttrs, TransposeAttrs
from nnc.ops.normalization.normalization import BatchNormAttrs, NormalizationAttrs
from nnc.ops.products.products import GemmAttrs
from nnc.ops.rules import infer
from nnc.ops.sequence.attention import AttentionAttrs
from nnc.ops.sequence.recurrent import RecurrentAttrs

TARGET = TargetDescription("x86_64-unknown-linux-gnu", "x86-64-v4", "", 512, 32, fused=True)
SIZES = (1, 2, 7, 31, 64, 97)


@dataclass(frozen=True)
class Baked:
    """The same generator, whose sizes are part of the code."""

    inner: Generator

    def workspace(self, target: TargetDescription) -> int:
        return self.inner.workspace(target)

    def scratch(self, target: TargetDescription) -> int:
        return self.inner.scratch(target)

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        return self.inner.emit(module, name)


@dataclass(frozen=True)
class Row:
    """An operator whose operands follow a size, None for those that are left out; how many texts serve all sizes."""

    name: str
    op: Op[Any]
    shapes: Callable[[int], tuple[Shape | None, ...]]
    attrs: Any = NONE
    texts: int = 1
    sizes: tuple[int, ...] = SIZES

    def __str__(self) -> str:
        return self.name


def op_of(name: str) -> Op[Any]:
    return next(case.op for case in CASES if case.op.name == name)


POOL = PoolAttrs((3, 3), window_of(3, stride=2, padding=1))
TRANSPOSED = GemmAttrs(transpose_a=True)
PADDED = ConvolutionAttrs(window_of(3, padding=1))
LINES = ConvolutionAttrs(Window((1, 1), ((0, 0), (1, 1)), (1, 1)))
STRIDED = ConvolutionAttrs(window_of(3, stride=2, padding=1))
APART = ConvolutionAttrs(window_of(3, padding=1), 24)
HEADS = AttentionAttrs(0.3, causal=True)


def by_weight(kernel: Shape, window: Window, groups: int = 1) -> ConvolutionGradientAttrs:
    """Of the gradient by weights of such a kernel."""
    return ConvolutionGradientAttrs(window, groups, kernel)


def recurrent(n: int, gates: int, units: int = 24) -> tuple[Shape, ...]:
    """Operands of a recurrent network over n steps of n + 2 rows."""
    return (n, n + 2, gates * units), (units, gates * units), (n + 2, units)


TABLE = [
    Row("flat", op_of("relu"), lambda n: ((n, 3, 5),), sizes=(0, *SIZES)),
    Row("long chains", op_of("gelu"), lambda n: ((5, n),)),
    Row("a value per column", op_of("add"), lambda n: ((n + 1, 5), (5,)), sizes=(1, 2, 7, 64)),
    Row("a value per row", op_of("multiply"), lambda n: ((6, n + 1), (6, 1))),
    Row("a value per image and channel", op_of("add"), lambda n: ((2, n + 1, 24), (2, 1, 24))),
    Row("an axis in the middle", op_of("subtract"), lambda n: ((3, n + 1, 2, 5), (3, 1, 2, 1))),
    # A tile whose last columns, or rows, are there or not; axes that one tile holds are part of the code.
    Row("columns", op_of("transpose"), lambda n: ((2, n, 40),), TransposeAttrs((0, 2, 1)), 4, (17, 31, 32, 97)),
    Row("rows", op_of("transpose"), lambda n: ((2, 40, n),), TransposeAttrs((0, 2, 1)), 4, (17, 31, 32, 97)),
    Row("heads", op_of("transpose"), lambda n: ((2, n, 3, 8),), TransposeAttrs((0, 2, 1, 3)), 1, (2, 7, 64, 97)),
    Row("woven", op_of("transpose"), lambda n: ((2, 3, n),), TransposeAttrs((0, 2, 1)), 2, (31, 64, 97)),
    Row("joined", op_of("concatenate"), lambda n: ((n, 4, 6), (n, 4, 5)), ConcatenateAttrs(2), 2),
    Row("numbers in order", op_of("cumulative_sum"), lambda n: ((4, n),), ScanAttrs(1, False, False)),
    Row("mean of images", op_of("reduce_mean"), lambda n: ((3, n, n, 24),), ReduceAttrs((1, 2)), 4),
    Row("mean of rows", op_of("reduce_mean"), lambda n: ((n, 100),), ReduceAttrs((1,)), 2),
    Row("sums of columns", op_of("reduce_sum"), lambda n: ((n, 33),), ReduceAttrs((0,)), 3),
    Row("maximum of a text", op_of("reduce_max"), lambda n: ((3, n),), ReduceAttrs((1,)), 3),
    Row("positions", op_of("argmax"), lambda n: ((n, 40),), ReduceAttrs((1,)), 2),
    Row("softmax of rows", op_of("softmax"), lambda n: ((n, 10),), texts=1),
    Row("softmax of texts", op_of("softmax"), lambda n: ((3, n),), texts=3),
    Row("layer norm", op_of("layer_norm"), lambda n: ((n, 40), (40,), (40,)), NormalizationAttrs((1,), (1,), 1e-5)),
    Row("batch norm", op_of("batch_norm"), lambda n: ((n, 5, 24), *[(24,)] * 4), BatchNormAttrs(), 2),
    Row("pooling", op_of("max_pool"), lambda n: ((2, n + 2, n + 3, 8),), POOL, 1, (1, 2, 30)),
    Row("mean pooling", op_of("average_pool"), lambda n: ((n, 9, 9, 8),), POOL, 1, (1, 2, 30)),
    Row("product", op_of("gemm"), lambda n: ((n, 40), (40, 70), (70,)), GemmAttrs(), 3, (2, 7, 31, 64, 97, 640)),
    Row("many rows", op_of("gemm"), lambda n: ((n, 40), (40, 70), (70,)), GemmAttrs(), 1, (24, 31, 64, 97, 640, 9000)),
    Row("products", op_of("gemm"), lambda n: ((3, n, 8), (3, 8, n), (n,)), GemmAttrs(), 6, (2, 7, 31, 64, 97)),
    Row("product of weights", op_of("gemm"), lambda n: ((n, 24), (n, 40), (40,)), TRANSPOSED, 3, (2, 31, 97, 500)),
    Row("vector", op_of("gemm"), lambda n: ((n, 40), (40, 1), (1,)), GemmAttrs(), 1, (2, 7, 64)),
    Row("convolution", op_of("convolution"), lambda n: ((2, n, n, 8), (3, 3, 8, 24), (24,)), PADDED, 5, (9, 20, 33)),
    Row("stride", op_of("convolution"), lambda n: ((1, n, n, 3), (3, 3, 3, 16), (16,)), STRIDED, 5, (9, 20, 33)),
    Row("wide", op_of("convolution"), lambda n: ((1, 6, n, 16), (1, 3, 16, 40), (40,)), LINES, 1, (26, 41, 50, 97)),
    Row("tiles", op_of("convolution"), lambda n: ((1, n, n, 64), (3, 3, 64, 64), (64,)), PADDED, 4, (14, 17, 28)),
    Row("channels apart", op_of("convolution"), lambda n: ((1, n, n, 24), (3, 3, 1, 24), (24,)), APART, 2, (8, 13, 30)),
    Row(
        "weights",
        op_of("convolution_weight_gradient"),
        lambda n: ((n, 9, 8, 3), (n, 9, 8, 20)),
        by_weight((3, 3), PADDED.window),
        1,
        (1, 2, 7, 31),
    ),
    Row(
        "weights, heights",
        op_of("convolution_weight_gradient"),
        lambda n: ((2, n, 8, 6), (2, n, 8, 20)),
        by_weight((3, 3), PADDED.window, 2),
        2,
        (2, 7, 31, 97),
    ),
    Row(
        "weights in tiles",
        op_of("convolution_weight_gradient"),
        lambda n: ((n, 9, 13, 16), (n, 9, 13, 32)),
        by_weight((3, 3), PADDED.window),
        5,
        (1, 2, 7, 31, 64),
    ),
    Row("lstm", op_of("lstm"), lambda n: (*recurrent(n, 4), (n + 2, 24)), RecurrentAttrs(), 4, (1, 2, 5, 13, 14, 33)),
    Row(
        "backwards", op_of("gru"), lambda n: (*recurrent(n, 3), (72,)), RecurrentAttrs(reverse=True), 4, (1, 2, 13, 33)
    ),
    Row(
        "heads of tokens",
        op_of("attention"),
        lambda n: ((2, n, 4, 24), (2, n, 2, 24), (2, n, 2, 24), None),
        HEADS,
        8,
        (1, 2, 7, 31, 40, 64, 97),
    ),
    Row(
        "lstm, gradient",
        op_of("lstm_gradient"),
        lambda n: (*[(n, n + 2, 24)] * 2, (n, n + 2, 96), (n, n + 2, 24), (24, 96), (n + 2, 24)),
        RecurrentAttrs(),
        4,
        (1, 2, 5, 13, 14, 33),
    ),
    Row(
        "heads, gradient",
        op_of("attention_gradient"),
        lambda n: ((2, n, 4, 24), (2, n, 4, 24), (2, n, 2, 24), (2, n, 2, 24), (2, n, 4, 24), (2, 4, n), None),
        HEADS,
        8,
        (1, 2, 7, 31, 40, 64, 97),
    ),
    Row("new tokens", op_of("attention"), lambda n: ((2, 1, 4, 24), (2, n, 2, 24), (2, n, 2, 24), None), HEADS, 4),
    Row("squares", op_of("mean_squared_error"), lambda n: ((n, 12), (n, 12)), LossAttrs(LossReduction.MEAN), 2),
]


@pytest.mark.turns(5)
@pytest.mark.parametrize("row", TABLE, ids=str)
def test_one_text_has_the_bits_of_all_sizes(row: Row) -> None:
    hashes = set()
    for size in row.sizes:
        inputs, results, generator = operands(row.op, row.attrs, row.shapes(size))
        again = [np.full_like(result, 3) for result in results]
        run(generator, inputs, results)
        run(Baked(generator), inputs, again)
        assert [one.tobytes() for one in results] == [one.tobytes() for one in again], size
        hashes.add(jit().kernel(generator).hash)
    assert len(hashes) <= row.texts


def operands(op: Op[Any], attrs: Any, shapes: Sequence[Shape | None]) -> tuple[list[Array], list[Array], Generator]:
    given = tuple(None if shape is None else spec(shape, "f32") for shape in shapes)
    written, specs = infer(op, attrs, given), [one for one in given if one is not None]
    random = np.random.default_rng(0)
    inputs = [random.standard_normal(one.shape, dtype=np.float32) for one in specs]
    results = [np.full(one.shape, 7, one.dtype.numpy) for one in written]
    views = [view_of(one) for one in specs], [view_of(one) for one in written]
    return inputs, results, ROWS[op].generate(attrs, *views)


def generator_of(case: Case) -> Generator | None:
    """The kernel of a row of the conformance table, for its first element type."""
    row, specs = ROWS.get(case.op), case.specs(case.dtypes[0])
    present = [one for one in specs if one is not None]
    if row is None or any(one.plain is not one for one in present):
        return None
    results = infer(case.op, case.attrs, specs)
    if row.refuse(case.attrs, present, results):
        return None
    return row.generate(case.attrs, [view_of(one) for one in present], [view_of(one) for one in results])


def test_formulas_tell_the_phases_that_are_written_without_them() -> None:
    found, differing = 0, []
    for case in CASES:
        generator = generator_of(case)
        if not isinstance(generator, WithSizes):
            continue
        found += 1
        _, written = write(generator, TARGET, "kernel")
        sized = written.at(outline(generator, TARGET)[1])
        if sized is None or sized.phases != generator.emit(Module(TARGET), "kernel"):
            differing.append(str(case))
    assert found > 100
    assert differing == []
