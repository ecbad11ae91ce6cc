"""Fused expressions as chains of instructions: one pass over memory, everything between in registers."""

from __future__ import annotations

from collections.abc import Sequence

from nnc.codegen.ir.expression import CONSTANT, CONVERT, Instruction
from nnc.core.values.command import AnyCommand
from nnc.core.values.dtype import BF16, F16
from nnc.ops.composed.fused import FusedAttrs, FusedStep
from nnc.ops.elementwise.pointwise import AFFINE, CAST
from nnc.ops.movement.broadcast import BROADCAST_TO
from nnc.ops.movement.copy import contiguous
from nnc.ops.movement.fill import FILL


def translate(steps: Sequence[FusedStep], values: Sequence[int]) -> tuple[tuple[Instruction, ...], tuple[int, ...]]:
    """The chain of pointwise steps, and the chain's number of each value of the expression.

    `values` are the chain's numbers of the values before the first step: those of the chain's operands, or -1.
    """
    instructions: list[Instruction] = []
    places = list(values)
    operands = max(places) + 1
    for step in steps:
        read = tuple(places[operand] for operand in step.operands)
        if step.command.op in (contiguous, BROADCAST_TO):
            places.append(read[0])
            continue
        places.append(operands + len(instructions))
        instructions.append(_instruction(step.command, read))
    return tuple(instructions), tuple(places)


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
