"""Kernels of integers: quotients, remainders, shifts and bits, by NumPy's functions, which have the same edges."""

from __future__ import annotations

import numpy as np

from nnc.backends.reference.arrays import Rows
from nnc.backends.reference.elementwise.pointwise import binary, unary
from nnc.ops.elementwise import integers as ops

ROWS: Rows = {
    ops.floor_divide: binary(np.floor_divide),
    ops.remainder: binary(np.remainder),
    ops.shift_left: binary(np.left_shift),
    ops.shift_right: binary(np.right_shift),
    ops.bitwise_and: binary(np.bitwise_and),
    ops.bitwise_or: binary(np.bitwise_or),
    ops.bitwise_xor: binary(np.bitwise_xor),
    ops.bitwise_not: unary(np.bitwise_not),
}
