"""Rows of the later pointwise operators, and of the reductions that came with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
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
    positive,
    special,
    ties,
    truth,
    uniform,
)

from nnc.core.values.dtype import BOOL, DTYPES, DType
from nnc.core.values.spec import Shape
from nnc.graph import Op
from nnc.ops.elementwise.pointwise import (
    ceil,
    expm1,
    floor,
    is_nan,
    log1p,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    round,
    softplus,
)
from nnc.ops.movement.broadcast import ReduceAttrs
from nnc.ops.reduction.reduction import ARGMIN, REDUCE_NORM
from nnc.ops.rules import NoAttrs

SHAPES: tuple[Shape, ...] = ((3, 5, 7), (), (1,), (0, 4), (67,))
PAIRS: tuple[tuple[Shape, Shape], ...] = (((4, 6), (4, 6)), ((4, 1, 3), (5, 1)), ((), (3,)), ((0, 3), (1, 3)))


def between(generator: Generator, shape: Shape, earlier: Sequence[Array]) -> Array:
    """Away from multiples of a half, where rounding jumps."""
    return generator.integers(-9, 10, shape) / 2 + generator.uniform(0.1, 0.4, shape)


def halves(generator: Generator, shape: Shape, earlier: Sequence[Array]) -> Array:
    """Multiples of a half, where rounding has to choose."""
    return generator.integers(-9, 10, shape) / 2


def tiny(generator: Generator, shape: Shape, earlier: Sequence[Array]) -> Array:
    """Where e^x - 1 and ln(1 + x) are nothing but x."""
    return generator.uniform(-1e-3, 1e-3, shape)


# Operator, values of its domain, element types.
UNARY: tuple[tuple[Op[NoAttrs], Values, tuple[DType, ...]], ...] = (
    (floor, between, FLOATS),
    (ceil, between, FLOATS),
    (round, between, FLOATS),
    (expm1, uniform, FLOATS),
    (log1p, positive, FLOATS),
    (softplus, uniform, FLOATS),
    (is_nan, special, DTYPES),
    (logical_not, truth, (BOOL,)),
)


def rows() -> Iterator[Case]:
    """All rows of this file."""
    for op, values, dtypes in UNARY:
        for shape in SHAPES:
            yield Case(op, NONE, (Argument(shape, values),), dtypes)
        yield Case(op, NONE, (Argument((len(SPECIAL_VALUES),), special),), dtypes, "special", smooth=False)
    for op in (floor, ceil, round):
        yield Case(op, NONE, (Argument((41,), halves),), FLOATS, "halves", smooth=False)
    for op in (expm1, log1p, softplus):
        yield Case(op, NONE, (Argument((41,), tiny),), FLOATS, "tiny")
    for op in (logical_and, logical_or, logical_xor):
        for left, right in PAIRS:
            yield Case(op, NONE, (Argument(left, truth), Argument(right, truth)), (BOOL,))
    yield from _reductions()


def _reductions() -> Iterator[Case]:
    axes: tuple[tuple[Shape, tuple[int, ...]], ...] = (
        ((3, 5, 7), (1,)),
        ((3, 5, 7), (0, 2)),
        ((65,), (0,)),
        ((0, 3), (1,)),
        ((), ()),
        ((4, 3), ()),
    )
    for shape, reduced in axes:
        for keepdims in (False, True):
            attrs, note = ReduceAttrs(reduced, keepdims), f"over{list(reduced)}{'-keep' * keepdims}"
            yield Case(REDUCE_NORM, attrs, (Argument(shape, apart),), FLOATS, note)
            if len(reduced) == 1:
                yield Case(ARGMIN, attrs, (Argument(shape, apart),), NUMBERS, note)
    yield Case(REDUCE_NORM, ReduceAttrs((0,)), (Argument((0, 3)),), FLOATS, "nothing")
    huge = Argument((2, 3), lambda generator, shape, earlier: np.array([[3e4, 4e4, 0.0], [0.0, 0.0, 0.0]]))
    yield Case(REDUCE_NORM, ReduceAttrs((1,)), (huge,), FLOATS, "large-and-zero", smooth=False)
    for op in (REDUCE_NORM, ARGMIN):
        argument = Argument((len(SPECIAL_VALUES), 1), special)
        yield Case(op, ReduceAttrs((1,)), (argument,), FLOATS, "special", smooth=False)
    yield Case(ARGMIN, ReduceAttrs((1,)), (Argument((7, 40), ties),), NUMBERS, "ties", smooth=False)
