"""Complex numbers, by NumPy."""

from __future__ import annotations

import numpy as np

from nnc.backends.reference.arrays import Inputs, Outputs, Rows, widen
from nnc.backends.reference.elementwise.pointwise import unary
from nnc.ops.elementwise import complex_numbers as ops
from nnc.ops.rules import NoAttrs


def complex_of(attrs: NoAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y = a + i · b, part by part: i · inf is no nan."""
    y = outputs[0]
    y.real, y.imag = widen(inputs[0]), widen(inputs[1])


ROWS: Rows = {
    ops.complex_of: complex_of,
    ops.conjugate: unary(np.conjugate),
    ops.imaginary: unary(np.imag),
    ops.magnitude: unary(np.abs),
}
