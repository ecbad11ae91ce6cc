"""Elementary functions beyond those of `pointwise`: y[i…] = f(x[i…]) and f(a[i…], b[i…]).

Domains and edges are those of IEEE 754 and of the array API standard. Functions of complex numbers are holomorphic:
the gradient by z is g · f'(z).
"""

from __future__ import annotations

import math

import numpy as np

from nnc.ops.elementwise.pointwise import (
    add,
    affine,
    divide,
    equal,
    multiply,
    sigmoid,
    sign,
    sqrt,
    square,
    subtract,
    where,
)
from nnc.ops.elementwise.rows import binary, unary
from nnc.ops.function import BinaryOperator, UnaryOperator
from nnc.ops.movement.fill import fill_like, scalar_like
from nnc.ops.operand import Operand
from nnc.ops.rules import CONTINUOUS

__all__ = [
    "acos", "acosh", "asin", "asinh", "atan2", "atanh", "copysign", "cosh", "hypot", "log2", "log10", "logaddexp",
    "nextafter", "rsqrt", "sinh", "tan", "trunc",
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


tan = unary("tan", "y = tan x", np.tan, lambda g, x, y: multiply(g, affine(square(y), 1.0, 1.0)), CONTINUOUS)
rsqrt = unary(
    "rsqrt",
    "y = 1 / √x, rounded once",
    lambda x: np.reciprocal(np.sqrt(x)),
    lambda g, x, y: multiply(g, affine(multiply(square(y), y), -0.5)),
    CONTINUOUS,
)
sinh = unary("sinh", "y = sinh x", np.sinh, lambda g, x, y: multiply(g, cosh(x)), CONTINUOUS)
cosh: UnaryOperator = unary("cosh", "y = cosh x", np.cosh, lambda g, x, y: multiply(g, sinh(x)), CONTINUOUS)
asin = unary(
    "asin", "y = arcsin x, between -π/2 and π/2", np.arcsin, lambda g, x, y: divide(g, _within_one(x)), CONTINUOUS
)
acos = unary(
    "acos",
    "y = arccos x, between 0 and π",
    np.arccos,
    lambda g, x, y: affine(divide(g, _within_one(x)), -1.0),
    CONTINUOUS,
)
asinh = unary(
    "asinh", "y = arsinh x", np.arcsinh, lambda g, x, y: divide(g, sqrt(affine(square(x), 1.0, 1.0))), CONTINUOUS
)
acosh = unary("acosh", "y = arcosh x, of x ≥ 1", np.arccosh, lambda g, x, y: divide(g, _beyond_one(x)), CONTINUOUS)
atanh = unary(
    "atanh", "y = artanh x, of |x| ≤ 1", np.arctanh, lambda g, x, y: divide(g, affine(square(x), -1.0, 1.0)), CONTINUOUS
)
log2 = unary("log2", "y = log₂ x", np.log2, lambda g, x, y: divide(g, affine(x, math.log(2.0))), CONTINUOUS)
log10 = unary("log10", "y = log₁₀ x", np.log10, lambda g, x, y: divide(g, affine(x, math.log(10.0))), CONTINUOUS)
trunc = unary("trunc", "y = the integer next to x towards 0", np.trunc, lambda g, x, y: fill_like(x, 0.0))

atan2 = binary(
    "atan2",
    "y = the angle of the point (b, a), between -π and π",
    np.arctan2,
    lambda g, a, b, y: multiply(g, divide(b, add(square(a), square(b)))),
    lambda g, a, b, y: affine(multiply(g, divide(a, add(square(a), square(b)))), -1.0),
)
hypot = binary(
    "hypot",
    "y = √(a² + b²), no square of which overflows; its derivative at 0 is 0",
    np.hypot,
    lambda g, a, b, y: _hypot_slope(g, a, y),
    lambda g, a, b, y: _hypot_slope(g, b, y),
)
logaddexp = binary(
    "logaddexp",
    "y = ln(e^a + e^b)",
    np.logaddexp,
    lambda g, a, b, y: multiply(g, sigmoid(subtract(a, b))),
    lambda g, a, b, y: multiply(g, sigmoid(subtract(b, a))),
)
copysign: BinaryOperator = binary(
    "copysign",
    "y = |a| with the sign of b",
    np.copysign,
    lambda g, a, b, y: multiply(g, multiply(sign(a), copysign(fill_like(b, 1.0), b))),
    lambda g, a, b, y: None,
)
nextafter = binary(
    "nextafter", "y = the next float from a towards b", None, lambda g, a, b, y: g, lambda g, a, b, y: None
)
