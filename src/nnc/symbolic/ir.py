"""The symbolic graph: commands over tensor symbols in static single assignment form, without memory.

    ┌ Arena[TensorKey, TensorSymbol] ┐      each root is written once (its aliases: at disjoint places)
    └ Graph[ExecSymbol, Dependency, ExecKey] ┘   edges are derived from use, writer → reader

Symbols are records in an arena; `Symbol` is the handle that users hold. An alias names a strided part of its
root, never of another alias.

Commands of loops and branches hold graphs of their own, as bodies. While a body is built, a symbol of a graph around
it may be used in it: it becomes an input of the body.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NewType

from nnc.core.command import AnyCommand
from nnc.core.origin import caller_origin
from nnc.core.spec import Shape, TensorSpec, contiguous_strides
from nnc.errors import ShapeError, SymbolError, UsageError
from nnc.graph import Arena, Graph, KeyWidth, ListStorage, OpAttr, StorageFactory
from nnc.ops.arithmetic import ArithmeticOperand
from nnc.ops.rules import infer
from nnc.symbolic.region import Region, overlaps

TensorKey = NewType("TensorKey", int)
ExecKey = NewType("ExecKey", int)


Observer = Callable[[ExecKey], None]


@dataclass(frozen=True, slots=True)
class AliasOf:
    """Where an alias lies in its root: `offset` and `strides` in elements."""

    root: TensorKey
    offset: int
    strides: Shape


@dataclass(frozen=True, slots=True, eq=False)
class TensorSymbol:
    """A tensor without memory; `origin` is the user's line that made it."""

    spec: TensorSpec
    name: str = ""
    alias: AliasOf | None = None
    origin: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class ExecSymbol:
    """A command applied to symbols; absent optional inputs are None."""

    command: AnyCommand
    inputs: tuple[TensorKey | None, ...]
    outputs: tuple[TensorKey, ...]
    name: str = ""
    origin: str = ""


@dataclass(frozen=True, slots=True)
class Dependency:
    """Why one exec follows another: `tensor` (a root) is written by the first and read by the second."""

    tensor: TensorKey


class SymbolicGraph:
    """Commands over tensor symbols. Symbols are made by `input`, `apply` and `alias`; edges come from use.

    `storage` decides what becomes of removed records: a list keeps their slots, a dict (for records that grow and
    shrink without end) gives them back. `enclosing` is the graph around a body that is being built, whose roots become
    inputs of the body where they are used (`captured`: theirs → ours).
    """

    def __init__(
        self, name: str = "", storage: StorageFactory = ListStorage, enclosing: SymbolicGraph | None = None
    ) -> None:
        self.name = name
        self.enclosing = enclosing
        self.captured: dict[TensorKey, TensorKey] = {}
        self.execs: Graph[ExecSymbol, Dependency, ExecKey] = Graph(ExecKey, KeyWidth.BITS64, storage)
        self.tensors: Arena[TensorKey, TensorSymbol] = Arena(TensorKey, KeyWidth.BITS64, storage)
        self._writers: dict[TensorKey, list[ExecKey]] = {}
        self._readers: dict[TensorKey, dict[ExecKey, None]] = {}
        self._observers: list[Observer] = []

    @property
    def version(self) -> int:
        """Grows with each edit of symbols or execs."""
        return self.execs.version + self.tensors.version

    # ---- symbols

    def input(self, spec: TensorSpec, name: str = "") -> Symbol:
        """A symbol that no exec writes: its value comes from outside."""
        return Symbol(self, self.tensors.new(TensorSymbol(spec, name, None, caller_origin())))

    def alias(self, of: TensorKey, spec: TensorSpec, offset: int, strides: Shape) -> Symbol:
        """A symbol for a part of `of`'s root, at `offset` and `strides` elements of the root's memory."""
        root = self.root(of)
        base = self.tensors[root].spec
        region = Region(spec.shape, offset, strides)
        if spec.dtype is not base.dtype or not region.inside(base.elements):
            got = f"{spec} at {offset}, strides {list(strides)} of {base}"
            raise ShapeError("alias", got=got, need="elements inside the root, of its type", origin=caller_origin())
        record = TensorSymbol(spec, "", AliasOf(root, offset, strides), caller_origin())
        return Symbol(self, self.tensors.new(record))

    def symbol(self, key: TensorKey) -> Symbol:
        """The handle for a key of this graph."""
        self.tensors[key]
        return Symbol(self, key)

    def rename(self, symbol: Symbol, name: str) -> Symbol:
        """Give a symbol a name for texts and messages; names are labels, never identity."""
        key = self.own(symbol)
        self.tensors.replace(key, replace(self.tensors[key], name=name))
        return symbol

    def own(self, symbol: Symbol) -> TensorKey:
        """The key of a symbol of this graph, or of one that encloses it; SymbolError for a symbol of another."""
        if isinstance(symbol, Symbol) and symbol.graph is not self and symbol.graph in self.around():
            return self._capture(symbol)
        if not isinstance(symbol, Symbol) or symbol.graph is not self:
            got = f"{symbol} of another graph" if isinstance(symbol, Symbol) else f"a {type(symbol).__name__}"
            raise SymbolError("symbol", got=got, need="a symbol of this graph", origin=caller_origin())
        return symbol.key

    def around(self) -> tuple[SymbolicGraph, ...]:
        """The graphs that enclose this one while it is built, innermost first."""
        found: list[SymbolicGraph] = []
        graph = self.enclosing
        while graph is not None:
            found.append(graph)
            graph = graph.enclosing
        return tuple(found)

    def _capture(self, symbol: Symbol) -> TensorKey:
        """Our symbol for one of an enclosing graph: its root is an input of each body in between."""
        root = symbol.graph.root(symbol.key)
        layers = self.around()
        for graph in reversed((self, *layers[: layers.index(symbol.graph)])):
            if root not in graph.captured:
                record = replace(symbol.graph.tensors[symbol.graph.root(symbol.key)], alias=None)
                graph.captured[root] = graph.tensors.new(record)
            root = graph.captured[root]
        if symbol.graph.root(symbol.key) == symbol.key:
            return root
        return self.alias(root, symbol.spec, symbol.offset, symbol.strides).key

    def root(self, key: TensorKey) -> TensorKey:
        """The tensor whose memory `key` names: itself unless it is an alias."""
        alias = self.tensors[key].alias
        return key if alias is None else alias.root

    def region(self, key: TensorKey) -> Region:
        """The elements of its root that `key` covers."""
        record = self.tensors[key]
        if record.alias is None:
            return Region(record.spec.shape, 0, contiguous_strides(record.spec.shape))
        return Region(record.spec.shape, record.alias.offset, record.alias.strides)

    # ---- execs

    def apply(
        self,
        command: AnyCommand,
        inputs: Sequence[Symbol | None],
        outputs: Sequence[Symbol] | None = None,
        name: str = "",
    ) -> tuple[Symbol, ...]:
        """Append an exec. Fresh output symbols are made unless `outputs` (unwritten symbols or aliases) are given."""
        origin = caller_origin()
        keys = tuple(None if symbol is None else self.own(symbol) for symbol in inputs)
        specs = tuple(None if key is None else self.tensors[key].spec for key in keys)
        try:
            results = infer(command.op, command.attrs, specs)
        except UsageError as error:
            error.origin = error.origin or origin
            raise
        if outputs is None:
            written = tuple(self.tensors.new(TensorSymbol(spec, "", None, origin)) for spec in results)
        else:
            written = tuple(self.own(symbol) for symbol in outputs)
            self._check_written(ExecSymbol(command, keys, written, name, origin), results)
        self.add_exec(ExecSymbol(command, keys, written, name, origin))
        return tuple(Symbol(self, key) for key in written)

    def add_exec(self, record: ExecSymbol) -> ExecKey:
        """Append a record whose keys are of this graph; edges follow from use."""
        exec_key = self.execs.add_node(record)
        self._link_reads(exec_key)
        for root in dict.fromkeys(self.root(key) for key in record.outputs):
            self._writers.setdefault(root, []).append(exec_key)
            for reader in self._readers.get(root, ()):
                if exec_key in self._writers_read(self.execs[reader], root):
                    self.execs.add_edge(exec_key, reader, Dependency(root))
        for observer in self._observers:
            observer(exec_key)
        return exec_key

    @contextmanager
    def observed(self, observer: Observer) -> Iterator[None]:
        """Inside, `observer` is told each exec that is appended."""
        self._observers.append(observer)
        try:
            yield
        finally:
            self._observers.remove(observer)

    def replace_inputs(self, key: ExecKey, inputs: tuple[TensorKey | None, ...]) -> None:
        """Let an exec read other symbols; its edges follow. The caller keeps the graph free of cycles."""
        record = self.execs[key]
        for edge in self.execs.in_edges(key):
            self.execs.remove_edge(edge)
        for root in {self.root(tensor) for tensor in record.inputs if tensor is not None}:
            self._readers[root].pop(key, None)
        self.execs.replace_node(key, replace(record, inputs=inputs))
        self._link_reads(key)

    def add_outputs(self, key: ExecKey, command: AnyCommand, specs: Sequence[TensorSpec]) -> None:
        """Let an exec run a command that makes further outputs, of these specs; nobody is told."""
        record = self.execs[key]
        made = tuple(self.tensors.new(TensorSymbol(spec, "", None, record.origin)) for spec in specs)
        self.execs.replace_node(key, replace(record, command=command, outputs=(*record.outputs, *made)))
        for tensor in made:
            self._writers[tensor] = [key]

    def drop_outputs(self, key: ExecKey, command: AnyCommand, dropped: Collection[TensorKey]) -> None:
        """Let an exec run a command that does not make these outputs, which nobody reads."""
        record = self.execs[key]
        kept = tuple(tensor for tensor in record.outputs if tensor not in dropped)
        self.execs.replace_node(key, replace(record, command=command, outputs=kept))
        for tensor in dropped:
            self._writers.pop(tensor, None)
            self.remove_tensor(tensor)

    def remove_exec(self, key: ExecKey) -> ExecSymbol:
        """Take an exec out; its output symbols stay, unwritten."""
        record = self.execs.remove_node(key)
        for root in {self.root(tensor) for tensor in record.inputs if tensor is not None}:
            self._readers[root].pop(key, None)
        for root in {self.root(tensor) for tensor in record.outputs}:
            self._writers[root].remove(key)
        return record

    def remove_tensor(self, key: TensorKey) -> None:
        """Forget a symbol that no exec names, neither itself nor through an alias."""
        users = [self.execs[user] for user in (*self.readers(key), *self.writers(key))]
        is_root = self.root(key) == key
        if any(is_root or key in record.inputs or key in record.outputs for record in users):
            raise SymbolError("remove", got=f"%{key}, in use", need="a symbol that no exec reads or writes")
        self._readers.pop(key, None)
        self._writers.pop(key, None)
        self.tensors.remove(key)

    def writers(self, key: TensorKey) -> tuple[ExecKey, ...]:
        """The execs that write `key`'s root, in order of appending."""
        return tuple(self._writers.get(self.root(key), ()))

    def readers(self, key: TensorKey) -> tuple[ExecKey, ...]:
        """The execs that read `key`'s root, in order of appending."""
        return tuple(self._readers.get(self.root(key), ()))

    def inputs_of(self, execs: Iterable[ExecKey]) -> tuple[TensorKey, ...]:
        """Roots that these execs read and none of them writes, ascending."""
        chosen = [self.execs[key] for key in execs]
        written = {self.root(key) for record in chosen for key in record.outputs}
        read = {self.root(key) for record in chosen for key in record.inputs if key is not None}
        return tuple(sorted(read - written))

    def needed_for(self, outputs: Iterable[TensorKey], given: Collection[TensorKey] = ()) -> tuple[ExecKey, ...]:
        """The execs that `outputs` depend on, in topological order; `given` roots need no exec."""
        found: set[ExecKey] = set()
        waiting = [self.root(key) for key in outputs]
        seen = {*given, *waiting}
        waiting = [root for root in waiting if root not in given]
        while waiting:
            for writer in self._writers.get(waiting.pop(), ()):
                if writer in found:
                    continue
                found.add(writer)
                roots = {self.root(key) for key in self.execs[writer].inputs if key is not None}
                waiting.extend(sorted(roots - seen))
                seen |= roots
        return self.execs.toposort(found)

    def _link_reads(self, key: ExecKey) -> None:
        """Note `key` as a reader of its inputs' roots and draw the edges from their writers."""
        record = self.execs[key]
        for root in dict.fromkeys(self.root(tensor) for tensor in record.inputs if tensor is not None):
            self._readers.setdefault(root, {})[key] = None
            for writer in self._writers_read(record, root):
                self.execs.add_edge(writer, key, Dependency(root))

    def _writers_read(self, record: ExecSymbol, root: TensorKey) -> list[ExecKey]:
        """Writers of `root` at places that `record` reads."""
        regions = [self.region(key) for key in record.inputs if key is not None and self.root(key) == root]
        return [writer for writer in self._writers.get(root, ()) if self._writes_any(writer, root, regions)]

    def _writes_any(self, writer: ExecKey, root: TensorKey, regions: list[Region]) -> bool:
        written = self.execs[writer].outputs
        if root in written:
            return True
        places = [self.region(key) for key in written if self.root(key) == root]
        return any(overlaps(one, other) for one in places for other in regions)

    def _check_written(self, record: ExecSymbol, results: tuple[TensorSpec, ...]) -> None:
        """Given outputs must have the inferred specs, and nobody may have written or read these places before."""
        subject, got = record.command.op.name, [self.tensors[key].spec for key in record.outputs]
        if [(spec.shape, spec.dtype) for spec in got] != [(spec.shape, spec.dtype) for spec in results]:
            shown, wanted = ", ".join(map(str, got)), ", ".join(map(str, results))
            raise ShapeError(subject, got=f"outputs {shown}", need=wanted, origin=record.origin)
        for position, key in enumerate(record.outputs):
            if fault := self._write_fault(key, record, record.outputs[:position]):
                raise SymbolError(
                    subject,
                    got=f"%{key}, {fault}",
                    need="each place of a tensor written once, before it is read",
                    origin=record.origin,
                )

    def _write_fault(self, key: TensorKey, record: ExecSymbol, earlier: tuple[TensorKey, ...]) -> str:
        """Why `record` may not write `key` behind its `earlier` outputs; empty when it may."""
        root, region = self.root(key), self.region(key)
        if any(self._writes_any(writer, root, [region]) for writer in self.writers(root)) or any(
            self.root(other) == root and overlaps(self.region(other), region) for other in earlier
        ):
            return "already written"
        read = [record.inputs, *(self.execs[reader].inputs for reader in self.readers(root))]
        places = {other for inputs in read for other in inputs if other is not None and self.root(other) == root}
        if any(overlaps(self.region(other), region) for other in places):
            return "already read"
        return "" if region.is_injective() else "which names a place twice"

    # ---- copies and text

    def subgraph(
        self, execs: Iterable[ExecKey], tensors: Iterable[TensorKey] = ()
    ) -> tuple[SymbolicGraph, Mapping[TensorKey, TensorKey]]:
        """A new graph with these execs (in this order) and tensors, and the map from old to new tensor keys."""
        result = SymbolicGraph(self.name)
        mapped: dict[TensorKey, TensorKey] = {}
        result.graft(self, execs, tensors, mapped)
        return result, mapped

    def graft(
        self,
        source: SymbolicGraph,
        execs: Iterable[ExecKey],
        tensors: Iterable[TensorKey],
        mapped: dict[TensorKey, TensorKey],
    ) -> tuple[ExecKey, ...]:
        """Append `source`'s execs in this order; `mapped` (source's keys → ours) grows by the symbols made for them."""

        def carry(key: TensorKey) -> TensorKey:
            if key not in mapped:
                record = source.tensors[key]
                if record.alias is not None:
                    record = replace(record, alias=replace(record.alias, root=carry(record.alias.root)))
                mapped[key] = self.tensors.new(record)
            return mapped[key]

        made = []
        for exec_key in execs:
            record = source.execs[exec_key]
            inputs = tuple(None if key is None else carry(key) for key in record.inputs)
            made.append(self.add_exec(replace(record, inputs=inputs, outputs=tuple(map(carry, record.outputs)))))
        for key in tensors:
            carry(key)
        return tuple(made)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterable[str]:
        yield f"graph {self.name}".rstrip()
        order = self.execs.toposort()
        for key in self.inputs_of(order):
            yield f"  {self.label(key)} = input"
        for exec_key in order:
            record = self.execs[exec_key]
            outputs = ", ".join(self._written_label(key) for key in record.outputs)
            inputs = ", ".join("–" if key is None else self._reference(key) for key in record.inputs)
            yield f"  {outputs} = {record.command} <- {inputs}" + (f"  # {record.origin}" if record.origin else "")
            for name, body in bodies_of(record.command):
                yield from (f"    {line}" for line in body.lines(name))

    def label(self, key: TensorKey) -> str:
        """`%3 weight: f32[4, 3]`."""
        record = self.tensors[key]
        return f"%{key}{' ' + record.name if record.name else ''}: {record.spec}"

    def _written_label(self, key: TensorKey) -> str:
        record = self.tensors[key]
        return self.label(key) if record.alias is None else f"{self._reference(key)}: {record.spec}"

    def _reference(self, key: TensorKey) -> str:
        record = self.tensors[key]
        if record.alias is None:
            return f"%{key}"
        return f"%{record.alias.root}[{record.alias.offset}; {list(record.spec.shape)} by {list(record.alias.strides)}]"


class Symbol(ArithmeticOperand):
    """The handle of a tensor symbol: hashable, comparable by identity of graph and key, with array operators."""

    __slots__ = ("graph", "key")

    def __init__(self, graph: SymbolicGraph, key: TensorKey) -> None:
        self.graph = graph
        self.key = key

    @property
    def spec(self) -> TensorSpec:
        """Shape, element type, layout and device."""
        return self.graph.tensors[self.key].spec

    @property
    def name(self) -> str:
        """The label given by the user, or empty."""
        return self.graph.tensors[self.key].name

    @property
    def strides(self) -> Shape:
        """Strides in elements over the root's memory."""
        return self.graph.region(self.key).strides

    @property
    def offset(self) -> int:
        """Elements between the root's first element and this symbol's."""
        return self.graph.region(self.key).offset

    def apply(self, command: AnyCommand, inputs: Sequence[Symbol | None]) -> tuple[Symbol, ...]:
        """Append an exec to this symbol's graph, or to that of an input which this one's graph encloses."""
        graphs = (symbol.graph for symbol in inputs if isinstance(symbol, Symbol))
        inner = (graph for graph in graphs if self.graph in graph.around())
        graph = max(inner, key=lambda graph: len(graph.around()), default=self.graph)
        return graph.apply(command, inputs)

    def alias(self, spec: TensorSpec, offset: int, strides: Shape) -> Symbol:
        """A symbol for a part of this symbol's root."""
        return self.graph.alias(self.key, spec, offset, strides)

    def named(self, name: str) -> Symbol:
        """This symbol, with a name for texts and messages."""
        return self.graph.rename(self, name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Symbol) and other.graph is self.graph and other.key == self.key

    def __hash__(self) -> int:
        return hash((id(self.graph), self.key))

    def __repr__(self) -> str:
        return f"Symbol({self.graph.label(self.key)})"


@dataclass(frozen=True, slots=True, eq=False)
class Body:
    """A graph inside a command: `parameters` get the command's values, by position, and `results` give them back."""

    graph: SymbolicGraph
    parameters: tuple[TensorKey, ...]
    results: tuple[TensorKey, ...]

    def lines(self, name: str) -> Iterator[str]:
        """The body as text."""
        parameters, results = (", ".join(f"%{key}" for key in keys) for keys in (self.parameters, self.results))
        yield f"{name} ({parameters}) -> ({results})"
        yield from str(self.graph).splitlines()[1:]

    def __repr__(self) -> str:
        return f"Body({len(self.graph.execs)} execs)"


# `Any`: a column holds rules of all operators; each operator with bodies sets it for its own attributes.
BODIES = OpAttr[Callable[[Any], tuple[tuple[str, Body], ...]]]("bodies")


def bodies_of(command: AnyCommand) -> tuple[tuple[str, Body], ...]:
    """The graphs inside a command, each with what it is there."""
    return BODIES[command.op](command.attrs) if command.op in BODIES else ()
