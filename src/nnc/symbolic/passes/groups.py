"""Fusion groups: neighbouring execs become one command, and what lies between them needs no memory.

    group = an exec, and every exec all of whose readers are in the group and whose result has the shape of the group's

| class of the operator            | its part in a group                                                   |
| elementwise, broadcast           | anywhere; moves, sums and products also from smaller shapes           |
| reduction                        | the last exec: the others compute what it reads                       |
| fusable output                   | the first exec, at most one: the others work on its result            |
| injective, opaque                | none                                                                  |

A result that somebody outside reads, or that is wanted, stays outside, and so does one that would be computed again for
each repetition along an axis, unless that costs less than its memory. Members read nothing that depends on the group,
so a group can always run where its last exec ran.

A group must pay: the backend that would serve its product, or else its last exec, serves the whole group.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace

from nnc.arguments import checked
from nnc.classes import dataclass
from nnc.core.running.dispatch import DISPATCHER
from nnc.core.values.command import Command
from nnc.core.values.dtype import BF16, F16
from nnc.core.values.spec import Shape, contiguous_strides
from nnc.ops.composed.fused import FUSED, MOVES, FusedAttrs, FusedStep, is_fusable, is_head, is_reduction
from nnc.ops.elementwise.pointwise import AFFINE, CAST, add, multiply, subtract
from nnc.ops.movement.fill import FILL
from nnc.ops.quantization.quantization import DEQUANTIZE, INTEGER_CONVOLUTION, INTEGER_PRODUCT, QUANTIZE
from nnc.symbolic.ir import Symbol, SymbolicGraph
from nnc.symbolic.records import ExecKey, ExecSymbol, TensorKey

# Registers and the time to compile a kernel grow with the group; beyond this nothing is gained.
MOST_STEPS = 24
MOST_INPUTS = 12
# What joins from smaller shapes: one instruction per element, or none.
REPEATED = MOVES | {add, subtract, multiply, AFFINE}


@dataclass(slots=True)
class _Group:
    """Execs that become one, the last one first, and the symbols that they read from outside."""

    members: list[ExecKey]
    shape: Shape
    inputs: dict[TensorKey, None] = field(default_factory=dict)
    head: ExecKey | None = None

    @property
    def execs(self) -> tuple[ExecKey, ...]:
        """The members in the order of their steps: the product first, then as the graph has them."""
        rest = tuple(key for key in reversed(self.members) if key != self.head)
        return rest if self.head is None else (self.head, *rest)


@checked
def fuse(graph: SymbolicGraph, wanted: Sequence[Symbol], backend: str = "") -> int:
    """Replace every group of two execs or more by one fused exec; returns how many execs went.

    Groups go by the backends in order of preference, the caller's `backend` first.
    """
    before = len(graph.execs)
    kept = {graph.root(graph.own(symbol)) for symbol in wanted}
    order = graph.execs.toposort()
    positions = {key: position for position, key in enumerate(order)}
    grouped: set[ExecKey] = set()
    groups = []
    for key in reversed(order):
        group = None if key in grouped else _group(graph, key, kept, positions, backend)
        if group is not None:
            grouped.update(group.members)
            groups.append(group)
    inner: set[TensorKey] = set()
    for group in reversed(groups):
        inner.update(graph.execs[key].outputs[0] for key in group.members[1:])
        _replace(graph, group)
    _forget(graph, inner)
    return before - len(graph.execs)


def _group(
    graph: SymbolicGraph, last: ExecKey, kept: Collection[TensorKey], positions: Mapping[ExecKey, int], backend: str
) -> _Group | None:
    """The group that ends with `last`, when there is one that pays."""
    record = graph.execs[last]
    if record.command.op is FILL or not (_is_member(graph, record) or _is_end(graph, record)):
        return None
    for with_head in (True, False):
        group = _grow(graph, last, kept, positions, with_head and not is_reduction(record.command.op))
        if len(group.members) > 1 and group.inputs and _pays(graph, group, backend):
            return group
        if group.head is None:
            return None
    return None


def _grow(
    graph: SymbolicGraph,
    last: ExecKey,
    kept: Collection[TensorKey],
    positions: Mapping[ExecKey, int],
    with_head: bool,
) -> _Group:
    """The group that ends with `last`: producers are tried from the latest, so that their readers come before them."""
    record = graph.execs[last]
    whole = record.inputs[0] if is_reduction(record.command.op) else record.outputs[0]
    assert whole is not None
    group = _Group([last], graph.tensors[whole].spec.shape)
    waiting: list[tuple[int, ExecKey]] = []
    seen: set[ExecKey] = set()
    _read(graph, last, group, waiting, seen, positions)
    while waiting and len(group.members) < MOST_STEPS:
        _, key = heapq.heappop(waiting)
        record = graph.execs[key]
        product = is_head(record.command.op)
        if not _joins(graph, record, group, kept) or (product and (not with_head or group.head is not None)):
            continue
        group.members.append(key)
        group.inputs.pop(record.outputs[0])
        if product:
            # What the product reads is computed before the group's first step.
            group.head = key
            group.inputs.update((tensor, None) for tensor in record.inputs if tensor is not None)
        else:
            _read(graph, key, group, waiting, seen, positions)
    return group


def _joins(graph: SymbolicGraph, record: ExecSymbol, group: _Group, kept: Collection[TensorKey]) -> bool:
    """True when the exec's result is read inside the group alone, has its shape, and the group stays small."""
    (result,) = record.outputs
    fits = graph.tensors[result].spec.shape == group.shape or record.command.op in REPEATED
    readers = graph.readers(result)
    if not fits or result in kept or group.head in readers or not set(group.members).issuperset(readers):
        return False
    added = {tensor for tensor in record.inputs if tensor is not None} - group.inputs.keys()
    return len(group.inputs) - 1 + len(added) <= MOST_INPUTS


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
        few, writer = len(graph.readers(tensor)) <= MOST_STEPS, graph.execs[writers[0]]
        may_join = _is_member(graph, writer) or _is_head(graph, writer)
        if few and may_join and not _is_read_in_part(graph, tensor):
            seen.add(writers[0])
            heapq.heappush(waiting, (-positions[writers[0]], writers[0]))


def _is_read_in_part(graph: SymbolicGraph, root: TensorKey) -> bool:
    """True when somebody reads an alias of `root`."""
    read = {tensor for reader in graph.readers(root) for tensor in graph.execs[reader].inputs if tensor is not None}
    return any(tensor != root and graph.root(tensor) == root for tensor in read)


def _is_member(graph: SymbolicGraph, record: ExecSymbol) -> bool:
    """A pointwise exec on floats and truth values that writes a whole tensor and rounds no earlier than it must.

    To and from integers there is quantization.
    """
    if record.command.op is CAST and record.command.attrs.dtype in (F16, BF16):
        return False
    kinds = ("float", "int", "uint") if record.command.op in (QUANTIZE, DEQUANTIZE) else ("float", "bool")
    return is_fusable(record.command.op) and _is_whole(graph, record, kinds)


def _is_end(graph: SymbolicGraph, record: ExecSymbol) -> bool:
    """A reduction of floats that reads and writes whole tensors."""
    is_single = len(record.inputs) == 1 and is_reduction(record.command.op)
    if not is_single or not _is_whole(graph, record, ("float", "int")):
        return False
    (x,) = record.inputs
    return x is not None and graph.tensors[x].spec.dtype.is_float


def _is_head(graph: SymbolicGraph, record: ExecSymbol) -> bool:
    """A product of floats or bytes that lie in memory in order, no operand of which is absent but the last ones."""
    kinds = ("int", "uint") if record.command.op in (INTEGER_PRODUCT, INTEGER_CONVOLUTION) else ("float",)
    if not is_head(record.command.op) or not _is_whole(graph, record, kinds):
        return False
    if None in record.inputs[: len(record.inputs) - record.inputs.count(None)]:
        return False
    read = [graph.symbol(key) for key in record.inputs if key is not None]
    return all(symbol.strides == contiguous_strides(symbol.shape) for symbol in read)


def _is_whole(graph: SymbolicGraph, record: ExecSymbol, kinds: tuple[str, ...]) -> bool:
    """The exec may be changed, writes no part of a tensor, and works on these kinds of elements, all on one device."""
    specs = [graph.tensors[tensor].spec for tensor in (*record.inputs, *record.outputs) if tensor is not None]
    one_device = len({spec.device for spec in specs}) == 1
    whole = all(graph.root(tensor) == tensor for tensor in record.outputs)
    return record.optimize and whole and one_device and all(spec.dtype.kind in kinds for spec in specs)


def _pays(graph: SymbolicGraph, group: _Group, backend: str) -> bool:
    """True when the backend of the group's product, or else of its last exec, serves the group."""
    command, inputs = _fused(graph, group)
    record = graph.execs[group.members[0] if group.head is None else group.head]
    outputs = graph.execs[group.members[0]].outputs
    servers = [
        DISPATCHER.server(value, graph.specs(read), graph.specs(written), backend)
        for value, read, written in ((command, inputs, outputs), (record.command, record.inputs, record.outputs))
    ]
    return servers[0] == servers[1]


def _fused(graph: SymbolicGraph, group: _Group) -> tuple[Command[FusedAttrs], tuple[TensorKey, ...]]:
    """The group as one command, and what it reads: the product's operands in their order, then all others'."""
    records = [graph.execs[key] for key in group.execs]
    head = () if group.head is None else tuple(key for key in graph.execs[group.head].inputs if key is not None)
    members = {record.outputs[0] for record in records}
    later = {key for record in records[bool(head) :] for key in record.inputs if key is not None}
    inputs = (*head, *sorted(later - members))
    places = {tensor: place for place, tensor in enumerate(inputs)}
    steps: list[FusedStep] = []
    for record in records:
        given = tuple(places[tensor] for tensor in record.inputs if tensor is not None)
        steps.append(FusedStep(record.command, tuple(range(len(head))) if head and not steps else given))
        places[record.outputs[0]] = len(inputs) + len(steps) - 1
    attrs = FusedAttrs(len(inputs), tuple(steps))
    return Command(FUSED[attrs.pattern], attrs), inputs


def _replace(graph: SymbolicGraph, group: _Group) -> None:
    """Put one exec in the place of the group's last."""
    command, inputs = _fused(graph, group)
    last, *others = group.members
    for key in others:
        graph.remove_exec(key)
    graph.replace_exec(last, replace(graph.execs[last], command=command, inputs=inputs))


def _forget(graph: SymbolicGraph, roots: Collection[TensorKey]) -> None:
    """Remove the symbols between members, behind their aliases, which nobody reads."""
    aliases = [key for key, record in graph.tensors.items() if record.alias and record.alias.root in roots]
    for key in (*aliases, *sorted(roots)):
        graph.remove_tensor(key)
