"""Parameters' own work: what depends on parameters alone is computed once, not in each run.

    y = f(x, g(w))        becomes        v = g(w), beforehand;  y = f(x, v), in each run

It goes well behind batch-norm folding, whose factors and shifts are work on weights.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from nnc.arguments import checked
from nnc.classes import dataclass
from nnc.symbolic.control import WhileAttrs
from nnc.symbolic.ir import Symbol, SymbolicGraph, bodies_of
from nnc.symbolic.passes.invariants import invariant_execs, read_elsewhere, with_fills
from nnc.symbolic.passes.pruning import prune
from nnc.symbolic.records import ExecKey, ExecSymbol


@dataclass(frozen=True, slots=True, eq=False)
class Beforehand:
    """A graph for the work on parameters, which another graph does no longer.

    `parameters`: from symbols of the other graph to those of this one. `results`: symbols that the other graph now
    reads as inputs, and the symbols of this graph that have their values.
    """

    graph: SymbolicGraph
    parameters: Mapping[Symbol, Symbol]
    results: Mapping[Symbol, Symbol]

    def followed_by(self, later: Beforehand) -> Beforehand:
        """Both: what `later` took out of the graph that this was taken out of works on these results.

        The graph of this one grows by that of the other; results that nobody needs by now stay until it is pruned.
        """
        made = {**self.parameters, **self.results}
        mapped = {inner.key: made[symbol].key for symbol, inner in later.parameters.items() if symbol in made}
        execs = later.graph.execs.toposort()
        self.graph.graft(later.graph, execs, (result.key for result in later.results.values()), mapped)
        results = {symbol: self.graph.symbol(mapped[inner.key]) for symbol, inner in later.results.items()}
        return Beforehand(self.graph, self.parameters, {**self.results, **results})


# What running a command takes at least, in bytes that are written in the same time: 16 µs of the reference.
BYTES_A_COMMAND = 1 << 14


@checked
def bytes_beforehand(graph: SymbolicGraph, parameters: Iterable[Symbol]) -> float:
    """Bytes that `precompute` would write, `BYTES_A_COMMAND` at least for each command; infinite in an endless loop."""
    roots = [graph.root(graph.own(symbol)) for symbol in parameters]
    return _bytes_of(graph, invariant_execs(graph, roots))


def _bytes_of(graph: SymbolicGraph, execs: Iterable[ExecKey]) -> float:
    return sum(_bytes_of_exec(graph, graph.execs[key]) for key in execs)


def _bytes_of_exec(graph: SymbolicGraph, record: ExecSymbol) -> float:
    attrs, written = record.command.attrs, sum(graph.tensors[key].spec.nbytes for key in record.outputs)
    turns: float = 1
    if isinstance(attrs, WhileAttrs):
        turns = math.inf if attrs.limit is None else attrs.limit
    inside = sum(_bytes_of(body.graph, body.graph.execs) for _, body in bodies_of(record.command))
    return max(written, BYTES_A_COMMAND) + (turns * inside if inside else 0)


@checked
def precompute(graph: SymbolicGraph, parameters: Iterable[Symbol], wanted: Sequence[Symbol]) -> Beforehand:
    """Take out of `graph` what its `wanted` outputs need of `parameters` alone.

    SymbolError for symbols of another graph. What has been taken out stays true as long as the parameters do.
    """
    prune(graph, wanted)
    given = {graph.symbol(graph.root(graph.own(symbol))): symbol for symbol in parameters}
    roots = [symbol.key for symbol in given]
    moved = invariant_execs(graph, roots)
    crossing = read_elsewhere(graph, moved, (symbol.key for symbol in wanted))
    before, renamed = graph.subgraph(with_fills(graph, moved), (*roots, *crossing))
    for key in reversed(graph.execs.toposort(moved)):
        graph.remove_exec(key)
    prune(graph, wanted)
    return Beforehand(
        before,
        {symbol: before.symbol(renamed[symbol.key]) for symbol in given},
        {graph.symbol(key): before.symbol(renamed[key]) for key in crossing},
    )
