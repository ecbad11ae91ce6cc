"""Bad shapes, element types, attributes and numbers of inputs: typed errors that say operator, specs, rule and fix."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import pytest
from tests.conformance.cases import CASES

from nnc.core.values.dtype import DTYPES
from nnc.core.values.spec import Layout, TensorSpec, spec
from nnc.errors import (
    ArityError,
    AttributeValueError,
    DTypeError,
    LayoutError,
    ShapeError,
    UsageError,
)
from nnc.graph import VARIADIC, Op
from nnc.ops.convolutions.convolutions import (
    CONVOLUTION,
    CONVOLUTION_DATA_GRADIENT,
    CONVOLUTION_WEIGHT_GRADIENT,
    ConvolutionAttrs,
    ConvolutionGradientAttrs,
)
from nnc.ops.convolutions.pooling import (
    AVERAGE_POOL,
    AVERAGE_POOL_GRADIENT,
    MAX_POOL,
    MAX_POOL_GATHER,
    MAX_POOL_GRADIENT,
    AveragePoolGradientAttrs,
    PoolAttrs,
)
from nnc.ops.convolutions.window import Window, output_sizes, window_of
from nnc.ops.elementwise.pointwise import AFFINE, WHERE, AffineAttrs, add, exp, greater, log, maximum, relu
from nnc.ops.movement.broadcast import BROADCAST_TO, REDUCE_SUM, BroadcastAttrs, ReduceAttrs, normalize_axes
from nnc.ops.movement.fill import FILL, FillAttrs
from nnc.ops.movement.movement import CONCATENATE, EMBED, TRANSPOSE, ConcatenateAttrs, EmbedAttrs, TransposeAttrs
from nnc.ops.normalization.softmaxes import (
    LABEL_DIFFERENCE,
    SOFTMAX_CROSS_ENTROPY,
    SOFTMAX_CROSS_ENTROPY_GRADIENT,
    softmax,
)
from nnc.ops.operators import OPERATORS
from nnc.ops.optimizer.optimizer import ADAM, SGD, AdamAttrs, SGDAttrs
from nnc.ops.products.products import GEMM, GemmAttrs
from nnc.ops.reduction.reduction import ARGMAX, REDUCE_MAX, REDUCE_MEAN
from nnc.ops.rules import INPLACE, PATTERN, NoAttrs, infer

NONE = NoAttrs()
GEMM_ATTRS = GemmAttrs()
PLAIN = Window((1, 1), ((0, 0), (0, 0)), (1, 1))
CONVOLVE = ConvolutionAttrs(PLAIN)
GROUPED = ConvolutionAttrs(PLAIN, 2)
POOL = PoolAttrs((2, 2), PLAIN)
IMAGE, FILTERS = spec((1, 4, 4, 2)), spec((3, 3, 2, 5))
ROWS = spec((3, 4))
CHANNELS_FIRST = spec((1, 2, 4, 4), layout=Layout.NCHW)


@dataclass(frozen=True, slots=True)
class Bad:
    """A malformed call, its exception and a part of the message."""

    op: Op[Any]
    attrs: Any
    specs: tuple[TensorSpec | None, ...]
    error: type[UsageError]
    part: str

    def __str__(self) -> str:
        return f"{self.op.name}-{self.part}".replace(" ", "_")


def f64(*shape: int) -> TensorSpec:
    return spec(shape, "f64")


BAD = (
    Bad(add, NONE, (ROWS,), ArityError, "got 1 inputs; need 2 (a, b)"),
    Bad(add, NONE, (ROWS, None), ArityError, "without b"),
    Bad(add, NONE, (ROWS, ROWS, ROWS), ArityError, "got 3 inputs"),
    Bad(add, NONE, (ROWS, spec((2, 4))), ShapeError, "got [3, 4], [2, 4]; need sizes equal or 1 on axis -2"),
    Bad(add, NONE, (ROWS, f64(3, 4)), DTypeError, "Fix: cast() one of them"),
    Bad(add, NONE, (spec((2,), "bool"), spec((2,), "bool")), DTypeError, "need float or int or uint"),
    Bad(exp, NONE, (spec((2,), "i32"),), DTypeError, "got i32[2]; need float or complex. Fix: cast() it first"),
    Bad(log, NONE, (spec((2,), "bool"),), DTypeError, "need float"),
    Bad(relu, NONE, (spec((2,), "bool"),), DTypeError, "need float or int or uint"),
    Bad(maximum, NONE, (spec((2,), "bool"), spec((2,), "bool")), DTypeError, "need float or int or uint"),
    Bad(greater, NONE, (ROWS, f64(3, 4)), DTypeError, "one element type"),
    Bad(AFFINE, AffineAttrs(0.5), (spec((2,), "i32"),), AttributeValueError, "need integral scale and shift"),
    Bad(AFFINE, AffineAttrs(1.0, 2.0**60), (spec((2,), "i64"),), AttributeValueError, "Fix: cast() x to a float type"),
    Bad(WHERE, NONE, (ROWS, ROWS, ROWS), DTypeError, "Fix: compare first"),
    Bad(WHERE, NONE, (spec((2,), "bool"), ROWS, ROWS), ShapeError, "sizes equal or 1"),
    Bad(FILL, FillAttrs(0.5, spec((2,), "i32")), (), AttributeValueError, "need an integer"),
    Bad(FILL, FillAttrs(256, spec((2,), "u8")), (), AttributeValueError, "need an integer 0..255"),
    Bad(FILL, FillAttrs(float("nan"), spec((2,), "bool")), (), AttributeValueError, "cannot hold"),
    Bad(
        REDUCE_SUM, ReduceAttrs((2,)), (ROWS,), AttributeValueError, "got axes [2]; need distinct axes of 2 dimensions"
    ),
    Bad(REDUCE_SUM, ReduceAttrs((-1,)), (ROWS,), AttributeValueError, "need ascending axes ≥ 0"),
    Bad(REDUCE_SUM, ReduceAttrs((1, 0)), (ROWS,), AttributeValueError, "need ascending axes ≥ 0"),
    Bad(REDUCE_SUM, ReduceAttrs((0,)), (spec((2,), "bool"),), DTypeError, "need float or int or uint"),
    Bad(REDUCE_MEAN, ReduceAttrs((0,)), (spec((2,), "i64"),), DTypeError, "need float"),
    Bad(REDUCE_MAX, ReduceAttrs((0,)), (spec((0, 3)),), ShapeError, "need at least one element to choose from"),
    Bad(ARGMAX, ReduceAttrs((0, 1)), (ROWS,), AttributeValueError, "exactly one axis"),
    Bad(BROADCAST_TO, BroadcastAttrs((3,)), (ROWS,), ShapeError, "got f32[3, 4] to [3]"),
    Bad(BROADCAST_TO, BroadcastAttrs((3, 1)), (ROWS,), ShapeError, "got f32[3, 4] to [3, 1]"),
    Bad(BROADCAST_TO, BroadcastAttrs((1,) * 8 + (3, 4)), (ROWS,), ShapeError, "at most 8"),
    Bad(TRANSPOSE, TransposeAttrs((0, 0)), (ROWS,), AttributeValueError, "need a permutation of 2 axes"),
    Bad(CONCATENATE, ConcatenateAttrs(2), (ROWS, ROWS), AttributeValueError, "need 0 ≤ axis < 2"),
    Bad(CONCATENATE, ConcatenateAttrs(0), (ROWS, spec((3, 5))), ShapeError, "need equal sizes except on axis 0"),
    Bad(CONCATENATE, ConcatenateAttrs(0), (ROWS, f64(3, 4)), DTypeError, "one element type"),
    Bad(CONCATENATE, ConcatenateAttrs(0), (), ArityError, "need one or more"),
    Bad(CONCATENATE, ConcatenateAttrs(0), (ROWS, None), ArityError, "all present"),
    Bad(
        EMBED,
        EmbedAttrs((3,), 2, (4, 1)),
        (ROWS,),
        ShapeError,
        "got f32[3, 4] at elements 2..13; need a place inside [3]",
    ),
    Bad(EMBED, EmbedAttrs((20,), 0, (-4, 1)), (ROWS,), ShapeError, "at elements -8..3"),
    Bad(EMBED, EmbedAttrs((20,), 0, (1,)), (ROWS,), AttributeValueError, "one per axis"),
    Bad(EMBED, EmbedAttrs((3,), 0, (2**63,)), (spec((0,)),), AttributeValueError, "an offset and strides of 64 bits"),
    Bad(
        GEMM, GEMM_ATTRS, (spec((4, 3)), spec((5, 3)), None), ShapeError, "got a=f32[4, 3], b=f32[5, 3]; need a's k (3)"
    ),
    Bad(GEMM, GEMM_ATTRS, (spec((4, 3)), spec((5, 3)), None), ShapeError, "Fix: set transpose_b=True"),
    Bad(GEMM, GEMM_ATTRS, (spec((3,)), spec((3, 2)), None), ShapeError, "Fix: reshape vectors to matrices"),
    Bad(GEMM, GEMM_ATTRS, (spec((4, 3)), f64(3, 2), None), DTypeError, "one element type"),
    Bad(GEMM, GEMM_ATTRS, (spec((4, 3)), spec((3, 2)), spec((3,))), ShapeError, "need bias of shape [2]"),
    Bad(GEMM, GEMM_ATTRS, (spec((4, 3)), spec((3, 2)), f64(2)), DTypeError, "bias=f64[2]"),
    Bad(GEMM, GEMM_ATTRS, (spec((2, 4, 3)), spec((3, 3, 2)), None), ShapeError, "sizes equal or 1 on axis -1"),
    Bad(GEMM, GEMM_ATTRS, (spec((4, 3), "bool"), spec((3, 2), "bool"), None), DTypeError, "need float or int or uint"),
    Bad(CONVOLUTION, CONVOLVE, (ROWS, FILTERS, None), ShapeError, "need x[batch, 2 spatial, channels]"),
    Bad(CONVOLUTION, CONVOLVE, (spec((1, 4, 4, 3)), FILTERS, None), ShapeError, "x's channels (3) == w's channels (2)"),
    Bad(CONVOLUTION, CONVOLVE, (IMAGE, spec((3, 3, 2, 5), "f64"), None), DTypeError, "one element type"),
    Bad(CONVOLUTION, CONVOLVE, (spec((1, 2, 4, 2)), FILTERS, None), ShapeError, "need room for a window of 3"),
    Bad(CONVOLUTION, CONVOLVE, (IMAGE, FILTERS, spec((4,))), ShapeError, "need bias f32[5]"),
    Bad(CONVOLUTION, GROUPED, (IMAGE, spec((3, 3, 1, 5)), None), ShapeError, "filters divisible by groups"),
    Bad(CONVOLUTION, ConvolutionAttrs(PLAIN, 0), (IMAGE, FILTERS, None), ShapeError, "groups (0)"),
    Bad(CONVOLUTION, CONVOLVE, (CHANNELS_FIRST, FILTERS, None), LayoutError, "need channels last (NHWC)"),
    Bad(
        CONVOLUTION_DATA_GRADIENT,
        ConvolutionGradientAttrs(PLAIN, 1, (4, 4)),
        (spec((1, 3, 2, 5)), FILTERS),
        ShapeError,
        "need g=f32[1, 2, 2, 5]",
    ),
    Bad(
        CONVOLUTION_DATA_GRADIENT,
        ConvolutionGradientAttrs(PLAIN, 1, (4, 4)),
        (spec(()), FILTERS),
        ShapeError,
        "4 dimensions each",
    ),
    Bad(
        CONVOLUTION_WEIGHT_GRADIENT,
        ConvolutionGradientAttrs(PLAIN, 1, (3, 3)),
        (IMAGE, spec((1, 2, 2, 5), "f64")),
        ShapeError,
        "need g=f32[1, 2, 2, 5]",
    ),
    Bad(
        CONVOLUTION_WEIGHT_GRADIENT,
        ConvolutionGradientAttrs(PLAIN, 0, (3, 3)),
        (IMAGE, spec((1, 2, 2, 5))),
        ShapeError,
        "groups (0)",
    ),
    Bad(MAX_POOL, POOL, (ROWS,), ShapeError, "need x[batch, 2 spatial, channels]"),
    Bad(MAX_POOL, PoolAttrs((2,), PLAIN), (spec((1, 4, 2)),), ShapeError, "1 spatial"),
    Bad(
        MAX_POOL,
        PoolAttrs((2, 2), Window((1, 1), ((2, 0), (0, 0)), (1, 1))),
        (IMAGE,),
        ShapeError,
        "less than the window's reach [2, 2]",
    ),
    Bad(MAX_POOL, PoolAttrs((5, 5), PLAIN), (IMAGE,), ShapeError, "need room for a window of 5"),
    Bad(MAX_POOL, POOL, (CHANNELS_FIRST,), LayoutError, "Fix: transpose()"),
    Bad(
        MAX_POOL,
        PoolAttrs((2, 2), Window((1, 1), ((1, 1), (0, 0)), (2, 1))),
        (spec((1, 1, 4, 2)),),
        ShapeError,
        "need an element in every window, of dilations [2, 1]",
    ),
    Bad(AVERAGE_POOL, POOL, (spec((1, 4, 4, 2), "i32"),), DTypeError, "need float"),
    Bad(AVERAGE_POOL_GRADIENT, AveragePoolGradientAttrs(POOL, (4, 4)), (ROWS,), ShapeError, "need g[batch, 2 spatial"),
    Bad(AVERAGE_POOL_GRADIENT, AveragePoolGradientAttrs(POOL, (4, 4)), (IMAGE,), ShapeError, "need f32[1, 3, 3, 2]"),
    Bad(MAX_POOL_GRADIENT, POOL, (IMAGE, IMAGE, IMAGE), ShapeError, "need f32[1, 3, 3, 2]"),
    Bad(MAX_POOL_GATHER, POOL, (ROWS, IMAGE, spec((1, 3, 3, 2))), ShapeError, "need equal shapes"),
    Bad(softmax, NONE, (spec(()),), ShapeError, "need at least one element on the last axis"),
    Bad(softmax, NONE, (spec((3, 0)),), ShapeError, "need at least one element on the last axis"),
    Bad(softmax, NONE, (spec((3, 2), "i64"),), DTypeError, "need float"),
    Bad(SOFTMAX_CROSS_ENTROPY, NONE, (ROWS, spec((3,))), DTypeError, "got labels f32[3]; need integers"),
    Bad(SOFTMAX_CROSS_ENTROPY, NONE, (ROWS, spec((4,), "i32")), ShapeError, "need labels of shape [3]"),
    Bad(SOFTMAX_CROSS_ENTROPY_GRADIENT, NONE, (ROWS, ROWS, spec((3,), "i32")), ShapeError, "need g of shape [3]"),
    Bad(LABEL_DIFFERENCE, NONE, (spec((4,)), ROWS, spec((3,), "i32")), ShapeError, "need equal shapes"),
    Bad(SGD, SGDAttrs(), (ROWS, ROWS, spec((3,)), spec(())), ShapeError, "need gradient and state as the parameter"),
    Bad(SGD, SGDAttrs(), (ROWS, ROWS, ROWS, ROWS), ShapeError, "need scalars for rate and step"),
    Bad(SGD, SGDAttrs(), (ROWS, ROWS, ROWS, spec((), "bool")), DTypeError, "got bool[]"),
    Bad(ADAM, AdamAttrs(), (ROWS, ROWS, ROWS, ROWS, spec(())), ArityError, "need 6 (g, w, m, v, rate, step)"),
)


@pytest.mark.parametrize("bad", BAD, ids=str)
def test_a_malformed_call_is_one_clear_line(bad: Bad) -> None:
    with pytest.raises(bad.error) as caught:
        infer(bad.op, bad.attrs, bad.specs)
    message = str(caught.value)
    assert message.startswith(f"{bad.op.name}: got "), message
    assert bad.part in message
    assert "; need " in message
    assert "\n" not in message
    assert type(caught.value) is bad.error


def test_random_calls_raise_nothing_else() -> None:
    """Any specs with the attributes of the conformance table: an inferred spec or a UsageError."""
    generator = random.Random(0)
    fine: list[TensorSpec] = []
    refused: list[tuple[str, str]] = []
    rows = {op: [case.attrs for case in CASES if case.op is op] for op in OPERATORS}
    for _ in range(12_000):
        op = generator.choice(OPERATORS)
        arity = 3 if op.inputs is VARIADIC else len(op.inputs) if isinstance(op.inputs, tuple) else 1
        count = arity if generator.random() < 0.9 else generator.randrange(5)
        kind = generator.choice(DTYPES)
        specs = tuple(
            None
            if generator.random() < 0.05
            else spec(
                [generator.randrange(4) for _ in range(generator.randrange(6))],
                kind if generator.random() < 0.9 else generator.choice(DTYPES),
            )
            for _ in range(count)
        )
        try:
            results = infer(op, generator.choice(rows[op]), specs)
        except UsageError as error:
            refused.append((error.subject, op.name))
        else:
            fine.extend(results)
    assert [pair for pair in refused if pair[0] != pair[1]] == []
    assert all(isinstance(result, TensorSpec) for result in fine)
    assert min(len(fine), len(refused)) > 500


def test_every_operator_tells_its_outputs_and_pattern() -> None:
    for case in CASES:
        results = infer(case.op, case.attrs, case.specs(case.dtypes[0]))
        assert isinstance(case.op.outputs, tuple)
        assert len(results) == len(case.op.outputs)
        assert case.op.doc
        assert case.op in PATTERN
        rule = INPLACE[case.op](case.attrs)
        assert set(rule.enforced) <= set(rule.allowed)


def test_axes() -> None:
    assert normalize_axes("sum", None, 3) == (0, 1, 2)
    assert normalize_axes("sum", -1, 3) == (2,)
    assert normalize_axes("sum", (2, -3), 3) == (0, 2)
    for axes in ((0, -3), 3, (-4,)):
        with pytest.raises(AttributeValueError, match="need distinct axes of 3 dimensions"):
            normalize_axes("sum", axes, 3)


def test_windows() -> None:
    assert window_of(3, padding="same") == Window((1, 1), ((1, 1), (1, 1)), (1, 1))
    assert window_of((2, 4), stride=(2, 1), padding=1, dilation=2) == Window((2, 1), ((1, 1), (1, 1)), (2, 2))
    assert output_sizes("pool", (7,), (3,), Window((2,), ((1, 0),), (2,))) == (2,)
    for kernel in range(1, 6):
        for dilation in (1, 2, 3):
            same = window_of(kernel, padding="same", dilation=dilation, rank=1)
            assert output_sizes("convolution", (20,), (kernel,), same) == (20,)


@pytest.mark.parametrize(
    ("strides", "padding", "dilations"),
    [((0,), ((0, 0),), (1,)), ((1,), ((-1, 0),), (1,)), ((1,), ((0, 0),), (0,)), ((1, 1), ((0, 0),), (1,))],
)
def test_malformed_windows(
    strides: tuple[int, ...], padding: tuple[tuple[int, int], ...], dilations: tuple[int, ...]
) -> None:
    with pytest.raises(AttributeValueError, match="need one entry per spatial axis"):
        Window(strides, padding, dilations)


def test_an_unknown_padding() -> None:
    with pytest.raises(AttributeValueError, match="'valid'"):
        window_of(3, padding="valid")
