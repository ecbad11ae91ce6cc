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
    ops.REAL: unary(np.real),
    ops.WHERE: where,
    ops.EXP: unary(np.exp),
    ops.LOG: unary(np.log),
    ops.SQRT: unary(np.sqrt),
    ops.RECIPROCAL: unary(np.reciprocal),
    ops.SQUARE: unary(np.square),
    ops.TANH: unary(np.tanh),
    ops.SIGMOID: unary(sigmoid),
    ops.RELU: unary(relu),
    ops.SIN: unary(np.sin),
    ops.COS: unary(np.cos),
    ops.ATAN: unary(np.arctan),
    ops.ERF: unary(by_library(math.erf)),
    ops.ERFC: unary(by_library(math.erfc)),
    ops.ABSOLUTE: unary(np.abs),
    ops.SIGN: unary(sign),
    ops.STEP: unary(step),
    ops.FLOOR: unary(np.floor),
    ops.CEIL: unary(np.ceil),
    ops.ROUND: unary(np.rint),
    ops.EXPM1: unary(np.expm1),
    ops.LOG1P: unary(np.log1p),
    ops.SOFTPLUS: unary(softplus),
    ops.SWISH: unary(swish),
    ops.GELU: unary(gelu),
    ops.GELU_TANH: unary(gelu_tanh),
    ops.IS_NAN: unary(is_nan),
    ops.LOGICAL_NOT: unary(np.logical_not),
    ops.ADD: binary(np.add),
    ops.SUBTRACT: binary(np.subtract),
    ops.MULTIPLY: binary(np.multiply),
    ops.DIVIDE: binary(np.divide),
    ops.MAXIMUM: binary(np.maximum),
    ops.MINIMUM: binary(np.minimum),
    ops.POWER: binary(power),
    ops.PREFERENCE: binary(preference),
    ops.EQUAL: binary(np.equal),
    ops.NOT_EQUAL: binary(np.not_equal),
    ops.LESS: binary(np.less),
    ops.LESS_EQUAL: binary(np.less_equal),
    ops.GREATER: binary(np.greater),
    ops.GREATER_EQUAL: binary(np.greater_equal),
    ops.LOGICAL_AND: binary(np.logical_and),
    ops.LOGICAL_OR: binary(np.logical_or),
    ops.LOGICAL_XOR: binary(np.logical_xor),
}
