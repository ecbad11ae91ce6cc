"""Elementary functions on vectors: y[i] = f(x[i]), accurate to 2 ulp in f32 and a few in f64.

Each function reduces its argument to a short interval and evaluates a polynomial there. The coefficients are our
own: interpolation at Chebyshev nodes in extended precision, with the relative error of the fit beside each table.
Infinities, NaN and denormal numbers come out as IEEE 754 and NumPy have them. What has no polynomial here (power,
tanh and erf in f64, sin and cos of large arguments) calls the C library lane by lane.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from nnc.backends.llvm.builder import F32, F64, I32, I64, Builder, Number, Scalar, Type, Value


@dataclass(frozen=True, slots=True)
class Format:
    """A floating-point format: its integer twin, explicit mantissa bits, exponent bias, and constants for exp and log.

    `low` and `high` bound the arguments of exp whose results are neither 0 nor infinite. `ln2_high` has so few bits
    that its product with an exponent is exact.
    """

    integer: Scalar
    mantissa: int
    bias: int
    low: float
    high: float
    ln2_high: float
    ln2_low: float
    exponential: tuple[float, ...]


# (e^r - 1 - r) / r^2 for |r| <= ln2 / 2; errors 1.3e-7 and 3.1e-18, which weigh r^2 / 2 <= 0.06 in the result.
EXPONENTIAL_32 = (0.5, 0.1666657702559799, 0.041666554662050534, 0.008363173074513716, 0.0013926176119935809)
EXPONENTIAL_64 = (
    0.5,
    0.1666666666666667,
    0.04166666666666668,
    0.008333333333326138,
    0.001388888888888088,
    0.00019841269874752232,
    2.4801587327886838e-05,
    2.7557255529607303e-06,
    2.75572747565856e-07,
    2.5105153714065366e-08,
    2.0913448039656844e-09,
)
# (ln(1 + f) - f + f^2 / 2) / f^3 for sqrt(1/2) <= 1 + f <= sqrt(2); error 6.8e-8.
LOGARITHM_32 = (
    0.3333333118003005,
    -0.2499999695795088,
    0.20000715748892073,
    -0.1666780231950136,
    0.14249057645698004,
    -0.12425687331449571,
    0.11685419923482006,
    -0.11479733846644789,
    0.06971611471469043,
)
# (2 artanh(s) - 2 s) / s^3 in s^2 for s = f / (2 + f); error 3.4e-18.
LOGARITHM_64 = (
    0.6666666666666666,
    0.4000000000000088,
    0.2857142857080284,
    0.2222222239195427,
    0.18181795612153248,
    0.15386241225682204,
    0.13268733766198823,
    0.13087016680131724,
)
# (tanh(x) - x) / x^3 in x^2 for |x| <= 0.625; error 1.3e-7.
TANH_32 = (-0.33333328944134255, 0.13332769736976333, -0.05385090957851382, 0.020997178999075352, -0.006096714165908689)
# erf(x) / x in x^2 for |x| <= 1; error 1.3e-9.
ERF_32 = (
    1.1283791658483509,
    -0.37612626666720334,
    0.11283594715160217,
    -0.026854212010626398,
    0.0051890874234339635,
    -0.0008016864287165915,
    7.875875062686005e-05,
)
# -ln(1 - erf(x)) for 1 <= x <= 4; e^-polynomial is within 4.9e-10 of 1 - erf(x).
ERF_TAIL_32 = (
    -0.00032013804967743337,
    1.130233434841993,
    0.6318260515591652,
    0.11008008294881814,
    -0.026421136005662618,
    0.0047595962932657845,
    -0.0005968056256606709,
    4.605804268917615e-05,
    -1.6371514145929185e-06,
)

# (sin(r) - r) / r^3 in r^2 for |r| <= pi / 4; errors 1.3e-7 and 5.8e-17.
SINE = {
    "f32": (-0.16666664656312208, 0.00833274710466453, -0.0001958763909873762),
    "f64": (
        -0.16666666666666666,
        0.008333333333333331,
        -0.0001984126984126504,
        2.755731921932058e-06,
        -2.50521062259944e-08,
        1.6058530596645953e-10,
        -7.586636882825159e-13,
    ),
}
# (cos(r) - 1 + r^2 / 2) / r^4 in r^2 for |r| <= pi / 4; errors 5.0e-8 and 5.6e-17.
COSINE = {
    "f32": (0.04166665465348879, -0.001388830186756237, 2.454768977246003e-05),
    "f64": (
        0.041666666666666664,
        -0.0013888888888888887,
        2.4801587301584632e-05,
        -2.755731922139249e-07,
        2.0876755787492604e-09,
        -1.1470460319209511e-11,
        4.745838412531023e-14,
    ),
}
# pi / 2 as a sum, each part rounded to the format; and the largest argument that they reduce without loss.
HALF_PI = {
    "f32": (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15),
    "f64": (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33),
}
REDUCED = {"f32": 8192.0, "f64": 2.0**20}

FORMATS = {
    "f32": Format(I32, 23, 127, -104.0, 89.0, 0.693359375, -2.12194440054690583e-4, EXPONENTIAL_32),
    "f64": Format(I64, 52, 1023, -746.0, 710.0, 0.693147180369123816490, 1.90821492927058770002e-10, EXPONENTIAL_64),
}


def polynomial(b: Builder, x: Value, coefficients: Sequence[Number]) -> Value:
    """sum_k coefficients[k] * x^k by Horner's rule"""
    result = b.constant(coefficients[-1], x.type)
    for coefficient in reversed(coefficients[:-1]):
        result = b.fma(result, x, coefficient)
    return result


def absolute(b: Builder, x: Value) -> Value:
    """|x|"""
    if x.type.scalar.floating:
        return b.intrinsic("llvm.fabs", x)
    return b.maximum(x, b.negative(x)) if x.type.scalar.signed else x


def copy_sign(b: Builder, magnitude: Value, sign: Value) -> Value:
    """|magnitude| with the sign of `sign`"""
    return b.intrinsic("llvm.copysign", magnitude, sign)


def _power_of_two(b: Builder, exponent: Value, form: Format, scalar: Scalar) -> Value:
    return b.reinterpret(b.shift_left(exponent + form.bias, form.mantissa), scalar)


def exponential(b: Builder, x: Value) -> Value:
    """e^x = 2^n * e^r with n = round(x / ln2); 2^n in two factors, so that denormal results are right."""
    scalar = x.type.scalar
    form = FORMATS[scalar.name]
    bounded = b.choose(b.compare("<", x, form.low), b.constant(form.low, x.type), x)
    bounded = b.choose(b.compare(">", bounded, form.high), b.constant(form.high, x.type), bounded)
    magic = 1.5 * 2.0**form.mantissa  # adding it leaves round(x / ln2) in the low bits of the mantissa
    shifted = b.fma(bounded, 1.0 / math.log(2.0), magic)
    count = b.reinterpret(shifted, form.integer) - b.reinterpret(b.constant(magic, x.type), form.integer)
    turns = shifted - magic
    rest = b.fma(turns, -form.ln2_low, b.fma(turns, -form.ln2_high, bounded))
    result = b.fma(rest * rest, polynomial(b, rest, form.exponential), rest) + 1.0
    half = b.shift_right(count, 1)
    return result * _power_of_two(b, half, form, scalar) * _power_of_two(b, count - half, form, scalar)


def logarithm(b: Builder, x: Value) -> Value:
    """ln x = e ln2 + ln(1 + f) with x = 2^e (1 + f) and sqrt(1/2) <= 1 + f < sqrt(2)"""
    scalar = x.type.scalar
    form = FORMATS[scalar.name]
    tiny = b.compare("<", x, 2.0 ** (1 - form.bias))
    normal = b.choose(tiny, x * 2.0**form.mantissa, x)
    bits = b.reinterpret(normal, form.integer)
    start = b.reinterpret(b.constant(math.sqrt(0.5), x.type), form.integer)
    exponent = b.shift_right(bits - start, form.mantissa)
    fraction = b.reinterpret(bits - b.shift_left(exponent, form.mantissa), scalar) - 1.0
    count = b.cast(exponent, scalar) - b.choose(tiny, b.constant(form.mantissa, x.type), 0.0)
    tail = _logarithm_tail_32(b, fraction) if scalar == F32 else _logarithm_tail_64(b, fraction)
    result = b.fma(count, form.ln2_high, b.fma(count, form.ln2_low, tail) + fraction)
    result = b.choose(b.compare("<", x, math.inf), result, x)
    result = b.choose(b.compare(">", x, 0.0), result, b.constant(-math.inf, x.type))
    return b.choose(b.either(b.compare("<", x, 0.0), b.unordered(x)), b.constant(math.nan, x.type), result)


def exponential_minus_one(b: Builder, x: Value) -> Value:
    """e^x - 1 = x + x^2 P(x) near 0, where the difference would cancel"""
    near = b.fma(x * x, polynomial(b, x, FORMATS[x.type.scalar.name].exponential), x)
    far = exponential(b, x) - 1.0
    return b.choose(b.compare("<", absolute(b, x), 0.5 * math.log(2.0)), near, far)


def logarithm_plus_one(b: Builder, x: Value) -> Value:
    """ln(1 + x) = ln w + (x - (w - 1)) / w with w = 1 + x as rounded; the second term is what rounding lost"""
    w = x + 1.0
    kept = w - 1.0
    plain = logarithm(b, w)
    return b.choose(b.compare("==", kept, x), plain, plain + (x - kept) / w)


def softplus(b: Builder, x: Value) -> Value:
    """ln(1 + e^x) = max(x, 0) + ln(1 + e^-|x|)"""
    power = exponential(b, b.negative(absolute(b, x)))
    return b.maximum(x, 0.0) + logarithm_plus_one(b, power)


def _logarithm_tail_32(b: Builder, f: Value) -> Value:
    """ln(1 + f) - f"""
    square = f * f
    return b.fma(square * f, polynomial(b, f, LOGARITHM_32), square * -0.5)


def _logarithm_tail_64(b: Builder, f: Value) -> Value:
    """ln(1 + f) - f = s (f^2 / 2 + R) - f^2 / 2 with s = f / (2 + f), R = s^2 P(s^2)"""
    s = f / (f + 2.0)
    half_square = f * f * 0.5
    z = s * s
    return b.fma(s, b.fma(z, polynomial(b, z, LOGARITHM_64), half_square), b.negative(half_square))


def tanh(b: Builder, x: Value) -> Value:
    """tanh x = x + x^3 P(x^2) near 0, 1 - 2 / (e^2|x| + 1) with the sign of x elsewhere"""
    if x.type.scalar != F32:
        return library(b, "tanh", x)
    size = absolute(b, x)
    square = x * x
    near = b.fma(x * square, polynomial(b, square, TANH_32), x)
    far = 1.0 - b.constant(2.0, x.type) / (exponential(b, size * 2.0) + 1.0)
    return b.choose(b.compare("<", size, 0.625), near, copy_sign(b, far, x))


def sigmoid(b: Builder, x: Value) -> Value:
    """1 / (1 + e^-x) = (1 or e^-|x|) / (1 + e^-|x|): the exponential never overflows"""
    power = exponential(b, b.negative(absolute(b, x)))
    above = b.choose(b.compare("<", x, 0.0), power, 1.0)
    return above / (power + 1.0)


def erf(b: Builder, x: Value) -> Value:
    """erf x = x P(x^2) for |x| < 1, 1 - e^-Q(|x|) with the sign of x elsewhere"""
    if x.type.scalar != F32:
        return library(b, "erf", x)
    size = absolute(b, x)
    near = b.fma(x, polynomial(b, x * x, (ERF_32[0] - 1.0, *ERF_32[1:])), x)
    bounded = b.choose(b.compare(">", size, 4.0), b.constant(4.0, x.type), size)
    far = 1.0 - exponential(b, b.negative(polynomial(b, bounded, ERF_TAIL_32)))
    return b.choose(b.compare("<", size, 1.0), near, copy_sign(b, far, x))


def sine(b: Builder, x: Value) -> Value:
    """sin x"""
    return _circular(b, x, "sin", 0)


def cosine(b: Builder, x: Value) -> Value:
    """cos x = sin (x + pi / 2)"""
    return _circular(b, x, "cos", 1)


def _circular(b: Builder, x: Value, name: str, quarter: int) -> Value:
    """By quarter turns where x is small enough in all lanes; else by the C library."""
    if not (x.type.lanes and b.target.fused):
        return library(b, name, x)
    result = b.variable(_by_quarters(b, x, quarter))
    largest = b.fold(absolute(b, x), "maximum")
    # A NaN in one lane must not hide large arguments in others.
    with b.when(b.opposite(b.compare("<=", largest, REDUCED[x.type.scalar.name]))):
        result.set(library(b, name, x))
    return result.get()


def _by_quarters(b: Builder, x: Value, quarter: int) -> Value:
    """sin (r + (n + quarter) pi / 2) with n = round(x / (pi / 2)): the sine or cosine of r, or its negative."""
    scalar = x.type.scalar
    form = FORMATS[scalar.name]
    magic = 1.5 * 2.0**form.mantissa
    shifted = b.fma(x, 2.0 / math.pi, magic)
    count = b.reinterpret(shifted, form.integer) - b.reinterpret(b.constant(magic, x.type), form.integer) + quarter
    turns = shifted - magic
    rest = x
    for part in HALF_PI[scalar.name]:
        rest = b.fma(turns, -part, rest)
    rest = b.choose(b.compare("==", turns, 0.0), x, rest)  # keeps -0
    square = rest * rest
    sine_of = b.fma(square * rest, polynomial(b, square, SINE[scalar.name]), rest)
    halved = b.fma(square, -0.5, 1.0)
    lost = b.fma(square, -0.5, 1.0 - halved)  # what rounding 1 - r^2 / 2 lost
    cosine_of = halved + b.fma(square * square, polynomial(b, square, COSINE[scalar.name]), lost)
    one = b.constant(1, count.type)
    odd = b.compare("==", b.both(count, one), one)
    value = b.choose(odd, cosine_of, sine_of)
    return b.choose(b.compare("==", b.both(count, one + 1), 0), value, b.negative(value))


def square_root(b: Builder, x: Value) -> Value:
    """sqrt(x), correctly rounded"""
    return b.intrinsic("llvm.sqrt", x)


def reciprocal_square_root(b: Builder, x: Value) -> Value:
    """1 / sqrt(x)"""
    return b.constant(1.0, x.type) / square_root(b, x)


def library(b: Builder, name: str, *operands: Value) -> Value:
    """The C library's function of one or two operands, lane by lane; f32 goes through the f32 variant."""
    kind = operands[0].type
    scalar = kind.scalar
    assert scalar in (F32, F64), scalar
    symbol = name + ("f" if scalar == F32 else "")
    b.module.declare(symbol, scalar.register, [scalar.register] * len(operands))
    if not kind.lanes:
        return _call(b, symbol, operands)
    result = b.zero(kind)
    for lane in range(kind.lanes):
        result = b.insert(result, _call(b, symbol, [b.extract(operand, lane) for operand in operands]), lane)
    return result


def _call(b: Builder, symbol: str, operands: Sequence[Value]) -> Value:
    scalar = operands[0].type.scalar
    body = ", ".join(f"{scalar.register} {operand.text}" for operand in operands)
    return b.emit(Type(scalar), f"call {scalar.register} @{symbol}({body})")
