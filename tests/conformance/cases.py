"""The conformance table: one row per operator, attributes and input shapes; every operator has rows.

The rows of the first operators are here, those of later families in `cases_<family>.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from tests.conformance import (
    cases_attention,
    cases_blocks,
    cases_detection,
    cases_elementary,
    cases_fused,
    cases_generate,
    cases_indexing,
    cases_integers,
    cases_layout,
    cases_linear_algebra,
    cases_loss,
    cases_normalization,
    cases_optimizer,
    cases_order,
    cases_pointwise_more,
    cases_quantization,
    cases_random,
    cases_recurrent,
    cases_sampling,
)
from tests.conformance.case import (
    FLOATS,
    NONE,
    NUMBERS,
    SPECIAL_VALUES,
    Argument,
    Array,
    Case,
    Generator,
    Values,
    apart,
    constant,
    labels,
    positive,
    small,
    special,
    ties,
    truth,
    uniform,
)

from nnc.backends.reference.kernels import KERNELS
from nnc.core.values.dtype import BOOL, DTYPES, F32, F64, I32, I64, U8, DType
from nnc.core.values.spec import Shape, spec
from nnc.graph import Op
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
from nnc.ops.convolutions.window import Window, output_sizes
from nnc.ops.elementwise.pointwise import (
    AFFINE,
    CAST,
    WHERE,
    AffineAttrs,
    CastAttrs,
    abs,
    add,
    atan,
    cos,
    divide,
    equal,
    erf,
    erfc,
    exp,
    gelu,
    gelu_tanh,
    greater,
    greater_equal,
    less,
    less_equal,
    log,
    maximum,
    minimum,
    multiply,
    not_equal,
    power,
    preference,
    reciprocal,
    relu,
    sigmoid,
    sign,
    sin,
    sqrt,
    square,
    step,
    subtract,
    swish,
    tanh,
)
from nnc.ops.movement.broadcast import BROADCAST_TO, REDUCE_SUM, BroadcastAttrs, ReduceAttrs
from nnc.ops.movement.copy import contiguous, stop_gradient
from nnc.ops.movement.fill import FILL, FillAttrs
from nnc.ops.movement.movement import CONCATENATE, EMBED, TRANSPOSE, ConcatenateAttrs, EmbedAttrs, TransposeAttrs
from nnc.ops.movement.transfer import TO_DEVICE, TransferAttrs
from nnc.ops.normalization.softmaxes import (
    LABEL_DIFFERENCE,
    SOFTMAX_CROSS_ENTROPY,
    SOFTMAX_CROSS_ENTROPY_GRADIENT,
    log_softmax,
    softmax,
)
from nnc.ops.optimizer.optimizer import ADAM, SGD, AdamAttrs, SGDAttrs
from nnc.ops.products.products import GEMM, GemmAttrs
from nnc.ops.reduction.reduction import ARGMAX, REDUCE_MAX, REDUCE_MEAN, REDUCE_MIN
from nnc.ops.rules import NoAttrs


def pooled(attrs: PoolAttrs) -> Values:
    """The maximum over the windows of input 1: what an operator that reads a pool's output must be given."""

    def values(generator: Generator, shape: Shape, earlier: Sequence[Array]) -> Array:
        y = np.empty(shape, earlier[1].dtype)
        KERNELS[MAX_POOL](attrs, [earlier[1]], [y])
        return y

    return values


def _fills() -> Iterator[Case]:
    for dtype in DTYPES:
        for shape in ((3, 5), (), (0, 2)):
            yield Case(FILL, FillAttrs(1.0, spec(shape, dtype)), (), (dtype,), f"{dtype}{list(shape)}")
    for value in (-2.5, np.inf, np.nan):
        yield Case(FILL, FillAttrs(value, spec((7,))), (), (F32,), f"{value}")


def _copies() -> Iterator[Case]:
    for shape in ((3, 5, 7), (1,), (), (0, 4), (2, 1, 2, 1, 2, 1, 2, 1)):
        yield Case(contiguous, NONE, (Argument(shape),), DTYPES)
        yield Case(stop_gradient, NONE, (Argument(shape),), DTYPES, smooth=False)
        yield Case(TO_DEVICE, TransferAttrs(), (Argument(shape),), DTYPES)


# Operator, values of its domain, element types.
UNARY: tuple[tuple[Op[NoAttrs], Values, tuple[DType, ...]], ...] = (
    (exp, uniform, FLOATS),
    (log, positive, FLOATS),
    (sqrt, positive, FLOATS),
    (reciprocal, positive, FLOATS),
    (square, uniform, NUMBERS),
    (tanh, uniform, FLOATS),
    (sigmoid, uniform, FLOATS),
    (relu, apart, NUMBERS),
    (sin, uniform, FLOATS),
    (cos, uniform, FLOATS),
    (erf, uniform, FLOATS),
    (atan, uniform, FLOATS),
    (erfc, uniform, FLOATS),
    (swish, uniform, FLOATS),
    (gelu, uniform, FLOATS),
    (gelu_tanh, uniform, FLOATS),
    (abs, apart, NUMBERS),
    (sign, apart, NUMBERS),
    (step, apart, NUMBERS),
)
BINARY: tuple[tuple[Op[NoAttrs], Values, tuple[DType, ...]], ...] = (
    (add, uniform, NUMBERS),
    (subtract, uniform, NUMBERS),
    (multiply, uniform, NUMBERS),
    (divide, positive, FLOATS),
    (maximum, apart, NUMBERS),
    (minimum, apart, NUMBERS),
    (power, positive, FLOATS),
    (preference, apart, FLOATS),
    *((op, ties, DTYPES) for op in (equal, not_equal, less, less_equal, greater, greater_equal)),
)
PAIRS: tuple[tuple[Shape, Shape], ...] = (
    ((4, 6), (4, 6)),
    ((4, 1, 3), (5, 1)),
    ((), (3,)),
    ((17,), ()),
    ((0, 3), (1, 3)),
    ((2, 3, 5, 7), (7,)),
    ((1, 1), (1, 1, 1)),
)


def _pointwise() -> Iterator[Case]:
    many = len(SPECIAL_VALUES)
    for op, values, dtypes in UNARY:
        for shape in ((3, 5, 7), (), (1,), (0, 4), (67,)):
            yield Case(op, NONE, (Argument(shape, values),), dtypes)
        yield Case(op, NONE, (Argument((many,), special),), dtypes, "special", smooth=False)
    for op, values, dtypes in BINARY:
        for left, right in PAIRS:
            yield Case(op, NONE, (Argument(left, values), Argument(right, values)), dtypes)
        pair = (Argument((many, 1), special), Argument((1, many), special))
        yield Case(op, NONE, pair, dtypes, "special", smooth=False)
        yield Case(op, NONE, (Argument((5, 9), ties), Argument((5, 9), ties)), dtypes, "ties", smooth=False)
    for scale, shift in ((2.0, 0.0), (-1.0, 3.0), (0.0, 0.0), (1.0, -1.0)):
        yield Case(AFFINE, AffineAttrs(scale, shift), (Argument((5, 7)),), NUMBERS, f"{scale:g}x{shift:+g}")
    for shape in ((0,), (), (33,)):
        yield Case(AFFINE, AffineAttrs(0.37, -0.21), (Argument(shape),))
    for target in DTYPES:
        yield Case(CAST, CastAttrs(target), (Argument((3, 5), ties),), DTYPES, f"to-{target}", smooth=target is F64)
        yield Case(CAST, CastAttrs(target), (Argument((many,), special),), FLOATS, f"special-to-{target}", smooth=False)
    for condition, left, right in (
        ((4, 6), (4, 6), (4, 6)),
        ((4, 1), (1, 6), (3, 1, 1)),
        ((), (2,), ()),
        ((0,), (1,), (0,)),
    ):
        arguments = (Argument(condition, truth, BOOL), Argument(left), Argument(right))
        yield Case(WHERE, NONE, arguments, DTYPES)


def _reductions() -> Iterator[Case]:
    axes: tuple[tuple[Shape, tuple[int, ...]], ...] = (
        ((3, 5, 7), (0,)),
        ((3, 5, 7), (1,)),
        ((3, 5, 7), (2,)),
        ((3, 5, 7), (0, 2)),
        ((3, 5, 7), (0, 1, 2)),
        ((3, 5), ()),
        ((), ()),
        ((1, 4), (0,)),
        ((65,), (0,)),
        ((0, 3), (1,)),
        ((2, 1, 2, 1, 3, 1, 2, 1), (1, 2, 5, 6)),
    )
    for shape, reduced in axes:
        for keepdims in (False, True):
            attrs, note = ReduceAttrs(reduced, keepdims), f"over{list(reduced)}{'-keep' * keepdims}"
            yield Case(REDUCE_SUM, attrs, (Argument(shape),), NUMBERS, note)
            yield Case(REDUCE_MEAN, attrs, (Argument(shape),), FLOATS, note)
            yield Case(REDUCE_MAX, attrs, (Argument(shape, apart),), NUMBERS, note)
            yield Case(REDUCE_MIN, attrs, (Argument(shape, apart),), NUMBERS, note)
            if len(reduced) == 1:
                yield Case(ARGMAX, attrs, (Argument(shape, apart),), NUMBERS, note)
    yield Case(REDUCE_SUM, ReduceAttrs((0,)), (Argument((0, 3)),), NUMBERS, "nothing")
    for op in (REDUCE_SUM, REDUCE_MAX, REDUCE_MIN):
        yield Case(
            op, ReduceAttrs((1,)), (Argument((len(SPECIAL_VALUES), 1), special),), FLOATS, "special", smooth=False
        )
    for op in (REDUCE_MAX, REDUCE_MIN):
        yield Case(op, ReduceAttrs((0,)), (Argument((3 * len(SPECIAL_VALUES),), special),), FLOATS, "nan", smooth=False)
    for op in (REDUCE_MAX, REDUCE_MIN, ARGMAX):
        yield Case(op, ReduceAttrs((1,)), (Argument((7, 40), ties),), NUMBERS, "ties", smooth=False)


def _movements() -> Iterator[Case]:
    for source, target in (((3,), (2, 3)), ((4, 1, 3), (2, 4, 5, 3)), ((), (3, 2)), ((1,), (0,)), ((2, 3), (2, 3))):
        yield Case(BROADCAST_TO, BroadcastAttrs(target), (Argument(source),), DTYPES, f"to{list(target)}")
    permutations = (
        ((3, 5), (1, 0)),
        ((2, 3, 5, 7), (0, 3, 1, 2)),
        ((2, 0, 3), (2, 1, 0)),
        ((), ()),
        ((33, 65), (1, 0)),
    )
    for shape, permutation in permutations:
        yield Case(TRANSPOSE, TransposeAttrs(permutation), (Argument(shape),), DTYPES, f"by{list(permutation)}")
    parts: tuple[tuple[int, tuple[Shape, ...]], ...] = (
        (0, ((2, 3), (1, 3), (4, 3))),
        (1, ((2, 3), (2, 0), (2, 5))),
        (2, ((3, 2, 1), (3, 2, 17))),
        (0, ((5,),)),
    )
    for axis, shapes in parts:
        yield Case(CONCATENATE, ConcatenateAttrs(axis), tuple(map(Argument, shapes)), DTYPES, f"along{axis}")
    regions: tuple[tuple[Shape, EmbedAttrs], ...] = (
        ((2, 3), EmbedAttrs((4, 5), 6, (5, 1))),
        ((2, 3), EmbedAttrs((4, 5), 0, (1, 5))),
        ((3,), EmbedAttrs((7,), 6, (-3,))),
        ((), EmbedAttrs((2, 2), 3, ())),
        ((0, 2), EmbedAttrs((3,), 0, (2, 1))),
        ((3, 1), EmbedAttrs((9,), 1, (2, 40))),
        ((3, 2), EmbedAttrs((2, 2), 0, (1, 1))),
    )
    for region, place in regions:
        yield Case(EMBED, place, (Argument(region),), DTYPES, f"at{place.offset}by{list(place.strides)}")


def _gemms() -> Iterator[Case]:
    sizes = ((1, 1, 1), (2, 3, 4), (5, 1, 7), (1, 9, 8), (8, 9, 1), (17, 33, 65), (0, 3, 2), (3, 0, 2), (64, 64, 64))
    for m, k, n in sizes:
        for flip_a, flip_b, with_bias in (
            (False, False, True),
            (True, False, False),
            (False, True, True),
            (True, True, False),
        ):
            a, b = Argument((k, m) if flip_a else (m, k)), Argument((n, k) if flip_b else (k, n))
            bias = Argument((n,)) if with_bias else None
            note = "".join(("", "T")[flip] for flip in (flip_a, flip_b)) + ("b" if with_bias else "")
            dtypes = NUMBERS if m * k * n < 1000 else FLOATS
            yield Case(GEMM, GemmAttrs(flip_a, flip_b), (a, b, bias), dtypes, note)
    for left, right in (((3, 2, 4), (4, 5)), ((2, 1, 3, 4), (5, 4, 2)), ((0, 2, 3), (3, 2)), ((4, 1, 6), (4, 6, 1))):
        yield Case(GEMM, GemmAttrs(), (Argument(left), Argument(right), None), FLOATS, "batch")
    yield Case(
        GEMM, GemmAttrs(False, True), (Argument((3, 2, 4)), Argument((1, 5, 4)), Argument((5,))), FLOATS, "batch-T"
    )


def window(strides: Shape, padding: tuple[tuple[int, int], ...] = (), dilations: Shape = ()) -> Window:
    """A Window with borders of 0 and dilations of 1 where not said."""
    rank = len(strides)
    return Window(strides, padding or ((0, 0),) * rank, dilations or (1,) * rank)


# Shape of x, shape of w, window, groups.
CONVOLUTIONS: tuple[tuple[Shape, Shape, Window, int], ...] = (
    ((2, 5, 6, 3), (3, 3, 3, 4), window((1, 1)), 1),
    ((2, 8, 8, 1), (3, 3, 1, 8), window((1, 1), ((1, 1), (1, 1))), 1),
    ((1, 7, 6, 2), (3, 2, 2, 3), window((2, 3), ((1, 0), (2, 1))), 1),
    ((2, 9, 8, 2), (3, 3, 2, 2), window((1, 2), ((2, 2), (0, 1)), (2, 3)), 1),
    ((2, 4, 4, 5), (1, 1, 5, 7), window((1, 1)), 1),
    ((2, 5, 5, 4), (3, 3, 2, 6), window((1, 1), ((1, 1), (1, 1))), 2),
    ((1, 5, 5, 3), (3, 3, 1, 6), window((2, 2), ((1, 1), (1, 1))), 3),
    ((3, 9, 2), (4, 2, 3), window((2,), ((1, 2),)), 1),
    ((3, 11, 4), (3, 2, 4), window((3,), ((0, 0),), (2,)), 2),
    ((2, 4, 5, 3, 2), (2, 3, 2, 2, 3), window((1, 2, 1), ((1, 0), (0, 1), (1, 1))), 1),
    ((0, 4, 4, 2), (3, 3, 2, 2), window((1, 1)), 1),
    ((1, 1, 1, 1), (1, 1, 1, 1), window((1, 1)), 1),
    ((1, 2, 2, 3), (5, 5, 3, 2), window((1, 1), ((2, 2), (2, 2))), 1),
    ((1, 5, 6, 16), (3, 3, 16, 16), window((1, 1), ((1, 1), (1, 0))), 1),
)


def _convolutions() -> Iterator[Case]:
    for data, weights, moves, groups in CONVOLUTIONS:
        sizes = output_sizes("case", data[1:-1], weights[:-2], moves)
        # Long sums stay about one, as tolerances suppose.
        values = small if data[-1] > 8 else uniform
        x, w, g = Argument(data), Argument(weights, values), Argument((data[0], *sizes, weights[-1]))
        note = f"s{list(moves.strides)}d{list(moves.dilations)}g{groups}"
        attrs = ConvolutionAttrs(moves, groups)
        by_data, by_weight = (ConvolutionGradientAttrs(moves, groups, part) for part in (data[1:-1], weights[:-2]))
        yield Case(CONVOLUTION, attrs, (x, w, Argument((weights[-1],))), FLOATS, note)
        yield Case(CONVOLUTION, attrs, (x, w, None), NUMBERS, note)
        yield Case(CONVOLUTION_DATA_GRADIENT, by_data, (g, w), FLOATS, note)
        yield Case(CONVOLUTION_WEIGHT_GRADIENT, by_weight, (x, g), FLOATS, note)


# Shape of x, extent of the window, window.
POOLS: tuple[tuple[Shape, Shape, Window], ...] = (
    ((2, 8, 8, 3), (2, 2), window((2, 2))),
    ((2, 7, 6, 2), (3, 2), window((2, 2), ((1, 1), (0, 1)))),
    ((1, 5, 5, 2), (3, 3), window((1, 1), ((1, 1), (1, 1)))),
    ((1, 7, 7, 2), (3, 2), window((1, 2), ((2, 2), (1, 0)), (2, 3))),
    ((2, 9, 4), (3,), window((2,), ((1, 1),))),
    ((2, 4, 5, 3, 2), (2, 3, 2), window((2, 1, 1), ((0, 0), (1, 1), (1, 0)))),
    ((3, 4, 4, 5), (4, 4), window((1, 1))),
    ((0, 4, 4, 2), (2, 2), window((2, 2))),
    ((1, 1, 1, 1), (1, 1), window((1, 1))),
)


def _pools() -> Iterator[Case]:
    for shape, kernel, moves in POOLS:
        sizes = output_sizes("case", shape[1:-1], kernel, moves)
        note = f"k{list(kernel)}s{list(moves.strides)}d{list(moves.dilations)}"
        result = (shape[0], *sizes, shape[-1])
        attrs = PoolAttrs(kernel, moves)
        y = Argument(result, pooled(attrs))
        yield Case(MAX_POOL, attrs, (Argument(shape, apart),), NUMBERS, note)
        yield Case(MAX_POOL_GRADIENT, attrs, (Argument(result), Argument(shape, apart), y), FLOATS, note)
        yield Case(MAX_POOL_GATHER, attrs, (Argument(shape), Argument(shape, apart), y), FLOATS, note)
        yield Case(MAX_POOL, attrs, (Argument(shape, ties),), NUMBERS, f"{note}-ties", smooth=False)
        tied = (Argument(result), Argument(shape, ties), y)
        yield Case(MAX_POOL_GRADIENT, attrs, tied, FLOATS, f"{note}-ties", smooth=False)
        tied = (Argument(shape), Argument(shape, ties), y)
        yield Case(MAX_POOL_GATHER, attrs, tied, FLOATS, f"{note}-ties", smooth=False)
        for border in (False, True):
            average, suffix = PoolAttrs(kernel, moves, border), f"{note}{'-border' * border}"
            yield Case(AVERAGE_POOL, average, (Argument(shape),), FLOATS, suffix)
            back = AveragePoolGradientAttrs(average, shape[1:-1])
            yield Case(AVERAGE_POOL_GRADIENT, back, (Argument(result),), FLOATS, suffix)


def _softmaxes() -> Iterator[Case]:
    for shape in ((4, 10), (3, 1), (7,), (2, 3, 5), (0, 4), (3, 67)):
        x, row = Argument(shape), shape[:-1]
        yield Case(softmax, NONE, (x,))
        yield Case(log_softmax, NONE, (x,))
        for kind in (I64, I32, U8):
            label = Argument(row, labels(shape[-1]), kind)
            yield Case(SOFTMAX_CROSS_ENTROPY, NONE, (x, label), FLOATS, f"{kind}")
            yield Case(SOFTMAX_CROSS_ENTROPY_GRADIENT, NONE, (Argument(row), x, label), FLOATS, f"{kind}")
            yield Case(LABEL_DIFFERENCE, NONE, (x, x, label), FLOATS, f"{kind}")
    for op in (softmax, log_softmax):
        big = Argument((2, 3), lambda generator, shape, earlier: np.array([[1e4, 1e4, -1e4], [-3e4, -3e4, -3e4]]))
        yield Case(op, NONE, (big,), FLOATS, "large", smooth=False)


def _optimizers() -> Iterator[Case]:
    rate, step = Argument((), constant(0.1), F32), Argument((), constant(3.0), F32)
    sgds = (SGDAttrs(), SGDAttrs(0.9), SGDAttrs(0.9, 0.1, 0.01), SGDAttrs(0.9, 0.0, 0.01, nesterov=True))
    adams = (AdamAttrs(), AdamAttrs(0.8, 0.95, 1e-6, 0.01), AdamAttrs(0.8, 0.95, 1e-6, 0.01, decoupled=True))
    for shape in ((3, 5), (0,), (), (33,)):
        part, variance = Argument(shape), Argument(shape, positive)
        for number, sgd in enumerate(sgds):
            yield Case(SGD, sgd, (part, part, part, rate), FLOATS, f"{number}")
        for number, adam in enumerate(adams):
            yield Case(ADAM, adam, (part, part, part, variance, rate, step), FLOATS, f"{number}")


CASES: tuple[Case, ...] = (
    *_fills(),
    *_copies(),
    *_pointwise(),
    *_reductions(),
    *_movements(),
    *_gemms(),
    *_convolutions(),
    *_pools(),
    *_softmaxes(),
    *_optimizers(),
    *cases_pointwise_more.rows(),
    *cases_fused.rows(),
    *cases_generate.rows(),
    *cases_random.rows(),
    *cases_layout.rows(),
    *cases_linear_algebra.rows(),
    *cases_indexing.rows(),
    *cases_integers.rows(),
    *cases_order.rows(),
    *cases_quantization.rows(),
    *cases_blocks.rows(),
    *cases_sampling.rows(),
    *cases_detection.rows(),
    *cases_elementary.rows(),
    *cases_normalization.rows(),
    *cases_loss.rows(),
    *cases_attention.rows(),
    *cases_recurrent.rows(),
    *cases_optimizer.rows(),
)
