"""Lowering: a symbolic graph with a plan becomes tensors over one arena and a concrete graph that runs."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from nnc.concrete import ConcreteGraph
from nnc.concrete import ExecKey as ConcreteKey
from nnc.concrete.graph import workspace_spec
from nnc.core.command import AnyCommand, Command
from nnc.core.dispatch import DISPATCHER, Claim
from nnc.core.settings import SETTINGS
from nnc.core.storage import Storage
from nnc.core.stream import Signal, Stream
from nnc.core.tensor import Tensor, as_array
from nnc.errors import LayoutError, ShapeError, SymbolError, UsageError
from nnc.ops.copy import COPY
from nnc.ops.fill import FILL, FillAttrs
from nnc.ops.rules import NoAttrs
from nnc.planning import Plan, Problem
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
        offsets = {
            id(life): offset for life, offset in zip(ground.layout.blocks, ground.layout.plan.offsets, strict=True)
        }
        for root, life in ground.lives.of.items():
            self._tensors[root] = Tensor(ground.graph.tensors[root].spec, arena, offsets.get(id(life), 0))
        scratch = {
            step: Tensor(workspace_spec(life.nbytes), arena, offsets[id(life)])
            for step, life in ground.lives.workspaces.items()
        }
        dead = _dead_bytes(ground.layout, arena) if SETTINGS.debug else {}
        concrete = ConcreteGraph(backend=ground.backend)
        keys: list[ConcreteKey] = []
        for step, key in enumerate(ground.order):
            keys.append(self._add(concrete, key, scratch.get(step)))
            keys.extend(concrete.add(_poison(tensor), [], [tensor]) for tensor in dead.get(step, ()))
        for new, old in ground.copies:
            keys.append(concrete.add(Command(COPY, NoAttrs()), [self._tensor(new)], [self._tensor(old)]))
        for earlier, later in itertools.pairwise(keys):
            concrete.connect(earlier, later, "order")
        return concrete

    def _add(self, concrete: ConcreteGraph, key: ExecKey, workspace: Tensor | None) -> ConcreteKey:
        record = self.ground.graph.execs[key]
        inputs = [None if tensor is None else self._tensor(tensor) for tensor in record.inputs]
        outputs = [self._tensor(tensor) for tensor in record.outputs]
        return concrete.add(record.command, inputs, outputs, workspace=workspace, name=record.name)

    def _tensor(self, key: TensorKey) -> Tensor:
        found = self._tensors.get(key)
        if found is None:
            graph = self.ground.graph
            region = graph.region(key)
            root = self._tensors[graph.root(key)]
            if not root.is_contiguous:
                raise LayoutError(
                    "bind",
                    got=f"strides {list(root.strides)} for {graph.label(graph.root(key))}, which has aliases",
                    need="contiguous memory",
                    fix="bind a contiguous copy",
                )
            found = self._tensors[key] = root.view(graph.tensors[key].spec, region.offset, region.strides)
        return found


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
    claimed = {key: _claim(graph, key, backend) for key in execs}
    scratch = {key: claim.kernel.workspace_bytes for key, claim in claimed.items()}
    needs = needs_of(graph, execs, bound, kept, scratch)
    order = choose_order(graph, execs, needs, direct)
    claims = tuple(claimed[key] for key in order)
    lives = find_lives(graph, order, needs, frozenset(bound))
    _keep_unwritten(graph, kept, lives, bound)
    fold_inplace(graph, order, lives)
    workspace = _plan_workspaces(claims, lives)
    layout = lay_out(lives, {root: graph.label(root) for root in lives.of})
    ground = _Ground(graph, order, bound, direct, copies, frozenset([*kept, *bound]), lives, layout, backend)
    return Compiled(ground, _statement(layout, lives, frozenset(bound) - frozenset(direct), workspace, graph))


def _own_all(graph: SymbolicGraph, tensors: Mapping[Symbol, Tensor | None] | None) -> dict[TensorKey, Tensor | None]:
    return {graph.own(symbol): tensor for symbol, tensor in (tensors or {}).items()}


def _claim(graph: SymbolicGraph, key: ExecKey, backend: str) -> Claim:
    record = graph.execs[key]
    inputs = tuple(None if tensor is None else graph.tensors[tensor].spec for tensor in record.inputs)
    outputs = tuple(graph.tensors[tensor].spec for tensor in record.outputs)
    try:
        return DISPATCHER.claim(record.command, inputs, outputs, backend)
    except UsageError as error:
        error.origin = error.origin or record.origin
        raise


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


def _dead_bytes(layout: Layout, arena: Storage) -> dict[int, list[Tensor]]:
    """The blocks that nobody needs any more, as bytes, by the step after which that is so."""
    dead: dict[int, list[Tensor]] = {}
    for life, offset in zip(layout.blocks, layout.plan.offsets, strict=True):
        dead.setdefault(life.upper - 1, []).append(Tensor(workspace_spec(life.nbytes), arena, offset))
    return dead


def _poison(dead: Tensor) -> AnyCommand:
    """Bytes of 0xFF: not-a-number in every floating-point type, so that whoever reads freed memory is found out."""
    return Command(FILL, FillAttrs(255.0, dead.spec))


def _keep_unwritten(
    graph: SymbolicGraph, kept: Iterable[TensorKey], lives: Lives, bound: Mapping[TensorKey, Tensor | None]
) -> None:
    """A wanted output that no exec touches (an input passed through) still needs memory."""
    for root in kept:
        if root not in lives.of and root not in bound:
            lives.of[root] = Life([root], 0, lives.steps + 1, graph.tensors[root].spec.nbytes)


def _plan_workspaces(claims: Sequence[Claim], lives: Lives) -> int:
    """Add each kernel's scratch memory as a block of one step; returns the largest."""
    largest = 0
    for step, claim in enumerate(claims):
        nbytes = claim.kernel.workspace_bytes
        if nbytes:
            lives.workspaces[step] = Life([], step, step + 1, nbytes)
            largest = max(largest, nbytes)
    return largest


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
