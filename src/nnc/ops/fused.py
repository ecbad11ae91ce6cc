"""Fused pointwise operators: y = e(x₀, x₁, …), an expression of pointwise operators as one command.

    values = x₀ … x_{n-1}, then one per step: step(values[operands]);  y = the value of the last step

The expression is data: steps of commands and of the positions of their operands. Its inference and its gradient are
those of its steps. Nothing between the first read and the last write needs memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from nnc.core.command import AnyCommand
from nnc.errors import AttributeValueError
from nnc.graph import Op
from nnc.ops.broadcast import BROADCAST_TO
from nnc.ops.copy import COPY
from nnc.ops.decomposition import by_decomposition
from nnc.ops.fill import FILL
from nnc.ops.operand import T
from nnc.ops.rules import PATTERN, Inplace, Pattern, Specs, infer, operator

V = TypeVar("V")

# Steps that only move or make values; no arithmetic is done twice when they are repeated along an axis.
MOVES: frozenset[Op[Any]] = frozenset((FILL, COPY, BROADCAST_TO))


@dataclass(frozen=True, slots=True)
class FusedStep:
    """value = command(values[operands])."""

    command: AnyCommand
    operands: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FusedAttrs:
    """The number of inputs, and the steps; a step reads inputs and the values of earlier steps."""

    inputs: int
    steps: tuple[FusedStep, ...]

    def __post_init__(self) -> None:
        if self.inputs < 1 or not self.steps:
            got = f"{self.inputs} inputs and {len(self.steps)} steps"
            raise AttributeValueError("fused_pointwise", got=got, need="one input or more, and one step or more")
        for position, step in enumerate(self.steps, self.inputs):
            if not is_fusable(step.command.op):
                got = f"a step of {step.command.op.name}"
                raise AttributeValueError("fused_pointwise", got=got, need="pointwise operators with one output")
            if not all(0 <= operand < position for operand in step.operands):
                got = f"operands {list(step.operands)}"
                raise AttributeValueError("fused_pointwise", got=got, need=f"values before the value {position}")

    def __str__(self) -> str:
        names = [f"x{index}" for index in range(self.inputs)]
        for step in self.steps:
            operands = ", ".join(names[operand] for operand in step.operands)
            names.append(f"{step.command}({operands})")
        return names[-1]

    __repr__ = __str__


def is_fusable(op: Op[Any]) -> bool:
    """True for operators that compute each element of one output from one element of each input."""
    if op in MOVES:
        return True
    # Without inputs, an element is computed from its place; with any number of them, it is an expression already.
    plain = isinstance(op.inputs, tuple) and op.inputs != () and isinstance(op.outputs, tuple) and len(op.outputs) == 1
    return plain and PATTERN[op] in (Pattern.ELEMENTWISE, Pattern.BROADCAST)


def evaluate(attrs: FusedAttrs, inputs: Sequence[V], step: Callable[[AnyCommand, Sequence[V]], V]) -> list[V]:
    """All values of the expression over anything: the inputs, then `step(command, operands)` for each step."""
    values = list(inputs)
    for one in attrs.steps:
        values.append(step(one.command, [values[operand] for operand in one.operands]))
    return values


def specs_of(attrs: FusedAttrs, specs: Specs) -> Specs:
    """The specs of all values."""
    return tuple(evaluate(attrs, specs, lambda command, given: infer(command.op, command.attrs, tuple(given))[0]))


def replay(attrs: FusedAttrs, inputs: Sequence[T]) -> T:
    """The same value from the operators of the expression, one command each."""
    first = inputs[0]
    return evaluate(attrs, inputs, lambda command, operands: first.apply(command, operands)[0])[-1]


def _infer(attrs: FusedAttrs, specs: Specs) -> Specs:
    if len(specs) != attrs.inputs:
        raise AttributeValueError("fused_pointwise", got=f"{len(specs)} inputs", need=f"{attrs.inputs}")
    return specs_of(attrs, specs)[-1:]


def _inplace(attrs: FusedAttrs) -> Inplace:
    """Every input: one that has the shape of the result is read where the result is written, and nowhere else."""
    return Inplace(allowed=tuple((position, 0) for position in range(attrs.inputs)))


FUSED_POINTWISE = operator(
    "fused_pointwise",
    FusedAttrs,
    (),
    infer=_infer,
    gradient=by_decomposition(lambda attrs, inputs: (replay(attrs, inputs),)),
    inplace=_inplace,
    pattern=Pattern.BROADCAST,
    variadic=True,
    doc="y = an expression of pointwise operators of the inputs",
)
