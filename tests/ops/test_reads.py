"""What gradients read: the table of the reference (nnc.md §2, note 10), found by running the rules."""

from __future__ import annotations

import pytest
from tests.conformance.cases import CASES

from nnc.core.values.dtype import F32, I64
from nnc.core.values.spec import spec
from nnc.errors import NotDifferentiableError
from nnc.graph import Op
from nnc.ops.convolutions.convolutions import CONVOLUTION, ConvolutionAttrs
from nnc.ops.convolutions.pooling import AVERAGE_POOL, MAX_POOL, PoolAttrs
from nnc.ops.convolutions.window import window_of
from nnc.ops.elementwise import pointwise
from nnc.ops.indexing.indexing import INDEX_SELECT, AxisAttrs
from nnc.ops.movement.broadcast import ReduceAttrs
from nnc.ops.normalization.softmaxes import SOFTMAX_CROSS_ENTROPY, softmax
from nnc.ops.operators import OPERATORS
from nnc.ops.products.products import GEMM, GemmAttrs
from nnc.ops.random.random import DROPOUT, DropoutAttrs
from nnc.ops.reads import GradientReads, gradient_reads
from nnc.ops.reduction.reduction import ARGMAX
from nnc.ops.rules import GRADIENT, NoAttrs, NotDifferentiable

NONE = NoAttrs()
X = spec((4, 5))
NOTHING = GradientReads((), ())
OUTPUT = GradientReads((), (0,))
INPUT = GradientReads((0,), ())


@pytest.mark.parametrize(
    ("ops", "wanted"),
    [
        ((pointwise.relu, pointwise.sigmoid, pointwise.tanh, pointwise.exp, pointwise.sqrt, softmax), OUTPUT),
        ((pointwise.softplus, pointwise.expm1, pointwise.reciprocal), OUTPUT),
        ((pointwise.log, pointwise.square, pointwise.sin, pointwise.erf, pointwise.log1p), INPUT),
        ((pointwise.swish, pointwise.gelu, pointwise.gelu_tanh), INPUT),
        ((pointwise.sign, pointwise.step, pointwise.floor), NOTHING),
    ],
)
def test_unary_operators(ops: tuple[Op[NoAttrs], ...], wanted: GradientReads) -> None:
    for op in ops:
        assert gradient_reads(op, NONE, [X]) == wanted, op.name


def test_sums_read_nothing_and_products_the_other_operand() -> None:
    assert gradient_reads(pointwise.add, NONE, [X, X]) == NOTHING
    assert gradient_reads(pointwise.multiply, NONE, [X, X], of=(0,)) == GradientReads((1,), ())
    assert gradient_reads(pointwise.multiply, NONE, [X, X], of=(1,)) == GradientReads((0,), ())
    assert gradient_reads(pointwise.WHERE, NONE, [spec((4, 5), "bool"), X, X]) == INPUT


def test_a_layer_reads_weights_for_data_and_data_for_weights() -> None:
    products = [X, spec((5, 3)), spec((3,))]
    images = [spec((2, 6, 6, 3)), spec((3, 3, 3, 4)), spec((4,))]
    for op, attrs, specs in (
        (GEMM, GemmAttrs(), products),
        (CONVOLUTION, ConvolutionAttrs(window_of(3)), images),
    ):
        assert gradient_reads(op, attrs, specs, of=(0,)) == GradientReads((1,), ())
        assert gradient_reads(op, attrs, specs, of=(1,)) == GradientReads((0,), ())
        assert gradient_reads(op, attrs, specs, of=(2,)) == NOTHING
        assert gradient_reads(op, attrs, [*specs[:2], None]) == GradientReads((0, 1), ())


def test_pools() -> None:
    attrs = PoolAttrs((2, 2), window_of(2, stride=2))
    assert gradient_reads(MAX_POOL, attrs, [spec((1, 4, 4, 2))]) == GradientReads((0,), (0,))
    assert gradient_reads(AVERAGE_POOL, attrs, [spec((1, 4, 4, 2))]) == NOTHING


def test_a_mask_or_an_index_stands_for_the_data() -> None:
    assert gradient_reads(DROPOUT, DropoutAttrs(), [X, spec((), I64)]) == GradientReads((), (1,))
    assert gradient_reads(INDEX_SELECT, AxisAttrs(0), [X, spec((3,), I64)]) == GradientReads((1,), ())
    assert gradient_reads(SOFTMAX_CROSS_ENTROPY, NONE, [X, spec((4,), I64)]) == GradientReads((1,), (1,))


def test_what_no_gradient_passes_through_reads_nothing() -> None:
    assert gradient_reads(pointwise.CAST, pointwise.CastAttrs(I64), [X]) == NOTHING
    assert gradient_reads(pointwise.add, NONE, [spec((3,), I64)] * 2) == NOTHING


def test_an_operator_without_a_gradient_says_why() -> None:
    with pytest.raises(NotDifferentiableError, match="argmax: .* an index does not change smoothly"):
        gradient_reads(ARGMAX, ReduceAttrs((1,)), [X])


def test_every_rule_can_be_traced() -> None:
    traced = set()
    for case in CASES:
        if not isinstance(GRADIENT[case.op], NotDifferentiable) and F32 in case.dtypes:
            specs = case.specs(F32)
            try:
                found = gradient_reads(case.op, case.attrs, specs)
            except NotDifferentiableError:
                continue  # of a wide matrix, qr has none
            assert all(specs[position] is not None for position in found.inputs), case
            traced.add(case.op)
    assert traced == {op for op in OPERATORS if not isinstance(GRADIENT[op], NotDifferentiable)}
