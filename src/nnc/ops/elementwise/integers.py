"""Integers: y[i…] = a[i…] ∘ b[i…] for quotients, remainders, shifts and bits, with NumPy's broadcasting and edges.

floor_divide, remainder     rounded down, the sign of the divisor; by 0 both are 0. Of floats as IEEE 754 has it
shift_left, shift_right     by no or more bits than there are: nothing is left but copies of the sign
"""

from __future__ import annotations

import numpy as np

from nnc.core.values.dtype import I32
from nnc.core.values.spec import spec
from nnc.ops.elementwise.mixed import MixedOperator
from nnc.ops.elementwise.pointwise import affine, multiply
from nnc.ops.elementwise.rows import FORWARD, Forward, mixed, same
from nnc.ops.examples import Example
from nnc.ops.function import UnaryOperator
from nnc.ops.rules import NUMBERS, Inplace, NoAttrs, NotDifferentiable, Pattern, describe

__all__ = [
    "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "floor_divide", "remainder", "shift_left", "shift_right",
]  # fmt: skip

INTEGERS = ("int", "uint")
_REASON = NotDifferentiable("integers do not change smoothly")
_MATRIX = spec((4, 4), I32)


def _integral(name: str, doc: str, forward: Forward) -> MixedOperator:
    row = MixedOperator(name, ("a", "b"), doc)
    FORWARD.set(row, forward)
    describe(
        row,
        infer=same(INTEGERS),
        gradient=_REASON,
        example=Example(NoAttrs(), (_MATRIX, _MATRIX)),
        inplace=Inplace(allowed=((0, 0), (1, 0))),
        pattern=Pattern.BROADCAST,
    )
    return row


floor_divide = mixed(
    "floor_divide",
    "y = ⌊a / b⌋; of integers 0 where b = 0",
    np.floor_divide,
    lambda g, a, b, y: None,
    lambda g, a, b, y: None,
    NUMBERS,
)
remainder = mixed(
    "remainder",
    "y = a - b · ⌊a / b⌋, with the sign of b; of integers 0 where b = 0",
    np.remainder,
    lambda g, a, b, y: g,
    lambda g, a, b, y: affine(multiply(g, floor_divide(a, b)), -1.0),
    NUMBERS,
)
shift_left = _integral("shift_left", "y = a · 2^b modulo 2^bits, of integers; 0 where b < 0 or b ≥ bits", np.left_shift)
shift_right = _integral(
    "shift_right", "y = ⌊a / 2^b⌋ of integers; 0 or -1, by the sign of a, where b < 0 or b ≥ bits", np.right_shift
)
bitwise_and = _integral("bitwise_and", "y = a and b, bit by bit", np.bitwise_and)
bitwise_or = _integral("bitwise_or", "y = a or b, bit by bit", np.bitwise_or)
bitwise_xor = _integral("bitwise_xor", "y = exactly one of a, b, bit by bit", np.bitwise_xor)
bitwise_not = UnaryOperator("bitwise_not", ("x",), "y = not x, bit by bit: -1 - x")
describe(
    bitwise_not,
    infer=same(INTEGERS),
    gradient=_REASON,
    example=Example(NoAttrs(), (_MATRIX,)),
    inplace=Inplace(allowed=((0, 0),)),
    pattern=Pattern.ELEMENTWISE,
)
FORWARD.set(bitwise_not, np.bitwise_not)
