"""What a step of a random program sees: the operands so far, and how it chooses among them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from nnc import ops
from nnc.core.values.dtype import DType
from nnc.core.values.spec import Shape, TensorSpec
from nnc.errors import AttributeValueError, DTypeError, NotDifferentiableError, ShapeError
from nnc.symbolic import SymbolicGraph

LARGEST = 128
MOST_AXES = 4
# What operators say of operands that do not suit them: such a step gives nothing.
UNSUITABLE = (ShapeError, DTypeError, AttributeValueError, NotDifferentiableError)

# `Any`: a row is one text for symbols and for eager variables; an operand in is one of the same kind out.
Operand = Any
Fits = Callable[[Operand], bool]


@dataclass(frozen=True)
class Step:
    """Apply row number `operator` to operands chosen by `first` and `second`; `inner` are the steps of bodies."""

    operator: int
    first: int
    second: int
    option: int
    inner: tuple[Step, ...] = ()


@dataclass(frozen=True)
class Row:
    """An operator: what it asks of its first operand, and `apply(scope, operand, step)`, a list of new operands."""

    name: str
    fits: Fits
    apply: Callable[[Scope, Operand, Step], Sequence[Operand]]


@dataclass
class Scope:
    """The operands of one graph, or of one body, in order; `outside` are inputs that steps asked for.

    With `unrolled`, loops and branches become the commands of all their iterations and branches. In a `closed` scope
    every operand is a symbol of its graph, none of a graph around it.
    """

    operands: list[Operand]
    table: Sequence[Row]
    graph: SymbolicGraph | None = None
    unrolled: bool = False
    closed: bool = True
    outside: list[Operand] | None = None
    used: set[str] = field(default_factory=set)

    def choose(self, number: int, fits: Fits) -> Operand | None:
        """One of the operands that fit, counted from the latest."""
        found = [operand for operand in reversed(self.operands) if fits(operand)]
        return found[number % len(found)] if found else None

    def alike(self, number: int, spec: TensorSpec) -> Operand | None:
        """An operand of this shape and type."""
        return self.choose(number, lambda operand: (operand.shape, operand.spec.dtype) == (spec.shape, spec.dtype))

    def shaped(self, number: int, shape: Shape, dtype: DType) -> Operand | None:
        """The first elements of an operand, under this shape: an alias, where they lie in a row."""
        count = math.prod(shape)
        found = self.choose(number, lambda operand: operand.spec.dtype is dtype and operand.spec.elements >= count)
        if found is None or found.shape == shape:
            return found
        flat = ops.reshape(found, (-1,))
        return ops.reshape(ops.slice_axis(flat, 0, 0, count), shape)

    def inner(self, operands: Sequence[Operand], graph: SymbolicGraph | None, *, closed: bool) -> Scope:
        """The scope of a body."""
        return Scope(list(operands), self.table, graph, self.unrolled, closed, None, self.used)

    def run(self, steps: Sequence[Step]) -> None:
        """Append what the steps give, but for results beyond `LARGEST` elements or `MOST_AXES` dimensions."""
        for step in steps:
            row = self.table[step.operator % len(self.table)]
            operand = self.choose(step.first, row.fits)
            if operand is None:
                continue
            try:
                results = row.apply(self, operand, step)
            except UNSUITABLE:
                continue
            self.used.add(row.name)
            self.operands.extend(
                result for result in results if result.spec.elements <= LARGEST and len(result.shape) <= MOST_AXES
            )


def is_float(operand: Operand) -> bool:
    """A floating-point tensor."""
    return bool(operand.spec.dtype.is_float)


def is_number(operand: Operand) -> bool:
    """A tensor of anything but truth values."""
    return operand.spec.dtype.kind != "bool"


def is_integer(operand: Operand) -> bool:
    """A tensor of integers."""
    return operand.spec.dtype.kind in ("int", "uint")


def is_truth(operand: Operand) -> bool:
    """A tensor of truth values."""
    return operand.spec.dtype.kind == "bool"


def is_any(operand: Operand) -> bool:
    """Any tensor."""
    return True


def has_axes(least: int, most: int = MOST_AXES, kind: Fits = is_float) -> Fits:
    """Tensors of `least` to `most` axes."""
    return lambda operand: least <= len(operand.shape) <= most and kind(operand)
