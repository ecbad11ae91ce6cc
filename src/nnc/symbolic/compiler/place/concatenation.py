"""Concatenation without copies: an input is computed where it lies in the output.

concatenate(x₀, x₁, …) along the first axis of more than one place: xᵢ lies behind the bytes of x₀ … xᵢ₋₁
the block of xᵢ becomes a part of that of the output, which then lives from the first use of either

That saves the copy of xᵢ. It may cost memory, as the whole output is there as soon as its first part is; the caller
asks the plan.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from nnc.core.values.spec import contiguous_strides
from nnc.ops.movement.movement import CONCATENATE, ConcatenateAttrs
from nnc.symbolic.compiler.place.liveness import LiveRange, LiveRanges
from nnc.symbolic.ir import SymbolicGraph, bodies_of
from nnc.symbolic.records import ExecKey, ExecSymbol, TensorKey


def sites(graph: SymbolicGraph, order: Sequence[ExecKey]) -> tuple[int, ...]:
    """The steps that concatenate parts without gaps into a root of its own, most bytes first."""
    sites = []
    for step, key in enumerate(order):
        record = graph.execs[key]
        attrs = record.command.attrs
        if record.command.op is not CONCATENATE or not isinstance(attrs, ConcatenateAttrs):
            continue
        spec = graph.tensors[record.outputs[0]].spec
        if math.prod(spec.shape[: attrs.axis]) == 1 and graph.root(record.outputs[0]) == record.outputs[0]:
            sites.append((-spec.nbytes, step))
    return tuple(step for _, step in sorted(sites))


def concatenate_in_place(
    graph: SymbolicGraph,
    order: Sequence[ExecKey],
    lives: LiveRanges,
    chosen: Iterable[int],
    is_over: Callable[[LiveRange, int], bool],
) -> None:
    """Let the inputs of the chosen concatenations be parts of the outputs, as far as they can be."""
    near_bodies = _roots_of_bodies(graph, order)
    for step in sorted(chosen):
        record = graph.execs[order[step]]
        whole = lives.of.get(record.outputs[0])
        if whole is None or whole.lower != step or not whole.nbytes:
            continue
        start, times = 0, Counter(record.inputs)
        for position, key in enumerate(record.inputs):
            assert key is not None
            part, nbytes = lives.of.get(key), graph.tensors[key].spec.nbytes
            alone = times[key] == 1 and key not in near_bodies
            if alone and part is not None and _may_move(part, whole, key, step, lives, is_over):
                _move(part, whole, start, lives)
                lives.parts[key] = record.outputs[0]
                lives.in_place.setdefault(step, set()).add(position)
            start += nbytes


def _may_move(
    part: LiveRange,
    whole: LiveRange,
    key: TensorKey,
    step: int,
    lives: LiveRanges,
    is_over: Callable[[LiveRange, int], bool],
) -> bool:
    """It is computed here, holds the input last, and nobody writes the output anew while somebody reads the part."""
    if part is whole or part.outside or not part.nbytes or part.upper > lives.steps or part.memory != whole.memory:
        return False
    last = [root for root in part.roots if root not in lives.parts][-1:]
    alone = [root for root in whole.roots if root not in lives.parts]
    return last == [key] and (is_over(part, step) or len(alone) == 1)


def _move(part: LiveRange, whole: LiveRange, start: int, lives: LiveRanges) -> None:
    whole.lower, whole.upper = min(whole.lower, part.lower), max(whole.upper, part.upper)
    whole.roots.extend(part.roots)
    for root in part.roots:
        lives.of[root] = whole
        lives.shifts[root] = lives.shifts.get(root, 0) + start


def _roots_of_bodies(graph: SymbolicGraph, order: Sequence[ExecKey]) -> set[TensorKey]:
    """What loops and branches touch: they take turns in memory of blocks around them."""
    records = [graph.execs[key] for key in order]
    return {
        graph.root(key)
        for record in records
        if bodies_of(record.command)
        for key in (*record.inputs, *record.outputs)
        if key is not None
    }


def copied_parts(
    graph: SymbolicGraph, record: ExecSymbol, in_place: Iterable[int]
) -> tuple[tuple[TensorKey, int, tuple[int, ...]], ...]:
    """The inputs that are still to be copied: key, and offset and strides of its place, in elements of the output."""
    placed, start, copied = frozenset(in_place), 0, []
    for position, key in enumerate(record.inputs):
        assert key is not None
        spec = graph.tensors[key].spec
        if position not in placed:
            copied.append((key, start, contiguous_strides(spec.shape)))
        start += spec.elements
    return tuple(copied)
