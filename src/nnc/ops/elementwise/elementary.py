"""Elementary functions beyond those of `pointwise`: y[i…] = f(x[i…]) and f(a[i…], b[i…]).

Domains and edges are those of IEEE 754 and of the array API standard. Functions of complex numbers are holomorphic:
the gradient by z is g · f'(z).
"""

from __future__ import annotations

import math

from nnc.ops.elementwise.pointwise import (
    add,
    affine,
    binary,
    divide,
    equal,
    multiply,
    sigmoid,
    sign,
    sqrt,
    square,
    subtract,
    unary,
    where,
)
from nnc.ops.movement.fill import fill_like, scalar_like
from nnc.ops.operand import Operand, T, apply
from nnc.ops.rules import CONTINUOUS, NoAttrs

__all__ = [
    "acos", "acosh", "asin", "asinh", "atan2", "atanh", "copysign", "cosh", "hypot", "log2", "log10", "logaddexp",
    "nextafter", "sinh", "trunc",
]  # fmt: skip


def _beyond_one(x: Operand) -> Operand:
    """√(x - 1) · √(x + 1), which has the branches of acosh."""
    return multiply(sqrt(affine(x, 1.0, -1.0)), sqrt(affine(x, 1.0, 1.0)))


def _within_one(x: Operand) -> Operand:
    """√(1 - x) · √(1 + x), which has the branches of asin."""
    return multiply(sqrt(affine(x, -1.0, 1.0)), sqrt(affine(x, 1.0, 1.0)))


def _hypot_slope(g: Operand, x: Operand, y: Operand) -> Operand:
    """g · x / y, and 0 where y is 0."""
    nothing = equal(y, scalar_like(y, 0.0))
    return multiply(g, divide(where(nothing, scalar_like(y, 0.0), x), where(nothing, scalar_like(y, 1.0), y)))


SINH = unary("sinh", "y = sinh x", lambda g, x, y: multiply(g, cosh(x)), CONTINUOUS)
COSH = unary("cosh", "y = cosh x", lambda g, x, y: multiply(g, sinh(x)), CONTINUOUS)
ASIN = unary("asin", "y = arcsin x", lambda g, x, y: divide(g, _within_one(x)), CONTINUOUS)
ACOS = unary("acos", "y = arccos x", lambda g, x, y: affine(divide(g, _within_one(x)), -1.0), CONTINUOUS)
ASINH = unary("asinh", "y = arsinh x", lambda g, x, y: divide(g, sqrt(affine(square(x), 1.0, 1.0))), CONTINUOUS)
ACOSH = unary("acosh", "y = arcosh x", lambda g, x, y: divide(g, _beyond_one(x)), CONTINUOUS)
ATANH = unary("atanh", "y = artanh x", lambda g, x, y: divide(g, affine(square(x), -1.0, 1.0)), CONTINUOUS)
LOG2 = unary("log2", "y = log₂ x", lambda g, x, y: divide(g, affine(x, math.log(2.0))), CONTINUOUS)
LOG10 = unary("log10", "y = log₁₀ x", lambda g, x, y: divide(g, affine(x, math.log(10.0))), CONTINUOUS)
TRUNC = unary("trunc", "y = the integer towards 0", lambda g, x, y: fill_like(x, 0.0))

ATAN2 = binary(
    "atan2",
    "y = the angle of the point (b, a)",
    lambda g, a, b, y: multiply(g, divide(b, add(square(a), square(b)))),
    lambda g, a, b, y: affine(multiply(g, divide(a, add(square(a), square(b)))), -1.0),
)
HYPOT = binary(
    "hypot",
    "y = √(a² + b²), no square of which overflows; its derivative at 0 is 0",
    lambda g, a, b, y: _hypot_slope(g, a, y),
    lambda g, a, b, y: _hypot_slope(g, b, y),
)
LOGADDEXP = binary(
    "logaddexp",
    "y = ln(e^a + e^b)",
    lambda g, a, b, y: multiply(g, sigmoid(subtract(a, b))),
    lambda g, a, b, y: multiply(g, sigmoid(subtract(b, a))),
)
COPYSIGN = binary(
    "copysign",
    "y = |a| with the sign of b",
    lambda g, a, b, y: multiply(g, multiply(sign(a), copysign(fill_like(b, 1.0), b))),
    lambda g, a, b, y: None,
)
NEXTAFTER = binary("nextafter", "y = the next float from a towards b", lambda g, a, b, y: g, lambda g, a, b, y: None)

OPERATORS = (
    SINH, COSH, ASIN, ACOS, ASINH, ACOSH, ATANH, LOG2, LOG10, TRUNC, ATAN2, HYPOT, LOGADDEXP, COPYSIGN, NEXTAFTER,
)  # fmt: skip

_NONE = NoAttrs()


def sinh(x: T) -> T:
    """y = sinh x."""
    return apply(SINH, _NONE, x)


def cosh(x: T) -> T:
    """y = cosh x."""
    return apply(COSH, _NONE, x)


def asin(x: T) -> T:
    """y = arcsin x, between -π/2 and π/2."""
    return apply(ASIN, _NONE, x)


def acos(x: T) -> T:
    """y = arccos x, between 0 and π."""
    return apply(ACOS, _NONE, x)


def asinh(x: T) -> T:
    """y = arsinh x."""
    return apply(ASINH, _NONE, x)


def acosh(x: T) -> T:
    """y = arcosh x, of x ≥ 1."""
    return apply(ACOSH, _NONE, x)


def atanh(x: T) -> T:
    """y = artanh x, of |x| ≤ 1."""
    return apply(ATANH, _NONE, x)


def log2(x: T) -> T:
    """y = log₂ x."""
    return apply(LOG2, _NONE, x)


def log10(x: T) -> T:
    """y = log₁₀ x."""
    return apply(LOG10, _NONE, x)


def trunc(x: T) -> T:
    """y = the integer next to x towards 0."""
    return apply(TRUNC, _NONE, x)


def atan2(a: T, b: T) -> T:
    """y = the angle of the point (b, a), between -π and π."""
    return apply(ATAN2, _NONE, a, b)


def hypot(a: T, b: T) -> T:
    """y = √(a² + b²)."""
    return apply(HYPOT, _NONE, a, b)


def logaddexp(a: T, b: T) -> T:
    """y = ln(e^a + e^b)."""
    return apply(LOGADDEXP, _NONE, a, b)


def copysign(a: T, b: T) -> T:
    """y = |a| with the sign of b."""
    return apply(COPYSIGN, _NONE, a, b)


def nextafter(a: T, b: T) -> T:
    """y = the next float from a towards b."""
    return apply(NEXTAFTER, _NONE, a, b)
