"""Programs that several processes run together: they have names, by which the processes find out that they are one.

A program of a compiled function that holds operations among ranks is named by its operators in their order and by the
numbers with a point and words that the function was called with, whatever its sizes and counts: ranks may have parts of
other sizes. What each operation is told, `NAMING` says of its operator.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

from nnc.classes import dataclass
from nnc.graph import OpAttr
from nnc.symbolic.ir import SymbolicGraph, bodies_of
from nnc.symbolic.records import ExecKey, ExecSymbol
from nnc.symbolic.text import dump

# The attributes of an operation among ranks within a program of this name. `Any`: those of all operators.
NAMING = OpAttr[Callable[[Any, str], Any]]("name of its program")
# Texts wait for the first run of their program; so many wait at once.
MOST_TEXTS = 256


@dataclass(frozen=True, slots=True)
class ProgramText:
    """What a program is: the specs of its inputs, its operators with what it was called with, and all of its graph."""

    inputs: str
    operators: str
    graph: str


TEXTS: OrderedDict[str, ProgramText] = OrderedDict()


def name_program(graph: SymbolicGraph, arguments: Iterable[object] = ()) -> None:
    """Tell operations among ranks which program they are in; nothing where there are none.

    `arguments` are those that are no tensors. Integers among them may be sizes, so they do not count.
    """
    if not any(record.command.op in NAMING for _, _, record in _records(graph)):
        return
    operators = "\n".join(record.command.op.name for _, _, record in _records(graph))
    told = "\n".join(repr(value) for value in arguments if isinstance(value, bool | float | complex | str))
    specs = [str(row.spec) for key, row in graph.tensors.items() if row.alias is None and not graph.writers(key)]
    name = hashlib.sha256(f"{operators}\n{told}".encode()).hexdigest()[:16]
    TEXTS[name] = ProgramText("\n".join(specs), f"{operators}\n{told}".rstrip(), text_without_lines(graph))
    while len(TEXTS) > MOST_TEXTS:
        TEXTS.popitem(last=False)
    for owner, key, record in [*_records(graph)]:
        if record.command.op in NAMING:
            attrs = NAMING[record.command.op](record.command.attrs, name)
            owner.replace_exec(key, replace(record, command=replace(record.command, attrs=attrs)))


def text_without_lines(graph: SymbolicGraph) -> str:
    """All of a graph but its name and the lines of code that made it."""
    return "\n".join(dump(graph, origins=False).splitlines()[1:])


def order_among_ranks(graph: SymbolicGraph) -> None:
    """Operations among ranks run as the function came to them, whatever order takes least memory at these sizes."""
    together = [key for key in graph.execs.toposort() if graph.execs[key].command.op in NAMING]
    for earlier, later in pairwise(together):
        graph.connect(earlier, later)


def _records(graph: SymbolicGraph) -> Iterator[tuple[SymbolicGraph, ExecKey, ExecSymbol]]:
    """All execs, those in bodies too, each with the graph that it is in."""
    for key, record in graph.execs.items():
        yield graph, key, record
        for _, body in bodies_of(record.command):
            yield from _records(body.graph)
