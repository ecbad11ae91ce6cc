"""Sums over all steps of a sequence, part by part: for the same bits when the sequence is cut within a limit.

    u' = sum over steps of h₋^T · z'   →   u' = (h₋^T · z' of the last part) + … + (of the first part)

The parts, and their order, which is that of the gradient, follow from the sizes alone (`compiler/repeat/sequences.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from nnc.core.precautions.origin import inherited_origin
from nnc.core.values.command import Command
from nnc.core.values.spec import contiguous_strides
from nnc.ops.elementwise.pointwise import add
from nnc.ops.movement.broadcast import REDUCE_SUM
from nnc.ops.products.products import GEMM, GemmAttrs
from nnc.ops.rules import NoAttrs
from nnc.symbolic.compiler.repeat.sequences import is_ascending, parts_of, recurrent_gradients
from nnc.symbolic.ir import SymbolicGraph
from nnc.symbolic.records import ExecKey, ExecSymbol, TensorKey

_ADD, _SUMMED = Command(add, NoAttrs()), GemmAttrs(transpose_a=True)


def sum_in_parts(graph: SymbolicGraph) -> Counter[str]:
    """Cut the sums over all steps of what recurrent gradients give: how many `sums`."""
    fired = 0
    for record in recurrent_gradients(graph):
        spec = graph.tensors[record.outputs[0]].spec
        steps, batch, _ = spec.shape
        # Sums of parts would be rounded to 16 bits.
        if spec.dtype.itemsize < 4:
            continue
        cuts = parts_of(steps, batch)
        parts = [*pairwise(cuts)] if is_ascending(record) else [*pairwise(cuts)][::-1]
        for reader in [*_sums(graph, record)] if len(parts) > 1 else ():
            _cut(graph, reader, steps, parts)
            fired += 1
    return Counter(sums=fired)


def _sums(graph: SymbolicGraph, record: ExecSymbol) -> Iterator[ExecKey]:
    """The execs that sum an output of a gradient over all steps and examples."""
    for output in record.outputs:
        rank = graph.tensors[output].spec.rank
        for reader in graph.readers(output) if rank == 3 else ():
            if _sums_all(graph, graph.execs[reader], output):
                yield reader


def _sums_all(graph: SymbolicGraph, record: ExecSymbol, output: TensorKey) -> bool:
    if not record.optimize or graph.root(record.outputs[0]) != record.outputs[0]:
        return False
    command, (steps, batch, width) = record.command, graph.tensors[output].spec.shape
    if command.op is REDUCE_SUM:
        return record.inputs == (output,) and command.attrs.axes == (0, 1) and not command.attrs.keepdims
    if command.op is not GEMM or command.attrs != _SUMMED or record.inputs[2] is not None:
        return False
    left, right, _ = record.inputs
    assert left is not None
    assert right is not None
    whole = graph.tensors[right].spec.shape == (steps * batch, width) and graph.root(right) == output
    return whole and all(_is_plain(graph, key) for key in (left, right))


def _is_plain(graph: SymbolicGraph, key: TensorKey) -> bool:
    """Whether rows lie one behind the other from the beginning."""
    region = graph.region(key)
    return region.offset == 0 and region.strides == contiguous_strides(region.shape)


def _cut(graph: SymbolicGraph, key: ExecKey, steps: int, parts: list[tuple[int, int]]) -> None:
    """The sum of the sums of the parts, in the place of that of all steps."""
    record = graph.remove_exec(key)
    total: TensorKey | None = None
    with inherited_origin(record.origin):
        for start, stop in parts:
            inputs = tuple([_part(graph, entry, steps, start, stop) for entry in record.inputs if entry is not None])
            result = record.outputs[0] if (start, stop) == parts[-1] else _like(graph, record.outputs[0])
            value = result if total is None else _like(graph, result)
            graph.add_exec(replace(record, inputs=(*inputs, None)[: len(record.inputs)], outputs=(value,)))
            if total is not None:
                graph.add_exec(ExecSymbol(_ADD, (total, value), (result,), record.name, record.origin, optimize=False))
            total = result


def _like(graph: SymbolicGraph, key: TensorKey) -> TensorKey:
    return graph.input(graph.tensors[key].spec).key


def _part(graph: SymbolicGraph, key: TensorKey, steps: int, start: int, stop: int) -> TensorKey:
    """Steps [start, stop) of an operand whose first axis begins with the steps."""
    spec, region = graph.tensors[key].spec, graph.region(key)
    rows = spec.shape[0] // steps
    shape = ((stop - start) * rows, *spec.shape[1:])
    offset = region.offset + start * rows * region.strides[0]
    return graph.alias(key, replace(spec, shape=shape), offset, region.strides).key
