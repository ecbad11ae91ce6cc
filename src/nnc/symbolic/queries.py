"""What can be asked of a symbolic graph: roots and places, who writes and reads, what an output depends on."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from nnc.arguments import explained, frequent, shown
from nnc.core.values.spec import TensorSpec, contiguous_strides
from nnc.errors import ArgumentError, ShapeError, SymbolError
from nnc.graph import Arena, EdgeKey, Graph
from nnc.symbolic.auto import AUTO
from nnc.symbolic.records import Dependency, ExecKey, ExecSymbol, TensorKey, TensorSymbol
from nnc.symbolic.region import Region, overlaps


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


def fits(first: TensorSpec, other: TensorSpec) -> bool:
    """True where one may stand for the other, and where one of the two is not known yet."""
    return first is AUTO or other is AUTO or first.fits(other)
