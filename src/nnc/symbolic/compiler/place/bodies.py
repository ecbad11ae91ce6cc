"""Bodies of loops and branches, planned before the graph around them.

memory of a loop = arena of its body + the slots that carried values take turns in, without those that the graph gives
memory of a case..of = that of its largest branch

This memory is a block of the graph around, alive at the loop's step.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from nnc.core.command import AnyCommand
from nnc.core.dispatch import DISPATCHER
from nnc.core.spec import contiguous_strides
from nnc.errors import UsageError
from nnc.symbolic.compiler.order.choose import choose_order
from nnc.symbolic.compiler.order.uses import uses_of
from nnc.symbolic.compiler.place.liveness import LiveRange, LiveRanges, ends_at, find_live_ranges, fold_inplace
from nnc.symbolic.compiler.place.memory import lay_out
from nnc.symbolic.compiler.place.planned import PlannedGraph
from nnc.symbolic.compiler.place.slots import (
    aligned,
    assign_slots,
    computed_places,
    join_equals,
    live_through,
    use_outer_memory,
)
from nnc.symbolic.control import CaseAttrs, WhileAttrs
from nnc.symbolic.ir import Body, ExecKey, SymbolicGraph, TensorKey, bodies_of


def plan_bodies(
    graph: SymbolicGraph, execs: Sequence[ExecKey], backend: str
) -> dict[ExecKey, tuple[PlannedGraph, ...]]:
    """The planned of all bodies inside these execs."""
    found = {}
    for key in execs:
        command = graph.execs[key].command
        bodies = [body for _, body in bodies_of(command)]
        if bodies:
            found[key] = tuple(_plan_body(body, command, backend) for body in bodies)
    return found


def scratch_bytes(
    graph: SymbolicGraph, execs: Sequence[ExecKey], inner: Mapping[ExecKey, tuple[PlannedGraph, ...]], backend: str
) -> dict[ExecKey, int]:
    """The scratch memory of each exec: its kernel's, or what is inside of it."""
    return {
        key: _memory_inside(graph, key, inner[key]) if key in inner else _claimed_bytes(graph, key, backend)
        for key in execs
    }


def plan_workspaces(
    graph: SymbolicGraph,
    order: Sequence[ExecKey],
    inner: Mapping[ExecKey, tuple[PlannedGraph, ...]],
    scratch: Mapping[ExecKey, int],
    lives: LiveRanges,
    is_over: Callable[[LiveRange, int], bool] = ends_at,
    read_only: Collection[TensorKey] = (),
) -> None:
    """Add scratch memory as blocks of one step; a loop begins in blocks around it that are over, unless `read_only`."""
    for step, key in enumerate(order):
        record, nbytes = graph.execs[key], scratch[key]
        if isinstance(record.command.attrs, WhileAttrs):
            slots = inner[key][0].slots

            def may_write(root: TensorKey, step: int = step) -> bool:
                life = lives.of[root]
                return root not in read_only and ends_at(life, step) and is_over(life, step)

            lives.outer[step] = use_outer_memory(record, step, slots, lives, may_write)
            nbytes -= sum(slots.sizes[memory] for memory in lives.outer[step].roots)
        if nbytes:
            lives.workspaces[step] = LiveRange([], step, step + 1, nbytes)


def _plan_body(body: Body, command: AnyCommand, backend: str) -> PlannedGraph:
    """Carried values have slots; what else comes from outside, and the results of branches, live in memory outside."""
    if isinstance(command.attrs, WhileAttrs):
        return _plan_loop(command.attrs, backend)
    graph = body.graph
    outside = [*body.parameters, *body.results]
    execs = graph.needed_for(body.results, frozenset(body.parameters))
    inner = plan_bodies(graph, execs, backend)
    scratch = scratch_bytes(graph, execs, inner, backend)
    uses = uses_of(graph, execs, outside, body.results, scratch)
    order = choose_order(graph, execs, uses, {})
    lives = find_live_ranges(graph, order, uses, frozenset(outside))
    fold_inplace(graph, order, lives)
    plan_workspaces(graph, order, inner, scratch, lives)
    layout = lay_out(lives, {root: graph.label(root) for root in lives.of})
    return PlannedGraph(graph, order, lives, layout, inner, backend)


def _plan_loop(attrs: WhileAttrs, backend: str) -> PlannedGraph:
    """What the test and the results behind the loop read comes first in the order."""
    body, graph = attrs.body, attrs.body.graph
    moving = computed_places(attrs)
    computed = {body.parameters[place] for place in moving}
    outside = [attrs.count, *(key for key in body.parameters if key not in computed)]
    early = (*attrs.asked(), *attrs.exits())
    kept = [*(body.results[place] for place in moving), *_late(attrs)]
    given = frozenset([attrs.count, *body.parameters])
    execs = graph.needed_for([*kept, *early], given)
    inner = plan_bodies(graph, execs, backend)
    scratch = scratch_bytes(graph, execs, inner, backend)
    roots = frozenset(graph.root(key) for key in kept)
    uses = uses_of(graph, execs, outside, roots, scratch)
    first = set(graph.needed_for(early, given))
    order = tuple(sorted(choose_order(graph, execs, uses, {}), key=lambda key: key not in first))
    lives = find_live_ranges(graph, order, uses, frozenset(outside))
    live_through(attrs, graph, lives, len(first))
    fold_inplace(graph, order, lives)
    join_equals(attrs, lives)
    plan_workspaces(graph, order, inner, scratch, lives, read_only=_handed_on(graph, order, body.parameters))
    slots = assign_slots(attrs, order, lives)
    rest = {root: life for root, life in lives.of.items() if root not in slots.of}
    layout = lay_out(replace(lives, of=rest), {root: graph.label(root) for root in rest})
    return PlannedGraph(graph, order, lives, layout, inner, backend, roots, len(first), slots=slots)


def _handed_on(graph: SymbolicGraph, order: Sequence[ExecKey], parameters: Sequence[TensorKey]) -> frozenset[TensorKey]:
    """Roots that may be the memory of a parameter: branches give operands back."""
    found = set(parameters)
    for key in order:
        record = graph.execs[key]
        attrs = record.command.attrs
        if not isinstance(attrs, CaseAttrs):
            continue
        operands = record.inputs[attrs.chosen :]
        for _, body in attrs.bodies():
            for output, result in zip(record.outputs, body.results, strict=True):
                if result in body.parameters and operands[body.parameters.index(result)] in found:
                    found.add(output)
    return frozenset(found)


def _late(attrs: WhileAttrs) -> tuple[TensorKey, ...]:
    """Symbols whose rows are written at the end of an iteration: what it computes."""
    return tuple(key for key in attrs.stacked() if key not in attrs.body.parameters)


def _memory_inside(graph: SymbolicGraph, key: ExecKey, planned: Sequence[PlannedGraph]) -> int:
    if isinstance(graph.execs[key].command.attrs, WhileAttrs):
        return planned[0].nbytes + sum(planned[0].slots.sizes)
    return max(scheme.nbytes for scheme in planned)


def _claimed_bytes(graph: SymbolicGraph, key: ExecKey, backend: str) -> int:
    """The workspace of the kernel, and what it copies operands with gaps to, behind it."""
    record = graph.execs[key]
    inputs = tuple(None if tensor is None else graph.tensors[tensor].spec for tensor in record.inputs)
    outputs = tuple(graph.tensors[tensor].spec for tensor in record.outputs)
    try:
        kernel = DISPATCHER.claim(record.command, inputs, outputs, backend).kernel
    except UsageError as error:
        error.origin = error.origin or record.origin
        raise
    read, written = _with_gaps(graph, record.inputs), _with_gaps(graph, record.outputs)
    copied = kernel.copied_bytes(read, written) if read or written else 0
    return aligned(kernel.workspace_bytes) + copied if copied else kernel.workspace_bytes


def _with_gaps(graph: SymbolicGraph, tensors: Sequence[TensorKey | None]) -> frozenset[int]:
    """The positions of aliases whose elements do not lie one behind the other."""
    present = [(position, key) for position, key in enumerate(tensors) if key is not None and graph.root(key) != key]
    return frozenset(
        position
        for position, key in present
        if graph.region(key).strides != contiguous_strides(graph.tensors[key].spec.shape)
    )
