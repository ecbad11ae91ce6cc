"""Elementary functions, by NumPy."""

from __future__ import annotations

import numpy as np

from nnc.backends.reference.arrays import Array, Inputs, Outputs, Rows, write
from nnc.backends.reference.elementwise.pointwise import binary, unary
from nnc.ops.elementwise import elementary as ops
from nnc.ops.rules import NoAttrs


def rsqrt(x: Array) -> Array:
    """1 / √x"""
    return np.reciprocal(np.sqrt(x))


def nextafter(attrs: NoAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y = the next number of the element type itself, from a towards b."""
    a, b = inputs
    assert a is not None
    assert b is not None
    write(outputs[0], np.nextafter(a, b))


ROWS: Rows = {
    ops.tan: unary(np.tan),
    ops.rsqrt: unary(rsqrt),
    ops.sinh: unary(np.sinh),
    ops.cosh: unary(np.cosh),
    ops.asin: unary(np.arcsin),
    ops.acos: unary(np.arccos),
    ops.asinh: unary(np.arcsinh),
    ops.acosh: unary(np.arccosh),
    ops.atanh: unary(np.arctanh),
    ops.log2: unary(np.log2),
    ops.log10: unary(np.log10),
    ops.trunc: unary(np.trunc),
    ops.atan2: binary(np.arctan2),
    ops.hypot: binary(np.hypot),
    ops.logaddexp: binary(np.logaddexp),
    ops.copysign: binary(np.copysign),
    ops.nextafter: nextafter,
}
