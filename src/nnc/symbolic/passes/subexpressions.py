"""Common sub-expressions: execs of one command on the same inputs compute the same, so one is enough."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from nnc.arguments import checked
from nnc.core.values.sizes import comparing_sizes
from nnc.symbolic.ir import Symbol, SymbolicGraph
from nnc.symbolic.passes.pruning import prune
from nnc.symbolic.records import ExecSymbol, TensorKey
from nnc.symbolic.region import Region
from nnc.symbolic.rewrite import redirect

Place = tuple[TensorKey, Region]


@checked
def eliminate_common(graph: SymbolicGraph, outputs: Iterable[Symbol]) -> int:
    """Let readers of later copies read the first, then prune the copies; returns how many execs went."""
    wanted = list(outputs)
    first: dict[Hashable, ExecSymbol] = {}
    for key in graph.execs.toposort():
        record = graph.execs[key]
        if not record.optimize or any(graph.root(output) != output for output in record.outputs):
            continue
        with comparing_sizes():
            place = (record.command, tuple(_place(graph, tensor) for tensor in record.inputs))
            earlier = first.setdefault(place, record)
        if earlier is not record:
            for old, new in zip(record.outputs, earlier.outputs, strict=True):
                redirect(graph, old, new)
    return prune(graph, wanted)


def _place(graph: SymbolicGraph, key: TensorKey | None) -> Place | None:
    return None if key is None else (graph.root(key), graph.region(key))
