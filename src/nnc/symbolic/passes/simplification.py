"""Simplification: passes in the order the caller gives, each of which leaves a valid graph with the same values.

A pass is a transform of one graph. It runs on the bodies of loops and branches, from the innermost one out, and then
on the graph around them: there a body's results, and what the loop's test and outputs read of it, are wanted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import cast

from nnc.arguments import checked, shown
from nnc.classes import dataclass
from nnc.core.precautions.collection import RareCollections
from nnc.core.precautions.shield import Shield
from nnc.core.settings import SETTINGS
from nnc.errors import ArgumentError
from nnc.graph import Analysis, Changed, PassManager, Provider, Transform
from nnc.symbolic.bodies import Renamed, change_bodies, copy_body
from nnc.symbolic.ir import Body, Symbol, SymbolicGraph, bodies_of
from nnc.symbolic.passes.standard import Pass
from nnc.symbolic.records import ExecKey, TensorKey
from nnc.symbolic.rewrite import BACKEND, WANTED
from nnc.symbolic.stages import note_stage
from nnc.symbolic.verification import faults

Analyses = Sequence[Provider[SymbolicGraph]]


@dataclass(frozen=True, slots=True)
class Report:
    """What a pass did: execs before and after, those in bodies too, and how often each rule fired."""

    name: str
    before: int
    after: int
    fired: Mapping[str, int]


# What `benchmarks/symbolic.py networks` finds to take away nodes, and no time. Left out are batch-norm folding, which
# scales weights in each run unless `precompute` does it before, loop invariants, which live longer than they did, and
# losses from logits, whose values are others where a probability rounds to 1.
DEFAULT = (
    Pass.BRANCHES,
    Pass.CONSTANTS,
    Pass.ALGEBRA,
    Pass.COMMON_SUBEXPRESSIONS,
    Pass.DATA_TRANSFER,
    Pass.STEP_SUMS,
    Pass.FUSION,
    Pass.PLANES,
    Pass.PRUNING,
    Pass.GROUPS,
    Pass.PLACEMENT,
)


@checked
@RareCollections()
def simplify(
    graph: SymbolicGraph,
    outputs: Iterable[Symbol],
    passes: Iterable[Pass | Transform[SymbolicGraph]] = DEFAULT,
    analyses: Analyses = (),
    backend: str = "",
    *,
    sources: Sequence[ExecKey] = (),
    destinations: Sequence[ExecKey] = (),
) -> tuple[Report, ...]:
    """Run `passes` in this order. `outputs` keep their symbols and their values.

    With `sources` and `destinations` only what lies between these execs, themselves included, is simplified; all else
    stays as it is, needed or not.

    What the `backend` serves that the caller prefers is not fused into what it does not serve. A pass of one's own is
    a `Transform`; `analyses` give the facts that it requires beside `WANTED` and `BACKEND`. In debug mode the
    graph is verified behind each pass, and VerificationError names the one that broke it. Ctrl-C waits for the end of
    a pass.
    """
    outside = _outside(graph, sources, destinations)
    kept = (graph.symbol(key) for value in outside for key in graph.execs[value].outputs)
    wanted = (*outputs, *kept)
    given = (_preferring(backend), *analyses)
    manager = PassManager(graph, [_wanting(wanted), *given], faults if SETTINGS.debug else None)
    reports = []
    _set_optimized(graph, outside, optimize=False)
    note_stage(graph, "as built")
    try:
        for each in passes:
            first = each.value if isinstance(each, Pass) else each
            if not isinstance(cast(object, first), Transform):
                raise ArgumentError("simplify", got=f"a pass {shown(first)}", need="a Pass or a Transform")
            before = size(graph)
            # A pass leaves a valid graph only when it is through.
            with Shield(breakable=True):
                changed = manager.run(_inside(first, given), first)
            reports.append(Report(first.name, before, size(graph), dict(changed.fired)))
            if changed.count:
                note_stage(graph, first.name, changed.fired)
    finally:
        _set_optimized(graph, outside, optimize=True)
    return tuple(reports)


def _outside(graph: SymbolicGraph, sources: Sequence[ExecKey], destinations: Sequence[ExecKey]) -> list[ExecKey]:
    """The execs that passes may change, but for those between the sources and the destinations."""
    within = graph.execs.reachable(sources) if len(sources) else frozenset(key for key, _ in graph.execs.items())
    if len(destinations):
        within = within & graph.execs.reachable(destinations, reverse=True)
    return [key for key, record in graph.execs.items() if record.optimize and key not in within]


def _set_optimized(graph: SymbolicGraph, keys: Sequence[ExecKey], *, optimize: bool) -> None:
    """Let passes change these execs, or leave them as they are."""
    for key in keys:
        graph.execs.replace_node(key, replace(graph.execs[key], optimize=optimize))


def size(graph: SymbolicGraph) -> int:
    """How many execs there are, those in bodies too."""
    count = 0
    waiting = [graph]
    while waiting:
        first = waiting.pop()
        count += len(first.execs)
        waiting.extend(body.graph for _, record in first.execs.items() for _, body in bodies_of(record.command))
    return count


def _wanting(symbols: tuple[Symbol, ...]) -> Provider[SymbolicGraph]:
    def wanted(graph: SymbolicGraph) -> tuple[Symbol, ...]:
        return symbols

    return Analysis(wanted.__name__, WANTED, (), wanted)


def _preferring(name: str) -> Provider[SymbolicGraph]:
    def backend(graph: SymbolicGraph) -> str:
        return name

    return Analysis(backend.__name__, BACKEND, (), backend)


def _inside(transform: Transform[SymbolicGraph], analyses: Analyses) -> Transform[SymbolicGraph]:
    """The pass on all bodies of a graph: each is copied, and the copy is taken when something changed in it."""

    def run(graph: SymbolicGraph) -> Changed:
        total = Changed()

        def change(body: Body, named: tuple[TensorKey, ...]) -> tuple[Body, Renamed]:
            nonlocal total
            copy, renamed = copy_body(body, body.graph.execs.toposort(), named)
            kept = (*copy.results, *(renamed[key] for key in named))
            manager = PassManager(copy.graph, [_wanting(tuple(map(copy.graph.symbol, kept))), *analyses])
            changed = manager.run(_inside(transform, analyses), transform)
            total += changed
            return (copy, renamed) if changed.count else (body, {key: key for key in named})

        before = graph.version
        for key, record in tuple(graph.execs.items()):
            edits = total.count
            command = change_bodies(record.command, change) if record.optimize else record.command
            if total.count > edits:
                graph.replace_exec(key, replace(record, command=command))
        return Changed(graph.version - before, total.fired)

    return Transform(transform.name, (), (), run)
