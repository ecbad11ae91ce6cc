"""Hyperbolic functions, arcs and logarithms of other bases, on vectors: y[i] = f(x[i]), in f32 accurate to 3 ulp.

In f64 most of them are the C library's, lane by lane. Domains and edges are those of IEEE 754 and NumPy.
"""

from __future__ import annotations

import math

from nnc.codegen.ir import integers
from nnc.codegen.ir.builder import F32, F64, Builder, Value
from nnc.codegen.ir.mathematics import (
    absolute,
    copy_sign,
    exponential,
    exponential_minus_one,
    library,
    logarithm,
    logarithm_in,
    logarithm_plus_one,
    polynomial,
    square_root,
)

# (arcsin(s) / s - 1) / s² in s² for 0 < s <= 1/2, and (arctan(t) / t - 1) / t² in t² for 0 < t <= 1: what they leave
# of both functions is within 2.4e-9 and 2.1e-8 of them (interpolation at Chebyshev nodes).
ARC_SINE = (
    0.1666666567325592,
    0.07500094920396805,
    0.04459939897060394,
    0.031100677326321602,
    0.017149178311228752,
    0.033690933138132095,
)
ARC_TANGENT = (
    -0.3333333134651184,
    0.19999739527702332,
    -0.1427856832742691,
    0.11033762991428375,
    -0.08656877279281616,
    0.06250163912773132,
    -0.0358714796602726,
    0.013507737778127193,
    -0.0023869893047958612,
)
# Beyond these e^-|x| is lost beside e^|x|, and 1 beside x².
LARGE, SQUARED = 16.0, 2.0**20
HALF_PI_32 = (1.5707963705062866, -4.371138828673793e-08)


def sinh(b: Builder, x: Value) -> Value:
    """(g + g / (g + 1)) / 2 with g = e^|x| - 1; where e^|x| may overflow, e^|x|/2 · e^|x|/2 / 2"""
    if x.type.scalar != F32:
        return library(b, "sinh", x)
    size = absolute(b, x)
    growth, half = exponential_minus_one(b, size), exponential(b, size * 0.5)
    near, far = (growth + growth / (growth + 1.0)) * 0.5, half * 0.5 * half
    return copy_sign(b, b.choose(b.compare("<", size, LARGE), near, far), x)


def cosh(b: Builder, x: Value) -> Value:
    """(e^|x| + e^-|x|) / 2 with e^|x| as a square, half of which may be no infinity"""
    if x.type.scalar != F32:
        return library(b, "cosh", x)
    half = exponential(b, absolute(b, x) * 0.5)
    return half * 0.5 * half + b.constant(0.5, x.type) / (half * half)


def asinh(b: Builder, x: Value) -> Value:
    """ln(1 + |x| + x² / (√(x² + 1) + 1)); of large x ln |x| + ln 2"""
    if x.type.scalar != F32:
        return library(b, "asinh", x)
    size = absolute(b, x)
    square = size * size
    near = logarithm_plus_one(b, size + square / (square_root(b, square + 1.0) + 1.0))
    far = logarithm(b, size) + math.log(2.0)
    return copy_sign(b, b.choose(b.compare("<", size, SQUARED), near, far), x)


def acosh(b: Builder, x: Value) -> Value:
    """ln(1 + t + √(2t + t²)) with t = x - 1; of large x ln x + ln 2; nan below 1"""
    if x.type.scalar != F32:
        return library(b, "acosh", x)
    above = x - 1.0
    near = logarithm_plus_one(b, above + square_root(b, above * (above + 2.0)))
    found = b.choose(b.compare("<", x, SQUARED), near, logarithm(b, x) + math.log(2.0))
    return b.choose(b.compare("<", x, 1.0), b.constant(math.nan, x.type), found)


def atanh(b: Builder, x: Value) -> Value:
    """ln(1 + 2|x| / (1 - |x|)) / 2"""
    if x.type.scalar != F32:
        return library(b, "atanh", x)
    size = absolute(b, x)
    return copy_sign(b, logarithm_plus_one(b, (size + size) / (1.0 - size)) * 0.5, x)


def log2(b: Builder, x: Value) -> Value:
    """log₂ x, exact for powers of two"""
    return logarithm_in(b, x, (1.0, 0.0), 1.0 / math.log(2.0))


def log10(b: Builder, x: Value) -> Value:
    """log₁₀ x"""
    if x.type.scalar != F32:
        return library(b, "log10", x)
    high = round(math.log10(2.0) * 2**14) / 2**14  # its product with an exponent is exact
    return logarithm_in(b, x, (high, math.log10(2.0) - high), 1.0 / math.log(10.0))


def asin(b: Builder, x: Value) -> Value:
    """Up to 1/2 by its series, beyond as π/2 - 2 arcsin √((1 - |x|) / 2)"""
    if x.type.scalar != F32:
        return library(b, "asin", x)
    large, part = _half_arc(b, x)
    return copy_sign(b, b.choose(large, _quarter_less(b, part + part), part), x)


def acos(b: Builder, x: Value) -> Value:
    """π/2 - arcsin x; of |x| > 1/2 2 arcsin √((1 - |x|) / 2), or π less that"""
    if x.type.scalar != F32:
        return library(b, "acos", x)
    large, part = _half_arc(b, x)
    turned = b.choose(b.compare("<", x, 0.0), _half_turn_less(b, part + part), part + part)
    return b.choose(large, turned, _quarter_less(b, copy_sign(b, part, x)))


def _half_arc(b: Builder, x: Value) -> tuple[Value, Value]:
    """Whether |x| > 1/2, and arcsin of √((1 - |x|) / 2) there, of |x| elsewhere"""
    size = absolute(b, x)
    large = b.compare(">", size, 0.5)
    square = b.choose(large, (1.0 - size) * 0.5, size * size)
    side = b.choose(large, square_root(b, square), size)
    return large, b.fma(side * square, polynomial(b, square, ARC_SINE), side)


def atan(b: Builder, x: Value) -> Value:
    """Up to 1 by its series, beyond as π/2 - arctan 1/|x|"""
    if x.type.scalar != F32:
        return library(b, "atan", x)
    size = absolute(b, x)
    steep = b.compare(">", size, 1.0)
    part = _arc(b, b.choose(steep, b.constant(1.0, x.type) / size, size))
    return copy_sign(b, b.choose(steep, _quarter_less(b, part), part), x)


def atan2(b: Builder, y: Value, x: Value) -> Value:
    """The angle of (x, y): arctan of the smaller by the larger size, turned by quarters"""
    if x.type.scalar != F32:
        return library(b, "atan2", y, x)
    up, along = absolute(b, y), absolute(b, x)
    steep = b.compare(">", up, along)
    low, high = b.choose(steep, along, up), b.choose(steep, up, along)
    # 0 by 0 counts as 0, infinity by infinity as 1.
    same = b.choose(b.compare("==", high, 0.0), b.zero(x.type), 1.0)
    part = _arc(b, b.choose(b.compare("==", low, high), same, low / high))
    part = b.choose(steep, _quarter_less(b, part), part)
    behind = b.compare("<", copy_sign(b, b.constant(1.0, x.type), x), 0.0)
    return copy_sign(b, b.choose(behind, _half_turn_less(b, part), part), y)


def _arc(b: Builder, t: Value) -> Value:
    """arctan t for 0 <= t <= 1"""
    square = t * t
    return b.fma(t * square, polynomial(b, square, ARC_TANGENT), t)


def _quarter_less(b: Builder, angle: Value) -> Value:
    """π/2 - angle"""
    return HALF_PI_32[0] - (angle - HALF_PI_32[1])


def _half_turn_less(b: Builder, angle: Value) -> Value:
    """π - angle"""
    return 2.0 * HALF_PI_32[0] - (angle - 2.0 * HALF_PI_32[1])


def hypot(b: Builder, x: Value, y: Value) -> Value:
    """√(x² + y²), of f32 in f64; infinite where x or y is, nan or not"""
    if x.type.scalar != F32:
        return library(b, "hypot", x, y)
    one, two = b.cast(x, F64), b.cast(y, F64)
    length = b.cast(square_root(b, one * one + two * two), F32)
    endless = b.either(*(b.compare("==", absolute(b, side), math.inf) for side in (x, y)))
    return b.choose(endless, b.constant(math.inf, x.type), length)


def logaddexp(b: Builder, x: Value, y: Value) -> Value:
    """max(x, y) + ln(1 + e^-|x - y|); equal infinities have no difference"""
    tail = logarithm_plus_one(b, exponential(b, b.negative(absolute(b, x - y))))
    return b.choose(b.compare("==", x, y), x + math.log(2.0), b.maximum(x, y) + tail)


def trunc(b: Builder, x: Value) -> Value:
    """The integer next to x towards 0"""
    return b.intrinsic("llvm.trunc", x)


def remainder(b: Builder, x: Value, y: Value) -> Value:
    """x - y · floor(x / y), with the sign of y"""
    return _divided(b, x, y)[0] if x.type.scalar.floating else integers.remainder(b, x, y)


def floor_divide(b: Builder, x: Value, y: Value) -> Value:
    """floor(x / y), as the remainder has it: (x - remainder) / y, a whole number but for rounding"""
    if not x.type.scalar.floating:
        return integers.floor_divide(b, x, y)
    _, quotient = _divided(b, x, y)
    below = b.intrinsic("llvm.floor", quotient)
    near = b.choose(b.compare(">", quotient - below, 0.5), below + 1.0, below)
    plain = x / y
    whole = b.choose(b.compare("==", quotient, 0.0), copy_sign(b, b.zero(x.type), plain), near)
    return b.choose(b.compare("==", y, 0.0), plain, whole)


def _divided(b: Builder, x: Value, y: Value) -> tuple[Value, Value]:
    """The remainder, and the quotient before it is made whole"""
    rest = library(b, "fmod", x, y)
    quotient = (x - rest) / y
    nothing = b.compare("==", rest, 0.0)
    differ = b.exclusive(b.compare("<", rest, 0.0), b.compare("<", y, 0.0))
    turned = b.both(b.opposite(nothing), differ)
    found = b.choose(nothing, copy_sign(b, b.zero(x.type), y), b.choose(turned, rest + y, rest))
    return found, b.choose(turned, quotient - 1.0, quotient)
