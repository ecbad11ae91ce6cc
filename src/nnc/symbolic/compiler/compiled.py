"""What runs: a planned graph over one arena and the caller's tensors; memory is allocated at the first run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from html import escape
from os import PathLike
from pathlib import Path
from typing import ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from nnc.arguments import checked, explained, frequent, shown
from nnc.classes import dataclass
from nnc.concrete import ConcreteGraph, Served, TuneOptions
from nnc.concrete.profiling import RunProfile
from nnc.concrete.run import Fixed
from nnc.core.precautions.collection import RareCollections
from nnc.core.precautions.reading import MappedFile
from nnc.core.precautions.replacement import write_atomically
from nnc.core.precautions.uncopied import Uncopied
from nnc.core.running.stream import Signal, Stream
from nnc.core.values.device import CPU, HOST, device_of
from nnc.core.values.storage import Storage
from nnc.core.values.tensor import Tensor, as_array
from nnc.errors import ArgumentError, DeviceError, ShapeError, SymbolError
from nnc.planning import Curve, GraphStage, MapView, Plan, Problem, page_of_views
from nnc.symbolic.compiler.bindings import Bindings, check_bindings, own_all
from nnc.symbolic.compiler.laid_out import laid_out
from nnc.symbolic.compiler.place.drawing import bars_of, compiled_stage, map_of
from nnc.symbolic.compiler.place.memory_statement import MemoryStatement
from nnc.symbolic.compiler.place.planned import PlannedGraph
from nnc.symbolic.compiler.repeat.budget import Budget
from nnc.symbolic.compiler.repeat.repeating_copy import RepeatingCopy
from nnc.symbolic.compiler.shared_arena import Arena, trim_after
from nnc.symbolic.compiler.views import view_root
from nnc.symbolic.ir import Symbol, SymbolicGraph
from nnc.symbolic.records import TensorKey

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class KernelChoices:
    """Whether kernels are measured, and how, or fixed."""

    tuning: TuneOptions | None
    deterministic: bool


@dataclass(frozen=True, slots=True, eq=False)
class ProgramMemory:
    """Where a program runs: its arena, which begins at `base` of a storage, and the caller's tensors by root.

    A run writes those in `written`; the others stay as they are.
    """

    arena: Storage
    base: int
    nbytes: int
    tensors: Mapping[TensorKey, Tensor]
    written: frozenset[TensorKey]


@dataclass(slots=True, weakref_slot=True, eq=False, repr=False)
class Compiled(Uncopied):
    """A graph ready to run. Memory is allocated at the first run (or by `allocate`), never before.

    A run that ends with an error may have written some of the caller's tensors and not others; none where `begun` is
    False.
    """

    instead: ClassVar[str] = "compile() again, or rebind() it to other tensors"

    planned: PlannedGraph
    bindings: Bindings
    choices: KernelChoices
    statement: MemoryStatement
    _arena: Arena
    copied: RepeatingCopy | None = None
    _inputs: tuple[TensorKey, ...] = ()
    begun: bool = False
    _tensors: dict[TensorKey, Tensor] = field(default_factory=dict)
    _concrete: ConcreteGraph | None = None
    _storages: Mapping[str, Storage] | None = None
    _written: dict[TensorKey, int] = field(default_factory=dict)
    _targets: dict[TensorKey, tuple[TensorKey, Tensor | None]] = field(default_factory=dict)
    _sources: dict[TensorKey, Tensor] = field(default_factory=dict)
    _announced: bool = False
    _files: tuple[MappedFile, ...] = ()
    # Called when it is first laid out, or what it was moved from or to.
    behind_layout: Callable[[Compiled], None] | None = None

    def memory(self) -> MemoryStatement:
        """The bytes of this graph, exactly, without allocating any."""
        bindings = self.bindings
        return self.statement.over(t for root, t in bindings.tensors.items() if root not in bindings.written)

    @property
    def budget(self) -> Budget | None:
        """What the limit on memory costs; None where it was met without computing anything again."""
        return None if self.copied is None else self.copied.budget

    def plan(self) -> tuple[Problem, Plan]:
        """The blocks of memory with their lives, and where each lies in the arena."""
        return self.planned.layout.problem, self.planned.layout.plan

    def view(self, title: str = "") -> MapView:
        """The plan with what the graph knows of its blocks and steps, for pages and pictures."""
        return map_of(self.planned, title)

    @explained
    def page(
        self,
        title: str = "",
        *,
        stages: Sequence[GraphStage] = (),
        profile: RunProfile | None = None,
        before: Compiled | None = None,
        curves: Sequence[Curve] = (),
    ) -> str:
        """The plan as one HTML page to look at, which needs no other file and no network.

        With the graph as it runs, and behind each pass where its `stages` were recorded; with a timeline where runs
        had a `profile`; with the plan of the program `before` a limit; and with `curves` of a training.
        """
        known = None if self.copied is None else {new: old for old, new in self.copied.tensors.items()}
        return page_of_views(
            title,
            [
                *([] if before is None else [before.view("without the limit")]),
                self.view("" if before is None else "with it"),
            ],
            [*stages, compiled_stage(self.planned, known)],
            () if profile is None else bars_of(self.planned, profile),
            curves,
            () if profile is None else profile.tables(),
        )

    @checked
    def html(
        self,
        path: str | PathLike[str],
        title: str = "",
        *,
        stages: Sequence[GraphStage] = (),
        profile: RunProfile | None = None,
        before: Compiled | None = None,
    ) -> None:
        """Write the page, replacing a file of that name whole or not at all."""
        page = self.page(title, stages=stages, profile=profile, before=before)
        write_atomically(Path(path), [page.encode()])

    def __repr__(self) -> str:
        return f"Compiled({len(self.planned.order)} execs, arena {self.statement.arena:,} B)"

    def _repr_html_(self) -> str:
        """The page in a notebook."""
        return f'<iframe srcdoc="{escape(self.page())}" style="width:100%;height:32rem;border:0"></iframe>'

    def allocate(self) -> ConcreteGraph:
        """Make the arena, the tensors and the concrete graph; a second call returns the same."""
        concrete = self._concrete
        if concrete is None or self._storages is not self._arena.storages:
            concrete = self.exclusively(self._lay_out)
        return concrete

    def fixed_steps(self) -> tuple[Fixed, ...] | None:
        """The programs of a run of what is laid out, on fixed tensors; None where it is more than these in order.

        What may break off comes in front of those that write, so that nobody need be told where they begin.
        """
        parts = self.fixed_parts()
        return None if parts is None else tuple(step for part in parts for step in part)

    def fixed_parts(self) -> tuple[tuple[Fixed, ...], ...] | None:
        """The same in front of where a run notes that it begins to write, and behind."""
        return self.allocate().fixed_steps(lambda action: self.is_note(action.function))

    def laid_out(self) -> ProgramMemory:
        """The memory of the program, which is made if it is not there; libraries are made of it.

        DeviceError for a program that has memory outside of the host's.
        """
        for kind in self.statement.arenas:
            if not device_of(kind).is_host:
                raise DeviceError("library", got=f"a program on {kind}", need="one of the host", fix="device='cpu'")
        self.allocate()
        tensors = {root: tensor for root, tensor in self.bindings.tensors.items() if tensor is not None}
        assert self._storages is not None
        nbytes = self.statement.arena
        return ProgramMemory(self._storages[HOST], self._arena.base, nbytes, tensors, self.bindings.written)

    def clear(self) -> None:
        """Give back the arena and the concrete graph, once nobody else uses them; the next run makes them anew."""

        def clear() -> None:
            self.forget_layout()
            self._arena = Arena(self.statement.arenas)

        self.exclusively(clear)

    def forget_layout(self) -> None:
        """Hold no memory of the arena's; its owner calls this when there is other memory, in a turn of its own."""
        self._tensors, self._concrete, self._storages = {}, None, None
        self._written, self._targets, self._sources = {}, {}, {}

    @explained
    def in_arena_of(self, other: Compiled | Arena) -> Compiled:
        """The same program in the memory of `other`, such as for other shapes; the two take turns.

        That memory becomes as large as the largest program in it. Programs that ran in less are laid out anew.
        """
        arena = other._arena if isinstance(other, Compiled) else other
        arena.reserve(self.statement.arenas)
        return self._moved(self.bindings, arena)

    def exclusively(self, work: Callable[[], R]) -> R:
        """What `work` gives (a write, a run and a read); nobody else runs a program in this arena meanwhile."""
        return self._arena.runs.exclusively(work)

    def tensor(self, symbol: Symbol) -> Tensor:
        """The tensor that holds `symbol`; SymbolError when the plan gives it no memory."""
        self.allocate()
        return self._found(symbol)

    def _found(self, symbol: Symbol) -> Tensor:
        graph = self.planned.graph if self.copied is None else self.copied.graph
        asked = symbol.key if isinstance(symbol, Symbol) and symbol.graph is graph else None
        tensor = None if asked is None else self._sources.get(asked)
        if tensor is None:
            tensor = self._looked_up(symbol)
            if asked is not None:
                self._sources[asked] = tensor
        return tensor

    def _looked_up(self, symbol: Symbol) -> Tensor:
        key = self._own(symbol)
        if self.planned.graph.root(key) not in self._tensors:
            raise SymbolError(
                "compiled", got=str(symbol), need="a symbol that the wanted outputs need", fix="list it in outputs"
            )
        return self._tensor(key)

    def write(self, symbol: Symbol, value: ArrayLike) -> None:
        """Put `value` into an input's memory; do it before each run unless the input is bound.

        SymbolError for what each run makes itself: before the run its bytes are those of others.
        """

        def write() -> None:
            self.allocate()
            self._write(symbol, value)

        self.exclusively(write)

    def _write(self, symbol: Symbol, value: ArrayLike) -> None:
        """The same in a turn of the caller's, behind `allocate`."""
        array = value if isinstance(value, Tensor) else as_array(value)
        graph = self.planned.graph if self.copied is None else self.copied.graph
        key = symbol.key if isinstance(symbol, Symbol) and symbol.graph is graph else graph.own(symbol)
        if key not in self._targets:
            self._targets[key] = self._target(graph.symbol(key))
        root, tensor = self._targets[key]
        shape = symbol.spec.shape if tensor is None else tensor.spec.shape
        if array.shape != shape:
            raise ShapeError(
                "write", got=f"{symbol.name or symbol} from shape {list(array.shape)}", need=str(symbol.spec)
            )
        if tensor is not None:
            tensor.copy_from(array)
            self._written[root] = self._arena.turn

    def _target(self, symbol: Symbol) -> tuple[TensorKey, Tensor | None]:
        """The root that a write of the symbol changes, and the memory; none for an input that outputs do not need."""
        if self._is_unneeded(symbol):
            return symbol.key, None
        tensor, lives = self.tensor(symbol), self.planned.lives
        root = self.planned.graph.root(self._own(symbol))
        if any(root in roots for roots in lives.fills.values()):
            raise SymbolError("write", got=f"{symbol}, which each run fills", need="an input without a fill")
        life = lives.of.get(root)
        if life is not None and life.nbytes and not (life.outside and life.roots[0] == root):
            raise SymbolError("write", got=f"{symbol}, which each run computes", need="an input that the run reads")
        return root, tensor

    @property
    def _requested_graph(self) -> SymbolicGraph:
        """The graph that was compiled, of whose symbols callers speak."""
        return self.planned.graph if self.copied is None else self.copied.graph

    def _is_unneeded(self, symbol: Symbol) -> bool:
        """Whether it is an input of the graph that no wanted output depends on."""
        graph = self._requested_graph
        root = graph.root(graph.own(symbol))
        if graph.writers(root):
            return False
        here = root if self.copied is None else self.copied.tensors.get(root)
        return here not in self.planned.lives.of and here not in self.bindings.tensors

    @explained
    def rebind(self, tensors: Mapping[Symbol, Tensor]) -> Compiled:
        """The same program over other tensors for its given and bound symbols; the arena is shared."""
        graph = self.planned.graph
        named = own_all(graph, {graph.symbol(self._own(symbol)): tensor for symbol, tensor in tensors.items()})
        for key in named.keys() - self.bindings.tensors.keys():
            raise SymbolError("rebind", got=graph.label(key), need="a symbol that compile() was given or told to bind")
        bindings = self.bindings.renewed(named)
        check_bindings(graph, bindings.tensors)
        bindings.check(graph)
        return self._moved(bindings, self._arena)

    def report(self) -> tuple[Served, ...]:
        """Who runs each command, bodies included, and why backends that come before him do not; allocates the arena."""
        return self.allocate().report()

    def run(self, stream: Stream | None = None) -> Signal | None:
        """Execute once; with a stream, return at once with the signal that fires at the end."""
        concrete = self.allocate()
        self._begin_run()
        return concrete.run(stream)

    def _begin_run(self) -> None:
        self.take_turn()
        self.begun = not self._announced

    def __call__(self, values: Mapping[Symbol, ArrayLike], *outputs: Symbol) -> tuple[np.ndarray, ...]:
        """Write `values`, run, and return copies of `outputs`."""
        graph, kept = self.planned.graph, self.planned.kept
        for symbol in outputs:
            if graph.root(self._own(symbol)) not in kept:
                need, fix = "a symbol that holds its value after a run", "list it in outputs"
                raise SymbolError("compiled", got=str(symbol), need=need, fix=fix)
        return self.read(values.items(), outputs)

    @explained
    def read(self, values: Iterable[tuple[Symbol, ArrayLike]], outputs: Iterable[Symbol]) -> tuple[np.ndarray, ...]:
        """Write `values`, run, and return copies of `outputs`, each of which holds its value after a run."""
        return self.exclusively(lambda: tuple([np.array(view) for view in self.views_in_turn(values, outputs)]))

    def views(self, values: Iterable[tuple[Symbol, ArrayLike]], outputs: Iterable[Symbol]) -> tuple[np.ndarray, ...]:
        """Write `values`, run, and return arrays over the memory of `outputs`, whose next run writes over them.

        Those of a device are copies.

        Nobody else runs in the arena until they are read if that is within `exclusively`.
        """
        return self.exclusively(lambda: self.views_in_turn(values, outputs))

    @frequent
    def views_in_turn(
        self, values: Iterable[tuple[Symbol, ArrayLike]], outputs: Iterable[Symbol]
    ) -> tuple[np.ndarray, ...]:
        """`views` for callers who are within `exclusively`."""
        concrete = self.allocate()
        if not isinstance(values, Iterable) or getattr(values, "ndim", 1) == 0:
            raise ArgumentError("views", got=shown(values), need="pairs of a symbol and its value")
        for pair in values:
            try:
                symbol, value = pair
            except (TypeError, ValueError):
                raise ArgumentError("views", got=shown(pair), need="pairs of a symbol and its value") from None
            self._write(symbol, value)
        self._begin_run()
        concrete.run()
        held: dict[Tensor, np.ndarray] = {}
        tensors = [self._found(symbol) for symbol in outputs]
        for tensor in tensors:
            if tensor not in held:
                held[tensor] = tensor.to(CPU).numpy()
        return tuple([held[tensor] for tensor in tensors])

    @property
    def is_bare(self) -> bool:
        """Whether it is laid out, and a run looks after no arena, input or file: all that it touches is bound."""
        return self._concrete is not None and not (any(self.statement.arenas.values()) or self._inputs or self._files)

    def take_turn(self) -> None:
        """What comes before each run: SymbolError for inputs that were not written since the last one in this arena.

        An input that is also an output keeps its value as long as no other program runs.
        """
        for file in self._files:
            file.check()
        arena, written = self._arena, self._written
        turn, missing = arena.turn, []
        for root in self._inputs:
            if written.get(root) != turn:
                missing.append(root)
        if missing:
            names = ", ".join(map(self.planned.graph.label, missing))
            need = "every input that outputs need written before each run"
            raise SymbolError("run", got=f"no value for {names}", need=need, fix="write() it")
        turn = arena.turn = turn + 1
        written.clear()
        for root in self._inputs:
            if root in self.planned.kept:
                written[root] = turn

    # ---- building

    @RareCollections()
    def _lay_out(self) -> ConcreteGraph:
        """The concrete graph over the arena as it is; nothing is kept of one that is not finished."""
        storages = self._arena.allocate(self.statement.arenas)
        if self._concrete is None or self._storages is not storages:
            laid = laid_out(self.planned, self.bindings, self._arena, storages, self.choices.deterministic, self._begin)
            concrete = laid.concrete
            if self.choices.tuning is not None:
                concrete.autotune(self.choices.tuning)
            concrete.prepare()
            trim_after(self.statement.arena + self.statement.bound)
            self._written, self._targets, self._sources = {}, {}, {}
            self._tensors, self._concrete, self._storages = laid.tensors, concrete, storages
            self._files, self._announced = laid.files, laid.announced
            self._arena.programs.add(self)
            if self.behind_layout is not None:
                self.behind_layout(self)
        return self._concrete

    def _begin(self) -> None:
        self.begun = True

    def is_note(self, action: Callable[[], None]) -> bool:
        """Whether an action between commands only notes that a run has begun to write: a library needs it not."""
        return action == self._begin

    def written_tensors(self) -> tuple[Tensor, ...]:
        """The tensors of the caller's that a run writes."""
        tensors = self.bindings.tensors
        return tuple(t for root in self.bindings.written if (t := tensors.get(root)) is not None)

    def _moved(self, bindings: Bindings, arena: Arena) -> Compiled:
        """The same program over other memory."""
        moved = Compiled(self.planned, bindings, self.choices, self.statement, arena, self.copied, self._inputs)
        moved.behind_layout = self.behind_layout
        return moved

    def _own(self, symbol: Symbol) -> TensorKey:
        """The key, in the graph that runs, of a symbol of the graph that was compiled."""
        return self.planned.graph.own(symbol) if self.copied is None else self.copied.own(symbol)

    def _tensor(self, key: TensorKey) -> Tensor:
        if key not in self._tensors:
            graph = self.planned.graph
            self._tensors[key] = view_root(graph, key, self._tensors[graph.root(key)])
        return self._tensors[key]
