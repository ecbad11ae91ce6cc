"""The least memory of small graphs beside all of their orders, and all states of the pebble game, move by move."""

from __future__ import annotations

import heapq
from itertools import permutations
from random import Random

from nnc import ops
from nnc.core.values.spec import spec
from nnc.symbolic import Symbol, SymbolicGraph
from nnc.symbolic.compiler.order.choose import predecessors
from nnc.symbolic.compiler.order.least import GraphBits, LeastPeak, OrdersAgain, OrdersOnce, least_peak, runs_of
from nnc.symbolic.compiler.order.uses import Uses, any_order_bytes, peak_bytes, uses_of

MANY = 10_000_000


def program(seed: int) -> tuple[SymbolicGraph, Uses]:
    """Up to seven execs on rows of several lengths, some of which may work in place, and one or two outputs."""
    draw, graph = Random(seed), SymbolicGraph()
    values: list[Symbol] = [graph.input(spec((draw.choice((2, 4, 9)), 3))) for _ in range(draw.randint(1, 2))]
    for _ in range(draw.randint(2, 7)):
        x = draw.choice(values[-4:])
        kind = draw.randrange(5)
        if kind == 0:
            values.append(ops.exp(x))
        elif kind == 1:
            values.append(ops.add(x, draw.choice([y for y in values if y.shape == x.shape])))
        elif kind == 2:
            values.append(ops.reduce_sum(x, (0,), keepdims=True))
        elif kind == 3:
            values.append(ops.gemm(x, ops.reshape(x, (3, x.shape[0]))))
        else:
            values.append(
                ops.broadcast_to(ops.reduce_sum(x, (0,), keepdims=True), (draw.choice((2, 4, 9)), x.shape[1]))
            )
        if values[-1].shape[1] != 3:
            values[-1] = ops.reduce_sum(values[-1], (1,), keepdims=True)
            values[-1] = ops.broadcast_to(values[-1], (values[-1].shape[0], 3))
    kept = {graph.root(symbol.key) for symbol in draw.sample(values, k=min(2, len(values)))} | {
        graph.root(values[-1].key)
    }
    execs = graph.needed_for([symbol.key for symbol in values if graph.root(symbol.key) in kept])
    return graph, uses_of(graph, execs, (), kept)


def runs_for(graph: SymbolicGraph, uses: Uses, *, begin: bool) -> GraphBits:
    before = predecessors(graph, tuple(uses.reads), uses, {})
    written = {root for roots in uses.writes.values() for root in roots}
    return runs_of(graph, uses, before, uses.nbytes.keys() - written if begin else ())


def searched(runs: GraphBits, low: int, peak: int, looks: int = MANY) -> tuple[LeastPeak, LeastPeak]:
    low = max(low, runs.memory(runs.begin))
    once = least_peak(OrdersOnce(runs, looks).enough, low, peak)
    return once, least_peak(OrdersAgain(runs, looks).enough, low, once.nbytes)


def least_of_all_orders(graph: SymbolicGraph, uses: Uses) -> int:
    """As the compiler counts."""
    peaks = []
    for order in permutations(uses.reads):
        place = {key: number for number, key in enumerate(order)}
        if all(place[other] < place[key] for key in order for other in graph.execs.predecessors(key) if other in place):
            peaks.append(peak_bytes(order, uses))
    return min(peaks)


def least_of_all_states(runs: GraphBits) -> int:
    """Dijkstra by the maximum: load what is given once, run an exec, drop a root."""
    everything = (1 << len(runs.nbytes)) - 1
    goal = runs.kept & ~runs.given
    heap, done = [(runs.memory(runs.begin), runs.begin, runs.begin)], set[tuple[int, int]]()
    while heap:
        peak, held, loaded = heapq.heappop(heap)
        if (held, loaded) in done:
            continue
        done.add((held, loaded))
        if not goal & ~held:
            return peak
        moves = [(held ^ 1 << root, loaded, 0) for root in range(len(runs.nbytes)) if held >> root & 1]
        moves = [move for move in moves if not (held & ~move[0]) & runs.kept & runs.given]
        for run in runs.runs:
            missing = run.reads & ~held
            if missing & (loaded | ~runs.given) & everything:
                continue
            during = runs.memory(held | run.reads | run.writes) + run.scratch
            moves.append((held | run.reads | run.writes, loaded | missing, during))
            for source, target in run.pairs:
                if not (held | run.reads) & target and not source & runs.kept & runs.given:
                    behind = (held | run.reads | run.writes) & ~source
                    moves.append((behind, loaded | missing, during - runs.memory(source)))
        for behind, taken, during in moves:
            heapq.heappush(heap, (max(peak, during), behind, taken))
    raise AssertionError("the kept roots are never there")


def test_what_the_searches_find_is_the_least_of_all_orders_and_states() -> None:
    fewer = lower = 0
    for seed in range(60):
        graph, uses = program(seed)
        if len(uses.reads) > 6 or len(uses.nbytes) > 9:
            continue
        first, low = peak_bytes(tuple(uses.reads), uses), any_order_bytes(graph, uses)
        runs = runs_for(graph, uses, begin=False)
        once, again = searched(runs, low, first)
        assert once == LeastPeak(least_of_all_orders(graph, uses), exact=True), seed
        assert again == LeastPeak(least_of_all_states(runs), exact=True), seed
        kept = runs_for(graph, uses, begin=True)
        assert searched(kept, low, 10 * first)[1] == LeastPeak(least_of_all_states(kept), exact=True), seed
        few = searched(runs, low, first, looks=2)
        assert few[0].nbytes <= once.nbytes
        assert few[1].nbytes <= again.nbytes
        fewer += once.nbytes < first
        lower += again.nbytes < once.nbytes
    assert fewer >= 3
    assert lower >= 1
