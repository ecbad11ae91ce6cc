"""Commands with other bodies: a body is a value, and whoever changes one makes another.

Attributes may name symbols of their bodies, as a loop names its count and what its test reads. A change of a body says
what became of the body's symbols, and the attributes follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from nnc.core.values.command import AnyCommand, Command
from nnc.graph import OpAttr, Registry
from nnc.symbolic.control import CASE_OF, CONTROL_REGISTRY, WHILE, CaseAttrs, Holds, PythonCondition, Test, WhileAttrs
from nnc.symbolic.ir import Body
from nnc.symbolic.records import ExecKey, TensorKey

Renamed: TypeAlias = Mapping[TensorKey, TensorKey]
# From a body, and the symbols of it that the attributes name, to another body and the keys of these symbols there.
Change: TypeAlias = Callable[[Body, tuple[TensorKey, ...]], tuple[Body, Renamed]]

# `Any`: a column holds rules of all operators; each operator with bodies sets it for its own attributes.
EXCHANGE = OpAttr[Callable[[Any, Change], Any]]("exchange")


def change_bodies(command: AnyCommand, change: Change) -> AnyCommand:
    """The command with `change(body, named)` in the place of each body; itself when it has none."""
    if command.op not in EXCHANGE:
        return command
    return Command(command.op, EXCHANGE[command.op](command.attrs, change))


def holding(registry: Registry, name: str) -> Registry:
    """The registry of an operator that a file names: the given one, or that of loops and branches."""
    return registry if name in registry or name not in CONTROL_REGISTRY else CONTROL_REGISTRY


def copy_body(body: Body, execs: Iterable[ExecKey], named: Iterable[TensorKey]) -> tuple[Body, Renamed]:
    """A copy of a body with these execs, to be changed on its own."""
    copy, renamed = body.graph.subgraph(execs, (*body.parameters, *body.results, *named))
    parameters = tuple(renamed[key] for key in body.parameters)
    return Body(copy, parameters, tuple(renamed[key] for key in body.results)), renamed


def _change_while(attrs: WhileAttrs, change: Change) -> WhileAttrs:
    body, renamed = change(attrs.body, attrs.named())
    kept = tuple(replace(row, symbol=renamed[row.symbol]) for row in attrs.kept)
    return replace(attrs, body=body, count=renamed[attrs.count], test=_renamed_test(attrs.test, renamed), kept=kept)


def _renamed_test(test: Test, renamed: Renamed) -> Test:
    match test:
        case Holds():
            return Holds(renamed[test.symbol])
        case PythonCondition():
            return PythonCondition(test.function, tuple(renamed[key] for key in test.inputs))
        case _:
            return test


def _change_case(attrs: CaseAttrs, change: Change) -> CaseAttrs:
    branches = tuple(change(body, ())[0] for body in attrs.branches)
    otherwise = None if attrs.otherwise is None else change(attrs.otherwise, ())[0]
    return replace(attrs, branches=branches, otherwise=otherwise)


EXCHANGE.set(WHILE, _change_while)
EXCHANGE.set(CASE_OF, _change_case)
