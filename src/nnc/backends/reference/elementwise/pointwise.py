"""Pointwise kernels: y[i…] = f(a[i…], b[i…], …), with NumPy broadcasting.

Most are what the operators' rows say in NumPy (`nnc.ops.elementwise.rows.FORWARD`); those with attributes are below.
"""

from __future__ import annotations

import numpy as np

from nnc.backends.reference.arrays import Array, Inputs, Outputs, ReferenceKernel, Rows, widen, write
from nnc.core.values.dtype import DType
from nnc.ops.elementwise import complex_numbers, elementary, integers
from nnc.ops.elementwise import pointwise as ops
from nnc.ops.elementwise.pointwise import AffineAttrs, CastAttrs
from nnc.ops.elementwise.rows import FORWARD, Forward
from nnc.ops.number import as_float, wrapped
from nnc.ops.operators import operators_of
from nnc.ops.rules import NoAttrs


def elementwise(function: Forward) -> ReferenceKernel:
    """The kernel y = function(a, b, …)."""

    def kernel(attrs: NoAttrs, inputs: Inputs, outputs: Outputs) -> None:
        write(outputs[0], function(*map(widen, inputs)))

    return kernel


def nextafter(attrs: NoAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y = the next number of the element type itself, from a towards b."""
    a, b = inputs
    assert a is not None
    assert b is not None
    write(outputs[0], np.nextafter(a, b))


def complex_of(attrs: NoAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y = a + i · b, part by part: i · inf is no nan."""
    y = outputs[0]
    y.real, y.imag = widen(inputs[0]), widen(inputs[1])


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


FAMILIES = (ops, elementary, complex_numbers, integers)
ROWS: Rows = {
    **{op: elementwise(FORWARD[op]) for op in operators_of(*FAMILIES) if op in FORWARD},
    ops.AFFINE: affine,
    ops.CAST: cast,
    ops.WHERE: where,
    complex_numbers.complex_of: complex_of,
    elementary.nextafter: nextafter,
}
