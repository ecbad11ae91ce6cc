"""Elementary functions, by NumPy."""

from __future__ import annotations

import numpy as np

from nnc.backends.reference.arrays import Inputs, Outputs, Rows, write
from nnc.backends.reference.elementwise.pointwise import binary, unary
from nnc.ops.elementwise import elementary as ops
from nnc.ops.rules import NoAttrs


def nextafter(attrs: NoAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y = the next number of the element type itself, from a towards b."""
    a, b = inputs
    assert a is not None
    assert b is not None
    write(outputs[0], np.nextafter(a, b))


ROWS: Rows = {
    ops.SINH: unary(np.sinh),
    ops.COSH: unary(np.cosh),
    ops.ASIN: unary(np.arcsin),
    ops.ACOS: unary(np.arccos),
    ops.ASINH: unary(np.arcsinh),
    ops.ACOSH: unary(np.arccosh),
    ops.ATANH: unary(np.arctanh),
    ops.LOG2: unary(np.log2),
    ops.LOG10: unary(np.log10),
    ops.TRUNC: unary(np.trunc),
    ops.ATAN2: binary(np.arctan2),
    ops.HYPOT: binary(np.hypot),
    ops.LOGADDEXP: binary(np.logaddexp),
    ops.COPYSIGN: binary(np.copysign),
    ops.NEXTAFTER: nextafter,
}
