"""Elementary functions on vectors: y[i] = f(x[i]), accurate to 2 ulp in f32 and a few in f64.

Each function reduces its argument to a short interval and evaluates a polynomial there. The coefficients are our
own: interpolation at Chebyshev nodes in extended precision, with the relative error of the fit beside each table.
Infinities, NaN and denormal numbers come out as IEEE 754 and NumPy have them. What has no polynomial here (power,
tanh and erf in f64, sin and cos of large arguments) calls the C library lane by lane.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from nnc.classes import dataclass
from nnc.codegen.ir.builder import F32, F64, I32, I64, Builder, Number, Scalar, Value


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


@dataclass(frozen=True, slots=True)
class Gate:
    """Where 1 / (1 + e^-x) is as good as open, and where not even its product with x is a number: x < shut.

    2^-scale of the divisor is normal where it counts. `behind` stands for what is shut: 2^n of it, times 2^-scale, is
    infinite, and what is left of its turns is positive, so that 0 · y comes out.
    """

    scale: int
    open: float
    shut: float
    behind: float


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
# (e^r - 1 - r) / r^2 for -0.187 <= r <= 0.516; what it leaves of e^r - 1 is within 1.6e-8 of it.
TANH_32 = (0.5000000596046448, 0.16666826605796814, 0.041659727692604065, 0.008292512968182564, 0.0015904062893241644)
TANH_LEAN = 0.24
# -ln(1 - erf(x)) / x - 1 for 0 < x <= 4; what it leaves of erf is within 4.3e-9 of it.
ERF_32 = (
    0.12837916612625122,
    0.6366195678710938,
    0.10277630388736725,
    -0.019147824496030807,
    -0.00016949338896665722,
    0.001675654319114983,
    -0.0006373433279804885,
    0.00011885294952662662,
    -9.386663805344142e-06,
)

FORMATS = {
    "f32": Format(I32, 23, 127, -104.0, 89.0, 0.693359375, -2.12194440054690583e-4, EXPONENTIAL_32),
    "f64": Format(I64, 52, 1023, -746.0, 710.0, 0.693147180369123816490, 1.90821492927058770002e-10, EXPONENTIAL_64),
}

GATES = {"f32": Gate(32, 60.0, -109.8, -111.0), "f64": Gate(64, 400.0, -753.0, -754.25)}


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


def turns_of(b: Builder, x: Value, form: Format, offset: int, ln2: Sequence[float]) -> tuple[Value, Value, Value]:
    """n + offset in the low bits of a mantissa, n, and x - n ln2, with n = round(x / ln2); `ln2` is a sum."""
    magic = 1.5 * 2.0**form.mantissa + offset
    shifted = b.fma(x, 1.0 / math.log(2.0), magic)
    turns = shifted - magic
    rest = x
    for part in ln2:
        rest = b.fma(turns, -part, rest)
    return shifted, turns, rest


def power_of_two(b: Builder, biased: Value, form: Format, scalar: Scalar) -> Value:
    """2^n of n + bias in the low bits of an integer"""
    return b.reinterpret(b.shift_left(biased, form.mantissa), scalar)


def _growth(b: Builder, r: Value, form: Format) -> Value:
    """e^r - 1 for |r| <= ln2 / 2"""
    return b.fma(r * r, polynomial(b, r, form.exponential), r)


def exponential(b: Builder, x: Value) -> Value:
    """e^x = 2^n * e^r with n = round(x / ln2), rounded once where the result is denormal"""
    scalar = x.type.scalar
    form = FORMATS[scalar.name]
    bounded = at_most(b, at_least(b, x, form.low), form.high)
    shifted, turns, rest = turns_of(b, bounded, form, 2 * form.bias, (form.ln2_high, form.ln2_low))
    result = _growth(b, rest, form) + 1.0
    if b.scales(x.type):
        return b.scale(result, turns)
    # 2^n itself may be no number, so it is two factors, each with its bias.
    whole = b.reinterpret(shifted, form.integer)
    half = b.shift_right(whole - b.reinterpret(b.constant(1.5 * 2.0**form.mantissa, x.type), form.integer), 1)
    return result * power_of_two(b, half, form, scalar) * power_of_two(b, whole - half, form, scalar)


def decay(b: Builder, x: Value) -> Value:
    """e^x for x <= 0 that is rounded itself, such as a difference: ln2 in one part loses less than x has lost.

    It is 0 where it would be no normal number: with those, each operation of what is made of it takes as long as a
    hundred.
    """
    scalar = x.type.scalar
    form = FORMATS[scalar.name]
    least = (1 - form.bias) * math.log(2.0)
    shifted, turns, rest = turns_of(b, at_least(b, x, least), form, form.bias, (math.log(2.0),))
    near = _growth(b, rest, form) + 1.0
    if b.scales(x.type):
        near = b.scale(near, turns)
    else:
        near = near * power_of_two(b, b.reinterpret(shifted, form.integer), form, scalar)
    return b.choose(b.compare("<", x, least), b.constant(0.0, x.type), near)


def reduce(b: Builder, x: Value) -> tuple[Value, Value]:
    """2^n, a normal number, and r with x = n ln2 + r and |r| <= ln2 / 2; for a large n fewer digits than e^x needs."""
    form = FORMATS[x.type.scalar.name]
    shifted, _, rest = turns_of(b, x, form, form.bias, (math.log(2.0),))
    return power_of_two(b, b.reinterpret(shifted, form.integer), form, x.type.scalar), rest


def _split(b: Builder, x: Value) -> tuple[Value, Value]:
    """2^n and e^r - 1 with x = n ln2 + r; for differences from 1, which need fewer digits of a large n."""
    power, rest = reduce(b, x)
    return power, _growth(b, rest, FORMATS[x.type.scalar.name])


def at_most(b: Builder, x: Value, limit: float) -> Value:
    """min(x, limit); NaN stays"""
    return b.choose(b.compare(">", x, limit), b.constant(limit, x.type), x)


def at_least(b: Builder, x: Value, limit: float) -> Value:
    """max(x, limit); NaN stays"""
    return b.choose(b.compare("<", x, limit), b.constant(limit, x.type), x)


def logarithm(b: Builder, x: Value) -> Value:
    """ln x"""
    form = FORMATS[x.type.scalar.name]
    return logarithm_in(b, x, (form.ln2_high, form.ln2_low))


def logarithm_in(b: Builder, x: Value, doubling: tuple[float, float], scale: float = 1.0) -> Value:
    """log x = e · doubling + ln(1 + f) · scale with x = 2^e (1 + f) and sqrt(1/2) <= 1 + f < sqrt(2)

    `doubling` is the logarithm of 2 in two parts, the first of so few bits that its product with e is exact, and
    `scale` is that of Euler's number.
    """
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
    high, low = doubling
    if scale == 1.0:
        result = b.fma(count, high, b.fma(count, low, tail) + fraction)
    else:
        result = b.fma(count, high, b.fma(count, low, (tail + fraction) * scale))
    result = b.choose(b.compare("<", x, math.inf), result, x)
    result = b.choose(b.compare(">", x, 0.0), result, b.constant(-math.inf, x.type))
    return b.choose(b.either(b.compare("<", x, 0.0), b.unordered(x)), b.constant(math.nan, x.type), result)


def exponential_minus_one(b: Builder, x: Value) -> Value:
    """e^x - 1 = 2^n (e^r - 1) + (2^n - 1) with x = n ln2 + r; where 2^n - 1 would round, e^x - 1 as it is"""
    form = FORMATS[x.type.scalar.name]
    shifted, _, rest = turns_of(b, x, form, form.bias, (form.ln2_high, form.ln2_low))
    power = power_of_two(b, b.reinterpret(shifted, form.integer), form, x.type.scalar)
    near = b.fma(power, _growth(b, rest, form), power - 1.0)
    far = exponential(b, x) - 1.0
    return copy_sign(b, b.choose(b.compare("<", absolute(b, x), 16.0), near, far), x)


def logarithm_plus_one(b: Builder, x: Value) -> Value:
    """ln(1 + x) = ln w + (x - (w - 1)) / w with w = 1 + x as rounded; the second term is what rounding lost"""
    w = x + 1.0
    kept = w - 1.0
    plain = logarithm(b, w)
    return copy_sign(b, b.choose(b.compare("==", kept, x), plain, plain + (x - kept) / w), x)


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
    """tanh |x| = k - k^2 / (h + 1) with h = (e^2|x| - 1) / 2 and k = min(h, 1); from 10 on it rounds to 1

    n = round(2 |x| / ln2 - TANH_LEAN) is 0 up to tanh |x| = 1 / 4, where e^r - 1 loses no digit to 2^n - 1.
    """
    if x.type.scalar != F32:
        return library(b, "tanh", x)
    form = FORMATS[x.type.scalar.name]
    size = at_most(b, absolute(b, x), 10.0)
    magic = 1.5 * 2.0**form.mantissa + form.bias - 1
    shifted = b.fma(size, 2.0 / math.log(2.0), -TANH_LEAN) + magic
    rest = b.fma(shifted - magic, -math.log(2.0), size + size)
    power = power_of_two(b, b.reinterpret(shifted, form.integer), form, x.type.scalar)
    growth = b.fma(rest * rest, polynomial(b, rest, TANH_32), rest)
    half = b.fma(growth, power, power - 0.5)
    kept = at_most(b, half, 1.0)
    return copy_sign(b, kept - b.ratio(kept * kept, half + 1.0), x)


def sigmoid(b: Builder, x: Value) -> Value:
    """1 / (1 + e^-x)"""
    gate = GATES[x.type.scalar.name]
    divisor = gate_divisor(b, *turned_growth(b, at_least(b, x, gate.shut)))
    return b.ratio(b.constant(2.0**-gate.scale, x.type), divisor)


def gated(b: Builder, y: Value, shifted: Value, growth: Value) -> Value:
    """y / (1 + 2^n (1 + g)) of numbers and infinities that are not too large"""
    return b.ratio(y, gate_divisor(b, shifted, growth)) * 2.0 ** -GATES[y.type.scalar.name].scale


def gate_divisor(b: Builder, shifted: Value, growth: Value) -> Value:
    """1 + 2^n (1 + g), times 2^-scale so that it is infinite only for the n of what is shut

    The larger of 1 and 2^n comes last, so that 1 + g is never rounded by itself. `shifted` has n + bias - scale in its
    low bits.
    """
    scalar = growth.type.scalar
    form, gate = FORMATS[scalar.name], GATES[scalar.name]
    power = power_of_two(b, b.reinterpret(shifted, form.integer), form, scalar)
    unit = b.constant(2.0**-gate.scale, growth.type)
    smaller = b.choose(b.compare("<", power, unit), power, unit)
    return b.fma(power, growth, smaller) + b.larger(power, unit)


def turned_growth(b: Builder, x: Value) -> tuple[Value, Value]:
    """n + bias - scale in the low bits of a mantissa, and e^r - 1, with -x = n ln2 + r, for `gate_divisor`"""
    form, gate = FORMATS[x.type.scalar.name], GATES[x.type.scalar.name]
    turned = at_least(b, b.negative(x), -gate.open)
    shifted, _, rest = turns_of(b, turned, form, form.bias - gate.scale, (form.ln2_high, form.ln2_low))
    return shifted, _growth(b, rest, form)


def erf(b: Builder, x: Value) -> Value:
    """erf |x| = 1 - e^y with y = -|x| - |x| P(|x|); from 4 on it rounds to 1"""
    if x.type.scalar != F32:
        return library(b, "erf", x)
    bounded = at_most(b, absolute(b, x), 4.0)
    power, growth = _split(b, b.fma(b.negative(bounded), polynomial(b, bounded, ERF_32), b.negative(bounded)))
    return copy_sign(b, b.fma(b.negative(growth), power, 1.0 - power), x)


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
    # On a device each thread calls for its own lane.
    if not kind.lanes or b.target.threads:
        return _call(b, symbol, operands)
    result = b.zero(kind)
    for lane in range(kind.lanes):
        result = b.insert(result, _call(b, symbol, [b.extract(operand, lane) for operand in operands]), lane)
    return result


def _call(b: Builder, symbol: str, operands: Sequence[Value]) -> Value:
    kind = operands[0].type
    body = ", ".join(f"{kind} {operand.text}" for operand in operands)
    return b.emit(kind, f"call {kind} @{symbol}({body})")
