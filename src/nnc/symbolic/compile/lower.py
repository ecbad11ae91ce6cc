"""Lowering: a symbolic graph with a plan becomes tensors over one arena and a concrete graph that runs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from nnc.concrete import ConcreteGraph, Place
from nnc.core.settings import SETTINGS
from nnc.core.storage import Storage
from nnc.core.stream import Signal, Stream
from nnc.core.tensor import Tensor, as_array
from nnc.errors import ShapeError, SymbolError
from nnc.planning import Plan, Problem
from nnc.symbolic.compile.bodies import Builder, Scheme, plan_bodies, plan_workspaces, scratch_bytes, view_root
from nnc.symbolic.compile.liveness import (
    Life,
    Lives,
    carried_roots,
    enforced_carries,
    find_lives,
    fold_inplace,
)
from nnc.symbolic.compile.memory import Layout, MemoryStatement, block_name, lay_out
from nnc.symbolic.compile.order import choose_order, needs_of, orderable
from nnc.symbolic.ir import ExecKey, Symbol, SymbolicGraph, TensorKey
from nnc.symbolic.verify import verify


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
    layout: Layout
    inner: Mapping[ExecKey, tuple[Scheme, ...]]
    backend: str


@dataclass(slots=True, eq=False)
class Compiled:
    """A graph ready to run. Memory is allocated at the first run (or by `allocate`), never before."""

    ground: _Ground
    statement: MemoryStatement
    _tensors: dict[TensorKey, Tensor] = field(default_factory=dict)
    _arena: Storage | None = None
    _concrete: ConcreteGraph | None = None

    def memory(self) -> MemoryStatement:
        """The bytes of this graph, exactly, without allocating any."""
        return self.statement

    def plan(self) -> tuple[Problem, Plan]:
        """The blocks of memory with their lives, and where each lies in the arena."""
        return self.ground.layout.problem, self.ground.layout.plan

    def allocate(self) -> ConcreteGraph:
        """Make the arena, the tensors and the concrete graph; a second call returns the same."""
        if self._concrete is None:
            self._arena = self._arena or Storage.allocate(self.statement.arena, "arena")
            self._concrete = self._build(self._arena)
        return self._concrete

    def tensor(self, symbol: Symbol) -> Tensor:
        """The tensor that holds `symbol`; SymbolError when the plan gives it no memory."""
        self.allocate()
        key = self.ground.graph.own(symbol)
        if self.ground.graph.root(key) not in self._tensors:
            raise SymbolError(
                "compiled", got=str(symbol), need="a symbol that the wanted outputs need", fix="list it in outputs"
            )
        return self._tensor(key)

    def write(self, symbol: Symbol, value: ArrayLike) -> None:
        """Put `value` into an input's memory; do it before each run unless the input is bound."""
        tensor = self.tensor(symbol)
        array = as_array(value)
        if array.shape != tensor.shape:
            raise ShapeError(
                "write", got=f"{symbol.name or symbol} from shape {list(array.shape)}", need=str(tensor.spec)
            )
        tensor.copy_from(array)

    def rebind(self, tensors: Mapping[Symbol, Tensor]) -> Compiled:
        """The same program over other tensors for its given and bound symbols; the arena is shared."""
        ground = self.ground
        named = _own_all(ground.graph, dict(tensors))
        for key in named.keys() - ground.bound.keys():
            raise SymbolError(
                "rebind", got=ground.graph.label(key), need="a symbol that compile() was given or told to bind"
            )
        bound: dict[TensorKey, Tensor | None] = {**ground.bound, **named}
        bound.update({new: bound[old] for new, old in ground.carried.items()})
        _check_bindings(ground.graph, bound)
        self._arena = self._arena or Storage.allocate(self.statement.arena, "arena")
        return Compiled(replace(ground, bound=bound), self.statement, {}, self._arena)

    def run(self, stream: Stream | None = None) -> Signal | None:
        """Execute once; with a stream, return at once with the signal that fires at the end."""
        return self.allocate().run(stream)

    def __call__(self, values: Mapping[Symbol, ArrayLike], *outputs: Symbol) -> tuple[np.ndarray, ...]:
        """Write `values`, run, and return copies of `outputs`."""
        graph, kept = self.ground.graph, self.ground.kept
        for symbol in outputs:
            if graph.root(graph.own(symbol)) not in kept:
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
        if SETTINGS.debug:
            arena.bytes.fill(0xFF)
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
        scheme = Scheme(ground.graph, ground.order, ground.lives, ground.layout, ground.inner, ground.backend)
        builder = Builder(scheme, arena, 0, places, ConcreteGraph(backend=ground.backend)).build()
        for new, old in ground.copies:
            builder.copy(builder.place(new), builder.place(old))
        # Nothing moves outside of loops.
        self._tensors.update((key, place) for key, place in places.items() if isinstance(place, Tensor))
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
) -> Compiled:
    """Plan and lower what `outputs` need.

    `given` symbols are there already: they live in the caller's tensors and nothing computes them. `bind` lets
    computed symbols live in the caller's tensors. A tensor of None is named later, by `rebind`. `carry` maps a new
    value to the given old one whose memory it takes over at the end of the run (an updated parameter and the
    parameter). Inputs that are not given live in the arena and are overwritten once nobody needs them: write them
    before each run.
    """
    if SETTINGS.debug:
        verify(graph, "compile's input")
    known = _own_all(graph, given)
    bound = {**known, **_own_all(graph, bind)}
    carries = {graph.own(new): graph.own(old) for new, old in (carry or {}).items()}
    _check_bindings(graph, bound)
    _check_carries(graph, known, carries)
    wanted = [graph.own(symbol) for symbol in outputs]
    execs = graph.needed_for([*wanted, *carries], known)
    carries.update(enforced_carries(graph, execs, known, carries))
    direct = carried_roots(graph, carries, bound)
    direct = orderable(graph, execs, needs_of(graph, execs, (), ()), direct) if direct else direct
    bound.update({new: bound[old] for new, old in direct.items()})
    copies = tuple((new, old) for new, old in carries.items() if new not in direct)
    kept = [graph.root(key) for key in (*wanted, *(new for new, _ in copies))]
    inner = plan_bodies(graph, execs, backend)
    scratch = scratch_bytes(graph, execs, inner, backend)
    needs = needs_of(graph, execs, bound, kept, scratch)
    order = choose_order(graph, execs, needs, direct)
    lives = find_lives(graph, order, needs, frozenset(bound))
    _keep_unwritten(graph, kept, lives, bound)
    fold_inplace(graph, order, lives)
    workspace = plan_workspaces(order, scratch, lives)
    layout = lay_out(lives, {root: graph.label(root) for root in lives.of})
    ground = _Ground(graph, order, bound, direct, copies, frozenset([*kept, *bound]), lives, layout, inner, backend)
    return Compiled(ground, _statement(layout, lives, frozenset(bound) - frozenset(direct), workspace, graph))


def _own_all(graph: SymbolicGraph, tensors: Mapping[Symbol, Tensor | None] | None) -> dict[TensorKey, Tensor | None]:
    return {graph.own(symbol): tensor for symbol, tensor in (tensors or {}).items()}


def _check_bindings(graph: SymbolicGraph, bound: Mapping[TensorKey, Tensor | None]) -> None:
    for key, tensor in bound.items():
        spec = graph.tensors[key].spec
        if graph.root(key) == key and (tensor is None or (tensor.shape, tensor.dtype) == (spec.shape, spec.dtype)):
            continue
        got = "an alias" if tensor is None else str(tensor.spec)
        raise ShapeError(
            "bind", got=f"{got} for {graph.label(key)}", need=f"a tensor of {spec} for a symbol that is no alias"
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


def _keep_unwritten(
    graph: SymbolicGraph, kept: Iterable[TensorKey], lives: Lives, bound: Mapping[TensorKey, Tensor | None]
) -> None:
    """A wanted output that no exec touches (an input passed through) still needs memory."""
    for root in kept:
        if root not in lives.of and root not in bound:
            lives.of[root] = Life([root], 0, lives.steps + 1, graph.tensors[root].spec.nbytes)


def _statement(
    layout: Layout, lives: Lives, bound: frozenset[TensorKey], workspace: int, graph: SymbolicGraph
) -> MemoryStatement:
    plan, blocks = layout.plan, layout.blocks
    names = {root: graph.label(root) for root in lives.of}
    largest = sorted(plan.witness.blocks, key=lambda index: -blocks[index].nbytes)[:8]
    tensors = sum(graph.tensors[root].spec.nbytes for root in lives.of)
    return MemoryStatement(
        arena=plan.arena_bytes,
        lower_bound=plan.lower_bound,
        without_reuse=tensors + sum(life.nbytes for life in lives.workspaces.values()),
        workspace=workspace,
        bound=sum(graph.tensors[root].spec.nbytes for root in bound),
        optimal=plan.optimal,
        peak_step=plan.witness.step,
        peak_tensors=tuple(block_name(blocks[index], names) for index in largest),
    )
