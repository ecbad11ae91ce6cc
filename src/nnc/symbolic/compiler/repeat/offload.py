"""Values of a device that wait in host memory: they go there behind one use and come back before the next.

    h = to_device(v, cpu)                        behind the last use of v in front of the peak
    w = to_device(h, device)                     in front of the first use behind it; later readers read w

What that costs is counted as work, so that the search weighs it against computing values again: so many operations
for each byte, by the rates of copies and of products that `nnc doctor` measures.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from nnc.classes import dataclass
from nnc.core.values.command import Command
from nnc.core.values.device import CPU, Device, device_of
from nnc.ops.movement.transfer import OPERATIONS_PER_BYTE, TO_DEVICE, TransferAttrs
from nnc.symbolic.compiler.place.planned import PlannedGraph
from nnc.symbolic.compiler.repeat.inside import InnerCopy
from nnc.symbolic.compiler.repeat.limits import ALL
from nnc.symbolic.ir import Duplicate, SymbolicGraph
from nnc.symbolic.records import ExecKey, ExecSymbol, TensorKey

# Between two uses there must be so many execs, under which a copy may hide.
LEAST_GAP = 2


@dataclass(frozen=True, slots=True)
class WaitingValue:
    """A root that nobody uses from behind the step `last` to the step `next`, across the peak."""

    root: TensorKey
    nbytes: int
    last: int
    next: int


def offloaded(planned: PlannedGraph, kind: str) -> Iterator[InnerCopy]:
    """Copies of the graph in which ever more values of a device wait on the host: 1, 2, 4, … and all, largest first."""
    if kind == ALL or device_of(kind).is_host:
        return
    values = _waiting(planned, kind)
    counts = [1 << power for power in range(len(values).bit_length())]
    for count in dict.fromkeys(min(count, len(values)) for count in (*counts, len(values))):
        if count:
            yield _copy_with(planned, values[:count], device_of(kind))


def _waiting(planned: PlannedGraph, kind: str) -> list[WaitingValue]:
    """What could wait at the peak of this kind of memory, largest first."""
    graph, layout = planned.graph, planned.layout
    witness = layout.plan.witnesses.get(kind)
    if witness is None:
        return []
    alive = {root for index in witness.blocks for root in layout.spans[index].life.roots}
    peak = layout.step_of(witness.step)
    steps: dict[TensorKey, list[int]] = {root: [] for root in alive}
    for step, key in enumerate(planned.order):
        for root in planned.uses.touched(key):
            if root in steps:
                steps[root].append(step)
    values = []
    for root, used in steps.items():
        before, behind = [step for step in used if step < peak], [step for step in used if step >= peak]
        writers = graph.writers(root)
        whole = len(writers) == 1 and root in graph.execs[writers[0]].outputs and root not in planned.kept
        if whole and before and behind and behind[0] - before[-1] > LEAST_GAP:
            values.append(WaitingValue(root, graph.tensors[root].spec.nbytes, before[-1], behind[0]))
    return sorted(values, key=lambda value: (-value.nbytes, value.root))


def _copy_with(planned: PlannedGraph, values: Sequence[WaitingValue], device: Device) -> InnerCopy:
    copy = planned.graph.duplicate()
    for value in values:
        _let_wait(planned, copy, value, device)
    extra = sum(2 * value.nbytes for value in values) * OPERATIONS_PER_BYTE
    return InnerCopy(copy, 0, extra, sum(value.nbytes for value in values))


def _let_wait(planned: PlannedGraph, copy: Duplicate, value: WaitingValue, device: Device) -> None:
    """Take a value to the host and back; who uses it from `next` on reads what came back."""
    graph, root = copy.graph, copy.tensors[value.root]
    away = _moved(graph, root, CPU, "offload")
    graph.connect(copy.execs[planned.order[value.last]], away)
    back = _moved(graph, graph.execs[away].outputs[0], device, "offload back")
    graph.connect(copy.execs[planned.order[value.next - 1]], back)
    there = graph.execs[back].outputs[0]
    parts: dict[TensorKey, TensorKey] = {root: there}
    for key in planned.order[value.next :]:
        own = copy.execs[key]
        record = graph.execs[own]
        inputs = tuple([_part(graph, tensor, root, there, parts) for tensor in record.inputs])
        if inputs != record.inputs:
            graph.replace_exec(own, replace(record, inputs=inputs))


def _moved(graph: SymbolicGraph, source: TensorKey, device: Device, name: str) -> ExecKey:
    """An exec that takes a root to a device."""
    record = graph.tensors[source]
    made = graph.add_tensor(replace(record, spec=record.spec.on(device), name="", fill=None))
    command = Command(TO_DEVICE, TransferAttrs(device))
    return graph.add_exec(ExecSymbol(command, (source,), (made,), name, record.origin, optimize=False))


def _part(
    graph: SymbolicGraph, key: TensorKey | None, root: TensorKey, there: TensorKey, parts: dict[TensorKey, TensorKey]
) -> TensorKey | None:
    """What names in `there` what `key` names in the root; `key` itself where it is of another root."""
    if key is None or graph.root(key) != root:
        return key
    if key not in parts:
        record = graph.tensors[key]
        assert record.alias is not None
        parts[key] = graph.add_tensor(replace(record, alias=replace(record.alias, root=there)))
    return parts[key]
