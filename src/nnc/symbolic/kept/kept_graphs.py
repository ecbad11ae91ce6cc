"""Compiled graphs that another process has made, on the disk by the graph as it was traced, in front of its passes.

    place = GraphPlace.of(asked, backend, options)        asked: the graph, and its symbols that a caller speaks of
    program = place.program(anew)                         a CachedGraph, or what `anew` compiles, which is kept

Of what traced the graph nothing is in the key, so that code of anybody, whatever it reads, makes no stale program: it
runs, and another graph is another key (docs/design/0041-programs-on-disk.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from nnc.classes import dataclass
from nnc.concrete import ConcreteGraph
from nnc.concrete.run import Fixed
from nnc.core.precautions.forking import fork_safe_rlock
from nnc.core.precautions.reading import MappedFile
from nnc.core.precautions.uncopied import Uncopied
from nnc.core.running.dispatch import DISPATCHER
from nnc.core.settings import SETTINGS
from nnc.core.values.exact import exact_text
from nnc.core.values.recorder import PROFILER
from nnc.core.values.storage import Storage
from nnc.core.values.tensor import Tensor, as_array
from nnc.errors import NncError, ShapeError, SymbolError
from nnc.ops.rules import INFER
from nnc.symbolic.compiler import Arena, Budget, Compiled, MemoryStatement
from nnc.symbolic.compiler.bindings import Bindings, check_bindings, own_all
from nnc.symbolic.compiler.stored_programs import RestoredProgram, StoredProgram, restored_parts, stored_program
from nnc.symbolic.ir import Symbol, SymbolicGraph
from nnc.symbolic.records import ExecSymbol, TensorKey
from nnc.symbolic.sharing.program_disk import MODULES, ProgramDisk

R = TypeVar("R")
N = TypeVar("N", bound=str)

# What a record of another form raises where it is read.
OTHER_FORMS = (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, NncError)
# Graphs of fewer commands are planned in about the time that a record is looked up and read.
FEWEST_EXECS = 12
MODULES.remember()


@dataclass(frozen=True, slots=True, eq=False)
class RequestedGraph:
    """A traced graph, and its symbols: those written before each run, those read behind it, those in tensors.

    `carry` maps what is computed to the bound value that it renews.
    """

    graph: SymbolicGraph
    inputs: tuple[Symbol, ...]
    outputs: tuple[Symbol, ...]
    bound: tuple[Symbol, ...]
    carry: Mapping[Symbol, Symbol] = field(default_factory=dict)

    def text(self) -> str:
        """Equal, in any process, for graphs of which the same program is made; empty where that is not known."""
        pairs = tuple((new.key, old.key) for new, old in self.carry.items())
        ends = [tuple(symbol.key for symbol in symbols) for symbols in (self.inputs, self.outputs, self.bound)]
        text = graph_text(self.graph)
        return text and f"{text}\n{ends} {pairs}"

    def origins(self) -> list[str]:
        """The lines of the caller's that made each part; they are in no key."""
        graph = self.graph
        origins = [record.origin for _, record in graph.tensors.items()]
        return origins + [execution.origin for _, execution in graph.execs.items()]


def graph_text(graph: SymbolicGraph) -> str:
    """All of a graph but the lines that made it; empty for one with bodies, with functions or operators of others."""
    known: dict[int, str] = {}

    def text_of(value: object) -> str:
        """The same object is written once."""
        text = known.get(id(value))
        if text is None:
            text = known[id(value)] = exact_text(value)
        return text

    lines = [exact_text(graph.name)]
    for key, record in graph.tensors.items():
        lines.append(f"{key} {record.name!r} {record.fill!r}")
        lines += [text_of(record.spec), text_of(record.alias)]
    for exec_key, execution in graph.execs.items():
        if not _is_own(execution):
            return ""
        order = [int(graph.execs.edge(edge).source) for edge in graph.given_order(exec_key)]
        named = f"{exec_key} {execution.name!r} {execution.optimize} {order} {execution.inputs} {execution.outputs}"
        lines += [
            f"{named} {execution.command.op.registry.name} {execution.command.op.name}",
            text_of(execution.command.attrs),
        ]
    return "\n".join(lines) if all(lines) else ""


def _is_own(execution: ExecSymbol) -> bool:
    """Whether the operator is one that a module of this package has defined: its name says all of it."""
    op = execution.command.op
    return op.site is not None and op in INFER and INFER[op].__module__.startswith("nnc.")


@dataclass(slots=True, eq=False)
class GraphPlace:
    """Where the disk has the program of a graph, which is kept once."""

    disk: ProgramDisk
    key: str
    asked: RequestedGraph
    origins: list[str]
    _is_kept: bool = False

    @classmethod
    def of(cls, asked: RequestedGraph, backend: str, options: object) -> Self | None:
        """None where nothing is kept: no cache folder, and graphs that are small or not known in full.

        `options` are all else that decides on the program.
        """
        disk = ProgramDisk.at_hand(backend) if len(asked.graph.execs) >= FEWEST_EXECS else None
        text = "" if disk is None else asked.text()
        if disk is None or not text:
            return None
        return cls(disk, disk.key(f"graph {backend} {options!r}\n{text}"), asked, asked.origins())

    def program(self, anew: Callable[[], Compiled]) -> Compiled | CachedGraph:
        """From the disk, over no tensors yet, or as `anew` compiles the graph: that is kept when it is laid out."""
        kept = self._load(anew)
        if kept is not None:
            return kept
        made = anew()
        made.behind_layout = self._keep
        return made

    def choice(self, names: Sequence[N], choose: Callable[[], N]) -> N:
        """One of these names: that which the disk has for the graph, or what `choose` gives, which is kept."""
        key = self.disk.key(f"choice {self.key}")
        kept = (self.disk.load(key) or {}).get("choice")
        for name in names:
            if name == kept:
                return name
        chosen = choose()
        self.disk.store(key, {"choice": chosen})
        return chosen

    def _load(self, anew: Callable[[], Compiled]) -> CachedGraph | None:
        """None for what does not fit."""
        values = self.disk.load(self.key)
        try:
            return None if values is None else self._kept(values, anew)
        except OTHER_FORMS:
            return None

    def _kept(self, values: Mapping[str, Any], anew: Callable[[], Compiled]) -> CachedGraph | None:
        asked, origins = self.asked, self.origins
        stored = stored_program(values["program"])
        peaks = tuple(
            [head if place is None else f"{head} ({origins[place]})" for head, place in values["peak_tensors"]]
        )
        stored = replace(stored, statement=replace(stored.statement.as_loaded(), peak_tensors=peaks))
        counts = (len(stored.inputs), len(stored.outputs), len(stored.bound))
        if counts != (len(asked.inputs), len(asked.outputs), len(asked.bound)):
            raise ValueError(f"a program of {counts} symbols")
        if any(symbol.spec.nbytes != nbytes for symbol, nbytes in zip(asked.bound, stored.bound, strict=True)):
            raise ValueError("a program of other sizes")
        written = frozenset(asked.bound[place].key for place in map(int, values["written"]))
        parts = restored_parts(stored)
        if parts is None:
            return None
        source = _Source(asked, RestoredProgram(stored, stored.statement, parts, (), Arena()), written, anew)
        return CachedGraph(source, stored.statement, dict.fromkeys(asked.bound), Arena(stored.statement.arenas))

    def _keep(self, compiled: Compiled) -> None:
        """Keep a program that is laid out, unless it cannot be."""
        if self._is_kept or compiled.copied is not None:
            return
        self._is_kept = True
        asked = self.asked
        try:
            made = StoredProgram.of(compiled, asked.inputs, asked.outputs, asked.bound)
        except SymbolError:  # of symbols that passes took out
            return
        peaks = None if made is None else self._peaks(made[0].statement.peak_tensors)
        if made is None or peaks is None:
            return
        extents = {tensor.extent for tensor in compiled.written_tensors() if tensor.spec.nbytes}
        written = [place for place, tensor in enumerate(made[1]) if tensor.extent in extents]
        content = made[0].content()
        content["statement"]["peak_tensors"] = ()
        self.disk.store(self.key, {"program": content, "peak_tensors": peaks, "written": written})

    def _peaks(self, texts: Iterable[str]) -> list[tuple[str, int | None]] | None:
        """Names and which part of the graph has the line behind it; None where no part has it."""
        places: dict[str, int] = {}
        for place, origin in enumerate(self.origins):
            places.setdefault(origin, place)
        rows: list[tuple[str, int | None]] = []
        for text in texts:
            head, bracket, origin = text.rpartition(" (")
            if not bracket:
                rows.append((text, None))
            elif origin.endswith(")") and origin[:-1] in places:
                rows.append((head, places[origin[:-1]]))
            else:
                return None
        return rows


@dataclass(slots=True, eq=False)
class _Source:
    """What all bindings of a kept graph share: its program, the bound symbols that it writes, and how it is planned."""

    asked: RequestedGraph
    program: RestoredProgram
    written: frozenset[TensorKey]
    anew: Callable[[], Compiled]
    planned: Compiled | None = None
    making: Any = field(default_factory=fork_safe_rlock)

    def compiled(self) -> Compiled:
        """The graph planned, once."""
        with self.making:
            if self.planned is None:
                self.planned = self.anew()
            return self.planned


@dataclass(slots=True, weakref_slot=True, eq=False, repr=False)
class CachedGraph(Uncopied):
    """A compiled graph from the disk, which runs and says its memory as `Compiled` does: `compiled` is such a one."""

    instead: ClassVar[str] = "compile() again, or rebind() it to other tensors"

    _source: _Source
    statement: MemoryStatement
    _tensors: dict[Symbol, Tensor | None]
    _arena: Arena
    begun: bool = False
    _program: RestoredProgram | None = None
    _files: tuple[MappedFile, ...] = ()
    _planned: Compiled | None = None
    # Of this layout: where inputs and outputs lie, and which inputs a run needs.
    _concrete: ConcreteGraph | None = None
    _storages: Mapping[str, Storage] | None = None
    _places: Mapping[TensorKey, Tensor | None] = field(default_factory=dict)
    _results: Mapping[TensorKey, Tensor] = field(default_factory=dict)
    _needed: frozenset[TensorKey] = frozenset()

    @property
    def budget(self) -> Budget | None:
        """None: a program that repeats execs is not kept."""
        return None

    @property
    def compiled(self) -> Compiled:
        """The same over the same tensors, planned anew: with its graph, its plan, and who runs what."""
        with self._source.making:
            if self._planned is None:
                named = {symbol: tensor for symbol, tensor in self._tensors.items() if tensor is not None}
                compiled = self._source.compiled()
                self._planned = (compiled.rebind(named) if named else compiled).in_arena_of(self._arena)
            return self._planned

    def memory(self) -> MemoryStatement:
        """The bytes of this graph, exactly, without allocating any."""
        written = self._source.written
        return self.statement.over(t for symbol, t in self._tensors.items() if symbol.key not in written)

    def exclusively(self, work: Callable[[], R]) -> R:
        """As `Compiled.exclusively`."""
        return self._arena.runs.exclusively(work)

    def rebind(self, tensors: Mapping[Symbol, Tensor]) -> CachedGraph:
        """As `Compiled.rebind`."""
        source, graph = self._source, self._source.asked.graph
        for symbol in tensors.keys() - self._tensors.keys():
            raise SymbolError("rebind", got=str(symbol), need="a symbol that compile() was given or told to bind")
        merged = {**self._tensors, **tensors}
        named = own_all(graph, merged)
        check_bindings(graph, named)
        Bindings(named, {}, (), source.written).check(graph)
        return CachedGraph(source, self.statement, merged, self._arena)

    def in_arena_of(self, other: Arena) -> CachedGraph:
        """As `Compiled.in_arena_of`."""
        other.reserve(self.statement.arenas)
        return CachedGraph(self._source, self.statement, self._tensors, other)

    def allocate(self) -> ConcreteGraph:
        """Lay the program out; a second call returns the same."""
        if SETTINGS.debug or PROFILER.recorders:
            # What had moved to other tensors by now is laid out over its own ones again.
            self._program, self._concrete = None, None
            return self.compiled.allocate()
        concrete = self._concrete
        if concrete is None or self._storages is not self._arena.storages:
            concrete = self.exclusively(self._lay_out)
        return concrete

    def _lay_out(self) -> ConcreteGraph:
        program, asked = self._bound_program(), self._source.asked
        concrete = program.laid_out()
        if self._concrete is not concrete:
            inputs, outputs = ([symbol.key for symbol in symbols] for symbols in (asked.inputs, asked.outputs))
            self._places = dict(zip(inputs, program.inputs, strict=True))
            self._results = dict(zip(outputs, program.outputs, strict=True))
            self._needed = frozenset(key for key, place in self._places.items() if place is not None)
        self._concrete, self._storages = concrete, self._arena.storages
        return concrete

    def _bound_program(self) -> RestoredProgram:
        if self._program is None:
            tensors = [tensor for tensor in self._tensors.values() if tensor is not None]
            if len(tensors) < len(self._tensors):
                missing = next(symbol for symbol, tensor in self._tensors.items() if tensor is None)
                need = "every given symbol bound"
                raise SymbolError("compiled", got=f"{missing} without a tensor", need=need, fix="rebind()")
            self._files = tuple({t.storage.file: None for t in tensors if t.storage.file is not None})
            self._program = self._source.program.over(tensors, self._arena, self._begin)
        return self._program

    def views(self, values: Iterable[tuple[Symbol, ArrayLike]], outputs: Iterable[Symbol]) -> tuple[np.ndarray, ...]:
        """As `Compiled.views`."""
        return self.exclusively(lambda: self.views_in_turn(values, outputs))

    def views_in_turn(
        self, values: Iterable[tuple[Symbol, ArrayLike]], outputs: Iterable[Symbol]
    ) -> tuple[np.ndarray, ...]:
        """As `Compiled.views_in_turn`: by it in debug mode, and where somebody looks at commands."""
        if SETTINGS.debug or PROFILER.recorders:
            compiled = self.compiled
            try:
                return compiled.views_in_turn(values, outputs)
            finally:
                self.begun = compiled.begun
        concrete, missing, places = self.allocate(), set(self._needed), self._places
        for symbol, value in values:
            key = symbol.key
            _write(symbol, places[key], value)
            missing.discard(key)
        if missing:
            names = ", ".join(map(self._source.asked.graph.label, sorted(missing)))
            need = "every input that outputs need written before each run"
            raise SymbolError("run", got=f"no value for {names}", need=need, fix="write() it")
        self.take_turn()
        self.begun = self._source.program.stored.begin is None
        concrete.run()
        return tuple([self._results[symbol.key].numpy() for symbol in outputs])

    def _begin(self) -> None:
        self.begun = True

    def run(self) -> None:
        """Execute once, where no input lies in the arena."""
        self.exclusively(lambda: self.views_in_turn((), ()))

    @property
    def is_bare(self) -> bool:
        """As `Compiled.is_bare`."""
        return self._concrete is not None and not (any(self.statement.arenas.values()) or self._needed or self._files)

    def fixed_steps(self) -> tuple[Fixed, ...] | None:
        """As `Compiled.fixed_steps`."""
        if SETTINGS.debug or PROFILER.recorders:
            return self.compiled.fixed_steps()
        self.allocate()
        program = self._bound_program()
        backend = DISPATCHER.backend(program.stored.backend)
        return tuple([Fixed(backend, part) for part in program.programs])

    def tensor(self, symbol: Symbol) -> Tensor:
        """That of a symbol that is bound."""
        tensor = self._tensors.get(symbol)
        if tensor is None:
            raise SymbolError("compiled", got=str(symbol), need="a symbol that is bound to a tensor", fix="rebind()")
        return tensor

    def take_turn(self) -> None:
        """What comes before each run, behind the inputs."""
        for file in self._files:
            file.check()
        self._arena.turn += 1

    def clear(self) -> None:
        """As `Compiled.clear`."""

        def clear() -> None:
            self.forget_layout()
            self._arena = Arena(self.statement.arenas)

        self.exclusively(clear)

    def forget_layout(self) -> None:
        """Hold no memory of the arena's."""
        self._program, self._planned, self._concrete, self._storages = None, None, None, None

    def __repr__(self) -> str:
        return f"CachedGraph({len(self._source.asked.graph.execs)} execs, arena {self.statement.arena:,} B)"


def _write(symbol: Symbol, place: Tensor | None, value: ArrayLike) -> None:
    array = value if isinstance(value, Tensor) else as_array(value)
    shape = symbol.spec.shape if place is None else place.spec.shape
    if array.shape != shape:
        raise ShapeError("write", got=f"{symbol.name or symbol} from shape {list(array.shape)}", need=str(symbol.spec))
    if place is not None:
        place.copy_from(array)
