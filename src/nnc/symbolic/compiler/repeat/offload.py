"""Values of a device that wait in host memory, and values of the host that wait in a file: they go there behind one use
and come back before the next.

    h = to_device(v, away)                       behind the last use of v in front of the peak
    w = to_device(h, device)                     in front of the first use behind it; later readers read w

What that costs is counted as work, so that the search weighs it against computing values again: so many operations
for each byte, by the rates of copies and of products that `nnc doctor` measures, and of
a file by the rate of its folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from nnc.classes import dataclass
from nnc.core.running.copy_rates import round_trip_seconds
from nnc.core.running.file_device import seconds_per_byte
from nnc.core.values.command import Command
from nnc.core.values.device import CPU, Device, device_of
from nnc.ops.movement.transfer import TO_DEVICE, TransferAttrs, operations_between
from nnc.symbolic.compiler.place.planned import PlannedGraph
from nnc.symbolic.compiler.repeat.inside import InnerCopy
from nnc.symbolic.compiler.repeat.limits import ALL
from nnc.symbolic.ir import Duplicate, SymbolicGraph
from nnc.symbolic.records import ExecKey, ExecSymbol, TensorKey

# At least this many execs must stand between two uses of a value, so that its copies run meanwhile.
LEAST_GAP = 2
# The values that may go to the host are tried in this many steps, the largest values first.
PARTS = 4


@dataclass(frozen=True, slots=True)
class WaitingValue:
    """A root that nobody uses from behind the step `last` to the step `next`, across the peak."""

    root: TensorKey
    nbytes: int
    last: int
    next: int


def offloaded(planned: PlannedGraph, kind: str, folder: Device | None = None) -> Iterator[InnerCopy]:
    """Copies of the graph in which ever more values wait elsewhere, largest first: 1, 2, 4, … and all, or by quarters.

    Those of a device wait on the host, those of the host in a file of the `folder`, if there is one.
    """
    home = CPU if kind == ALL else device_of(kind)
    away = folder if home.is_host else CPU
    if away is None:
        return
    values = _waiting(planned, str(home))
    powers = [1 << power for power in range(len(values).bit_length())]
    # Each is searched for what to compute again, which takes seconds where networks are large.
    counts = [-(-len(values) * part // PARTS) for part in range(1, PARTS)] if away.is_file else powers
    for count in dict.fromkeys(min(count, len(values)) for count in (*counts, len(values))):
        if count:
            yield _copy_with(planned, values[:count], home, away)


def _waiting(planned: PlannedGraph, kind: str) -> list[WaitingValue]:
    """What could wait at the peak of this kind of memory, largest first."""
    graph, layout = planned.graph, planned.layout
    witness = layout.plan.witnesses.get(kind)
    if witness is None:
        return []
    spans = (layout.spans[index] for index in witness.blocks)
    # Blocks inside of loops and branches hold values of other graphs.
    alive = {root for span in spans if span.step is None and span.exec is None for root in span.life.roots}
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


def _copy_with(planned: PlannedGraph, values: Sequence[WaitingValue], home: Device, away: Device) -> InnerCopy:
    copy = planned.graph.duplicate()
    for value in values:
        _offload(planned, copy, value, home, away)
    extra = sum(2 * value.nbytes for value in values) * operations_between(home, away)
    sizes = [value.nbytes for value in values]
    seconds = sum(sizes) * seconds_per_byte(away) if away.is_file else round_trip_seconds(home, sizes)
    return InnerCopy(copy, 0, extra, sum(sizes), seconds)


def _offload(planned: PlannedGraph, copy: Duplicate, value: WaitingValue, home: Device, elsewhere: Device) -> None:
    """Take a value away and back; who uses it from `next` on reads what came back."""
    graph, root = copy.graph, copy.tensors[value.root]
    away = _moved(graph, root, elsewhere, "offload")
    graph.connect(copy.execs[planned.order[value.last]], away)
    back = _moved(graph, graph.execs[away].outputs[0], home, "offload back")
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
