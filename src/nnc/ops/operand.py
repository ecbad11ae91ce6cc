"""What operators are applied to: tensor symbols, eager variables, anything with a spec and an `apply`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Self, TypeVar

from nnc.core.values.command import AnyCommand, Command
from nnc.core.values.spec import Shape, TensorSpec, contiguous_strides
from nnc.errors import UsageError
from nnc.graph import Op


class Operand(ABC):
    """A value that commands read and write. One functional API serves every layer through it."""

    __slots__ = ()

    @property
    @abstractmethod
    def spec(self) -> TensorSpec:
        """Shape, element type, layout and device."""

    @abstractmethod
    def apply(self, command: AnyCommand, inputs: Sequence[Self | None]) -> tuple[Self, ...]:
        """Apply `command` to `inputs` in this operand's own world (append a node, or run it)."""

    @abstractmethod
    def alias(self, spec: TensorSpec, offset: int, strides: Shape) -> Self:
        """A view of this operand's elements, without a copy; `offset` and `strides` in elements of the root."""

    @property
    @abstractmethod
    def strides(self) -> Shape:
        """Strides in elements over the memory of the root."""

    @property
    @abstractmethod
    def offset(self) -> int:
        """Elements between the root's first element and this operand's."""

    @property
    def shape(self) -> Shape:
        """Sizes, slowest axis first."""
        return self.spec.shape


class PlacedOperand(Operand):
    """An operand that keeps its spec and where it lies; contiguous at the beginning of its root unless told."""

    __slots__ = ("_offset", "_spec", "_strides")

    def __init__(self, spec: TensorSpec, offset: int = 0, strides: Shape | None = None) -> None:
        self._spec = spec
        self._offset = offset
        self._strides = contiguous_strides(spec.shape) if strides is None else strides

    @property
    def spec(self) -> TensorSpec:
        """Shape, element type, layout and device."""
        return self._spec

    @property
    def strides(self) -> Shape:
        """Strides in elements over the memory of the root."""
        return self._strides

    @property
    def offset(self) -> int:
        """Elements between the root's first element and this operand's."""
        return self._offset


A = TypeVar("A")
T = TypeVar("T", bound=Operand)


def apply(op: Op[A], attrs: A, first: T, *rest: T | None) -> T:
    """The single output of `op` on the operands; UsageError for a first one that is none, such as an array."""
    plain = op.plain
    command = plain if isinstance(plain, Command) else Command(op, attrs)
    return apply_command(command, first, *rest)


def apply_command(command: AnyCommand, first: T, *rest: T | None) -> T:
    """The single output of a command; UsageError as in `apply`."""
    try:
        run = first.apply
    except AttributeError:
        raise UsageError(
            command.op.name,
            got=f"a {type(first).__name__}",
            need="a symbol or a variable",
            fix="make it with input() of a symbolic graph, or with variable() or constant() of a dynamic one",
        ) from None
    return run(command, (first, *rest))[0]
