"""Lowering: a symbolic graph with a plan becomes tensors over one arena and a concrete graph that runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from nnc.concrete import ConcreteGraph, Place, Served, TuneOptions, checked_tuning
from nnc.core.settings import SETTINGS
from nnc.core.spec import contiguous_strides
from nnc.core.storage import Storage, give_back_free_memory
from nnc.core.stream import Signal, Stream
from nnc.core.tensor import Tensor, as_array
from nnc.errors import MemoryLimitError, ShapeError, SymbolError, UsageError
from nnc.planning import Plan, Problem
from nnc.symbolic.compiler.bodies import Scheme, plan_bodies, scratch_bytes
from nnc.symbolic.compiler.budget import Budget, Compilation, Plans, checked_limit, within
from nnc.symbolic.compiler.build import GraphBuilder, view_root
from nnc.symbolic.compiler.concurrency import Concurrency, run_side_by_side
from nnc.symbolic.compiler.liveness import (
    Life,
    Lives,
    carried_roots,
    enforced_carries,
)
from nnc.symbolic.compiler.memory import ArenaLayout, MemoryStatement
from nnc.symbolic.compiler.needs import needs_of
from nnc.symbolic.compiler.order import choose_order, orderable, predecessors
from nnc.symbolic.compiler.sharing import TRIALS, Sharing
from nnc.symbolic.compiler.watch import GUARD, POISON, exec_text
from nnc.symbolic.ir import Duplicate, ExecKey, Symbol, SymbolicGraph, TensorKey
from nnc.symbolic.verification import verify

# From so many bytes of arena and bound tensors on, what making a program leaves behind is given back before it runs.
LARGE = 1 << 24


@dataclass(frozen=True, slots=True, eq=False)
class _Copied:
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
class _Choices:
    """Whether kernels are measured, and how, or fixed."""

    tuning: TuneOptions | None
    deterministic: bool


@dataclass(frozen=True, slots=True, eq=False)
class _Ground:
    """Everything that is fixed before memory exists."""

    graph: SymbolicGraph
    order: tuple[ExecKey, ...]
    bound: Mapping[TensorKey, Tensor | None]
    carried: Mapping[TensorKey, TensorKey]
    copies: tuple[tuple[TensorKey, TensorKey], ...]
    kept: frozenset[TensorKey]
    lives: Lives
    layout: ArenaLayout
    inner: Mapping[ExecKey, tuple[Scheme, ...]]
    backend: str
    concurrency: Concurrency | None
    choices: _Choices
    copied: _Copied | None = None

    def own(self, symbol: Symbol) -> TensorKey:
        """The key, in the graph that runs, of a symbol of the graph that was compiled."""
        return self.graph.own(symbol) if self.copied is None else self.copied.own(symbol)

    @property
    def streams(self) -> int:
        """How many streams the execs are on."""
        return 1 if self.concurrency is None else self.concurrency.streams


@dataclass(slots=True, eq=False)
class _Arena:
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
class Compiled:
    """A graph ready to run. Memory is allocated at the first run (or by `allocate`), never before."""

    ground: _Ground
    statement: MemoryStatement
    _arena: _Arena
    _tensors: dict[TensorKey, Tensor] = field(default_factory=dict)
    _concrete: ConcreteGraph | None = None

    def memory(self) -> MemoryStatement:
        """The bytes of this graph, exactly, without allocating any."""
        return self.statement

    @property
    def budget(self) -> Budget | None:
        """What the limit on memory costs; None where it was met without computing anything again."""
        return None if self.ground.copied is None else self.ground.copied.budget

    def plan(self) -> tuple[Problem, Plan]:
        """The blocks of memory with their lives, and where each lies in the arena."""
        return self.ground.layout.problem, self.ground.layout.plan

    def allocate(self) -> ConcreteGraph:
        """Make the arena, the tensors and the concrete graph; a second call returns the same."""
        if self._concrete is None:
            self._concrete = self._build(self._arena.allocate())
            tuning = self.ground.choices.tuning
            if tuning is not None:
                self._concrete.autotune(tuning)
            self._concrete.prepare()
            _tidy(self.statement)
        return self._concrete

    def clear(self) -> None:
        """Give back the arena and the concrete graph, once nobody else uses them; the next run makes them anew."""
        self._tensors, self._concrete = {}, None
        self._arena = _Arena(self.statement.arena)

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
        return Compiled(self.ground, self.statement, arena)

    def tensor(self, symbol: Symbol) -> Tensor:
        """The tensor that holds `symbol`; SymbolError when the plan gives it no memory."""
        self.allocate()
        key = self.ground.own(symbol)
        if self.ground.graph.root(key) not in self._tensors:
            raise SymbolError(
                "compiled", got=str(symbol), need="a symbol that the wanted outputs need", fix="list it in outputs"
            )
        return self._tensor(key)

    def write(self, symbol: Symbol, value: ArrayLike) -> None:
        """Put `value` into an input's memory; do it before each run unless the input is bound.

        SymbolError for what each run makes itself: before the run its bytes are those of others.
        """
        tensor, ground = self.tensor(symbol), self.ground
        root = ground.graph.root(ground.own(symbol))
        if any(root in roots for roots in ground.lives.fills.values()):
            raise SymbolError("write", got=f"{symbol}, which each run fills", need="an input without a fill")
        life = ground.lives.of.get(root)
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
        ground = self.ground
        symbols = {ground.graph.symbol(ground.own(symbol)): tensor for symbol, tensor in tensors.items()}
        named = _own_all(ground.graph, symbols)
        for key in named.keys() - ground.bound.keys():
            raise SymbolError(
                "rebind", got=ground.graph.label(key), need="a symbol that compile() was given or told to bind"
            )
        bound: dict[TensorKey, Tensor | None] = {**ground.bound, **named}
        bound.update({new: bound[old] for new, old in ground.carried.items()})
        _check_bindings(ground.graph, bound)
        return Compiled(replace(ground, bound=bound), self.statement, self._arena)

    def report(self) -> tuple[Served, ...]:
        """Who runs each command, bodies included, and why backends that come before him do not; allocates the arena."""
        return self.allocate().report()

    def run(self, stream: Stream | None = None) -> Signal | None:
        """Execute once; with a stream, return at once with the signal that fires at the end."""
        return self.allocate().run(stream)

    def __call__(self, values: Mapping[Symbol, ArrayLike], *outputs: Symbol) -> tuple[np.ndarray, ...]:
        """Write `values`, run, and return copies of `outputs`."""
        graph, kept = self.ground.graph, self.ground.kept
        for symbol in outputs:
            if graph.root(self.ground.own(symbol)) not in kept:
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
        ground = self.ground
        for root, tensor in ground.bound.items():
            if tensor is None:
                raise SymbolError(
                    "compiled",
                    got=f"{ground.graph.label(root)} without a tensor",
                    need="every given symbol bound",
                    fix="rebind()",
                )
            self._tensors[root] = tensor
        places: dict[TensorKey, Place] = {**self._tensors}
        scheme = Scheme(
            ground.graph,
            ground.order,
            ground.lives,
            ground.layout,
            ground.inner,
            ground.backend,
            ground.kept,
            concurrency=ground.concurrency,
        )
        concrete = ConcreteGraph(backend=ground.backend, deterministic=ground.choices.deterministic)
        builder = GraphBuilder(scheme, arena, self._arena.base, places, concrete).build()
        for new, old in ground.copies:
            builder.copy(builder.place(new), builder.place(old))
        # Nothing moves outside of loops.
        self._tensors.update((key, place) for key, place in places.items() if isinstance(place, Tensor))
        builder.concrete.set_default_streams(ground.streams)
        return builder.concrete

    def _tensor(self, key: TensorKey) -> Tensor:
        if key not in self._tensors:
            graph = self.ground.graph
            self._tensors[key] = view_root(graph, key, self._tensors[graph.root(key)])
        return self._tensors[key]


def compile(
    graph: SymbolicGraph,
    outputs: Sequence[Symbol],
    *,
    given: Mapping[Symbol, Tensor | None] | None = None,
    bind: Mapping[Symbol, Tensor | None] | None = None,
    carry: Mapping[Symbol, Symbol] | None = None,
    backend: str = "",
    streams: int = 1,
    memory_limit: int | None = None,
    autotune: TuneOptions | bool = False,
    deterministic: bool = False,
) -> Compiled:
    """Plan and lower what `outputs` need.

    `given` symbols are there already: they live in the caller's tensors and nothing computes them. `bind` lets
    computed symbols live in the caller's tensors. A tensor of None is named later, by `rebind`. `carry` maps a new
    value to the given old one whose memory it takes over at the end of the run (an updated parameter and the
    parameter). Inputs that are not given live in the arena and are overwritten once nobody needs them: write them
    before each run. A symbol with a fill that nobody gives is filled by the run, where the execs first use it.

    With several `streams` execs that do not depend on each other run side by side; what is alive at the same time on
    any of them shares no bytes. The statement says what that costs.

    With a `memory_limit`, in bytes, the arena takes no more: where it must, execs run a second time instead of keeping
    what they made, and results are the same bit by bit. `Compiled.budget` says how much work that is. MemoryLimitError
    names the smallest limit that can be met, and what is alive at its peak. Loops, branches and custom commands run
    once. Lower precision is another graph: `lower_precision` makes it.

    With `autotune` the kernels of each exec are timed where it stands when memory is allocated, and the fastest that
    wants no more memory than planned runs; choices are kept in the cache folder. Kernels sum in different orders, so
    another choice may give other last bits. With `deterministic` nothing is measured, then or later, and no choice is
    looked up: every exec has the first kernel of the first backend. UsageError when both are asked for.
    """
    if streams < 1:
        raise UsageError("compile", got=f"{streams} streams", need="at least 1")
    limit = None if memory_limit is None else checked_limit(memory_limit)
    choices = _Choices(checked_tuning("compile", autotune, deterministic), deterministic)
    asked = _Asked(tuple(outputs), given or {}, bind or {}, carry or {}, backend, streams, choices)
    compiled, compilation = _compile(graph, asked)
    if limit is None or compiled.statement.arena <= limit:
        _tidy(compiled.statement)
        return compiled

    def compile_copy(copy: Duplicate, capacity: int | None) -> Compiled:
        return _compile(copy.graph, asked.moved(graph, copy), 0, capacity)[0]

    plans = Plans(compiled, compile_copy, _arena_bytes, _peak_lines)
    met, copy, budget = within(compilation, limit, plans)
    _tidy(met.statement)
    return Compiled(replace(met.ground, copied=_Copied(graph, copy.tensors, budget)), met.statement, met._arena)


def _tidy(statement: MemoryStatement) -> None:
    if statement.arena + statement.bound >= LARGE:
        give_back_free_memory()


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """What a caller asks of a compilation, in symbols of the graph."""

    outputs: tuple[Symbol, ...]
    given: Mapping[Symbol, Tensor | None]
    bind: Mapping[Symbol, Tensor | None]
    carry: Mapping[Symbol, Symbol]
    backend: str
    streams: int
    choices: _Choices

    def moved(self, graph: SymbolicGraph, copy: Duplicate) -> _Asked:
        """The same of a copy of the graph."""

        def move(symbol: Symbol) -> Symbol:
            return copy.graph.symbol(copy.tensors[graph.own(symbol)])

        return _Asked(
            tuple(map(move, self.outputs)),
            {move(symbol): tensor for symbol, tensor in self.given.items()},
            {move(symbol): tensor for symbol, tensor in self.bind.items()},
            {move(new): move(old) for new, old in self.carry.items()},
            self.backend,
            self.streams,
            self.choices,
        )


def _compile(
    graph: SymbolicGraph, asked: _Asked, trials: int = TRIALS, capacity: int | None = None
) -> tuple[Compiled, Compilation]:
    """The program, and what a search for a smaller one starts from.

    So many sites are tried each way in the plan; a plan within the `capacity` is good enough.
    """
    if SETTINGS.debug:
        verify(graph, "compile's input")
    known = _own_all(graph, asked.given)
    bound = {**known, **_own_all(graph, asked.bind)}
    carries = {graph.own(new): graph.own(old) for new, old in asked.carry.items()}
    _check_bindings(graph, bound)
    _check_carries(graph, known, carries)
    wanted = [graph.own(symbol) for symbol in asked.outputs]
    execs = graph.needed_for([*wanted, *carries], known)
    carries.update(enforced_carries(graph, execs, known, carries))
    direct = carried_roots(graph, carries, bound)
    direct = orderable(graph, execs, needs_of(graph, execs, (), ()), direct) if direct else direct
    bound.update({new: bound[old] for new, old in direct.items()})
    copies = tuple((new, old) for new, old in carries.items() if new not in direct)
    kept = [graph.root(key) for key in (*wanted, *(new for new, _ in copies))]
    inner = plan_bodies(graph, execs, asked.backend)
    scratch = scratch_bytes(graph, execs, inner, asked.backend)
    needs = needs_of(graph, execs, bound, kept, scratch)
    order = choose_order(graph, execs, needs, direct)
    sharing = Sharing(graph, order, needs, frozenset(bound), frozenset(kept), inner, scratch, capacity)
    concurrency, (lives, layout) = None, sharing.choose(trials)
    serial = layout
    if asked.streams > 1:
        before = predecessors(graph, execs, needs, direct)
        concurrency = run_side_by_side(order, before, needs, sharing.unfolded(), asked.streams)
        lives, layout = sharing.choose(trials, concurrency)
    kept_or_bound = frozenset([*kept, *bound])
    ground = _Ground(
        graph,
        order,
        bound,
        direct,
        copies,
        kept_or_bound,
        lives,
        layout,
        inner,
        asked.backend,
        concurrency,
        asked.choices,
    )
    outside = frozenset(bound) - frozenset(direct)
    workspace = max((life.nbytes for life in lives.workspaces.values()), default=0)
    statement = _statement(ground, outside, serial.plan.arena_bytes, workspace)
    compiled = Compiled(ground, statement, _Arena(statement.arena))
    return compiled, Compilation(graph, execs, needs, direct)


def _arena_bytes(compiled: Compiled) -> int:
    return compiled.statement.arena


def _peak_lines(compiled: Compiled) -> str:
    """The largest tensors at the peak of the memory, each with the line of its making."""
    ground = compiled.ground
    alive = (ground.layout.blocks[index] for index in ground.layout.plan.witness.blocks)
    largest = sorted((life for life in alive if life.roots), key=lambda life: -life.nbytes)
    roots = [life.roots[0] for life in largest[:4]]
    return ", ".join(f"{ground.graph.label(root)} ({ground.graph.tensors[root].origin})" for root in roots)


def _own_all(graph: SymbolicGraph, tensors: Mapping[Symbol, Tensor | None] | None) -> dict[TensorKey, Tensor | None]:
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


def _check_bindings(graph: SymbolicGraph, bound: Mapping[TensorKey, Tensor | None]) -> None:
    for key, tensor in bound.items():
        spec = graph.tensors[key].spec
        if graph.root(key) == key and (tensor is None or (tensor.shape, tensor.dtype) == (spec.shape, spec.dtype)):
            continue
        got = "an alias" if tensor is None else str(tensor.spec)
        raise ShapeError(
            "bind", got=f"{got} for {graph.label(key)}", need=f"a contiguous tensor of {spec} for all of a root"
        )


def _check_carries(graph: SymbolicGraph, given: Collection[TensorKey], carries: Mapping[TensorKey, TensorKey]) -> None:
    taken: set[TensorKey] = set()
    for new, old in carries.items():
        one, two = graph.tensors[new].spec, graph.tensors[old].spec
        fits = graph.root(new) == new and (one.shape, one.dtype) == (two.shape, two.dtype)
        if new in given or old not in given or old in taken or not fits:
            raise SymbolError(
                "carry",
                got=f"{graph.label(new)} into {graph.label(old)}",
                need="a computed value, and one given old value of the same shape and type for it alone",
            )
        taken.add(old)


def _statement(ground: _Ground, outside: Collection[TensorKey], serial: int, workspace: int) -> MemoryStatement:
    graph, lives, plan, blocks = ground.graph, ground.lives, ground.layout.plan, ground.layout.blocks
    largest = sorted(plan.witness.blocks, key=lambda index: -blocks[index].nbytes)[:8]
    tensors = sum(graph.tensors[root].spec.nbytes for root in lives.of)
    return MemoryStatement(
        arena=plan.arena_bytes,
        lower_bound=plan.lower_bound,
        without_reuse=tensors + sum(life.nbytes for life in lives.workspaces.values()),
        workspace=workspace,
        bound=sum(graph.tensors[root].spec.nbytes for root in outside),
        optimal=plan.optimal,
        peak_step=plan.witness.step,
        peak_tensors=tuple(_peak_text(ground, blocks[index]) for index in largest),
        streams=ground.streams,
        one_stream=serial,
        inputs=sum(life.nbytes for life in blocks if life.outside),
        outputs=sum(life.nbytes for life in blocks if life.upper > lives.steps),
        arenas=dict(plan.arenas),
        copies_saved=len(lives.parts),
        copied_bytes_saved=sum(graph.tensors[part].spec.nbytes for part in lives.parts),
    )


def _peak_text(ground: _Ground, life: Life) -> str:
    """The first tensor of a block, or whose workspace it is, and the user's line."""
    if not life.roots:
        return f"workspace of {exec_text(ground.graph, ground.graph.execs[ground.order[life.lower]])}"
    record, label = ground.graph.tensors[life.roots[0]], ground.graph.label(life.roots[0])
    return f"{label} ({record.origin})" if record.origin else label
