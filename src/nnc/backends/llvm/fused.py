"""Fused pointwise expressions as one chain of instructions: one pass over memory, everything between in registers."""

from __future__ import annotations

from dataclasses import dataclass, field

from nnc.backends.llvm.pointwise import CONSTANT, CONVERT, Instruction
from nnc.core.command import AnyCommand
from nnc.core.dtype import BF16, F16
from nnc.ops.broadcast import BROADCAST_TO
from nnc.ops.copy import COPY
from nnc.ops.fill import FILL
from nnc.ops.fused import FusedAttrs
from nnc.ops.pointwise import AFFINE, CAST


@dataclass(slots=True)
class Translation:
    """The instructions of an expression; `places[v]` is the chain's number of the expression's value v."""

    instructions: list[Instruction] = field(default_factory=list)
    places: list[int] = field(default_factory=list)


def translate(attrs: FusedAttrs) -> tuple[tuple[Instruction, ...], int]:
    """The chain of an expression, and the number of the value that is its result."""
    found = Translation(places=list(range(attrs.inputs)))
    for step in attrs.steps:
        operands = tuple(found.places[operand] for operand in step.operands)
        if step.command.op in (COPY, BROADCAST_TO):
            found.places.append(operands[0])
            continue
        found.places.append(attrs.inputs + len(found.instructions))
        found.instructions.append(_instruction(step.command, operands))
    return tuple(found.instructions), found.places[-1]


def _instruction(command: AnyCommand, operands: tuple[int, ...]) -> Instruction:
    attrs = command.attrs
    if command.op is FILL:
        return Instruction(CONSTANT, (), (attrs.value,), attrs.spec.dtype.name)
    if command.op is CAST:
        return Instruction(CONVERT, operands, result=attrs.dtype.name)
    return Instruction(command.op.name, operands, (attrs.scale, attrs.shift) if command.op is AFFINE else ())


def rounds_on_the_way(attrs: FusedAttrs) -> bool:
    """True when a step before the last one rounds to 16 bits, which registers do not."""
    return any(step.command.op is CAST and step.command.attrs.dtype in (F16, BF16) for step in attrs.steps[:-1])
