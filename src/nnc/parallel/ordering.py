"""What ranks do together in the graph of a step: in one order, and weights gathered again for the backward pass."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from nnc.parallel.beside import BEGIN_SUMS, END_SUMS
from nnc.parallel.block_operators import ENTER, INSIDE_BLOCK, LABEL_LOSS, OWN_BLOCK, OWN_LABELS, OWN_ROWS
from nnc.parallel.collectives import REGISTRY
from nnc.parallel.tensor_shards import OWN_SHARD, UNSHARD
from nnc.symbolic import Symbol, SymbolicGraph
from nnc.symbolic.records import ExecKey, ExecSymbol, TensorKey

# Operators that send nothing, which ranks come to in any order.
ALONE = (ENTER, INSIDE_BLOCK, LABEL_LOSS, OWN_BLOCK, OWN_LABELS, OWN_ROWS, OWN_SHARD, END_SUMS)


def order_collectives(graph: SymbolicGraph) -> None:
    """All ranks come to operations in one order, whatever the sizes that they plan for; passes leave them so.

    What goes on beside them has messages of its own, and so an order of its own: it is waited for behind all operations
    that do not follow from it, so that nobody waits there for a rank that waits in one of them.
    """
    operators = {key: graph.execs[key].command.op for key in graph.execs.toposort()}
    together = [key for key, op in operators.items() if op.registry is REGISTRY and op not in (*ALONE, BEGIN_SUMS)]
    for earlier, later in pairwise(together):
        graph.connect(earlier, later)
    begins, ends = (
        {graph.execs[key].command.attrs.number: key for key, op in operators.items() if op is sums}
        for sums in (BEGIN_SUMS, END_SUMS)
    )
    if ends:
        _sums_beside(graph, [begins[number] for number in sorted(begins)])
        behind = graph.execs.reachable(ends.values())
        before = [key for key in together if key not in behind]
        for end in ends.values():
            for earlier in (begins[max(begins)], *before[-1:]):
                graph.connect(earlier, end)


def _sums_beside(graph: SymbolicGraph, begins: Sequence[ExecKey]) -> None:
    """Sums begin one behind the other, in front of the next exec that was made behind those of their values.

    They end when all have begun. Who waited for one of them before would compute nothing meanwhile: sums of last layers
    are the largest, and what is computed behind them takes longest.
    """
    for earlier, later in pairwise(begins):
        _connect_unless_before(graph, earlier, [later])
    written = sorted(key for key in graph.execs if graph.execs[key].command.op not in (BEGIN_SUMS, END_SUMS))
    for begin in begins:
        inputs = [graph.root(key) for key in graph.execs[begin].inputs if key is not None]
        last = max(writer for key in inputs for writer in graph.writers(key))
        _connect_unless_before(graph, begin, [key for key in written if key > last])


def _connect_unless_before(graph: SymbolicGraph, earlier: ExecKey, others: Sequence[ExecKey]) -> None:
    """`earlier` before the first of the others that it does not follow from."""
    before = graph.execs.reachable([earlier], reverse=True)
    later = next((key for key in others if key not in before), None)
    if later is not None:
        graph.connect(earlier, later)


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


def gather_in_turns(graph: SymbolicGraph, turns: Mapping[ExecKey, int]) -> dict[ExecKey, int]:
    """Whole weights live in one turn of a pipeline, and not from turn to turn: the turns of what gathers them again."""
    made: dict[ExecKey, int] = {}
    for key in [key for key, record in graph.execs.items() if record.command.op is UNSHARD]:
        record = graph.execs[key]
        for place, whole in enumerate(record.outputs):
            readers = defaultdict[int, list[ExecKey]](list)
            for reader in graph.readers(whole):
                readers[turns[reader]].append(reader)
            for turn in sorted(readers)[1:]:
                (again,) = _gather(graph, record, place, ())
                _read_instead(graph, readers[turn], whole, again)
                made.update((writer, turn) for writer in graph.writers(again.key))
    return made


def _follows_another(graph: SymbolicGraph, reader: ExecKey, readers: tuple[ExecKey, ...]) -> bool:
    return reader in graph.execs.reachable([other for other in readers if other != reader])


def _gathered_anew(graph: SymbolicGraph, record: ExecSymbol, place: int, readers: list[ExecKey]) -> None:
    whole = record.outputs[place]
    behind = next(key for key in graph.execs[readers[0]].inputs if key is not None and _follows(graph, key, whole))
    (again,) = _gather(graph, record, place, [graph.symbol(behind)])
    _read_instead(graph, readers, whole, again)


def _gather(graph: SymbolicGraph, record: ExecSymbol, place: int, behind: Sequence[Symbol]) -> tuple[Symbol, ...]:
    """One of the weights that it gathers, once more."""
    shard = record.inputs[place]
    assert shard is not None
    attrs = replace(record.command.attrs, wholes=(record.command.attrs.wholes[place],))
    return graph.apply(replace(record.command, attrs=attrs), [graph.symbol(shard), *behind], name=record.name)


def _read_instead(graph: SymbolicGraph, readers: Iterable[ExecKey], whole: TensorKey, again: Symbol) -> None:
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
