"""Operators that are functions: `y = exp(x)`, where `exp` is the row that says what exp means.

    exp = unary("exp", "y = e^x", …)     the operator, and what applies it
    exp(x)                               one command on x, in x's own world
    command.op is exp                    what a command's operator is compared with

An operator without attributes needs nothing but operands, so its row takes the call itself. Copied or pickled it is the
same object, as every operator is. What takes attributes has a function beside its row.
"""

from __future__ import annotations

from typing import ClassVar

from nnc.arguments import BUILTIN, explanation
from nnc.core.values.command import Command
from nnc.graph import Op, Registry, default_registry
from nnc.ops.operand import T, apply_command
from nnc.ops.rules import NoAttrs


class FunctionOperator(Op[NoAttrs]):
    """An operator without attributes: subclasses say on what it is called."""

    # No slots: what `help()` and files ask of a function stands in the row's own dictionary.
    signature: ClassVar[str]

    def __init__(self, name: str, inputs: tuple[str, ...], doc: str, registry: Registry = default_registry) -> None:
        super().__init__(name, NoAttrs, inputs, registry=registry, doc=doc)
        self.command = Command(self, NoAttrs())
        self.call_it(name, type(self).__module__)

    def call_it(self, name: str, module: str) -> None:
        """Let the row be what `module` has by this name."""
        self.__name__ = self.__qualname__ = name
        self.__module__ = module
        self.__doc__ = f"{name}{self.signature}\n\n{self.doc}."


class UnaryOperator(FunctionOperator):
    """y = op(x)."""

    signature = "(x: T) -> T"

    def __call__(self, x: T) -> T:
        """The operator applied to one operand."""
        try:
            return apply_command(self.command, x)
        except BUILTIN as error:
            problem = explanation(error, type(self).__call__, self.__name__, (self, x))
        raise problem


class ComplexOperator(FunctionOperator):
    """y = op(z) of complex z; a row that `keeps_reals` gives a real operand as it is."""

    signature = "(z: T) -> T"

    def __init__(self, name: str, doc: str, *, keeps_reals: bool = False) -> None:
        super().__init__(name, ("z",), doc)
        self.keeps_reals = keeps_reals

    def __call__(self, z: T) -> T:
        """The operator applied to one operand."""
        try:
            return z if self.keeps_reals and z.spec.dtype.kind != "complex" else apply_command(self.command, z)
        except BUILTIN as error:
            problem = explanation(error, type(self).__call__, self.__name__, (self, z))
        raise problem


class BinaryOperator(FunctionOperator):
    """y = op(a, b), of operands of one element type."""

    signature = "(a: T, b: T) -> T"

    def __call__(self, a: T, b: T) -> T:
        """The operator applied to two operands."""
        try:
            return apply_command(self.command, a, b)
        except BUILTIN as error:
            problem = explanation(error, type(self).__call__, self.__name__, (self, a, b))
        raise problem
