"""Hyperbolic functions, arcs and logarithms of other bases, on vectors: y[i] = f(x[i]), in f32 accurate to 2 ulp.

In f64 most of them are the C library's, lane by lane. Domains and edges are those of IEEE 754 and NumPy.
"""

from __future__ import annotations

import math

from nnc.codegen.ir import integers
from nnc.codegen.ir.builder import F32, F64, Builder, Value
from nnc.codegen.ir.mathematics import (
    FORMATS,
    absolute,
    copy_sign,
    exponential,
    library,
    logarithm,
    logarithm_in,
    logarithm_plus_one,
    polynomial,
    power_of_two,
    square_root,
    turns_of,
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
# (sinh(r) / r - 1) / r² and (cosh(r) - 1) / r² in r² for |r| <= ln2 / 2: within 4.7e-11 of sinh and 9.8e-11 of cosh.
HYPERBOLIC_SINE = (0.1666666716337204, 0.00833317544311285, 0.00019974118913523853)
HYPERBOLIC_COSINE = (0.5, 0.041666459292173386, 0.001393542275764048)
# (arcosh(1 + t) / √(2t) - 1) / t for 0 < t <= 1, and (artanh(x) / x - 1) / x² in x² for 0 < x <= 1/2: within 3.6e-9 and
# 1.4e-9 of the functions (least squares, weighted towards the largest error).
AREA_COSINE = (
    -0.0833330973982811,
    0.01874515227973461,
    -0.0055467961356043816,
    0.001789245055988431,
    -0.0005077402456663549,
    8.309950499096885e-05,
)
AREA_TANGENT = (
    0.33333298563957214,
    0.20002605020999908,
    0.142211452126503,
    0.11836853623390198,
    0.050875648856163025,
    0.17735031247138977,
)
# Below it sinh x is x; e^|x| / 2 is infinite behind OVERFLOWS, and 1 is lost beside x² behind SQUARED.
SMALL, OVERFLOWS, SQUARED = 2.0**-12, 89.5, 2.0**20
HALF_PI_32 = (1.5707963705062866, -4.371138828673793e-08)


def sinh(b: Builder, x: Value) -> Value:
    """(p - q) cosh r + (p + q) sinh r with |x| = n ln2 + r, p = 2^n / 2 and q = 2^-n / 2; of a small x, x itself"""
    if x.type.scalar != F32:
        return library(b, "sinh", x)
    size = absolute(b, x)
    up, down, sine_of, rise = _halved_powers(b, size)
    apart = up - down
    large = apart + b.fma(apart, rise, (up + down) * sine_of)
    return copy_sign(b, b.choose(b.compare("<", size, SMALL), size, large + large), x)


def cosh(b: Builder, x: Value) -> Value:
    """p e^r + q e^-r with |x| = n ln2 + r, p = 2^n / 2 and q = 2^-n / 2"""
    if x.type.scalar != F32:
        return library(b, "cosh", x)
    up, down, sine_of, rise = _halved_powers(b, absolute(b, x))
    half = up + b.fma(up, rise + sine_of, down * ((rise - sine_of) + 1.0))
    return half + half


def _halved_powers(b: Builder, size: Value) -> tuple[Value, Value, Value, Value]:
    """p / 2, q / 2 or 0 where that is no normal number, sinh r, and cosh r - 1, as cosh r would round"""
    form = FORMATS[size.type.scalar.name]
    bounded = b.choose(b.compare(">", size, OVERFLOWS), b.constant(OVERFLOWS, size.type), size)
    shifted, _, rest = turns_of(b, bounded, form, form.bias - 2, (form.ln2_high, form.ln2_low))
    biased = b.reinterpret(shifted, form.integer)
    start = b.reinterpret(b.constant(1.5 * 2.0**form.mantissa, size.type), form.integer)
    below = b.intrinsic("llvm.smax", start + 2 * (form.bias - 2) - biased, b.zero(biased.type))
    square = rest * rest
    sine_of = b.fma(rest * square, polynomial(b, square, HYPERBOLIC_SINE), rest)
    up, down = (power_of_two(b, exponent, form, size.type.scalar) for exponent in (biased, below))
    return up, down, sine_of, square * polynomial(b, square, HYPERBOLIC_COSINE)


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
    """√(2t) (1 + t P(t)) with t = x - 1 < 1; beyond ln(x + √(t (t + 2))), and of large x ln x + ln 2; nan below 1"""
    if x.type.scalar != F32:
        return library(b, "acosh", x)
    above = x - 1.0
    close, lost = b.compare("<", above, 1.0), b.compare(">", x, SQUARED)
    root = square_root(b, b.choose(close, above + above, above * (above + 2.0)))
    near = b.fma(root * above, polynomial(b, above, AREA_COSINE), root)
    far = logarithm(b, b.choose(lost, x, x + root)) + b.choose(lost, b.constant(math.log(2.0), x.type), 0.0)
    return b.choose(close, near, far)


def atanh(b: Builder, x: Value) -> Value:
    """Up to 1/2 by its series, beyond as ln((1 + |x|) / (1 - |x|)) / 2"""
    if x.type.scalar != F32:
        return library(b, "atanh", x)
    size = absolute(b, x)
    square = size * size
    near = b.fma(size * square, polynomial(b, square, AREA_TANGENT), size)
    far = logarithm(b, (size + 1.0) / (1.0 - size)) * 0.5
    return copy_sign(b, b.choose(b.compare("<", size, 0.5), near, far), x)


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
    """Up to 1/2 by its series, beyond as π/2 - 2 arcsin s with s = √((1 - |x|) / 2), of which s goes first"""
    if x.type.scalar != F32:
        return library(b, "asin", x)
    large, side, cube, series = _half_arc(b, x)
    rest = cube * series
    far = b.fma(side, -2.0, HALF_PI_32[0]) + b.fma(rest, -2.0, HALF_PI_32[1])
    return copy_sign(b, b.choose(large, far, side + rest), x)


def acos(b: Builder, x: Value) -> Value:
    """π/2 - arcsin x; of |x| > 1/2 2 arcsin √((1 - |x|) / 2), or π less that"""
    if x.type.scalar != F32:
        return library(b, "acos", x)
    large, side, cube, series = _half_arc(b, x)
    part = b.fma(cube, series, side)
    turned = b.choose(b.compare("<", x, 0.0), _half_turn_less(b, part + part), part + part)
    return b.choose(large, turned, _quarter_less(b, copy_sign(b, part, x)))


def _half_arc(b: Builder, x: Value) -> tuple[Value, Value, Value, Value]:
    """Whether |x| > 1/2, and s, s³ and P of arcsin s = s + s³ P, with s = √((1 - |x|) / 2) there, |x| elsewhere"""
    size = absolute(b, x)
    large = b.compare(">", size, 0.5)
    square = b.choose(large, (1.0 - size) * 0.5, size * size)
    side = b.choose(large, square_root(b, square), size)
    return large, side, side * square, polynomial(b, square, ARC_SINE)


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
    wide_x, wide_y = b.cast(x, F64), b.cast(y, F64)
    length = b.cast(square_root(b, wide_x * wide_x + wide_y * wide_y), F32)
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
    angle = b.choose(nothing, copy_sign(b, b.zero(x.type), y), b.choose(turned, rest + y, rest))
    return angle, b.choose(turned, quotient - 1.0, quotient)
