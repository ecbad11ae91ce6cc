"""Pointwise kernels: y[i…] = f(a[i…], b[i…], …), with NumPy broadcasting.

The makers `unary` and `binary` turn a function of arrays into a kernel; what NumPy has no function for is below.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from nnc.backends.reference.arrays import Array, Inputs, Outputs, ReferenceKernel, Rows, widen, write
from nnc.core.values.dtype import DType
from nnc.ops.elementwise import pointwise as ops
from nnc.ops.elementwise.pointwise import BEND, GATE, AffineAttrs, CastAttrs
from nnc.ops.number import as_float, wrapped
from nnc.ops.rules import NoAttrs


def unary(function: Callable[[Array], Array]) -> ReferenceKernel:
    """The kernel y = function(x)."""

    def kernel(attrs: NoAttrs, inputs: Inputs, outputs: Outputs) -> None:
        write(outputs[0], function(widen(inputs[0])))

    return kernel


def binary(function: Callable[[Array, Array], Array]) -> ReferenceKernel:
    """The kernel y = function(a, b)."""

    def kernel(attrs: NoAttrs, inputs: Inputs, outputs: Outputs) -> None:
        write(outputs[0], function(widen(inputs[0]), widen(inputs[1])))

    return kernel


def by_library(function: Callable[[float], float]) -> Callable[[Array], Array]:
    """A function of the C library on every element."""

    def apply(x: Array) -> Array:
        return np.fromiter(map(function, x.ravel().tolist()), np.float64, x.size).reshape(x.shape)

    return apply


def relu(x: Array) -> Array:
    """y = x where x ≥ 0, so that -0 stays -0, else 0; nan stays nan."""
    return np.where(x < 0, x.dtype.type(0), x)


def sigmoid(x: Array) -> Array:
    """y = 1 / (1 + e^-x); where e^-x overflows, 1 / inf is the right 0."""
    y: Array = np.reciprocal(1 + np.exp(-x))
    return y


def swish(x: Array) -> Array:
    """y = x · sigmoid(x)"""
    y: Array = x * sigmoid(x)
    return y


def gelu(x: Array) -> Array:
    """y = x · ½ erfc(-x / √2), by the C library: for x ≪ 0 the difference 1 + erf(x / √2) would cancel."""
    return x * 0.5 * by_library(math.erfc)(x * -math.sqrt(0.5))


def gelu_tanh(x: Array) -> Array:
    """y = x · sigmoid(GATE · x · (1 + BEND · x²))"""
    y: Array = x * sigmoid(GATE * x * (1 + BEND * np.square(x)))
    return y


def softplus(x: Array) -> Array:
    """y = ln(e^0 + e^x), the larger of the two taken off first."""
    y: Array = np.logaddexp(x.dtype.type(0), x)
    return y


def is_nan(x: Array) -> Array:
    """y = [x ≠ x], which also holds for element types without nan."""
    return np.not_equal(x, x)


def sign(x: Array) -> Array:
    """y = [x > 0] - [x < 0], so that nan gives 0."""
    return np.subtract(x > 0, x < 0, dtype=x.dtype)


def step(x: Array) -> Array:
    """y = [x > 0]."""
    return np.greater(x, 0).astype(x.dtype)


def preference(a: Array, b: Array) -> Array:
    """y = [a > b] + ½ [a = b]."""
    return np.greater(a, b) + 0.5 * np.equal(a, b)


def power(a: Array, b: Array) -> Array:
    """y = a^b; of integers to negative powers 1, -1 or 0."""
    if a.dtype.kind != "i":
        return np.power(a, b)
    odd = np.where(b & 1, a, 1).astype(a.dtype)
    return np.where(b < 0, np.where(np.abs(a) == 1, odd, 0), np.power(a, np.maximum(b, 0)))


def affine(attrs: AffineAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y = scale · x + shift; on integers with integral scale and shift, modulo 2^bits."""
    x = widen(inputs[0])
    if x.dtype.kind in "fc":
        kind = x.real.dtype.type
        scale, shift = kind(as_float(attrs.scale)), kind(as_float(attrs.shift))
        y, imaginary = x.real * scale + shift, x.imag * scale if x.dtype.kind == "c" else None
        # A real number times a complex one goes part by part: no infinity of one part meets the other's zero.
        write(outputs[0] if imaginary is None else outputs[0].real, y)
        if imaginary is not None:
            write(outputs[0].imag, imaginary)
    else:
        whole, part = (np.int64(wrapped(int(value))) for value in (attrs.scale, attrs.shift))
        write(outputs[0], x.astype(np.int64) * whole + part)


def where(attrs: NoAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y = a where condition else b."""
    condition, a, b = inputs
    assert condition is not None
    assert a is not None
    assert b is not None
    write(outputs[0], np.where(condition, a, b))


def cast(attrs: CastAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y = x as dtype. From floats to integers: toward zero, saturating, nan to 0. To bool: x ≠ 0."""
    x = widen(inputs[0])
    if x.dtype.kind == "f" and attrs.dtype.kind in ("int", "uint"):
        write(outputs[0], saturated(x, attrs.dtype))
    else:
        write(outputs[0], x)


def saturated(x: Array, dtype: DType) -> Array:
    """Floats as integers: toward zero, to the nearest end when outside, nan to 0."""
    limits = np.iinfo(dtype.numpy.name)
    low, high = (int(end) for end in (limits.min, limits.max))
    # In f64 both `low` and `high + 1` are exact, for every integer type.
    exact = np.trunc(x.astype(np.float64))
    below, above = exact < low, exact >= float(high + 1)
    inside = np.where(below | above | np.isnan(exact), 0.0, exact).astype(dtype.numpy)
    return np.where(below, dtype.numpy.type(low), np.where(above, dtype.numpy.type(high), inside))


ROWS: Rows = {
    ops.AFFINE: affine,
    ops.CAST: cast,
    ops.real: unary(np.real),
    ops.WHERE: where,
    ops.exp: unary(np.exp),
    ops.log: unary(np.log),
    ops.sqrt: unary(np.sqrt),
    ops.reciprocal: unary(np.reciprocal),
    ops.square: unary(np.square),
    ops.tanh: unary(np.tanh),
    ops.sigmoid: unary(sigmoid),
    ops.relu: unary(relu),
    ops.sin: unary(np.sin),
    ops.cos: unary(np.cos),
    ops.atan: unary(np.arctan),
    ops.erf: unary(by_library(math.erf)),
    ops.erfc: unary(by_library(math.erfc)),
    ops.abs: unary(np.abs),
    ops.sign: unary(sign),
    ops.step: unary(step),
    ops.floor: unary(np.floor),
    ops.ceil: unary(np.ceil),
    ops.round: unary(np.rint),
    ops.expm1: unary(np.expm1),
    ops.log1p: unary(np.log1p),
    ops.softplus: unary(softplus),
    ops.swish: unary(swish),
    ops.gelu: unary(gelu),
    ops.gelu_tanh: unary(gelu_tanh),
    ops.is_nan: unary(is_nan),
    ops.logical_not: unary(np.logical_not),
    ops.add: binary(np.add),
    ops.subtract: binary(np.subtract),
    ops.multiply: binary(np.multiply),
    ops.divide: binary(np.divide),
    ops.maximum: binary(np.maximum),
    ops.minimum: binary(np.minimum),
    ops.power: binary(power),
    ops.preference: binary(preference),
    ops.equal: binary(np.equal),
    ops.not_equal: binary(np.not_equal),
    ops.less: binary(np.less),
    ops.less_equal: binary(np.less_equal),
    ops.greater: binary(np.greater),
    ops.greater_equal: binary(np.greater_equal),
    ops.logical_and: binary(np.logical_and),
    ops.logical_or: binary(np.logical_or),
    ops.logical_xor: binary(np.logical_xor),
}
