"""Hyperbolic functions, areas, the error function, powers and remainders of f64."""

from __future__ import annotations

import math

from nnc.codegen.ir.builder import F64, I64, INDEX, Builder, Value
from nnc.codegen.ir.mathematics import (
    FORMATS,
    LOGARITHM_64,
    absolute,
    copy_sign,
    exponential,
    exponential_minus_one,
    logarithm,
    logarithm_in,
    logarithm_plus_one,
    polynomial,
    square_root,
)

# From here on e^-2x is lost beside 1, and x² + 1 is x²; e^x would overflow before its half does.
ONE, SQUARED, HALVED = 22.0, 2.0**28, 709.0
# erfc(x) · e^(x²) · (x + CENTER) in t = (x - CENTER) / (x + CENTER) for 1 <= x <= 28: within 9.5e-17 (interpolation at
# Chebyshev's points in 60 digits).
CENTER, FARTHEST = 2.0, 27.5
TAIL = (
    1.021582705242023, -0.6871606844138108, 0.2794720925560536, -0.03644223150681172, -0.021510661889401084,
    0.006479185062643804, 0.0030906120611069246, -0.000837295890927105, -0.0006630737822582382, 3.4368610084238764e-05,
    0.00014447875269936488, 3.4168789079111014e-05, -2.1796014822003677e-05, -1.6108314099280154e-05,
    -5.98665520890697e-07, 2.7796120911727337e-06, 1.5753703720826362e-06, 2.860376638111717e-06,
    -4.180469925381685e-06, 1.545895347872285e-06, -1.5782922535987748e-07,
)  # fmt: skip
# erf(x) / x in x² for |x| <= 1: its Taylor series, whose next term is below 2^-58.
SERIES = tuple(2.0 / math.sqrt(math.pi) * (-1) ** k / (math.factorial(k) * (2 * k + 1)) for k in range(18))
MANTISSA, EXPONENTS = 52, 2047


def sinh(b: Builder, x: Value) -> Value:
    """(t + t / (t + 1)) / 2 with t = e^|x| - 1; of large x (e^(|x|/2) / 2) e^(|x|/2)"""
    size = absolute(b, x)
    growth = exponential_minus_one(b, size)
    near = (growth + growth / (growth + 1.0)) * 0.5
    return copy_sign(b, b.choose(b.compare("<", size, HALVED), near, _half_power(b, size)), x)


def cosh(b: Builder, x: Value) -> Value:
    """(e^|x| + e^-|x|) / 2"""
    size = absolute(b, x)
    power = exponential(b, size)
    near = (power + b.constant(1.0, x.type) / power) * 0.5
    return b.choose(b.compare("<", size, HALVED), near, _half_power(b, size))


def _half_power(b: Builder, size: Value) -> Value:
    root = exponential(b, size * 0.5)
    return root * 0.5 * root


def tanh(b: Builder, x: Value) -> Value:
    """t / (t + 2) with t = e^(2|x|) - 1"""
    size = absolute(b, x)
    growth = exponential_minus_one(b, size + size)
    near = growth / (growth + 2.0)
    return copy_sign(b, b.choose(b.compare(">", size, ONE), b.constant(1.0, x.type), near), x)


def asinh(b: Builder, x: Value) -> Value:
    """ln(1 + |x| + x² / (√(x² + 1) + 1)); of large x ln |x| + ln 2"""
    size = absolute(b, x)
    square = size * size
    near = logarithm_plus_one(b, size + square / (square_root(b, square + 1.0) + 1.0))
    far = logarithm(b, size) + math.log(2.0)
    return copy_sign(b, b.choose(b.compare("<", size, SQUARED), near, far), x)


def acosh(b: Builder, x: Value) -> Value:
    """ln(1 + t + √(t (t + 2))) with t = x - 1; of large x ln x + ln 2"""
    above = x - 1.0
    near = logarithm_plus_one(b, above + square_root(b, above * (above + 2.0)))
    return b.choose(b.compare("<", x, SQUARED), near, logarithm(b, x) + math.log(2.0))


def atanh(b: Builder, x: Value) -> Value:
    """ln(1 + 2|x| / (1 - |x|)) / 2"""
    size = absolute(b, x)
    return copy_sign(b, logarithm_plus_one(b, (size + size) / (1.0 - size)) * 0.5, x)


def log10(b: Builder, x: Value) -> Value:
    """log₁₀ x"""
    high = round(math.log10(2.0) * 2**30) / 2**30  # its product with an exponent is exact
    return logarithm_in(b, x, (high, math.log10(2.0) - high), 1.0 / math.log(10.0))


def erf(b: Builder, x: Value) -> Value:
    """Up to 1 by its series, beyond 1 - erfc |x|"""
    size = absolute(b, x)
    far = copy_sign(b, 1.0 - _far_complement(b, size), x)
    return b.choose(b.compare(">", size, 1.0), far, x * polynomial(b, x * x, SERIES))


def erfc(b: Builder, x: Value) -> Value:
    """1 - erf x, and beyond 1 without the difference"""
    size = absolute(b, x)
    tail = _far_complement(b, size)
    far = b.choose(b.compare("<", x, 0.0), 2.0 - tail, tail)
    return b.choose(b.compare(">", size, 1.0), far, 1.0 - x * polynomial(b, x * x, SERIES))


def _far_complement(b: Builder, size: Value) -> Value:
    """erfc x for x >= 1"""
    x = b.choose(b.compare(">", size, FARTHEST), b.constant(FARTHEST, size.type), size)
    place = x + CENTER
    square = b.negative(x * x)
    lost = b.fma(b.negative(x), x, b.negative(square))
    bell = exponential(b, square)
    bell = b.fma(bell, lost, bell)
    return bell * polynomial(b, (x - CENTER) / place, TAIL) / place


def hypot(b: Builder, x: Value, y: Value) -> Value:
    """m √(1 + (n / m)²) with the larger m; infinite where x or y is, nan or not"""
    up, along = absolute(b, x), absolute(b, y)
    high, low = b.maximum(up, along), b.minimum(up, along)
    ratio = low / b.choose(b.compare("==", high, 0.0), b.constant(1.0, x.type), high)
    length = high * square_root(b, b.fma(ratio, ratio, 1.0))
    endless = b.either(*(b.compare("==", side, math.inf) for side in (up, along)))
    return b.choose(endless, b.constant(math.inf, x.type), length)


def power(b: Builder, x: Value, y: Value) -> Value:
    """e^(y ln |x|) with ln |x| and the product in two parts, and the sign of an odd y"""
    size = absolute(b, x)
    high, low = _logarithm_in_parts(b, size)
    product = y * high
    lost = b.fma(y, high, b.negative(product)) + y * low
    # Of what is infinite there is no difference.
    lost = b.choose(b.compare("<", absolute(b, lost), 1.0), lost, b.zero(x.type))
    plain = exponential(b, product)
    # Infinite stays so.
    result = b.choose(b.compare("<", plain, math.inf), b.fma(plain, lost, plain), plain)
    whole = b.compare("==", b.intrinsic("llvm.floor", y), y)
    half = y * 0.5
    odd = b.both(whole, b.compare("!=", b.intrinsic("llvm.floor", half), half))
    negative = b.compare("<", copy_sign(b, b.constant(1.0, x.type), x), 0.0)
    result = b.choose(b.both(negative, odd), b.negative(result), result)
    undefined = b.both(b.both(b.compare("<", x, 0.0), b.compare(">", x, -math.inf)), b.opposite(whole))
    result = b.choose(undefined, b.constant(math.nan, x.type), result)
    result = b.choose(b.either(b.unordered(x), b.unordered(y)), x + y, result)
    endless = b.both(b.compare("==", size, 1.0), b.compare("==", absolute(b, y), math.inf))
    alone = b.either(b.either(b.compare("==", x, 1.0), b.compare("==", y, 0.0)), endless)
    return b.choose(alone, b.constant(1.0, x.type), result)


def _logarithm_in_parts(b: Builder, x: Value) -> tuple[Value, Value]:
    """ln x of a number that is not negative, as a sum: what is lost of that of e · ln 2 and f, both exact, is kept."""
    form = FORMATS["f64"]
    scale = b.choose(b.compare("<", x, 2.0 ** (1 - form.bias)), b.constant(2.0**form.mantissa, x.type), 1.0)
    bits = b.reinterpret(x * scale, I64)
    start = b.reinterpret(b.constant(math.sqrt(0.5), x.type), I64)
    exponent = b.shift_right(bits - start, form.mantissa)
    fraction = b.reinterpret(bits - b.shift_left(exponent, form.mantissa), F64) - 1.0
    less = b.choose(b.compare("==", scale, 1.0), b.zero(x.type), float(form.mantissa))
    count = b.cast(exponent, F64) - less
    plain = logarithm(b, x)
    whole = count * form.ln2_high
    high = whole + fraction
    kept = high - whole
    lost = (whole - (high - kept)) + (fraction - kept)
    tail = _tail(b, fraction)
    finite = b.both(b.compare("<", x, math.inf), b.compare(">", x, 0.0))
    low = b.fma(count, form.ln2_low, tail) + lost
    total = high + low
    return b.choose(finite, total, plain), b.choose(finite, low - (total - high), b.zero(x.type))


def _tail(b: Builder, f: Value) -> Value:
    """ln(1 + f) - f"""
    s = f / (f + 2.0)
    half_square = f * f * 0.5
    z = s * s
    return b.fma(s, b.fma(z, polynomial(b, z, LOGARITHM_64), half_square), b.negative(half_square))


def remainder(b: Builder, x: Value, y: Value) -> Value:
    """x - y · trunc(x / y), exactly: a long division of the mantissas, with the sign of x"""
    top, top_exponent = _whole(b, absolute(b, x))
    bottom, bottom_exponent = _whole(b, absolute(b, y))
    divisor = b.choose(b.compare("==", bottom, 0), b.constant(1), bottom)
    rest = b.variable(b.emit(INDEX, f"urem i64 {top.text}, {divisor.text}"))
    with b.loop(0, top_exponent - bottom_exponent):
        doubled = b.shift_left(rest.get(), 1)
        less = doubled - divisor
        rest.set(b.choose(b.compare(">=", less, 0), less, doubled))
    number = b.cast(rest.get(), F64)
    # 2^(exponent - 1075) is no normal number where the exponent is small: two factors, both exact.
    half = b.shift_right(bottom_exponent - 1075, 1)
    others = bottom_exponent - 1075 - half
    for part in (half, others):
        number = number * b.reinterpret(b.shift_left(part + 1023, MANTISSA), F64)
    size = absolute(b, x)
    small = b.compare("<", size, absolute(b, y))
    result = b.choose(small, x, copy_sign(b, number, x))
    defined = b.both(b.compare("<", size, math.inf), b.compare(">", absolute(b, y), 0.0))
    return b.choose(defined, result, b.constant(math.nan, x.type))


def _whole(b: Builder, size: Value) -> tuple[Value, Value]:
    """A mantissa as an integer, and its exponent, at least 1: size = mantissa · 2^(exponent - 1075)"""
    bits = b.reinterpret(size, I64)
    stored = b.shift_right(bits, MANTISSA)
    fraction = b.both(bits, b.constant((1 << MANTISSA) - 1))
    normal = b.compare(">", stored, 0)
    mantissa = b.choose(normal, b.either(fraction, b.constant(1 << MANTISSA)), fraction)
    # Of what is infinite any will do.
    return mantissa, b.choose(b.compare("<", stored, EXPONENTS), b.greatest(stored, 1), b.constant(1))
