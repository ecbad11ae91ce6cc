"""Rows of the operators of integers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.conformance.case import FLOATS, NONE, Argument, Array, Case, Generator

from nnc.core.values.dtype import I8, I16, I32, I64, U8
from nnc.core.values.spec import Shape
from nnc.ops.elementwise import integers
from nnc.ops.elementwise.integers import bitwise_not, floor_divide, remainder
from nnc.ops.operators import operators_of

INTEGERS = (I64, I32, I16, I8, U8)


def small_integers(generator: Generator, shape: Shape, earlier: Sequence[Array]) -> Array:
    """Whole numbers from -20 to 20, times 1/8 because rows of integers are multiplied by 8."""
    return generator.integers(-20, 21, shape) / 8


def between(generator: Generator, shape: Shape, earlier: Sequence[Array]) -> Array:
    """Away from multiples of a half, where quotients by halves jump."""
    return generator.integers(-9, 10, shape) / 2 + 0.25


def not_zero(generator: Generator, shape: Shape, earlier: Sequence[Array]) -> Array:
    """Halves that one can divide by."""
    return generator.choice([-1.5, -0.5, 0.5, 1.0, 2.0], shape)


def rows() -> Iterator[Case]:
    """Equal shapes, broadcasting, one element, none."""
    pairs: tuple[tuple[Shape, Shape], ...] = (((5, 7), (5, 7)), ((67,), ()), ((4, 1), (1, 6)), ((0, 3), (3,)))
    for op in (op for op in operators_of(integers) if op.name in integers.__all__):
        for left, right in pairs:
            arguments = (Argument(left, small_integers), Argument(right, small_integers))
            yield Case(op, NONE, arguments[:1] if op is bitwise_not else arguments, INTEGERS)
    for op in (floor_divide, remainder):
        for left, right in pairs:
            yield Case(op, NONE, (Argument(left, between), Argument(right, not_zero)), FLOATS, "floats")
