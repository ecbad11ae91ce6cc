"""Activations that are a product with a distribution function: swish, gelu and its usual approximation, on vectors.

gelu of f32 is computed in f64: its left tail is a product of small numbers, each of which would round, and its results
are accurate to 1 ulp. For z = |x| up to Z_MOST, behind which results are 0 or x,

    Φ(-z) = e^(-z²/2) · P(t) / (z + CENTER),    t = (z - CENTER) / (z + CENTER)
"""

from __future__ import annotations

import math

from nnc.backends.llvm.ir.builder import F32, F64, Builder, Value
from nnc.backends.llvm.ir.mathematics import absolute, library, polynomial, reduce, sigmoid
from nnc.ops.pointwise import BEND, GATE

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
    """x · Φ(x)"""
    if x.type.scalar != F32:
        return x * library(b, "erfc", x * -math.sqrt(0.5)) * 0.5
    wide = b.cast(x, F64)
    return b.cast(wide * _distribution(b, wide), F32)


def erfc(b: Builder, x: Value) -> Value:
    """2 · Φ(-√2 · x)"""
    if x.type.scalar != F32:
        return library(b, "erfc", x)
    return b.cast(_distribution(b, b.cast(x, F64) * -math.sqrt(2.0)) * 2.0, F32)


def _distribution(b: Builder, x: Value) -> Value:
    """Φ(x) of f64, as accurate as f32 can hold"""
    size = absolute(b, x)
    far = b.compare(">", size, Z_MOST)
    z = b.choose(far, b.constant(Z_MOST, x.type), size)
    inverse = _reciprocal(b, z + CENTER)
    tail = polynomial(b, (z - CENTER) * inverse, TAIL) * inverse * _bell(b, z)
    tail = b.choose(far, b.zero(x.type), tail)
    return b.choose(b.compare("<", x, 0.0), tail, 1.0 - tail)


def _reciprocal(b: Builder, x: Value) -> Value:
    """1 / x of f64 in the range of f32: the quotient in f32, and one step of Newton's method; relative error 2^-46"""
    first = b.cast(b.constant(1.0, x.type.of(F32)) / b.cast(x, F32), F64)
    return b.fma(first, b.fma(b.negative(x), first, 1.0), first)


def _bell(b: Builder, z: Value) -> Value:
    """e^(-z²/2) = 2^n · e^r in f64, within 6e-9, for z²/2 far from where f64 underflows"""
    power, rest = reduce(b, z * z * -0.5)
    return polynomial(b, rest, POWERS) * power
