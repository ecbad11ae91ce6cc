"""Rows of fused expressions."""

from __future__ import annotations

from collections.abc import Iterator

from tests.conformance.case import FLOATS, NONE, NUMBERS, Argument, Case, apart, positive, special, truth

from nnc.core.values.command import Command
from nnc.core.values.dtype import BOOL, F32, F64, I32
from nnc.core.values.spec import Shape, spec
from nnc.graph import Op
from nnc.ops.composed.fused import FUSED_OUTPUT, FUSED_POINTWISE, FUSED_REDUCTION, FusedAttrs, FusedStep
from nnc.ops.convolutions.convolutions import CONVOLUTION, ConvolutionAttrs
from nnc.ops.convolutions.window import window_of
from nnc.ops.elementwise.pointwise import (
    AFFINE,
    CAST,
    WHERE,
    AffineAttrs,
    CastAttrs,
    add,
    divide,
    exp,
    greater,
    logical_and,
    logical_not,
    maximum,
    multiply,
    relu,
    sigmoid,
    square,
    subtract,
    tanh,
)
from nnc.ops.movement.broadcast import BROADCAST_TO, REDUCE_SUM, BroadcastAttrs, ReduceAttrs
from nnc.ops.movement.copy import contiguous
from nnc.ops.movement.fill import FILL, FillAttrs
from nnc.ops.products.products import GEMM, GemmAttrs
from nnc.ops.reduction.reduction import REDUCE_MAX, REDUCE_MEAN, REDUCE_NORM


def step(op: Op[object], *operands: int, attrs: object = NONE) -> FusedStep:
    """One step of an expression."""
    return FusedStep(Command(op, attrs), operands)


# x · sigmoid(1.5 x)
SWISH = FusedAttrs(1, (step(AFFINE, 0, attrs=AffineAttrs(1.5)), step(sigmoid, 1), step(multiply, 0, 2)))
# tanh(a · b + c)
GATE = FusedAttrs(3, (step(multiply, 0, 1), step(add, 3, 2), step(tanh, 4)))
# a where a > b else e^(b - a)
CHOICE = FusedAttrs(2, (step(greater, 0, 1), step(subtract, 1, 0), step(exp, 3), step(WHERE, 2, 0, 4)))
# (a + b)² / c
RATIO = FusedAttrs(3, (step(add, 0, 1), step(square, 3), step(divide, 4, 2)))
LARGER = FusedAttrs(2, (step(add, 0, 1), step(maximum, 2, 0), step(relu, 3)))
LOGIC = FusedAttrs(2, (step(logical_and, 0, 1), step(logical_not, 2)))
ONE_AFTER_MOVES = FusedAttrs(
    1, (step(contiguous, 0), step(BROADCAST_TO, 1, attrs=BroadcastAttrs((2, 3, 5))), step(exp, 2), step(multiply, 3, 2))
)


# relu(a · b + c) · d; relu(x ⋆ w · c)
LAYER = FusedAttrs(4, (step(GEMM, 0, 1, 2, attrs=GemmAttrs()), step(relu, 4), step(multiply, 5, 3)))
POINT = FusedAttrs(
    3, (step(CONVOLUTION, 0, 1, attrs=ConvolutionAttrs(window_of(1))), step(multiply, 3, 2), step(relu, 4))
)


# relu(x ⋆ w + b) · c
WINDOWED = FusedAttrs(
    4,
    (
        step(CONVOLUTION, 0, 1, 2, attrs=ConvolutionAttrs(window_of(3, padding="same"))),
        step(relu, 4),
        step(multiply, 5, 3),
    ),
)


def reduced(op: Op[ReduceAttrs], *axes: int) -> FusedAttrs:
    """⊕ over axes of (a - b)²"""
    return FusedAttrs(2, (step(subtract, 0, 1), step(square, 2), step(op, 3, attrs=ReduceAttrs(axes))))


def typed(dtype: str) -> FusedAttrs:
    """(2 as dtype) · (x as dtype): a constant and a cast inside."""
    kind = spec((), dtype)
    return FusedAttrs(
        1, (step(FILL, attrs=FillAttrs(2.0, kind)), step(CAST, 0, attrs=CastAttrs(kind.dtype)), step(multiply, 1, 2))
    )


def rows() -> Iterator[Case]:
    """All rows of this file."""
    for shape in ((7,), (3, 37), (2, 3, 5), (), (0, 4)):
        yield Case(FUSED_POINTWISE, SWISH, (Argument(shape),), note="swish")
    three: tuple[tuple[Shape, ...], ...] = (((4, 33),) * 3, ((4, 33), (33,), (4, 1)), ((5,), (5,), ()))
    for shapes in three:
        yield Case(FUSED_POINTWISE, GATE, tuple(map(Argument, shapes)), note="gate")
        arguments = tuple(Argument(shape, positive) for shape in shapes)
        yield Case(FUSED_POINTWISE, RATIO, arguments, note="ratio")
    two: tuple[tuple[Shape, ...], ...] = (((3, 20), (3, 20)), ((3, 20), (1, 20)), ((20,), (3, 20)))
    for pairs in two:
        yield Case(FUSED_POINTWISE, CHOICE, tuple(Argument(shape, apart) for shape in pairs), FLOATS, "choice")
        yield Case(FUSED_POINTWISE, LARGER, tuple(Argument(shape, apart) for shape in pairs), NUMBERS, "larger")
    pair = (Argument((12,), special), Argument((12,), special))
    yield Case(FUSED_POINTWISE, CHOICE, pair, FLOATS, "choice-special", smooth=False)
    truths = (Argument((40,), truth), Argument((40,), truth))
    yield Case(FUSED_POINTWISE, LOGIC, truths, (BOOL,), "logic", smooth=False)
    yield Case(FUSED_POINTWISE, ONE_AFTER_MOVES, (Argument((3, 1)),), note="moves")
    yield Case(FUSED_POINTWISE, typed("f32"), (Argument((9,)),), note="to-f32", smooth=False)
    yield Case(FUSED_POINTWISE, typed("i32"), (Argument((9,)),), (F64, F32, I32), note="to-i32", smooth=False)
    for axes in ((0,), (1,), (0, 1)):
        for op in (REDUCE_SUM, REDUCE_MEAN, REDUCE_MAX, REDUCE_NORM):
            arguments = (Argument((6, 37), apart), Argument((37,), apart))
            yield Case(FUSED_REDUCTION, reduced(op, *axes), arguments, FLOATS, f"{op.name}")
    yield Case(FUSED_REDUCTION, reduced(REDUCE_SUM, 0), (Argument((5000, 3)), Argument((5000, 1))), note="parts")
    for gain in ((9,), (1,), ()):
        shapes = ((5, 7), (7, 9), (9,), gain)
        yield Case(FUSED_OUTPUT, LAYER, tuple(Argument(shape, positive) for shape in shapes), note="gemm")
    image = (Argument((2, 3, 3, 4), positive), Argument((1, 1, 4, 5), positive), Argument((5,), positive))
    yield Case(FUSED_OUTPUT, POINT, image, note="convolution")
    # Weights that are much larger than the image are added up in pieces.
    for size, channels, filters in ((6, 3, 37), (2, 96, 96)):
        shapes = ((1, size, size, channels), (3, 3, channels, filters), (filters,), (filters,))
        yield Case(FUSED_OUTPUT, WINDOWED, tuple(Argument(shape) for shape in shapes), note="window", smooth=False)
