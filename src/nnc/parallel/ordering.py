"""What ranks do together in the graph of a step: in one order, and weights gathered again for the backward pass."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from nnc.parallel.beside import BEGIN_SUMS, END_SUMS
from nnc.parallel.block_operators import ENTER, OWN_BLOCK, OWN_ROWS
from nnc.parallel.collectives import REGISTRY
from nnc.parallel.tensor_shards import OWN_SHARD, UNSHARD
from nnc.symbolic import Symbol, SymbolicGraph
from nnc.symbolic.records import ExecKey, ExecSymbol, TensorKey

# Operators that send nothing, which ranks come to in any order.
ALONE = (ENTER, OWN_BLOCK, OWN_ROWS, OWN_SHARD, END_SUMS)
# As many sums are on their way at most before the first of them is waited for: their memory is that of as many buckets.
UNDER_WAY = 8


def order_collectives(graph: SymbolicGraph) -> None:
    """All ranks come to operations in one order, whatever the sizes that they plan for; passes leave them so."""
    _sums_beside(graph)
    operators = {key: graph.execs[key].command.op for key in graph.execs.toposort()}
    together = [key for key, op in operators.items() if op.registry is REGISTRY and op not in ALONE]
    for earlier, later in pairwise(together):
        graph.connect(earlier, later)


def _sums_beside(graph: SymbolicGraph) -> None:
    """Sums begin before the values of the next ones are computed, and end when others are under way behind them."""
    place = {key: number for number, key in enumerate(graph.execs.toposort())}
    begins, ends = (
        {graph.execs[key].command.attrs.number: key for key in place if graph.execs[key].command.op is op}
        for op in (BEGIN_SUMS, END_SUMS)
    )
    for number, begin in begins.items():
        if number + 1 in begins:
            inputs = graph.execs[begins[number + 1]].inputs
            writers = sorted({writer for key in inputs for writer in _writers(graph, key)}, key=place.__getitem__)
            _connect_to_first(graph, begin, [*writers, begins[number + 1]])
        _connect_to_first(graph, begins[min(number + UNDER_WAY, len(begins) - 1)], [ends[number]])


def _writers(graph: SymbolicGraph, key: TensorKey | None) -> tuple[ExecKey, ...]:
    return () if key is None else tuple(graph.writers(graph.root(key)))


def _connect_to_first(graph: SymbolicGraph, earlier: ExecKey, others: list[ExecKey]) -> None:
    """`earlier` before the first of the others that it does not follow from."""
    for later in others:
        if earlier not in graph.execs.reachable([later]):
            graph.connect(earlier, later)
            return


def gather_again(graph: SymbolicGraph) -> None:
    """Whole weights live in the forward pass, and again in the backward pass, and not from the one to the other.

    Who reads a whole weight and follows from another reader of it gets the weight gathered a second time, behind one of
    its other inputs: that is when it is needed.
    """
    for key in [key for key, record in graph.execs.items() if record.command.op is UNSHARD]:
        for place, whole in enumerate(graph.execs[key].outputs):
            readers = graph.readers(whole)
            followers = {reader for reader in readers if _follows_another(graph, reader, readers)}
            later = [reader for reader in graph.execs.toposort() if reader in followers] if followers else []
            if later:
                _gathered_anew(graph, graph.execs[key], place, later)


def _follows_another(graph: SymbolicGraph, reader: ExecKey, readers: tuple[ExecKey, ...]) -> bool:
    return reader in graph.execs.reachable([other for other in readers if other != reader])


def _gathered_anew(graph: SymbolicGraph, record: ExecSymbol, place: int, readers: list[ExecKey]) -> None:
    whole, shard = record.outputs[place], record.inputs[place]
    assert shard is not None
    behind = next(key for key in graph.execs[readers[0]].inputs if key is not None and _follows(graph, key, whole))
    attrs = replace(record.command.attrs, wholes=(record.command.attrs.wholes[place],))
    command = replace(record.command, attrs=attrs)
    (again,) = graph.apply(command, [graph.symbol(shard), graph.symbol(behind)], name=record.name)
    for reader in readers:
        old = graph.execs[reader]
        inputs = tuple([None if key is None else _moved(graph, key, whole, again) for key in old.inputs])
        graph.replace_exec(reader, replace(old, inputs=inputs))


def _follows(graph: SymbolicGraph, key: TensorKey, whole: TensorKey) -> bool:
    """Whether a value follows from a reader of the weight."""
    if graph.root(key) == whole:
        return False
    after = graph.execs.reachable(graph.readers(whole))
    return any(writer in after for writer in graph.writers(graph.root(key)))


def _moved(graph: SymbolicGraph, key: TensorKey, whole: TensorKey, again: Symbol) -> TensorKey:
    """The same part of the weight that was gathered again."""
    if graph.root(key) != whole:
        return key
    if key == whole:
        return again.key
    symbol = graph.symbol(key)
    return graph.alias(again.key, symbol.spec, symbol.offset, symbol.strides).key
