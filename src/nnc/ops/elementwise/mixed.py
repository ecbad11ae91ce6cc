"""Rows of two operands, one of which may be a number: y = maximum(x, 0.5), y = shift_left(1, x)."""

from __future__ import annotations

from nnc.arguments import BUILTIN, explanation
from nnc.ops.function import FunctionOperator
from nnc.ops.movement.fill import scalar_like
from nnc.ops.number import Number
from nnc.ops.operand import Operand, T, apply_command


class MixedOperator(FunctionOperator):
    """y = op(a, b), where one of a and b may be a number."""

    signature = "(a: T | Number, b: T | Number) -> T"

    def __call__(self, a: T | Number, b: T | Number) -> T:
        """The operator applied to two operands, or to an operand and a number in its element type."""
        try:
            return apply_command(self.command, operand_like(a, b), operand_like(b, a))
        except BUILTIN as error:
            problem = explanation(error, type(self).__call__, self.__name__, (self, a, b))
        raise problem


def operand_like(value: T | Number, other: T | Number) -> T:
    """The operand; a number as a scalar of the other's element type."""
    if isinstance(other, Operand) and not isinstance(value, Operand):
        return scalar_like(other, value)
    return value  # type: ignore[return-value]  # `apply_command` says what is wrong with two numbers
