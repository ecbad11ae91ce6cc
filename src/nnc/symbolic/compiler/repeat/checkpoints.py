"""Checkpoints of loops with gradients: the loop and its gradient become chains of shorter loops, for the same bits.

    x[t+1] = f(x[t]), t < T, every x[t] kept on a tape;  then backwards, t = T - 1 … 0, iteration t reads x[t]
    →  parts [a, b) of both, each pair with a tape of its own;  x[a] is what the part in front gives

The parts cost no work. As execs of their own, forward parts can run again instead of keeping their tapes, as any other
exec can: the chain of n parts is then solved as chains are, which is binomial checkpointing over the parts, and all
of a tape in one part at a time: √T + √T values with √T parts.

Sources: Griewank and Walther 2000, "Algorithm 799: revolve"; Chen et al. 2016, "Training deep nets with sublinear
memory cost".
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import pairwise

from nnc.classes import dataclass
from nnc.concrete import CountBelow
from nnc.core.precautions.origin import inherited_origin
from nnc.core.values.command import AnyCommand, Command
from nnc.core.values.dtype import I64
from nnc.core.values.spec import TensorSpec, contiguous_strides
from nnc.ops.composed.fused import is_fusable
from nnc.ops.indexing.indexing import INDEX_SELECT, index_select
from nnc.ops.rules import infer
from nnc.symbolic.control import WHILE, Kept, WhileAttrs
from nnc.symbolic.elements import evaluate
from nnc.symbolic.ir import Body, Duplicate, Symbol, SymbolicGraph
from nnc.symbolic.records import Dependency, ExecKey, ExecSymbol, TensorKey

# Loops of at least this many iterations are tried in this many parts. The search takes 3 s for 16 parts and 25 s for
# 32, which save a tenth of the memory of a loop of 64 iterations, and half of that of one of 512.
PARTS = {4: 8, 8: 16, 16: 32, 32: 512}


@dataclass(frozen=True, slots=True)
class TapedLoop:
    """A loop of `trips` iterations and the loop backwards; `tapes` are outputs of the first by their place there."""

    forward: ExecKey
    backward: ExecKey
    trips: int
    tapes: Mapping[TensorKey, int]


def taped_loops(graph: SymbolicGraph, wanted: Collection[TensorKey]) -> tuple[TapedLoop, ...]:
    """The pairs in which nobody but the second loop reads the tapes; `wanted` roots are read by the caller."""
    taped = (_taped(graph, key, wanted) for key in graph.execs.toposort())
    pairs = [pair for pair in taped if pair is not None]
    # A gradient of a gradient may read the tapes of a loop that reads one itself; it stays whole.
    ends = [key for pair in pairs for key in (pair.forward, pair.backward)]
    return tuple(pair for pair in pairs if ends.count(pair.forward) == ends.count(pair.backward) == 1)


def checkpointed(graph: SymbolicGraph, wanted: Collection[TensorKey]) -> Iterator[Duplicate]:
    """Copies of the graph with its loops in ever more parts."""
    loops = taped_loops(graph, wanted)
    longest = max((pair.trips for pair in loops), default=0)
    for count, fewest in PARTS.items():
        if fewest <= longest:
            yield in_parts(graph, loops, count)


def in_parts(graph: SymbolicGraph, loops: Sequence[TapedLoop], count: int) -> Duplicate:
    """A copy of the graph with each loop in so many parts of equal length, the last one perhaps shorter."""
    return _Splitter(graph, loops, count).duplicate()


# ---- what may be split


def _taped(graph: SymbolicGraph, key: ExecKey, wanted: Collection[TensorKey]) -> TapedLoop | None:
    record = graph.execs[key]
    attrs = record.command.attrs
    if not _may_split(record) or not isinstance(attrs.test, CountBelow) or attrs.test.limit < min(PARTS.values()):
        return None
    rows = [output for output, kept in zip(record.outputs[1:], attrs.kept, strict=True) if kept.rows]
    only = {output: graph.readers(output) for output in rows if output not in wanted}
    backward = {readers[0] for readers in only.values() if len(readers) == 1}
    for reader in sorted(backward):
        tapes = {
            output: graph.execs[reader].inputs.index(output)
            for output, readers in only.items()
            if readers == (reader,) and graph.execs[reader].inputs.count(output) == 1
        }
        pair = TapedLoop(key, reader, attrs.test.limit, tapes)
        if tapes and _reads_backwards(graph, pair):
            return pair
    return None


def _may_split(record: ExecSymbol) -> bool:
    attrs = record.command.attrs
    if not record.optimize or not isinstance(attrs, WhileAttrs):
        return False
    return all(inner.optimize for _, inner in attrs.body.graph.execs.items())


def _reads_backwards(graph: SymbolicGraph, pair: TapedLoop) -> bool:
    """Does the second loop read row T - 1 - t of each tape in iteration t, and nothing else of them?"""
    record = graph.execs[pair.backward]
    attrs = record.command.attrs
    if not _may_split(record) or not isinstance(attrs.test, CountBelow) or attrs.test.limit != pair.trips:
        return False
    rows = [row for place in pair.tapes.values() for row in _row_numbers(attrs, place)]
    if None in rows:
        return False
    known = {graph.execs[pair.forward].outputs[0]: pair.trips}
    body = attrs.body
    given = {
        key: value
        for key, operand in zip(body.parameters, record.inputs, strict=True)
        if operand is not None and (value := _evaluated(graph, operand, known)) is not None
    }
    return all(
        _evaluated(body.graph, row, {**given, attrs.count: turn}) == pair.trips - 1 - turn
        for row in set(rows)
        if row is not None
        for turn in range(pair.trips)
    )


def _row_numbers(attrs: WhileAttrs, place: int) -> Iterator[TensorKey | None]:
    """The number of each row of an invariant that an iteration reads; None where it reads anything else of it."""
    graph, key = attrs.body.graph, attrs.body.parameters[place]
    if place < attrs.carried or key in attrs.body.results or key in attrs.named() or not graph.readers(key):
        yield None
    for reader in graph.readers(key):
        record = graph.execs[reader]
        is_row = record.command.op is INDEX_SELECT and record.command.attrs.axis == 0 and record.inputs[0] == key
        index = record.inputs[1] if is_row else None
        yield index if index is not None and not graph.tensors[index].spec.rank else None


def _evaluated(graph: SymbolicGraph, key: TensorKey, known: Mapping[TensorKey, int]) -> int | None:
    """The value of an integer that follows from known ones; None where more goes into it."""
    values = dict(known)
    for exec_key in graph.needed_for([key], values):
        record = graph.execs[exec_key]
        inputs = [values[entry] for entry in record.inputs if entry in values]
        specs = [graph.tensors[entry].spec for entry in (*record.inputs, *record.outputs) if entry is not None]
        simple = is_fusable(record.command.op) and not any(entry.rank or entry.dtype != I64 for entry in specs)
        if not simple or len(inputs) < len(record.inputs) or len(record.outputs) != 1:
            return None
        values[record.outputs[0]] = int(evaluate(record.command, specs[:-1], list(inputs)))
    return values.get(key)


# ---- splitting


@dataclass(frozen=True, slots=True)
class _Part:
    """Iterations [start, stop) of a loop; its tapes, by place, begin with the row `first`."""

    start: int
    stop: int
    tapes: Mapping[int, TensorKey] = field(default_factory=dict)
    first: int = 0


class _Splitter:
    """Copies a graph exec by exec; `pieces` are the tapes of each part, by the tape that they are parts of."""

    def __init__(self, graph: SymbolicGraph, loops: Sequence[TapedLoop], count: int) -> None:
        self.graph = graph
        self.count = count
        self.forward = {pair.forward: pair for pair in loops}
        self.backward = {pair.backward: pair for pair in loops}
        self.copy = SymbolicGraph(graph.name)
        self.tensors: dict[TensorKey, TensorKey] = {}
        self.pieces: dict[TensorKey, list[TensorKey]] = {}

    def duplicate(self) -> Duplicate:
        """The copy, with all that is not a part of the loops."""
        graph, execs = self.graph, dict[ExecKey, ExecKey]()
        for key in graph.execs.toposort():
            if key in self.forward:
                self._split_forward(key, self.forward[key])
            elif key in self.backward:
                self._split_backward(key, self.backward[key])
            else:
                (execs[key],) = self.copy.graft(graph, (key,), (), self.tensors)
        for key in execs:
            for edge in graph.given_order(key):
                self.copy.execs.add_edge(execs[graph.execs.edge(edge).source], execs[key], Dependency())
        self.copy.graft(graph, (), (key for key in graph.tensors if key not in self.pieces), self.tensors)
        return Duplicate(self.copy, self.tensors, execs)

    def _cuts(self, pair: TapedLoop) -> list[tuple[int, int]]:
        length = -(-pair.trips // self.count)
        return list(pairwise([*range(0, pair.trips, length), pair.trips]))

    def _split_forward(self, key: ExecKey, pair: TapedLoop) -> None:
        self.pieces.update((tape, []) for tape in pair.tapes)
        self._chain(key, [_Part(start, stop) for start, stop in self._cuts(pair)])

    def _split_backward(self, key: ExecKey, pair: TapedLoop) -> None:
        parts = []
        for number, (start, stop) in reversed(list(enumerate(self._cuts(pair)))):
            tapes = {place: self.pieces[tape][number] for tape, place in pair.tapes.items()}
            parts.append(_Part(pair.trips - stop, pair.trips - start, tapes, start))
        self._chain(key, parts)

    def _chain(self, key: ExecKey, parts: Sequence[_Part]) -> None:
        """The parts one behind the other, the results of the last, and the rows of all."""
        record = self.graph.execs[key]
        attrs = record.command.attrs
        assert isinstance(attrs, WhileAttrs)
        inputs = [self._moved(entry) for entry in record.inputs]
        rows: list[list[Symbol]] = [[] for _ in attrs.kept]
        with inherited_origin(record.origin):
            wholes = [
                self._whole(output) if entry.rows else None
                for output, entry in zip(record.outputs[1:], attrs.kept, strict=True)
            ]
            for part in parts:
                for place, tape in part.tapes.items():
                    inputs[place] = self.copy.symbol(tape)
                command, kept, state = _part_of(attrs, part, inputs)
                made = self._apply(command, inputs, record.name, dict(zip(kept, wholes, strict=True)), part)
                for pieces, place in zip(rows, kept, strict=True):
                    pieces.append(made[place])
                inputs[: attrs.carried] = [made[place] for place in state]
            self.tensors[record.outputs[0]] = (made[0] + parts[-1].start).key
            for output, whole, pieces in zip(record.outputs[1:], wholes, rows, strict=True):
                if output in self.pieces:
                    self.pieces[output] = [piece.key for piece in pieces]
                else:
                    self.tensors[output] = pieces[-1].key if whole is None else whole.key

    def _whole(self, rows: TensorKey) -> Symbol | None:
        """The rows of all parts, which are written where they belong; nothing for a tape, which has no whole."""
        return None if rows in self.pieces else self.copy.input(self.graph.tensors[rows].spec)

    def _apply(
        self, command: AnyCommand, inputs: Sequence[Symbol], name: str, wholes: Mapping[int, Symbol | None], part: _Part
    ) -> tuple[Symbol, ...]:
        """The loop over a part, whose rows at these places are written into wholes."""
        specs = infer(command.op, command.attrs, tuple(entry.spec for entry in inputs))
        outputs = []
        for place, spec in enumerate(specs):
            if (whole := wholes.get(place)) is None:
                outputs.append(self.copy.input(spec))
            else:
                row = spec.elements // spec.shape[0]
                outputs.append(whole.alias(spec, part.start * row, contiguous_strides(spec.shape)))
        return self.copy.apply(command, inputs, outputs, name=name)

    def _moved(self, key: TensorKey | None) -> Symbol:
        """The symbol of the copy; of a tape, any of the loop's, in whose place the part's comes."""
        assert key is not None
        if key not in self.pieces:
            self.copy.graft(self.graph, (), (key,), self.tensors)
        return self.copy.symbol(self.pieces[key][0] if key in self.pieces else self.tensors[key])


def _part_of(attrs: WhileAttrs, part: _Part, given: Sequence[Symbol]) -> tuple[AnyCommand, list[int], list[int]]:
    """The loop over a part, and which outputs are those of the whole loop and what the next part begins with."""
    body, graph = attrs.body, SymbolicGraph()
    mapped = {
        key: graph.input(operand.spec, body.graph.tensors[key].name).key
        for key, operand in zip(body.parameters, given, strict=True)
    }
    count = graph.input(TensorSpec((), I64), "count")
    mapped[attrs.count] = (count + part.start).key if part.start else count.key
    tapes = {body.parameters[place] for place in part.tapes}
    for key in body.graph.execs.toposort():
        record = body.graph.execs[key]
        if tapes.isdisjoint(record.inputs):
            graph.graft(body.graph, (key,), (), mapped)
        else:
            tape, row = (graph.symbol(mapped[entry]) for entry in record.inputs if entry is not None)
            mapped[record.outputs[0]] = index_select(tape, row - part.first if part.first else row).key
    graph.graft(body.graph, (), (*body.results, *attrs.named()), mapped)
    parameters, results = (tuple(mapped[key] for key in keys) for keys in (body.parameters, body.results))
    asked = [Kept(mapped[row.symbol], row.rows) for row in attrs.kept]
    state = [Kept(key) for key in parameters[: attrs.carried]]
    kept = tuple(dict.fromkeys((*asked, *state)))
    test = CountBelow(part.stop - part.start)
    command = Command(WHILE, WhileAttrs(Body(graph, parameters, results), attrs.carried, count.key, test, None, kept))
    return command, [1 + kept.index(entry) for entry in asked], [1 + kept.index(entry) for entry in state]
