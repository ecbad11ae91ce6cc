"""Activations that are a product with a distribution function: swish, gelu and its usual approximation, on vectors.

gelu of f32 is computed in f64: its left tail is a product of small numbers, each of which would round, and its results
are accurate to 1 ulp; on devices in f32, with an error of the tail that is one of 1. For z = |x| up to Z_MOST, behind
which results are 0 or x,

    Φ(-z) = e^(-z²/2) · P(t) / (z + CENTER),    t = (z - CENTER) / (z + CENTER) = 1 - 2 CENTER / (z + CENTER)
"""

from __future__ import annotations

import math

from nnc.codegen.ir.builder import F32, F64, Builder, Value
from nnc.codegen.ir.mathematics import (
    FORMATS,
    GATES,
    absolute,
    at_most,
    copy_sign,
    erf,
    gated,
    library,
    polynomial,
    reduce,
    turned_growth,
)
from nnc.ops.elementwise.forward import BEND, GATE

CENTER, Z_MOST = 3.0, 15.0
# As of a gate, for the x of gelu_tanh; x from OPEN_WIDE on are results.
OPEN, SHUT, BEHIND, OPEN_WIDE = 6.0, -10.915, -10.946, 2.0**64
# -GATE / ln2 and -GATE · BEND / ln2, each as a sum of two numbers of f32.
GATE_BINARY = (-2.302208185195923, -1.2948402350332344e-08)
BEND_BINARY = (-0.10294324159622192, 2.0161984304323255e-09)
# (2^f - 1) / f for |f| <= 1/2: within 3.1e-9 of what it leaves of 2^f.
BINARY_GROWTH = (
    0.6931471824645996,
    0.24022650718688965,
    0.05550359562039375,
    0.009618062525987625,
    0.0013390984386205673,
    0.00015462879673577845,
)
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
    return _gated(b, x, x)


def gelu_tanh(b: Builder, x: Value) -> Value:
    """x · sigmoid(u) with u = GATE · x · (1 + BEND · x²)"""
    if x.type.scalar != F32:
        return _gated(b, x, x * b.fma(x * x, GATE * BEND, GATE))
    inside = b.choose(b.compare("<", x, SHUT), b.constant(BEHIND, x.type), x)
    shifted, rest = _binary_gate(b, at_most(b, inside, OPEN))
    return _gate_or_identity(b, x, shifted, rest * polynomial(b, rest, BINARY_GROWTH))


def _gated(b: Builder, x: Value, by: Value) -> Value:
    """x · sigmoid(by)"""
    gate = GATES[x.type.scalar.name]
    inside = b.choose(b.compare("<", by, gate.shut), b.constant(gate.behind, x.type), by)
    return _gate_or_identity(b, x, *turned_growth(b, inside))


def _gate_or_identity(b: Builder, x: Value, shifted: Value, growth: Value) -> Value:
    """x through a gate; large ones go by it"""
    return b.choose(b.compare(">", x, OPEN_WIDE), x, gated(b, x, shifted, growth))


def _binary_gate(b: Builder, x: Value) -> tuple[Value, Value]:
    """n as `gate_divisor` takes it, and f, with n + f = -u / ln2 of gelu_tanh and |f| <= 1/2, in twice the digits

    An error of u is one of e^u as often as u is large: 162 ulp of the result, where that is 1e-35.
    """
    magic = 1.5 * 2.0**23 + FORMATS["f32"].bias - GATES["f32"].scale
    if not b.target.fused:
        wide = b.cast(x, F64)
        gate = wide * (wide * wide * sum(BEND_BINARY) + sum(GATE_BINARY))
        shifted = b.cast(gate, F32) + magic
        return shifted, b.cast(gate - b.cast(shifted - magic, F64), F32)
    (slope, slope_lost), (bend, bend_lost) = GATE_BINARY, BEND_BINARY
    square = x * x
    square_lost = b.fma(x, x, b.negative(square))
    factor = b.fma(square, bend, slope)
    above = factor - slope
    lost = b.fma(square, bend, b.negative(above)) + (slope - (factor - above))
    lost = b.fma(square_lost, bend, b.fma(square, bend_lost, slope_lost)) + lost
    turned = x * factor
    turned_lost = b.fma(x, lost, b.fma(x, factor, b.negative(turned)))
    shifted = turned + magic
    return shifted, (turned - (shifted - magic)) + turned_lost


def gelu(b: Builder, x: Value) -> Value:
    """x · Φ(x) = max(x, 0) - |x| · Φ(-|x|)"""
    if x.type.scalar != F32:
        return x * library(b, "erfc", x * -math.sqrt(0.5)) * 0.5
    if b.target.threads:
        # Most devices have few units for f64.
        return x * 0.5 * (erf(b, x * math.sqrt(0.5)) + 1.0)
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
