"""Kernels of integers: quotients, remainders, shifts and bits, by NumPy's functions, which have the same edges."""

from __future__ import annotations

import numpy as np

from nnc.backends.reference.arrays import Rows
from nnc.backends.reference.elementwise.pointwise import binary, unary
from nnc.ops.elementwise import integers as ops

ROWS: Rows = {
    ops.FLOOR_DIVIDE: binary(np.floor_divide),
    ops.REMAINDER: binary(np.remainder),
    ops.SHIFT_LEFT: binary(np.left_shift),
    ops.SHIFT_RIGHT: binary(np.right_shift),
    ops.BITWISE_AND: binary(np.bitwise_and),
    ops.BITWISE_OR: binary(np.bitwise_or),
    ops.BITWISE_XOR: binary(np.bitwise_xor),
    ops.BITWISE_NOT: unary(np.bitwise_not),
}
