"""Sine, cosine and tangent of any number, and arcs, of f64: x = n π/2 + r with |r| <= π/4, exactly enough for all x.

Large arguments are multiplied by those bits of 2/π that decide the quarter and the rest (Payne and Hanek): of the
product m · P modulo 2^192, where x = m 2^e and P are 192 bits of 2/π from bit e on, two bits are the quarter.
"""

from __future__ import annotations

import math
from functools import lru_cache

from nnc.codegen.ir.builder import F64, I64, INDEX, Builder, Value
from nnc.codegen.ir.circular import COSINE, HALF_PI, REDUCED, SINE
from nnc.codegen.ir.mathematics import absolute, copy_sign, polynomial, square_root

# Bits of 2/π behind 64 zeros that arguments up to the largest reach, in words.
WORDS, WORD = 22, 64
# The bias of an exponent and the bits of a mantissa, which is an integer here; where the bits of 2/π begin for e = 0.
BIAS, MANTISSA, FIRST_BIT = 1023, 52, 62
# π/2 in parts whose products with 20 bits are exact, for processors that round them (fdlibm, Sun Microsystems, 1993).
HALF_PI_IN_33_BITS = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487111665e-21, 8.4784276603689e-32)
# (arctan(t) / t - 1) / t² in t² for |t| <= 7/16, and arctan of what larger arguments are turned by (fdlibm, Sun
# Microsystems, 1993).
ARC = (
    -0.33333333333333331, 0.19999999999876483, -0.14285714272503466, 0.11111110405462356, -0.09090887133436507,
    0.0769187620504483, -0.06661073137387531, 0.058335701337905735, -0.049768779946159324, 0.036531572744216916,
    -0.016285820115365782,
)  # fmt: skip
TURNS = (
    (0.4636476090008061, 2.2698777452961687e-17),
    (0.7853981633974483, 3.061616997868383e-17),
    (0.982793723247329, 1.3903311031230998e-17),
    (1.5707963267948966, 6.123233995736766e-17),
)
ARC_BOUNDS = (7 / 16, 11 / 16, 19 / 16, 39 / 16)


def sine(b: Builder, x: Value) -> Value:
    """sin x"""
    return b.choose(b.compare("==", x, 0.0), x, _wave(b, x, 0))


def cosine(b: Builder, x: Value) -> Value:
    """cos x = sin (x + π/2)"""
    return _wave(b, x, 1)


def tangent(b: Builder, x: Value) -> Value:
    """sin r / cos r, or -cos r / sin r where n is odd"""
    quarter, rest = _reduced(b, x)
    sine_of, cosine_of = _sine_and_cosine(b, rest)
    odd = b.compare("==", b.both(quarter, b.constant(1)), 1)
    slope = b.choose(odd, b.negative(cosine_of), sine_of) / b.choose(odd, sine_of, cosine_of)
    return b.choose(b.compare("==", x, 0.0), x, slope)


def _wave(b: Builder, x: Value, first: int) -> Value:
    quarter, rest = _reduced(b, x)
    count = quarter + first
    sine_of, cosine_of = _sine_and_cosine(b, rest)
    value = b.choose(b.compare("==", b.both(count, b.constant(1)), 1), cosine_of, sine_of)
    return b.choose(b.compare("==", b.both(count, b.constant(2)), 0), value, b.negative(value))


def _sine_and_cosine(b: Builder, rest: Value) -> tuple[Value, Value]:
    square = rest * rest
    sine_of = b.fma(square * rest, polynomial(b, square, SINE["f64"]), rest)
    halved = b.fma(square, -0.5, 1.0)
    lost = b.fma(square, -0.5, 1.0 - halved)
    return sine_of, halved + b.fma(square * square, polynomial(b, square, COSINE["f64"]), lost)


def _reduced(b: Builder, x: Value) -> tuple[Value, Value]:
    """n modulo 4 in the low bits of an integer, and r; NaN of what is no number or infinite."""
    magic = 1.5 * 2.0**MANTISSA
    shifted = b.fma(x, 2.0 / math.pi, magic)
    turns, near = shifted - magic, x
    for part in HALF_PI["f64"] if b.target.fused else HALF_PI_IN_33_BITS:
        near = b.fma(turns, -part, near)
    quarter, rest = b.variable(b.reinterpret(shifted, I64)), b.variable(near)
    with b.when(b.compare(">", absolute(b, x), REDUCED["f64"])):
        count, far = _far(b, x)
        quarter.set(count)
        rest.set(b.choose(b.compare("<", absolute(b, x), math.inf), far, x - x))
    return quarter.get(), rest.get()


@lru_cache(maxsize=1)
def two_over_pi() -> tuple[int, ...]:
    """64 zeros and the bits of 2/π, in words from the highest on, by π = 16 arctan 1/5 - 4 arctan 1/239."""
    bits = WORDS * WORD

    def arc(inverse: int) -> int:
        power, total, number, sign = (1 << bits + 64) // inverse, 0, 1, 1
        while power:
            total += sign * power // number
            power, number, sign = power // (inverse * inverse), number + 2, -sign
        return total

    pi = 16 * arc(5) - 4 * arc(239)
    number = (2 << 2 * bits + 64 - WORD) // pi
    words = [number >> WORD * (WORDS - 1 - place) & ((1 << WORD) - 1) for place in range(WORDS)]
    return tuple(word - (word >> 63 << 64) for word in words)


def _far(b: Builder, x: Value) -> tuple[Value, Value]:
    """The quarter and the rest of a number beyond 2^20."""
    bits = b.reinterpret(x, I64)
    exponent = b.both(b.emit(INDEX, f"lshr i64 {bits.text}, {MANTISSA}"), b.constant(2047))
    # Of what is infinite, bits that are there: the result does not count.
    exponent = b.least(exponent, 2 * BIAS)
    mantissa = b.either(b.both(bits, b.constant((1 << MANTISSA) - 1)), b.constant(1 << MANTISSA))
    first = exponent + (FIRST_BIT - BIAS - MANTISSA)
    table, word = b.places("two_over_pi", two_over_pi()), first // WORD
    shift = first % WORD
    parts = [b.load(table, word + place, INDEX) for place in range(4)]
    high, middle, low = (_joined(b, parts[place], parts[place + 1], shift) for place in range(3))
    # The low 192 bits of mantissa · (high, middle, low).
    carried, bottom = _product(b, mantissa, low)
    upper, lower = _product(b, mantissa, middle)
    centre = lower + carried
    overflow = b.choose(_below(b, centre, lower), b.constant(1), 0)
    top = mantissa * high + upper + overflow
    fraction = b.either(b.shift_left(top, 2), b.emit(INDEX, f"lshr i64 {centre.text}, 62"))
    behind = b.either(b.shift_left(centre, 2), b.emit(INDEX, f"lshr i64 {bottom.text}, 62"))
    quarter = b.emit(INDEX, f"lshr i64 {top.text}, 62")
    # From half a quarter on it is the next one, less the rest.
    turned = b.compare("<", fraction, 0)
    quarter = quarter + b.choose(turned, b.constant(1), 0)
    ones = b.constant(-1)
    fraction = b.choose(turned, b.exclusive(fraction, ones), fraction)
    behind = b.choose(turned, b.exclusive(behind, ones), behind)
    rest = _quarter_of(b, fraction, behind)
    rest = b.choose(turned, b.negative(rest), rest)
    negative = b.compare("<", bits, 0)
    zero = b.constant(0)
    return b.choose(negative, zero - quarter, quarter), b.choose(negative, b.negative(rest), rest)


def _joined(b: Builder, word: Value, following: Value, shift: Value) -> Value:
    """64 bits from bit `shift` of a word on."""
    left = b.emit(INDEX, f"shl i64 {word.text}, {shift.text}")
    half = b.emit(INDEX, f"lshr i64 {following.text}, 1")
    back = (WORD - 1) - shift
    return b.either(left, b.emit(INDEX, f"lshr i64 {half.text}, {back.text}"))


def _product(b: Builder, left: Value, right: Value) -> tuple[Value, Value]:
    """The high and the low word of left · right."""
    wide = [b.emit(INDEX, f"zext i64 {each.text} to i128") for each in (left, right)]
    product = b.emit(INDEX, f"mul i128 {wide[0].text}, {wide[1].text}")
    shifted = b.emit(INDEX, f"lshr i128 {product.text}, 64")
    high, low = (b.emit(INDEX, f"trunc i128 {each.text} to i64") for each in (shifted, product))
    return high, low


def _below(b: Builder, left: Value, right: Value) -> Value:
    """left < right of numbers without sign"""
    flipped = [b.exclusive(each, b.constant(-(1 << 63))) for each in (left, right)]
    return b.compare("<", *flipped)


def _quarter_of(b: Builder, fraction: Value, behind: Value) -> Value:
    """π/2 · (fraction 2^-64 + behind 2^-128), of fractions below 1/2."""
    upper = b.emit(INDEX, f"lshr i64 {fraction.text}, 32")
    lower = b.both(fraction, b.constant((1 << 32) - 1))
    tail = b.emit(INDEX, f"lshr i64 {behind.text}, 32")
    high = b.cast(upper, F64) * 2.0**-32
    low = b.fma(b.cast(tail, F64), 2.0**-96, b.cast(lower, F64) * 2.0**-64)
    total = high + low
    lost = low - (total - high)
    first, second, _ = HALF_PI["f64"]
    product = total * first
    error = b.fma(total, first, b.negative(product))
    return product + (error + b.fma(total, second, lost * first))


def arc_tangent(b: Builder, x: Value) -> Value:
    """arctan x = arctan c + arctan (x - c) / (1 + c x), with c of 1/2, 1, 3/2 and infinity"""
    size = absolute(b, x)
    unit = b.constant(1.0, x.type)
    top, bottom, high, low = size, unit, b.zero(x.type), b.zero(x.type)
    turned = (
        (b.fma(size, 2.0, -1.0), size + 2.0),
        (size - 1.0, size + 1.0),
        (size - 1.5, b.fma(size, 1.5, 1.0)),
        (b.negative(unit), size),
    )
    for bound, (above, below), (angle_of, rest) in zip(ARC_BOUNDS, turned, TURNS, strict=True):
        beyond = b.compare(">=", size, bound)
        top, bottom = b.choose(beyond, above, top), b.choose(beyond, below, bottom)
        high = b.choose(beyond, b.constant(angle_of, x.type), high)
        low = b.choose(beyond, b.constant(rest, x.type), low)
    part = top / bottom
    square = part * part
    series = part * square * polynomial(b, square, ARC)
    return copy_sign(b, high + (part + (series + low)), x)


def angle(b: Builder, y: Value, x: Value) -> Value:
    """The angle of (x, y)"""
    up, along = absolute(b, y), absolute(b, x)
    steep = b.compare(">", up, along)
    low, high = b.choose(steep, along, up), b.choose(steep, up, along)
    same = b.choose(b.compare("==", high, 0.0), b.zero(x.type), 1.0)
    ratio = b.choose(b.compare("==", low, high), same, low / high)
    ratio = b.choose(b.either(b.unordered(x), b.unordered(y)), x + y, ratio)
    part = arc_tangent(b, ratio)
    part = b.choose(steep, _less(b, 1, part), part)
    behind = b.compare("<", copy_sign(b, b.constant(1.0, x.type), x), 0.0)
    return copy_sign(b, b.choose(behind, _less(b, 2, part), part), y)


def _less(b: Builder, quarters: int, part: Value) -> Value:
    """quarters π/2 - part"""
    first, second, _ = HALF_PI["f64"]
    return quarters * first - (part - quarters * second)


def arc_sine(b: Builder, x: Value) -> Value:
    """The angle of (√((1 - x) (1 + x)), x)"""
    return b.choose(b.compare("==", x, 0.0), x, angle(b, x, square_root(b, (1.0 - x) * (x + 1.0))))


def arc_cosine(b: Builder, x: Value) -> Value:
    """Twice the angle of (√(1 + x), √(1 - x))"""
    return angle(b, square_root(b, 1.0 - x), square_root(b, x + 1.0)) * 2.0
