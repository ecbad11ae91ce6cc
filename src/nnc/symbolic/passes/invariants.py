"""Loop invariants: what every iteration computes from captured symbols alone is computed once, in front of the loop.

A command without inputs, a fill, goes along with its readers. A loop that runs no iteration computes its invariants
all the same, which costs time and changes no value.
"""

from __future__ import annotations

from dataclasses import replace

from nnc.core.command import Command
from nnc.symbolic.bodies import Renamed, change_bodies, copy_body
from nnc.symbolic.control import WHILE, WhileAttrs
from nnc.symbolic.ir import Body, ExecKey, SymbolicGraph, TensorKey


def hoist(graph: SymbolicGraph) -> int:
    """Move invariant execs out of the loops of `graph`; returns how many."""
    loops = [key for key, record in graph.execs.items() if record.command.op is WHILE and record.optimize]
    return sum(_hoist_from(graph, key) for key in loops)


def _hoist_from(graph: SymbolicGraph, key: ExecKey) -> int:
    record = graph.execs[key]
    attrs: WhileAttrs = record.command.attrs
    body = attrs.body
    moved = _invariants(body, attrs.carried)
    if not moved:
        return 0
    crossing = _crossing(attrs, moved)
    pairs = zip(body.parameters[attrs.carried :], record.inputs[attrs.carried :], strict=True)
    mapped = {inner: outer for inner, outer in pairs if outer is not None}
    graph.graft(body.graph, body.graph.execs.toposort([*moved, *_fills(body.graph, moved)]), crossing, mapped)
    smaller = Body(body.graph, (*body.parameters, *crossing), body.results)

    def cut(inner: Body, named: tuple[TensorKey, ...]) -> tuple[Body, Renamed]:
        return copy_body(inner, inner.graph.needed_for((*inner.results, *named), crossing), named)

    command = change_bodies(Command(WHILE, replace(attrs, body=smaller)), cut)
    inputs = (*record.inputs, *(mapped[root] for root in crossing))
    graph.replace_exec(key, replace(record, command=command, inputs=inputs))
    return len(moved)


def _invariants(body: Body, carried: int) -> dict[ExecKey, None]:
    """Execs of whole tensors that read invariants and fills, and at least one invariant."""
    graph = body.graph
    fixed = set(body.parameters[carried:])
    filled: set[TensorKey] = set()
    found: dict[ExecKey, None] = {}
    for key in graph.execs.toposort():
        record = graph.execs[key]
        roots = {graph.root(tensor) for tensor in record.inputs if tensor is not None}
        whole = all(graph.root(tensor) == tensor for tensor in record.outputs)
        if not (record.optimize and whole and roots <= fixed | filled):
            continue
        if roots & fixed:
            found[key] = None
            fixed.update(record.outputs)
        elif not roots:
            filled.update(record.outputs)
    return found


def _fills(graph: SymbolicGraph, moved: dict[ExecKey, None]) -> set[ExecKey]:
    """The execs without inputs that moved ones read."""
    return {earlier for key in moved for earlier in graph.execs.predecessors(key)}.difference(moved)


def _crossing(attrs: WhileAttrs, moved: dict[ExecKey, None]) -> tuple[TensorKey, ...]:
    """Roots that moved execs write and that the rest of the loop reads."""
    graph = attrs.body.graph
    ends = {graph.root(key) for key in (*attrs.body.results, *attrs.asked(), *(one.symbol for one in attrs.kept))}
    written = [root for key in moved for root in graph.execs[key].outputs]
    return tuple(root for root in written if root in ends or not moved.keys() >= set(graph.readers(root)))
