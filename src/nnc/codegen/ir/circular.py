"""Sine, cosine and tangent on vectors: y[i] = f(x[i]), by quarter turns x = n π/2 + r with |r| <= π/4.

Arguments beyond `REDUCED` in some lane, and targets without fused multiply-adds, go to the C library lane by lane.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from nnc.codegen.ir.builder import F32, Builder, Value
from nnc.codegen.ir.mathematics import FORMATS, absolute, library, polynomial

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
# (tan(r) - r) / r^3 in r^2 for |r| <= pi / 4: within 1.5e-9 of tan r (least squares, weighted to the largest error).
TANGENT_32 = (
    0.3333335220813751,
    0.13332583010196686,
    0.05406865105032921,
    0.02123861014842987,
    0.010945543646812439,
    -4.618663660949096e-05,
    0.004441828932613134,
)
# pi / 2 as a sum, each part rounded to the format; and the largest argument that they reduce without loss.
HALF_PI = {
    "f32": (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15),
    "f64": (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33),
}
REDUCED = {"f32": 8192.0, "f64": 2.0**20}


def sine(b: Builder, x: Value) -> Value:
    """sin x"""
    # sin -0 is -0.
    return _circular(b, x, "sin", lambda: b.choose(b.compare("==", x, 0.0), x, _wave(b, x, 0)))


def cosine(b: Builder, x: Value) -> Value:
    """cos x = sin (x + π/2)"""
    return _circular(b, x, "cos", lambda: _wave(b, x, 1))


def tangent(b: Builder, x: Value) -> Value:
    """tan x"""
    slope = _slope_32 if x.type.scalar == F32 else _slope_64
    return _circular(b, x, "tan", lambda: b.choose(b.compare("==", x, 0.0), x, slope(b, x)))


def _circular(b: Builder, x: Value, name: str, near: Callable[[], Value]) -> Value:
    """`near` where x is small enough in all lanes; else the C library."""
    if not (x.type.lanes and b.target.fused):
        return library(b, name, x)
    result = b.variable(near())
    largest = b.fold(absolute(b, x), "maximum")
    # A NaN in one lane must not hide large arguments in others.
    with b.when(b.opposite(b.compare("<=", largest, REDUCED[x.type.scalar.name]))):
        result.set(library(b, name, x))
    return result.get()


def _quarters(b: Builder, x: Value, first: int) -> tuple[Value, Value]:
    """round(x / (π/2)) as a number, and as an integer that `first` is added to"""
    form = FORMATS[x.type.scalar.name]
    magic = 1.5 * 2.0**form.mantissa
    shifted = b.fma(x, 2.0 / math.pi, magic)
    return shifted - magic, b.reinterpret(shifted, form.integer) - b.reinterpret(
        b.constant(magic, x.type), form.integer
    ) + first


def _is_odd(b: Builder, count: Value) -> Value:
    unit = b.constant(1, count.type)
    return b.compare("==", b.both(count, unit), unit)


def _wave(b: Builder, x: Value, first: int) -> Value:
    """sin (r + (n + first) π/2): the sine or cosine of r, or its negative"""
    turns, count = _quarters(b, x, first)
    sine_of, cosine_of = _sine_and_cosine(b, x, turns)
    value = b.choose(_is_odd(b, count), cosine_of, sine_of)
    return b.choose(b.compare("==", b.both(count, b.constant(2, count.type)), 0), value, b.negative(value))


def _sine_and_cosine(b: Builder, x: Value, turns: Value) -> tuple[Value, Value]:
    """sin r and cos r"""
    name = x.type.scalar.name
    rest = x
    for part in HALF_PI[name]:
        rest = b.fma(turns, -part, rest)
    square = rest * rest
    sine_of = b.fma(square * rest, polynomial(b, square, SINE[name]), rest)
    halved = b.fma(square, -0.5, 1.0)
    lost = b.fma(square, -0.5, 1.0 - halved)  # what rounding 1 - r² / 2 lost
    return sine_of, halved + b.fma(square * square, polynomial(b, square, COSINE[name]), lost)


def _slope_64(b: Builder, x: Value) -> Value:
    """sin r / cos r, or -cos r / sin r where n is odd"""
    turns, count = _quarters(b, x, 0)
    sine_of, cosine_of = _sine_and_cosine(b, x, turns)
    odd = _is_odd(b, count)
    return b.choose(odd, b.negative(cosine_of), sine_of) / b.choose(odd, sine_of, cosine_of)


def _slope_32(b: Builder, x: Value) -> Value:
    """tan r = r + r³ P(r²), or -1 / tan r where n is odd, both of r and tan r with what rounding them lost"""
    turns, count = _quarters(b, x, 0)
    first, second, third = HALF_PI["f32"]
    whole = b.fma(turns, -first, x)
    part = turns * second
    rest = whole - part
    lost = ((whole - rest) - part) - b.fma(turns, third, b.fma(turns, second, b.negative(part)))
    square = rest * rest
    tail = b.fma(rest * square, polynomial(b, square, TANGENT_32), b.fma(lost, square, lost))
    tangent_of = rest + tail
    tail = (rest - tangent_of) + tail
    inverse = b.constant(-1.0, x.type) / tangent_of
    short = b.fma(inverse, tail, b.fma(inverse, tangent_of, 1.0))
    return b.choose(_is_odd(b, count), b.fma(inverse, short, inverse), tangent_of)
