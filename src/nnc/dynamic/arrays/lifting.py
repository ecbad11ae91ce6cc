"""Operands that take others into their own world: arrays beside a variable, constants beside a traced value."""

from __future__ import annotations

from abc import abstractmethod
from typing import Self

from nnc.ops.arithmetic import ArithmeticOperand


class LiftingOperand(ArithmeticOperand):
    """An operand that makes operands of its own kind of what it meets."""

    __slots__ = ()

    @abstractmethod
    def lift(self, value: object) -> Self | None:
        """An array or another operand as an operand of this kind; None for what is neither."""
