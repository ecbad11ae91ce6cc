"""Loop invariants: what every iteration computes from captured symbols alone is computed once, in front of the loop.

A command without inputs, a fill, goes along with its readers. A loop that runs no iteration computes its invariants
all the same, which costs time and changes no value.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from nnc.arguments import checked
from nnc.core.values.command import Command
from nnc.symbolic.bodies import Renamed, change_bodies, copy_body
from nnc.symbolic.control import WHILE, WhileAttrs
from nnc.symbolic.ir import Body, SymbolicGraph
from nnc.symbolic.records import ExecKey, TensorKey


@checked
def hoist(graph: SymbolicGraph) -> int:
    """Move invariant execs out of the loops of `graph`; returns how many."""
    loops = [key for key, record in graph.execs.items() if record.command.op is WHILE and record.optimize]
    return sum(_hoist_from(graph, key) for key in loops)


def _hoist_from(graph: SymbolicGraph, key: ExecKey) -> int:
    record = graph.execs[key]
    attrs: WhileAttrs = record.command.attrs
    body = attrs.body
    moved = invariant_execs(body.graph, body.parameters[attrs.carried :])
    if not moved:
        return 0
    crossing = read_elsewhere(body.graph, moved, (*body.results, *attrs.asked(), *(row.symbol for row in attrs.kept)))
    pairs = zip(body.parameters[attrs.carried :], record.inputs[attrs.carried :], strict=True)
    mapped = {inner: outer for inner, outer in pairs if outer is not None}
    graph.graft(body.graph, with_fills(body.graph, moved), crossing, mapped)
    smaller = Body(body.graph, (*body.parameters, *crossing), body.results)

    def cut(inner: Body, named: tuple[TensorKey, ...]) -> tuple[Body, Renamed]:
        return copy_body(inner, inner.graph.needed_for((*inner.results, *named), crossing), named)

    command = change_bodies(Command(WHILE, replace(attrs, body=smaller)), cut)
    inputs = (*record.inputs, *(mapped[root] for root in crossing))
    graph.replace_exec(key, replace(record, command=command, inputs=inputs))
    return len(moved)


def invariant_execs(graph: SymbolicGraph, fixed: Collection[TensorKey]) -> dict[ExecKey, None]:
    """Execs of whole tensors that read roots in `fixed`, what is computed from these, and fills; not fills alone."""
    fixed, filled = set(fixed), set[TensorKey]()
    invariant: dict[ExecKey, None] = {}
    for key in graph.execs.toposort():
        record = graph.execs[key]
        roots = set(graph.roots(record.inputs))
        whole = all(graph.root(tensor) == tensor for tensor in record.outputs)
        if not (record.optimize and whole and roots <= fixed | filled):
            continue
        if roots & fixed:
            invariant[key] = None
            fixed.update(record.outputs)
        elif not roots:
            filled.update(record.outputs)
    return invariant


def with_fills(graph: SymbolicGraph, moved: Collection[ExecKey]) -> tuple[ExecKey, ...]:
    """Invariant execs with the execs without inputs that they read, in order."""
    return graph.execs.toposort({*moved, *(earlier for key in moved for earlier in graph.execs.predecessors(key))})


def read_elsewhere(
    graph: SymbolicGraph, moved: Collection[ExecKey], ends: Iterable[TensorKey]
) -> tuple[TensorKey, ...]:
    """Roots that moved execs write, and that other execs read or `ends` name."""
    asked, inside = {graph.root(key) for key in ends}, set(moved)
    written = [root for key in moved for root in graph.execs[key].outputs]
    return tuple(root for root in written if root in asked or not inside.issuperset(graph.readers(root)))
