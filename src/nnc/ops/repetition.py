"""Running a command again, for the same values: which commands may, and what stands in for inputs that are gone.

A command is a function of its inputs, random ones included (their numbers depend on the seed and the counter), so that
it may run again wherever its inputs still have their values. Two kinds are different. A custom command is a function of
the user's, who has not promised that. And a command that writes an output over an input (enforced in place) leaves no
input: it may run again only if that input serves no other output, and then the output stands in for it.
"""

from __future__ import annotations

from collections.abc import Mapping

from nnc.core.values.command import AnyCommand
from nnc.ops.composed.custom import KERNEL
from nnc.ops.rules import INPLACE, STAND_INS


def stand_ins(command: AnyCommand) -> Mapping[int, int] | None:
    """Input → output that is read in its place when the command runs again; None when it must not run again."""
    if command.op in KERNEL:
        return None
    known = STAND_INS.get(command.op, {})
    overwritten = {source for source, _ in INPLACE[command.op](command.attrs).enforced}
    return known if overwritten <= known.keys() else None
