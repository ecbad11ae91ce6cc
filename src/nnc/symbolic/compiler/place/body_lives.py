"""What the lives of values say of a body: what is lent, handed on and moved."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from nnc.symbolic.compiler.place.liveness import (
    LiveRange,
    LiveRanges,
    OuterMemory,
    ends_at,
    live_range_of,
)
from nnc.symbolic.compiler.place.planned import PlannedGraph
from nnc.symbolic.compiler.place.slots import (
    Slots,
    handed_operands,
    trips,
)
from nnc.symbolic.control import CaseAttrs, WhileAttrs
from nnc.symbolic.ir import SymbolicGraph
from nnc.symbolic.records import ExecKey, ExecSymbol, TensorKey


def in_one_block(planned: PlannedGraph, parameter: TensorKey, result: TensorKey) -> bool:
    """The result is the parameter, or written where that was."""
    life = planned.lives.of.get(result)
    return result == parameter or (result in planned.lent and life is planned.lives.of.get(parameter))


def moved_results(loop: WhileAttrs, planned: PlannedGraph) -> int:
    """Bytes of the results of a loop that are copied behind it, as where they end depends on the run."""
    is_moved = trips(loop) is not None and planned.slots.passed
    return bytes_of(planned.graph, loop.exits()) if is_moved else 0


def drop_count(life: LiveRange | None, step: int) -> None:
    """A count that nobody reads is not written."""
    if life is not None and ends_at(life, step):
        life.nbytes = 0


def one_to_one(pairs: Iterable[tuple[int, int]]) -> frozenset[tuple[int, int]]:
    """Pairs without those whose first or second another one has before them."""
    chosen: set[tuple[int, int]] = set()
    for value, other in sorted(pairs):
        if not any(value == first or other == second for first, second in chosen):
            chosen.add((value, other))
    return frozenset(chosen)


def bytes_of(graph: SymbolicGraph, keys: Iterable[TensorKey]) -> int:
    """The bytes of these tensors together."""
    return sum(graph.tensors[key].spec.nbytes for key in keys)


def lendable(record: ExecSymbol, lives: LiveRanges, may_write: Callable[[TensorKey], bool]) -> frozenset[int]:
    """Places of inputs whose blocks no other input has, and which may be written over."""
    blocks = [lives.of.get(key) for key in record.inputs if key is not None]
    return frozenset(
        place
        for place, key in enumerate(record.inputs)
        if key in lives.of and sum(other is lives.of[key] for other in blocks) == 1 and may_write(key)
    )


def handed_on(graph: SymbolicGraph, order: Sequence[ExecKey], loop: WhileAttrs) -> frozenset[TensorKey]:
    """Roots that may be the memory of a parameter: branches give operands back."""
    handed = set(loop.body.parameters)
    for key in order:
        record = graph.execs[key]
        if isinstance(record.command.attrs, CaseAttrs):
            pairs = (pair for branch in handed_operands(record) for pair in branch.items())
            handed.update(output for output, operand in pairs if operand in handed)
    return frozenset(handed)


def keep_unwritten(
    graph: SymbolicGraph, kept: Iterable[TensorKey], lives: LiveRanges, bound: Collection[TensorKey]
) -> None:
    """A wanted output that no exec touches (an input passed through, a fill) still needs memory."""
    for root in sorted(kept):
        if root in lives.of or root in bound:
            continue
        record, end = graph.tensors[root], lives.steps
        if record.fill is None:
            lives.of[root] = live_range_of(graph, root, 0, end + 1)
            lives.of[root].outside = True
        else:
            lives.of[root] = live_range_of(graph, root, end, end + 1)
            lives.fills.setdefault(end, []).append(root)


def resident_parameters(
    attrs: WhileAttrs, slots: Slots, outer: OuterMemory, record: ExecSymbol
) -> frozenset[TensorKey]:
    """The carried symbols that lie in their slots from the first iteration on."""
    body, resident = attrs.body, set[TensorKey]()
    if slots.passed:
        return frozenset()
    carried = body.parameters[: attrs.carried]
    given = {
        key
        for key, initial in zip(carried, record.inputs, strict=False)
        if key in slots.of and outer.roots.get(slots.of[key]) == initial
    }
    for key in given:
        links = [key]
        while links[-1] in given and body.results[carried.index(links[-1])] in carried:
            links.append(body.results[carried.index(links[-1])])
        if links[-1] in given:
            resident.add(key)
    return frozenset(resident)
