"""What runs: a planned graph over one arena and the caller's tensors; memory is allocated at the first run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from nnc.concrete import ConcreteGraph, Place, Served, TuneOptions
from nnc.core.settings import SETTINGS
from nnc.core.spec import contiguous_strides
from nnc.core.storage import Storage, give_back_free_memory
from nnc.core.stream import Signal, Stream
from nnc.core.tensor import Tensor, as_array
from nnc.core.uncopied import Uncopied
from nnc.errors import MemoryLimitError, ShapeError, SymbolError
from nnc.planning import Plan, Problem
from nnc.symbolic.compiler.build import GraphBuilder, view_root
from nnc.symbolic.compiler.check.writes import GUARD, POISON
from nnc.symbolic.compiler.place.memory import MemoryStatement
from nnc.symbolic.compiler.place.planned import PlannedGraph
from nnc.symbolic.compiler.repeat.budget import Budget
from nnc.symbolic.ir import Symbol, SymbolicGraph, TensorKey

# From so many bytes of arena and bound tensors on, what making a program leaves behind is given back before it runs.
LARGE = 1 << 24


@dataclass(frozen=True, slots=True, eq=False)
class RepeatingCopy:
    """The graph that was compiled, when a copy of it runs, its symbols in the copy, and why there is a copy."""

    graph: SymbolicGraph
    tensors: Mapping[TensorKey, TensorKey]
    budget: Budget

    def own(self, symbol: Symbol) -> TensorKey:
        """The key in the copy."""
        key = self.graph.own(symbol)
        if key not in self.tensors:
            raise SymbolError("compiled", got=str(symbol), need="a symbol that was there at compile()")
        return self.tensors[key]


@dataclass(frozen=True, slots=True)
class KernelChoices:
    """Whether kernels are measured, and how, or fixed."""

    tuning: TuneOptions | None
    deterministic: bool


@dataclass(frozen=True, slots=True, eq=False)
class Bindings:
    """The caller's tensors: per root, with None for one that `rebind` names later.

    Each new value in `carried` is computed in the tensor of an old one; `copies` (new, old) come behind the run.
    """

    tensors: Mapping[TensorKey, Tensor | None]
    carried: Mapping[TensorKey, TensorKey]
    copies: tuple[tuple[TensorKey, TensorKey], ...]

    def renewed(self, named: Mapping[TensorKey, Tensor | None]) -> Bindings:
        """With other tensors for some roots, and for what is computed in these."""
        tensors = {**self.tensors, **named}
        tensors.update({new: tensors[old] for new, old in self.carried.items()})
        return replace(self, tensors=tensors)


@dataclass(slots=True, eq=False)
class Arena:
    """Memory for programs that run one after another; allocated when the first of them needs it."""

    nbytes: int
    storage: Storage | None = None
    base: int = 0

    def allocate(self) -> Storage:
        """The memory; in debug mode with guards in front of `base` and behind the arena, all of it not-a-number."""
        if self.storage is None:
            self.base = GUARD if SETTINGS.debug else 0
            self.storage = Storage.allocate(self.nbytes + 2 * self.base, "arena")
            if SETTINGS.debug:
                self.storage.bytes.fill(POISON)
        return self.storage


@dataclass(slots=True, eq=False)
class Compiled(Uncopied):
    """A graph ready to run. Memory is allocated at the first run (or by `allocate`), never before."""

    instead: ClassVar[str] = "compile() again, or rebind() it to other tensors"

    planned: PlannedGraph
    bindings: Bindings
    choices: KernelChoices
    statement: MemoryStatement
    _arena: Arena
    copied: RepeatingCopy | None = None
    _tensors: dict[TensorKey, Tensor] = field(default_factory=dict)
    _concrete: ConcreteGraph | None = None

    def memory(self) -> MemoryStatement:
        """The bytes of this graph, exactly, without allocating any."""
        return self.statement

    @property
    def budget(self) -> Budget | None:
        """What the limit on memory costs; None where it was met without computing anything again."""
        return None if self.copied is None else self.copied.budget

    def plan(self) -> tuple[Problem, Plan]:
        """The blocks of memory with their lives, and where each lies in the arena."""
        return self.planned.layout.problem, self.planned.layout.plan

    def allocate(self) -> ConcreteGraph:
        """Make the arena, the tensors and the concrete graph; a second call returns the same."""
        if self._concrete is None:
            concrete = self._build(self._arena.allocate())
            tuning = self.choices.tuning
            if tuning is not None:
                concrete.autotune(tuning)
            concrete.prepare()
            tidy(self.statement)
            # Last, so that what an interrupt broke off is done by the next call.
            self._concrete = concrete
        return self._concrete

    def clear(self) -> None:
        """Give back the arena and the concrete graph, once nobody else uses them; the next run makes them anew."""
        self._tensors, self._concrete = {}, None
        self._arena = Arena(self.statement.arena)

    def in_arena_of(self, other: Compiled) -> Compiled:
        """The same program in the memory of `other`, such as for smaller shapes; the two must not run side by side.

        MemoryLimitError when that memory is there already and too small.
        """
        arena, need = other._arena, self.statement.arena
        if arena.storage is None:
            arena.nbytes = max(arena.nbytes, need)
        elif arena.nbytes < need:
            raise MemoryLimitError(
                "arena",
                got=f"a program of {need} bytes",
                need=f"at most {arena.nbytes} bytes",
                fix="share the arena before the first run",
            )
        return Compiled(self.planned, self.bindings, self.choices, self.statement, arena, self.copied)

    def tensor(self, symbol: Symbol) -> Tensor:
        """The tensor that holds `symbol`; SymbolError when the plan gives it no memory."""
        self.allocate()
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
        tensor, lives = self.tensor(symbol), self.planned.lives
        root = self.planned.graph.root(self._own(symbol))
        if any(root in roots for roots in lives.fills.values()):
            raise SymbolError("write", got=f"{symbol}, which each run fills", need="an input without a fill")
        life = lives.of.get(root)
        if life is not None and life.nbytes and not (life.outside and life.roots[0] == root):
            raise SymbolError("write", got=f"{symbol}, which each run computes", need="an input that the run reads")
        array = as_array(value)
        if array.shape != tensor.shape:
            raise ShapeError(
                "write", got=f"{symbol.name or symbol} from shape {list(array.shape)}", need=str(tensor.spec)
            )
        tensor.copy_from(array)

    def rebind(self, tensors: Mapping[Symbol, Tensor]) -> Compiled:
        """The same program over other tensors for its given and bound symbols; the arena is shared."""
        graph = self.planned.graph
        named = own_all(graph, {graph.symbol(self._own(symbol)): tensor for symbol, tensor in tensors.items()})
        for key in named.keys() - self.bindings.tensors.keys():
            raise SymbolError("rebind", got=graph.label(key), need="a symbol that compile() was given or told to bind")
        bindings = self.bindings.renewed(named)
        check_bindings(graph, bindings.tensors)
        return Compiled(self.planned, bindings, self.choices, self.statement, self._arena, self.copied)

    def report(self) -> tuple[Served, ...]:
        """Who runs each command, bodies included, and why backends that come before him do not; allocates the arena."""
        return self.allocate().report()

    def run(self, stream: Stream | None = None) -> Signal | None:
        """Execute once; with a stream, return at once with the signal that fires at the end."""
        return self.allocate().run(stream)

    def __call__(self, values: Mapping[Symbol, ArrayLike], *outputs: Symbol) -> tuple[np.ndarray, ...]:
        """Write `values`, run, and return copies of `outputs`."""
        graph, kept = self.planned.graph, self.planned.kept
        for symbol in outputs:
            if graph.root(self._own(symbol)) not in kept:
                raise SymbolError(
                    "compiled",
                    got=str(symbol),
                    need="a symbol that holds its value after a run",
                    fix="list it in outputs",
                )
        for symbol, value in values.items():
            self.write(symbol, value)
        self.run()
        return tuple(np.array(self.tensor(symbol).numpy()) for symbol in outputs)

    # ---- building

    def _build(self, arena: Storage) -> ConcreteGraph:
        planned = self.planned
        for root, tensor in self.bindings.tensors.items():
            if tensor is None:
                raise SymbolError(
                    "compiled",
                    got=f"{planned.graph.label(root)} without a tensor",
                    need="every given symbol bound",
                    fix="rebind()",
                )
            self._tensors[root] = tensor
        places: dict[TensorKey, Place] = {**self._tensors}
        concrete = ConcreteGraph(backend=planned.backend, deterministic=self.choices.deterministic)
        builder = GraphBuilder(planned, arena, self._arena.base, places, concrete).build()
        for new, old in self.bindings.copies:
            builder.copy(builder.place(new), builder.place(old))
        # Nothing moves outside of loops.
        self._tensors.update((key, place) for key, place in places.items() if isinstance(place, Tensor))
        concrete.set_default_streams(planned.streams)
        return concrete

    def _own(self, symbol: Symbol) -> TensorKey:
        """The key, in the graph that runs, of a symbol of the graph that was compiled."""
        return self.planned.graph.own(symbol) if self.copied is None else self.copied.own(symbol)

    def _tensor(self, key: TensorKey) -> Tensor:
        if key not in self._tensors:
            graph = self.planned.graph
            self._tensors[key] = view_root(graph, key, self._tensors[graph.root(key)])
        return self._tensors[key]


def tidy(statement: MemoryStatement) -> None:
    """Give back what making a large program leaves behind."""
    if statement.arena + statement.bound >= LARGE:
        give_back_free_memory()


def own_all(graph: SymbolicGraph, tensors: Mapping[Symbol, Tensor | None] | None) -> dict[TensorKey, Tensor | None]:
    """By key; an alias that is all of its root stands for the root."""
    owned: dict[TensorKey, Tensor | None] = {}
    for symbol, tensor in (tensors or {}).items():
        key = graph.own(symbol)
        root, region = graph.root(key), graph.region(key)
        whole, spec = graph.tensors[root].spec, graph.tensors[key].spec
        fits = tensor is None or (tensor.shape, tensor.dtype, tensor.is_contiguous) == (spec.shape, spec.dtype, True)
        if fits and spec.elements == whole.elements and region.strides == contiguous_strides(spec.shape):
            key, tensor = root, tensor if tensor is None or root == key else tensor.reshape(whole.shape)
        owned[key] = tensor
    return owned


def check_bindings(graph: SymbolicGraph, bound: Mapping[TensorKey, Tensor | None]) -> None:
    """ShapeError unless each is a whole root, with a tensor of its shape and type or none yet."""
    for key, tensor in bound.items():
        spec = graph.tensors[key].spec
        if graph.root(key) == key and (tensor is None or (tensor.shape, tensor.dtype) == (spec.shape, spec.dtype)):
            continue
        got = "an alias" if tensor is None else str(tensor.spec)
        raise ShapeError(
            "bind", got=f"{got} for {graph.label(key)}", need=f"a contiguous tensor of {spec} for all of a root"
        )
