"""Rows of elementary functions, of complex numbers and of their transforms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.conformance.case import (
    FLOATS,
    NONE,
    SPECIAL_VALUES,
    Argument,
    Array,
    Case,
    Generator,
    Values,
    apart,
    positive,
    special,
    uniform,
)
from tests.conformance.cases_pointwise_more import PAIRS, SHAPES, between

from nnc.core.values.dtype import C64, C128, F32, F64
from nnc.core.values.spec import Shape
from nnc.graph import Op
from nnc.ops.elementwise import elementary as ops
from nnc.ops.elementwise.complex_numbers import complex_of, conjugate, imaginary, magnitude
from nnc.ops.elementwise.pointwise import real
from nnc.ops.products.fourier import FFT, FourierAttrs
from nnc.ops.rules import NoAttrs

EXACT = (F64, F32)


def inside(generator: Generator, shape: Shape, earlier: Sequence[Array]) -> Array:
    """Within ±0.9, where arcs have slopes."""
    return generator.uniform(-0.9, 0.9, shape)


def above_one(generator: Generator, shape: Shape, earlier: Sequence[Array]) -> Array:
    """From 1.1 on."""
    return generator.uniform(1.1, 3.0, shape)


def complex_normal(generator: Generator, shape: Shape, earlier: Sequence[Array]) -> Array:
    """x + iy"""
    return generator.normal(size=shape) + 1j * generator.normal(size=shape)


UNARY: tuple[tuple[Op[NoAttrs], Values], ...] = (
    (ops.tan, inside),
    (ops.rsqrt, positive),
    (ops.sinh, uniform),
    (ops.cosh, uniform),
    (ops.asin, inside),
    (ops.acos, inside),
    (ops.asinh, uniform),
    (ops.acosh, above_one),
    (ops.atanh, inside),
    (ops.log2, positive),
    (ops.log10, positive),
    (ops.trunc, between),
)


def rows() -> Iterator[Case]:
    """All rows of this file."""
    for op, values in UNARY:
        for shape in SHAPES:
            yield Case(op, NONE, (Argument(shape, values),))
        yield Case(op, NONE, (Argument((len(SPECIAL_VALUES),), special),), FLOATS, "special", smooth=False)
    for two in (ops.atan2, ops.hypot, ops.logaddexp, ops.copysign):
        for left, right in PAIRS:
            yield Case(two, NONE, (Argument(left, apart), Argument(right, apart)))
    for left, right in PAIRS:
        yield Case(ops.nextafter, NONE, (Argument(left), Argument(right)))
        yield Case(complex_of, NONE, (Argument(left), Argument(right)), EXACT, smooth=False)
    for dtype in (C128, C64):
        for shape in ((3, 4), (), (0, 2)):
            for one in (real, imaginary, magnitude, conjugate):
                yield Case(one, NONE, (Argument(shape, complex_normal, dtype),), (F32,), str(dtype), smooth=False)
        for shape, axis in (((8,), 0), ((3, 5), 1), ((4, 3, 2), 0), ((0, 3), 1)):
            for inverse in (False, True):
                note = f"{dtype}-axis{axis}{'-inverse' * inverse}"
                values = Argument(shape, complex_normal, dtype)
                yield Case(FFT, FourierAttrs(axis, inverse), (values,), (F32,), note, smooth=False)
