"""The records of a symbolic graph, by key: what can be asked of them, and how they are edited.

    ReadableGraph    roots and places, who writes and reads, what an output depends on
    EditableGraph    records appended, replaced, removed, put in order and copied from another graph

`nnc.symbolic.ir` has the graph of handles (`Symbol`) over it, which infers specs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from nnc.arguments import explained, explained_as, frequent, shown
from nnc.core.precautions.origin import caller_origin
from nnc.core.precautions.shield import Shield
from nnc.core.values.command import AnyCommand
from nnc.core.values.spec import TensorSpec, contiguous_strides
from nnc.errors import ArgumentError, CycleError, GraphError, ShapeError, SymbolError
from nnc.graph import Arena, EdgeKey, Graph, KeyWidth, StorageFactory
from nnc.symbolic.auto import AUTO
from nnc.symbolic.records import Dependency, ExecKey, ExecSymbol, TensorKey, TensorSymbol
from nnc.symbolic.region import Region, overlaps

Observer = Callable[[ExecKey], None]
TensorObserver = Callable[[TensorKey], None]


@explained
class ReadableGraph:
    """The questions that a `SymbolicGraph` answers without changing."""

    execs: Graph[ExecSymbol, Dependency, ExecKey]
    tensors: Arena[TensorKey, TensorSymbol]
    _writers: dict[TensorKey, list[ExecKey]]
    _readers: dict[TensorKey, dict[ExecKey, None]]

    @frequent
    def root(self, key: TensorKey) -> TensorKey:
        """The tensor whose memory `key` names: itself unless it is an alias."""
        alias = self.tensors[key].alias
        return key if alias is None else alias.root

    @frequent
    def roots(self, keys: Iterable[TensorKey | None]) -> tuple[TensorKey, ...]:
        """The roots of those keys that are present, each once, in order."""
        tensors, distinct = self.tensors, dict[TensorKey, None]()
        try:
            for key in keys:
                if key is not None:
                    alias = tensors[key].alias
                    distinct[key if alias is None else alias.root] = None
            return tuple(distinct)
        except TypeError:
            raise ArgumentError("roots", got=f"keys={shown(keys)}", need="several keys") from None

    def specs(self, keys: Iterable[TensorKey | None]) -> tuple[TensorSpec | None, ...]:
        """The specs of these tensors, None in the place of an operand that is absent."""
        tensors = self.tensors
        return tuple([None if key is None else tensors[key].spec for key in keys])

    @frequent
    def region(self, key: TensorKey) -> Region:
        """The elements of its root that `key` covers."""
        record = self.tensors[key]
        if record.alias is None:
            return Region(record.spec.shape, 0, contiguous_strides(record.spec.shape))
        return Region(record.spec.shape, record.alias.offset, record.alias.strides)

    def given_order(self, key: ExecKey) -> tuple[EdgeKey, ...]:
        """The edges into an exec that `connect` made."""
        return tuple(edge for edge in self.execs.in_edges(key) if self.execs.edge(edge).data.tensor is None)

    def sources(self) -> tuple[ExecKey, ...]:
        """The execs that follow from no other."""
        return self.execs.sources()

    def destinations(self) -> tuple[ExecKey, ...]:
        """The execs from which no other follows."""
        return self.execs.sinks()

    def reaches(self, sources: Iterable[ExecKey], destinations: Iterable[ExecKey]) -> tuple[bool, ...]:
        """For each source whether a path leads from it to any of the destinations (an exec reaches itself)."""
        reached = self.execs.reachable(destinations, reverse=True)
        return tuple(key in reached for key in sources)

    @frequent
    def writers(self, key: TensorKey) -> tuple[ExecKey, ...]:
        """The execs that write `key`'s root, in order of appending."""
        return tuple(self._writers.get(self.root(key), ()))

    @frequent
    def readers(self, key: TensorKey) -> tuple[ExecKey, ...]:
        """The execs that read `key`'s root, in order of appending."""
        return tuple(self._readers.get(self.root(key), ()))

    def inputs_of(self, execs: Iterable[ExecKey]) -> tuple[TensorKey, ...]:
        """Roots that these execs read and none of them writes, ascending."""
        chosen = [self.execs[key] for key in execs]
        written = {self.root(key) for record in chosen for key in record.outputs}
        read = {self.root(key) for record in chosen for key in record.inputs if key is not None}
        return tuple(sorted(read - written))

    @frequent
    def needed_for(self, outputs: Iterable[TensorKey], given: Collection[TensorKey] = ()) -> tuple[ExecKey, ...]:
        """The execs that `outputs` depend on, in topological order; `given` roots need no exec."""
        needed: set[ExecKey] = set()
        try:
            waiting = [self.root(key) for key in outputs]
            seen = {*given, *waiting}
        except TypeError:
            got = f"outputs={shown(outputs)}, given={shown(given)}"
            raise ArgumentError("needed_for", got=got, need="several keys each") from None
        waiting = [root for root in waiting if root not in given]
        while waiting:
            for writer in self._writers.get(waiting.pop(), ()):
                if writer in needed:
                    continue
                needed.add(writer)
                fresh = set(self.roots(self.execs[writer].inputs)) - seen
                waiting.extend(sorted(fresh))
                seen |= fresh
        return self.execs.toposort(needed)

    def _places_read(self, record: ExecSymbol) -> dict[TensorKey, list[TensorKey]]:
        """What `record` reads of each root, in order."""
        read_by_root: dict[TensorKey, list[TensorKey]] = {}
        for key in record.inputs:
            if key is not None:
                read_by_root.setdefault(self.root(key), []).append(key)
        return read_by_root

    def _writes_any(self, writer: ExecKey, root: TensorKey, places: Iterable[TensorKey]) -> bool:
        """Does `writer` write an element of these places of `root`?"""
        written = [key for key in self.execs[writer].outputs if self.root(key) == root]
        return root in written or any(self._meet(value, other) for value in written for other in places)

    def _meet(self, first: TensorKey, other: TensorKey) -> bool:
        """Do two places of one root share an element? What has no spec yet has no aliases."""
        return AUTO is self.tensors[first].spec or overlaps(self.region(first), self.region(other))

    @frequent
    def label(self, key: TensorKey) -> str:
        """`%3 weight: f32[4, 3]`; a symbol without a name is called as the exec that writes it (its `title`)."""
        record = self.tensors[key]
        name = record.name or next((self.execs[writer].title for writer in self.writers(key)), "")
        return f"%{key}{' ' + name if name else ''}: {record.spec}"

    def _check_written(self, record: ExecSymbol, results: tuple[TensorSpec, ...]) -> None:
        """Given outputs must have the inferred specs, and nobody may have written or read these places before."""
        subject, got = record.command.op.name, [self.tensors[key].spec for key in record.outputs]
        if len(got) != len(results) or not all(map(fits, got, results)):
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
        root = self.root(key)
        if any(self._writes_any(writer, root, [key]) for writer in self.writers(root)) or any(
            self.root(other) == root and self._meet(other, key) for other in earlier
        ):
            return "already written"
        read = [record.inputs, *(self.execs[reader].inputs for reader in self.readers(root))]
        places = {other for inputs in read for other in inputs if other is not None and self.root(other) == root}
        if any(self._meet(other, key) for other in places):
            return "already read"
        return "" if key == root or self.region(key).is_injective() else "which names a place twice"


@explained_as("SymbolicGraph")
class EditableGraph(ReadableGraph):
    """Records of tensors and execs, appended, replaced and removed by key; edges follow from use, or from `connect`."""

    def __init__(self, storage: StorageFactory) -> None:
        self.execs: Graph[ExecSymbol, Dependency, ExecKey] = Graph(ExecKey, KeyWidth.BITS64, storage)
        self.tensors: Arena[TensorKey, TensorSymbol] = Arena(TensorKey, KeyWidth.BITS64, storage)
        self._writers: dict[TensorKey, list[ExecKey]] = {}
        self._readers: dict[TensorKey, dict[ExecKey, None]] = {}
        self._observers: list[tuple[Observer | None, TensorObserver | None]] = []

    @property
    def version(self) -> int:
        """Grows with each edit of symbols or execs."""
        return self.execs.version + self.tensors.version

    def sized_parts(self) -> tuple[object, ...]:
        """The records of tensors, and the commands."""
        return (*(record for _, record in self.tensors.items()), *(record.command for _, record in self.execs.items()))

    # ---- editing

    @frequent
    def add_tensor(self, record: TensorSymbol) -> TensorKey:
        """Append a record of a symbol, whose root, if it is an alias, is of this graph."""
        if not isinstance(record, TensorSymbol):
            raise ArgumentError("add_tensor", got=f"record={shown(record)}", need="a TensorSymbol")
        key = self.tensors.new(record)
        for _, observer in self._observers:
            if observer is not None:
                observer(key)
        return key

    @frequent
    def add_exec(self, record: ExecSymbol) -> ExecKey:
        """Append a record whose keys are of this graph; edges follow from use."""
        with Shield():
            exec_key = self.execs.add_node(record)
            self._link_reads(exec_key)
            for root in self.roots(record.outputs):
                self._writers.setdefault(root, []).append(exec_key)
                for reader in self._readers.get(root, ()):
                    if self._writes_any(exec_key, root, self._places_read(self.execs[reader])[root]):
                        self.execs.add_edge(exec_key, reader, Dependency(root))
        for observer, _ in self._observers:
            if observer is not None:
                observer(exec_key)
        return exec_key

    def replace_exec(self, key: ExecKey, record: ExecSymbol) -> None:
        """Put another record in an exec's place, with other inputs and some of its outputs; its edges follow.

        The caller keeps the graph free of cycles, and nobody reads the outputs that are left out.
        """
        old = self.execs[key]
        for edge in self.execs.in_edges(key):
            if self.execs.edge(edge).data.tensor is not None:
                self.execs.remove_edge(edge)
        for root in self.roots(old.inputs):
            self._readers[root].pop(key, None)
        for root in self.roots(set(old.outputs).difference(record.outputs)):
            self._writers[root].remove(key)
        self.execs.replace_node(key, record)
        self._link_reads(key)

    def add_outputs(self, key: ExecKey, command: AnyCommand, specs: Sequence[TensorSpec]) -> None:
        """Let an exec run a command that makes further outputs, of these specs; nobody is told."""
        record = self.execs[key]
        made = tuple(self.add_tensor(TensorSymbol(spec, "", None, record.origin)) for spec in specs)
        self.execs.replace_node(key, replace(record, command=command, outputs=(*record.outputs, *made)))
        for tensor in made:
            self._writers[tensor] = [key]

    @frequent
    def remove_exec(self, key: ExecKey) -> ExecSymbol:
        """Take an exec out; its output symbols stay, unwritten."""
        record = self.execs.remove_node(key)
        for root in self.roots(record.inputs):
            self._readers[root].pop(key, None)
        for root in self.roots(record.outputs):
            self._writers[root].remove(key)
        return record

    @frequent
    def remove_tensor(self, key: TensorKey) -> None:
        """Forget a symbol that no exec names, neither itself nor through an alias."""
        root = self.root(key)
        users = (*self._readers.get(root, ()), *self._writers.get(root, ()))
        if users and (
            root == key or any(key in (*self.execs[user].inputs, *self.execs[user].outputs) for user in users)
        ):
            raise SymbolError("remove", got=f"%{key}, in use", need="a symbol that no exec reads or writes")
        self._readers.pop(key, None)
        self._writers.pop(key, None)
        self.tensors.remove(key)

    def connect(self, earlier: ExecKey, later: ExecKey) -> None:
        """`later` runs after `earlier`, though no tensor says so; passes leave both as they are.

        CycleError when `earlier` follows from `later`.
        """
        if earlier in self.execs.reachable([later]):
            raise CycleError("connect", got=f"%{earlier}, which follows from %{later}", need="an order without a cycle")
        self.execs.add_edge(earlier, later, Dependency())
        self.keep(earlier)
        self.keep(later)

    def keep(self, key: ExecKey) -> None:
        """Let passes leave an exec as it is."""
        self.execs.replace_node(key, replace(self.execs[key], optimize=False))

    def disconnect(self, earlier: ExecKey, later: ExecKey) -> None:
        """Take out an order that `connect` gave. GraphError when there is none."""
        edges = [edge for edge in self.given_order(later) if self.execs.edge(edge).source == earlier]
        if not edges:
            got = f"%{earlier} and %{later}"
            raise GraphError("disconnect", got=got, need="execs that connect() has joined", origin=caller_origin())
        for edge in edges:
            self.execs.remove_edge(edge)

    def _link_reads(self, key: ExecKey) -> None:
        """Note `key` as a reader of its inputs' roots and draw the edges from their writers."""
        for root, places in self._places_read(self.execs[key]).items():
            self._readers.setdefault(root, {})[key] = None
            for writer in self._writers.get(root, ()):
                if self._writes_any(writer, root, places):
                    self.execs.add_edge(writer, key, Dependency(root))

    def graft(
        self,
        source: EditableGraph,
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
                mapped[key] = self.add_tensor(record)
            return mapped[key]

        made: dict[ExecKey, ExecKey] = {}
        for exec_key in execs:
            record = source.execs[exec_key]
            inputs = tuple(None if key is None else carry(key) for key in record.inputs)
            copy = replace(record, inputs=inputs, outputs=tuple(map(carry, record.outputs)))
            made[exec_key] = self.add_exec(copy)
            for edge in source.given_order(exec_key):
                if (earlier := source.execs.edge(edge).source) in made:
                    self.execs.add_edge(made[earlier], made[exec_key], Dependency())
        for key in tensors:
            carry(key)
        return tuple(made.values())


def fits(first: TensorSpec, other: TensorSpec) -> bool:
    """True where one may stand for the other, and where one of the two is not known yet."""
    return first is AUTO or other is AUTO or first.fits(other)
