"""Lowering: a symbolic graph with a plan becomes tensors over one arena and a concrete graph that runs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from nnc.arguments import checked
from nnc.classes import dataclass
from nnc.concrete import TuneOptions, checked_tuning
from nnc.core.precautions.collection import RareCollections
from nnc.core.running.dispatch import DISPATCHER, Claim
from nnc.core.running.file_device import Folder, file_device
from nnc.core.settings import SETTINGS
from nnc.core.values.device import Device, device_of
from nnc.core.values.tensor import Tensor
from nnc.errors import MemoryLimitError, SymbolError, UsageError
from nnc.planning import proven_bytes
from nnc.symbolic.compiler.bindings import Bindings, check_bindings, own_all
from nnc.symbolic.compiler.check.writes import exec_text
from nnc.symbolic.compiler.compiled import Compiled, KernelChoices
from nnc.symbolic.compiler.order.choose import orderable
from nnc.symbolic.compiler.order.known import KnownOrders
from nnc.symbolic.compiler.order.uses import any_order_bytes, uses_of
from nnc.symbolic.compiler.place.boundary import Boundary
from nnc.symbolic.compiler.place.liveness import carried_roots, enforced_carries
from nnc.symbolic.compiler.place.memory import PLACES, BlockSpan
from nnc.symbolic.compiler.place.memory_statement import (
    EXEC_BYTES,
    ArenaLimit,
    DeviceBytes,
    MemoryStatement,
    in_memory,
)
from nnc.symbolic.compiler.place.pipeline import NO_CLAIMS, TRIALS, plan
from nnc.symbolic.compiler.place.planned import PlannedGraph
from nnc.symbolic.compiler.place.scratch import worker_scratch
from nnc.symbolic.compiler.repeat.budget import Compilation, Plans, within
from nnc.symbolic.compiler.repeat.checkpoints import checkpointed
from nnc.symbolic.compiler.repeat.inside import InnerCopy, recomputed_inside
from nnc.symbolic.compiler.repeat.limits import ALL, Limits, counted, taken_of
from nnc.symbolic.compiler.repeat.offload import offloaded
from nnc.symbolic.compiler.repeat.repeating_copy import RepeatingCopy
from nnc.symbolic.compiler.repeat.segments import segmented
from nnc.symbolic.compiler.shared_arena import Arena, trim_after
from nnc.symbolic.ir import Duplicate, Symbol, SymbolicGraph
from nnc.symbolic.records import ExecKey, TensorKey
from nnc.symbolic.verification import verify


@checked
@RareCollections()
def compile(
    graph: SymbolicGraph,
    outputs: Sequence[Symbol],
    *,
    given: Mapping[Symbol, Tensor | None] | None = None,
    bind: Mapping[Symbol, Tensor | None] | None = None,
    carry: Mapping[Symbol, Symbol] | None = None,
    backend: str = "",
    streams: int = 1,
    memory_limit: ArenaLimit | None = None,
    autotune: TuneOptions | bool = False,
    deterministic: bool = False,
    orders: KnownOrders | None = None,
    claims: Mapping[ExecKey, Claim] = NO_CLAIMS,
    offload_folder: Folder | None = None,
) -> Compiled:
    """Plan and lower what `outputs` need.

    `given` symbols are there already: they live in the caller's tensors and nothing computes them. `bind` lets
    computed symbols live in the caller's tensors. A tensor of None is named later, by `rebind`. `carry` maps a new
    value to the given old one whose memory it takes over at the end of the run (an updated parameter and the
    parameter). Inputs that are not given live in the arena and are overwritten once nobody needs them: write them
    before each run. A symbol with a fill that nobody gives is filled by the run, where the execs first use it.

    With several `streams` execs that do not depend on each other run side by side; what is alive at the same time on
    any of them shares no bytes. The statement says what that costs.

    With a `memory_limit`, in bytes, of all arenas or by device (`{"cuda:0": "2GB"}`), the arena takes no more: where it
    must, execs run a second time instead of keeping what they made, and results are the same bit by bit.
    `Compiled.budget` says how much work that is. MemoryLimitError names the smallest arena that was found, and what is
    alive at its peak. A counted loop with a gradient becomes a chain of shorter ones, which run again instead of
    keeping what all iterations began with; so do recurrent operators, where sums over their steps are made in parts
    (`Pass.STEP_SUMS`). What runs inside of loops and branches may run again there. Custom commands run once. Values of
    a device whose arena is limited may wait in host memory, where that costs less (`Budget.offloaded`). With an
    `offload_folder` values of the host may wait there, in a file without a name, where that costs less than computing
    them again; bytes of the file are no part of the arena. Lower precision is another graph (`lower_precision`).

    With `autotune` the kernels of each exec are timed where it stands when memory is allocated, and the fastest that
    wants no more memory than planned runs; choices are kept in the cache folder. Kernels sum in different orders, so
    another choice may give other last bits. With `deterministic` nothing is measured, then or later, and no choice is
    looked up: every exec has the first kernel of the first backend. UsageError when both are asked for.

    `orders` are those that were found for the same graph at other sizes. Who runs an exec is not asked where `claims`
    say it, which follow from other sizes, too.
    """
    if streams < 1:
        raise UsageError("compile", got=f"{streams} streams", need="at least 1")
    limits = Limits.of(memory_limit)
    away = None if offload_folder is None else file_device(offload_folder)
    choices = KernelChoices(checked_tuning("compile", autotune, deterministic), deterministic)
    asked = _Asked(tuple(outputs), given or {}, bind or {}, carry or {}, backend, streams, choices)
    most = limits.most.get(ALL)
    compiled, compilation = _compile(graph, asked, orders=orders, claims=claims, most=most)
    kind = limits.exceeded(compiled.statement)
    if kind is None:
        trim_after(compiled.statement.arena + compiled.statement.bound)
        return compiled

    for key, claim in claims.items():  # for copies, whose execs have other keys
        record = graph.execs[key]
        specs = graph.specs(record.inputs), graph.specs(record.outputs)
        DISPATCHER.keep(record.command, *specs, backend, claim)

    def compile_copy(copy: Duplicate, capacity: int | None, places: int) -> Compiled:
        most = capacity if kind == ALL else None
        made = _compile(copy.graph, asked.moved(graph, copy), 0, most, places=places)[0]
        if capacity is not None and (over := limits.exceeded(made.statement)) is not None:
            got, need = f"an arena of {taken_of(made.statement, over)} bytes on {over}", f"at most {limits.most[over]}"
            raise MemoryLimitError("plan", got=got, need=need)
        return made

    def searched() -> Compiled:
        return compiled if compiled.planned.searched else _compile(graph, asked, orders=orders, claims=claims)[0]

    plans = Plans(
        compiled,
        searched,
        compile_copy,
        lambda made: taken_of(made.statement, kind),
        partial(_peak_lines, kind=kind),
    )
    compilations = [counted(each, kind) for each in (compilation, *_others(graph, asked, compiled.planned, kind, away))]
    met, copy, budget = within(compilations, limits.most[kind], plans)
    trim_after(met.statement.arena + met.statement.bound)
    return replace(met, copied=RepeatingCopy(graph, copy.tensors, budget))


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """What a caller asks of a compilation, in symbols of the graph."""

    outputs: tuple[Symbol, ...]
    given: Mapping[Symbol, Tensor | None]
    bind: Mapping[Symbol, Tensor | None]
    carry: Mapping[Symbol, Symbol]
    backend: str
    streams: int
    choices: KernelChoices

    def roots(self, graph: SymbolicGraph) -> frozenset[TensorKey]:
        """All roots that are named."""
        symbols = (*self.outputs, *self.given, *self.bind, *self.carry, *self.carry.values())
        return frozenset(graph.root(graph.own(symbol)) for symbol in symbols)

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
    graph: SymbolicGraph,
    asked: _Asked,
    trials: int = TRIALS,
    capacity: int | None = None,
    orders: KnownOrders | None = None,
    claims: Mapping[ExecKey, Claim] = NO_CLAIMS,
    places: int = PLACES,
    most: int | None = None,
) -> tuple[Compiled, Compilation]:
    """The program, and what a search for a smaller one starts from.

    At most `trials` in-place sites are tried both ways in the plan; a plan within the `capacity` is good enough. The
    planner's searches put blocks somewhere at most `places` times. They are left out where no plan without repeats
    comes near `most` bytes.
    """
    if SETTINGS.debug:
        verify(graph, "compile's input")
    known = own_all(graph, asked.given)
    bound = {**known, **own_all(graph, asked.bind)}
    carries = {graph.own(new): graph.own(old) for new, old in asked.carry.items()}
    check_bindings(graph, bound)
    _check_carries(graph, known, carries)
    wanted = [graph.own(symbol) for symbol in asked.outputs]
    execs = graph.needed_for([*wanted, *carries], known)
    carries.update(enforced_carries(graph, execs, known, carries))
    direct = carried_roots(graph, carries, bound)
    direct = orderable(graph, execs, uses_of(graph, execs, (), ()), direct) if direct else direct
    bound.update({new: bound[old] for new, old in direct.items()})
    copies = tuple((new, old) for new, old in carries.items() if new not in direct)
    kept = frozenset(graph.root(key) for key in (*wanted, *(new for new, _ in copies)))
    boundary = Boundary(execs, frozenset(bound), kept, direct)
    planned = plan(
        graph,
        boundary,
        asked.backend,
        streams=asked.streams,
        trials=trials,
        capacity=capacity,
        orders=orders,
        claims=claims,
        places=places,
        most=most,
    )
    statement = _statement(planned, frozenset(bound) - frozenset(direct))
    uses, bodies = planned.uses, planned.inner
    slack = max((uses.scratch[key] + sum(uses.nbytes[root] for root in uses.touched(key)) for key in bodies), default=0)
    written = {root for key in planned.order for root in uses.writes[key]}.union(carries.values()) & bound.keys()
    bindings, arena = Bindings(bound, direct, copies, frozenset(written)), Arena(statement.arenas)
    bindings.check(graph)
    compiled = Compiled(planned, bindings, asked.choices, statement, arena, _inputs=planned.inputs())
    arenas = planned.layout.plan.arenas
    return compiled, Compilation(graph, execs, uses, direct, slack, planned.serial_bytes, arenas=arenas)


def _others(
    graph: SymbolicGraph, asked: _Asked, planned: PlannedGraph, kind: str, away: Device | None
) -> Iterator[Compilation]:
    """Of copies of the graph: bodies compute values again, loops with gradients and sequences are chains of shorter
    ones, or values of a device wait on the host, and those of the host `away`.
    """
    wanted = asked.roots(graph)
    chains = (InnerCopy(copy, 0, 0) for make in (checkpointed, segmented) for copy in make(graph, wanted))
    for value in (*recomputed_inside(planned), *chains, *offloaded(planned, kind, away)):
        _, compilation = _compile(value.copy.graph, asked.moved(graph, value.copy), 0)
        compilation = replace(compilation, copied=value.copy.tensors, again=value.again, extra=value.extra)
        yield replace(compilation, offloaded=value.offloaded, offload_seconds=value.offload_seconds)


def _peak_lines(compiled: Compiled, kind: str) -> str:
    """The largest tensors at the peak of a kind of memory, each with the line of its making."""
    layout = compiled.planned.layout
    witness = layout.plan.witnesses.get(kind, layout.witness)
    alive = (layout.spans[index] for index in witness.blocks)
    largest = sorted((span for span in alive if span.life.roots), key=lambda span: -span.life.nbytes)
    return ", ".join(f"{span.name} ({span.graph.tensors[span.life.roots[0]].origin})" for span in largest[:4])


def _check_carries(graph: SymbolicGraph, given: Collection[TensorKey], carries: Mapping[TensorKey, TensorKey]) -> None:
    taken: set[TensorKey] = set()
    for new, old in carries.items():
        first, second = graph.tensors[new].spec, graph.tensors[old].spec
        fits = graph.root(new) == new and first.fits(second)
        if new in given or old not in given or old in taken or not fits:
            raise SymbolError(
                "carry",
                got=f"{graph.label(new)} into {graph.label(old)}",
                need="a computed value, and one given old value of the same shape and type for it alone",
            )
        taken.add(old)


def _statement(planned: PlannedGraph, outside: Collection[TensorKey]) -> MemoryStatement:
    graph, lives, plan, spans = planned.graph, planned.lives, planned.layout.plan, planned.layout.spans
    files = {memory: proof for memory, proof in plan.witnesses.items() if device_of(memory).is_file}
    largest = sorted(planned.layout.witness.blocks, key=lambda index: -spans[index].life.nbytes)[:8]
    own = lives.blocks()
    inside = [span.life.nbytes for span in spans if span.step is not None]
    tensors, scratch = sum(graph.tensors[root].spec.nbytes for root in lives.of), worker_scratch(planned)
    return MemoryStatement(
        arena=in_memory(plan.arenas),
        lower_bound=planned.bound - sum(proven_bytes(planned.layout.problem, proof) for proof in files.values()),
        without_reuse=tensors + sum(life.nbytes for life in lives.workspaces.values()) + sum(inside),
        workspace=max((span.life.nbytes for span in spans if span.exec is not None), default=0),
        bound=sum(graph.tensors[root].spec.nbytes for root in outside),
        optimal=plan.optimal and planned.bound == plan.lower_bound,
        peak_step=planned.layout.step(),
        peak_tensors=tuple(_peak_text(spans[index]) for index in largest),
        streams=planned.streams,
        one_stream=planned.serial_bytes,
        inputs=sum(life.nbytes for life in own if life.outside),
        outputs=sum(life.nbytes for life in own if life.upper > lives.steps),
        arenas=dict(plan.arenas),
        copies_saved=len(lives.parts),
        copied_bytes_saved=sum(graph.tensors[part].spec.nbytes for part in lives.parts),
        program=EXEC_BYTES * planned.size(),
        scratch=scratch and scratch * SETTINGS.worker_count(),
        devices=_device_bytes(planned, outside),
        any_order_bound=any_order_bytes(graph, planned.uses),
    )


def _device_bytes(planned: PlannedGraph, outside: Collection[TensorKey]) -> dict[str, DeviceBytes]:
    """The statement of each device."""
    graph, lives, layout = planned.graph, planned.lives, planned.layout
    own, homes = lives.blocks(), {root: str(graph.tensors[root].spec.device) for root in outside}
    return {
        memory: DeviceBytes(
            layout.plan.arenas.get(memory, 0),
            proven_bytes(layout.problem, layout.plan.witnesses[memory]) if memory in layout.plan.witnesses else 0,
            sum(graph.tensors[root].spec.nbytes for root, home in homes.items() if home == memory),
            sum(life.nbytes for life in own if life.outside and life.memory == memory),
            sum(life.nbytes for life in own if life.upper > lives.steps and life.memory == memory),
        )
        for memory in sorted({*layout.plan.arenas, *homes.values()})
    }


def _peak_text(span: BlockSpan) -> str:
    """The first tensor of a block, or whose workspace it is, and the user's line."""
    if span.exec is not None:
        return f"workspace of {exec_text(span.graph, span.graph.execs[span.exec])}"
    origin = span.graph.tensors[span.life.roots[0]].origin
    return f"{span.name} ({origin})" if origin else span.name
