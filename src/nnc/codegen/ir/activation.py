"""Activations that are a product with a distribution function: swish, gelu and its usual approximation, on vectors.

gelu of f32 is computed in f64: its left tail is a product of small numbers, each of which would round, and its results
are accurate to 1 ulp. For z = |x| up to Z_MOST, behind which results are 0 or x,

    Φ(-z) = e^(-z²/2) · P(t) / (z + CENTER),    t = (z - CENTER) / (z + CENTER) = 1 - 2 CENTER / (z + CENTER)
"""

from __future__ import annotations

import math

from nnc.codegen.ir.builder import F32, F64, Builder, Value
from nnc.codegen.ir.mathematics import absolute, copy_sign, library, polynomial, reduce, sigmoid
from nnc.ops.elementwise.pointwise import BEND, GATE

CENTER, Z_MOST = 3.0, 15.0
# Within 9.4e-10 of ½ erfcx(z / √2) · (z + CENTER), in t: a fit by weighted least squares at Chebyshev's points.
TAIL = (
    0.7290836903757313,
    -0.5093319914100296,
    0.23001769941876188,
    -0.047262687999337916,
    -0.010462512893063637,
    0.006969311331084486,
    0.0010247540232716235,
    -0.0010325737410285577,
    -0.00024473015062102517,
    0.0001313303726601763,
    5.4489185177834424e-05,
)
# e^r = sum r^k / k! for |r| <= ln 2 / 2, within 5.3e-9.
POWERS = tuple(1.0 / math.factorial(k) for k in range(8))


def swish(b: Builder, x: Value) -> Value:
    """x · sigmoid(x)"""
    return x * sigmoid(b, x)


def gelu_tanh(b: Builder, x: Value) -> Value:
    """x · sigmoid(GATE · x · (1 + BEND · x²))"""
    return x * sigmoid(b, x * b.fma(x * x, GATE * BEND, GATE))


def gelu(b: Builder, x: Value) -> Value:
    """x · Φ(x) = max(x, 0) - |x| · Φ(-|x|)"""
    if x.type.scalar != F32:
        return x * library(b, "erfc", x * -math.sqrt(0.5)) * 0.5
    wide = b.cast(x, F64)
    z = _bounded(b, wide)
    # x + |x| is NaN for -∞, as 0 · ∞ is, and loses the sign of -0. Behind Z_MOST the tail is nothing in f32.
    result = b.fma(wide + absolute(b, wide), 0.5, b.negative(z * _tail(b, z, _bounded(b, x))))
    return copy_sign(b, b.cast(result, F32), x)


def erfc(b: Builder, x: Value) -> Value:
    """2 · Φ(-√2 · x)"""
    if x.type.scalar != F32:
        return library(b, "erfc", x)
    return b.cast(_distribution(b, b.cast(x, F64) * -math.sqrt(2.0)) * 2.0, F32)


def _distribution(b: Builder, x: Value) -> Value:
    """Φ(x) of f64, as accurate as f32 can hold"""
    z, far = _bounded(b, x), b.compare(">", absolute(b, x), Z_MOST)
    tail = b.choose(far, b.zero(x.type), _tail(b, z, b.cast(z, F32)))
    return b.choose(b.compare("<", x, 0.0), tail, 1.0 - tail)


def _bounded(b: Builder, x: Value) -> Value:
    """min(|x|, Z_MOST); NaN stays"""
    size = absolute(b, x)
    return b.choose(b.compare(">", size, Z_MOST), b.constant(Z_MOST, x.type), size)


def _tail(b: Builder, z: Value, rounded: Value) -> Value:
    """Φ(-z) of f64, with z in f32 besides

    1 / (z + CENTER) is the quotient in f32 and one step of Newton's method: relative error 2^-46.
    """
    first = b.cast(b.constant(1.0, rounded.type) / (rounded + CENTER), F64)
    inverse = b.fma(first, b.fma(b.negative(z + CENTER), first, 1.0), first)
    return polynomial(b, b.fma(inverse, -2.0 * CENTER, 1.0), TAIL) * inverse * _bell(b, z)


def _bell(b: Builder, z: Value) -> Value:
    """e^(-z²/2) = 2^n · e^r in f64, within 6e-9, for z²/2 far from where f64 underflows"""
    power, rest = reduce(b, z * z * -0.5)
    return polynomial(b, rest, POWERS) * power
