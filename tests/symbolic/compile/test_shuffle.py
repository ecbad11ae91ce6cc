from __future__ import annotations

import random

from nnc import ops
from nnc.core.spec import spec
from nnc.symbolic import ExecKey, SymbolicGraph
from nnc.symbolic.compile import order as order_module
from nnc.symbolic.compile.needs import Needs, needs_of, peak_bytes
from nnc.symbolic.compile.order import choose_order, predecessors
from nnc.symbolic.compile.shuffle import search_order

Order = tuple[ExecKey, ...]


def tangle(seed: int) -> tuple[SymbolicGraph, Order, Needs]:
    """About a hundred execs of many widths that depend on each other at random."""
    generator, graph = random.Random(seed), SymbolicGraph()
    pool = [graph.input(spec((4,)))]
    for _ in range(60):
        near, far = generator.choice(pool[-12:]), generator.choice(pool[-30:])
        width = generator.choice((1, 2, 4, 16, 64, 128))
        wide = ops.broadcast_to(ops.add(near, far), (width, 4))
        pool.append(ops.reduce_sum(wide, 0) if generator.random() < 0.5 else ops.add(near, ops.reduce_sum(wide)))
    outputs = [symbol.key for symbol in pool[-2:]]
    execs = graph.needed_for(outputs)
    return graph, execs, needs_of(graph, execs, (), outputs)


def test_random_orders_stay_topological_and_never_raise_the_peak() -> None:
    for seed in range(5):
        graph, execs, needs = tangle(seed)
        before = predecessors(graph, execs, needs, {})
        found = search_order(execs, needs, before, 0)
        place = {key: step for step, key in enumerate(found)}
        assert place.keys() == set(execs)
        assert all(place[source] < place[key] for key in execs for source in before[key])
        assert peak_bytes(found, needs) <= peak_bytes(execs, needs)
        assert search_order(execs, needs, before, 0) == found


def test_it_lowers_what_greedy_orders_and_stretches_leave() -> None:
    lowered = 0
    for seed in range(8):
        graph, execs, needs = tangle(seed)
        before = predecessors(graph, execs, needs, {})
        greedy = min(order_module._candidates(before, needs), key=lambda one: peak_bytes(one, needs))
        stretched = peak_bytes(order_module._improve(greedy, needs, before), needs)
        shuffled = peak_bytes(choose_order(graph, execs, needs, {}), needs)
        assert shuffled <= stretched
        lowered += shuffled < stretched
    assert lowered > 0
