"""Integers: y[i…] = a[i…] ∘ b[i…] for quotients, remainders, shifts and bits, with NumPy's broadcasting and edges.

floor_divide, remainder     rounded down, the sign of the divisor; by 0 both are 0. Of floats as IEEE 754 has it
shift_left, shift_right     by no or more bits than there are: nothing is left but copies of the sign
"""

from __future__ import annotations

from nnc.core.values.dtype import I32
from nnc.core.values.spec import spec
from nnc.errors import AttributeValueError
from nnc.graph import Op
from nnc.ops.elementwise.pointwise import affine, binary, multiply, same
from nnc.ops.examples import Example
from nnc.ops.movement.fill import scalar_like
from nnc.ops.number import Number
from nnc.ops.operand import Operand, T, apply
from nnc.ops.rules import NUMBERS, Inplace, NoAttrs, NotDifferentiable, Pattern, operator

__all__ = [
    "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "floor_divide", "remainder", "shift_left", "shift_right",
]  # fmt: skip

INTEGERS = ("int", "uint")
_REASON = NotDifferentiable("integers do not change smoothly")
_MATRIX = spec((4, 4), I32)


def _binary(name: str, doc: str) -> Op[NoAttrs]:
    return operator(
        name,
        NoAttrs,
        ("a", "b"),
        infer=same(INTEGERS),
        gradient=_REASON,
        example=Example(NoAttrs(), (_MATRIX, _MATRIX)),
        inplace=Inplace(allowed=((0, 0), (1, 0))),
        pattern=Pattern.BROADCAST,
        doc=doc,
    )


FLOOR_DIVIDE = binary(
    "floor_divide",
    "y = ⌊a / b⌋; of integers 0 where b = 0",
    lambda g, a, b, y: None,
    lambda g, a, b, y: None,
    NUMBERS,
)
REMAINDER = binary(
    "remainder",
    "y = a - b · ⌊a / b⌋, with the sign of b; of integers 0 where b = 0",
    lambda g, a, b, y: g,
    lambda g, a, b, y: affine(multiply(g, floor_divide(a, b)), -1.0),
    NUMBERS,
)
SHIFT_LEFT = _binary("shift_left", "y = a · 2^b modulo 2^bits, of integers; 0 where b < 0 or b ≥ bits")
SHIFT_RIGHT = _binary("shift_right", "y = ⌊a / 2^b⌋ of integers; 0 or -1, by the sign of a, where b < 0 or b ≥ bits")
BITWISE_AND = _binary("bitwise_and", "y = a and b, bit by bit")
BITWISE_OR = _binary("bitwise_or", "y = a or b, bit by bit")
BITWISE_XOR = _binary("bitwise_xor", "y = exactly one of a, b, bit by bit")
BITWISE_NOT = operator(
    "bitwise_not",
    NoAttrs,
    ("x",),
    infer=same(INTEGERS),
    gradient=_REASON,
    example=Example(NoAttrs(), (_MATRIX,)),
    inplace=Inplace(allowed=((0, 0),)),
    pattern=Pattern.ELEMENTWISE,
    doc="y = not x, bit by bit: -1 - x",
)
OPERATORS = (
    FLOOR_DIVIDE, REMAINDER, SHIFT_LEFT, SHIFT_RIGHT, BITWISE_AND, BITWISE_OR, BITWISE_XOR, BITWISE_NOT,
)  # fmt: skip

_NONE = NoAttrs()


def _apply(op: Op[NoAttrs], a: T | Number, b: T | Number) -> T:
    """The operator on two operands, or on an operand and a number."""
    if isinstance(a, Operand):
        return apply(op, _NONE, a, b if isinstance(b, Operand) else scalar_like(a, b))
    if isinstance(b, Operand):
        return apply(op, _NONE, scalar_like(b, a), b)
    raise AttributeValueError(op.name, got="two numbers", need="a symbol or a variable among the operands")


def floor_divide(a: T | Number, b: T | Number) -> T:
    """y = ⌊a / b⌋; of integers 0 where b = 0."""
    return _apply(FLOOR_DIVIDE, a, b)


def remainder(a: T | Number, b: T | Number) -> T:
    """y = a - b · ⌊a / b⌋, with the sign of b; of integers 0 where b = 0."""
    return _apply(REMAINDER, a, b)


def shift_left(a: T | Number, b: T | Number) -> T:
    """y = a · 2^b modulo 2^bits, of integers."""
    return _apply(SHIFT_LEFT, a, b)


def shift_right(a: T | Number, b: T | Number) -> T:
    """y = ⌊a / 2^b⌋ of integers."""
    return _apply(SHIFT_RIGHT, a, b)


def bitwise_and(a: T | Number, b: T | Number) -> T:
    """y = a and b, bit by bit."""
    return _apply(BITWISE_AND, a, b)


def bitwise_or(a: T | Number, b: T | Number) -> T:
    """y = a or b, bit by bit."""
    return _apply(BITWISE_OR, a, b)


def bitwise_xor(a: T | Number, b: T | Number) -> T:
    """y = exactly one of a and b, bit by bit."""
    return _apply(BITWISE_XOR, a, b)


def bitwise_not(x: T) -> T:
    """y = not x, bit by bit."""
    return apply(BITWISE_NOT, _NONE, x)
