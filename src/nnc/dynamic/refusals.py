"""Operands and commands that a dynamic graph refuses."""

from __future__ import annotations

from collections.abc import Sequence

from nnc.arguments import shown
from nnc.core.precautions.origin import caller_origin
from nnc.core.values.command import AnyCommand, Command
from nnc.dynamic.variable import Variable
from nnc.errors import ArgumentError, SymbolError


def check_command(command: object) -> None:
    """ArgumentError for what is no command."""
    if not isinstance(command, Command):
        raise ArgumentError("execute", got=f"command={shown(command)}", need="a Command", origin=caller_origin())


def foreign_operand(command: AnyCommand, operand: object) -> SymbolError:
    """What is wrong with an operand that is no variable of the graph."""
    check_command(command)
    check_variables(command.op.name, [operand])
    got, need = "a variable of another graph", "variables of one graph"
    return SymbolError(command.op.name, got=got, need=need, fix="detach() it", origin=caller_origin())


def captured_operand(command: AnyCommand) -> SymbolError:
    """What is wrong with a recorded variable that is no argument of a function whose gradient goes by arguments."""
    return SymbolError(
        command.op.name,
        got="a recorded variable that is no argument of the function that runs as one node",
        need="every variable as an argument, so that gradients reach it",
        fix="pass it, or detach() it",
        origin=caller_origin(),
    )


def check_variables(subject: str, operands: Sequence[object]) -> None:
    """SymbolError for an operand that is neither a variable nor absent, such as an array or a symbol."""
    for operand in operands:
        if operand is not None and not isinstance(operand, Variable):
            got = f"a {type(operand).__name__}"
            raise SymbolError(
                subject, got=got, need="variables", fix="variable() or constant()", origin=caller_origin()
            )
