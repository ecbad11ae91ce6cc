"""Fusion groups: neighbouring pointwise execs become one command, and what lies between them needs no memory.

    group = an exec, and every exec all of whose readers are in the group and whose result has the shape of the group's

Nothing is computed twice: a result that somebody outside reads, that is wanted, or that is repeated along an axis
stays outside. Only fills and copies are taken in from smaller shapes. Members read nothing that depends on the
group, so a group can always run where its last exec ran.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from nnc.core.command import Command
from nnc.core.dtype import BF16, F16
from nnc.ops.fill import FILL
from nnc.ops.fused import FUSED_POINTWISE, MOVES, FusedAttrs, FusedStep, is_fusable
from nnc.ops.pointwise import CAST
from nnc.symbolic.ir import ExecKey, ExecSymbol, Symbol, SymbolicGraph, TensorKey

# Registers and the time to compile a kernel grow with the group; beyond this nothing is gained.
MOST_STEPS = 24
MOST_INPUTS = 12


@dataclass(slots=True)
class _Group:
    """Execs that become one, the last one first, and the symbols that they read from outside."""

    members: list[ExecKey]
    inputs: dict[TensorKey, None] = field(default_factory=dict)


def fuse(graph: SymbolicGraph, wanted: Sequence[Symbol]) -> int:
    """Replace every group of two execs or more by one fused exec; returns how many execs went."""
    before = len(graph.execs)
    kept = {graph.root(graph.own(symbol)) for symbol in wanted}
    order = graph.execs.toposort()
    positions = {key: position for position, key in enumerate(order)}
    grouped: set[ExecKey] = set()
    groups = []
    for key in reversed(order):
        if key in grouped or not _is_member(graph, graph.execs[key]) or graph.execs[key].command.op is FILL:
            continue
        group = _grow(graph, key, kept, positions)
        grouped.update(group.members)
        if len(group.members) > 1 and group.inputs:
            groups.append(group)
    inner: set[TensorKey] = set()
    for group in reversed(groups):
        records = [graph.execs[key] for key in reversed(group.members)]
        _replace(graph, records, group)
        inner.update(record.outputs[0] for record in records[:-1])
    _forget(graph, inner)
    return before - len(graph.execs)


def _grow(graph: SymbolicGraph, last: ExecKey, kept: Collection[TensorKey], positions: Mapping[ExecKey, int]) -> _Group:
    """The group that ends with `last`: producers are tried from the latest, so that their readers come before them."""
    shape = graph.tensors[graph.execs[last].outputs[0]].spec.shape
    group = _Group([last])
    members = {last}
    waiting: list[tuple[int, ExecKey]] = []
    seen: set[ExecKey] = set()
    _read(graph, last, group, waiting, seen, positions)
    while waiting and len(members) < MOST_STEPS:
        _, key = heapq.heappop(waiting)
        record = graph.execs[key]
        (result,) = record.outputs
        fits = graph.tensors[result].spec.shape == shape or record.command.op in MOVES
        if not fits or result in kept or not members.issuperset(graph.readers(result)):
            continue
        added = {tensor for tensor in record.inputs if tensor is not None} - group.inputs.keys()
        if len(group.inputs) - 1 + len(added) > MOST_INPUTS:
            continue
        members.add(key)
        group.members.append(key)
        group.inputs.pop(result)
        _read(graph, key, group, waiting, seen, positions)
    return group


def _read(
    graph: SymbolicGraph,
    key: ExecKey,
    group: _Group,
    waiting: list[tuple[int, ExecKey]],
    seen: set[ExecKey],
    positions: Mapping[ExecKey, int],
) -> None:
    """Note what a member reads, and the execs behind it that may join."""
    for tensor in graph.execs[key].inputs:
        if tensor is None:
            continue
        group.inputs[tensor] = None
        writers = graph.writers(tensor)
        if graph.root(tensor) != tensor or len(writers) != 1 or writers[0] in seen:
            continue
        few = len(graph.readers(tensor)) <= MOST_STEPS
        if few and _is_member(graph, graph.execs[writers[0]]) and not _is_read_in_part(graph, tensor):
            seen.add(writers[0])
            heapq.heappush(waiting, (-positions[writers[0]], writers[0]))


def _is_read_in_part(graph: SymbolicGraph, root: TensorKey) -> bool:
    """True when somebody reads an alias of `root`."""
    read = {tensor for reader in graph.readers(root) for tensor in graph.execs[reader].inputs if tensor is not None}
    return any(tensor != root and graph.root(tensor) == root for tensor in read)


def _is_member(graph: SymbolicGraph, record: ExecSymbol) -> bool:
    """A pointwise exec on floats and truth values that writes a whole tensor and rounds no earlier than it must."""
    if not is_fusable(record.command.op) or any(graph.root(tensor) != tensor for tensor in record.outputs):
        return False
    if record.command.op is CAST and record.command.attrs.dtype in (F16, BF16):
        return False
    specs = [graph.tensors[tensor].spec for tensor in (*record.inputs, *record.outputs) if tensor is not None]
    return all(spec.dtype.kind in ("float", "bool") for spec in specs) and len({spec.device for spec in specs}) == 1


def _replace(graph: SymbolicGraph, records: Sequence[ExecSymbol], group: _Group) -> None:
    """Put one exec in the place of the group's."""
    inputs = tuple(sorted(group.inputs))
    places = {tensor: place for place, tensor in enumerate(inputs)}
    steps = []
    for record in records:
        operands = tuple(places[tensor] for tensor in record.inputs if tensor is not None)
        places[record.outputs[0]] = len(places)
        steps.append(FusedStep(record.command, operands))
    for key in group.members:
        graph.remove_exec(key)
    last = records[-1]
    command = Command(FUSED_POINTWISE, FusedAttrs(len(inputs), tuple(steps)))
    graph.add_exec(ExecSymbol(command, inputs, last.outputs, last.name, last.origin))


def _forget(graph: SymbolicGraph, roots: Collection[TensorKey]) -> None:
    """Remove the symbols between members, behind their aliases, which nobody reads."""
    aliases = [key for key, record in graph.tensors.items() if record.alias and record.alias.root in roots]
    for key in (*aliases, *sorted(roots)):
        graph.remove_tensor(key)
