from __future__ import annotations

import random

from nnc import ops
from nnc.core.values.spec import spec
from nnc.symbolic import ExecKey, SymbolicGraph
from nnc.symbolic.compiler.order import choose as order_module
from nnc.symbolic.compiler.order.arrangement import Arrangement
from nnc.symbolic.compiler.order.choose import choose_order, predecessors
from nnc.symbolic.compiler.order.shuffle import search_order
from nnc.symbolic.compiler.order.uses import Profile, Uses, peak_bytes, uses_of

Order = tuple[ExecKey, ...]


def tangle(seed: int) -> tuple[SymbolicGraph, Order, Uses]:
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
    return graph, execs, uses_of(graph, execs, (), outputs)


def test_random_orders_stay_topological_and_never_raise_the_peak() -> None:
    for seed in range(3):
        graph, execs, uses = tangle(seed)
        before = predecessors(graph, execs, uses, {})
        found = search_order(execs, uses, before, 0)
        place = {key: step for step, key in enumerate(found)}
        assert place.keys() == set(execs)
        assert all(place[source] < place[key] for key in execs for source in before[key])
        assert peak_bytes(found, uses) <= peak_bytes(execs, uses)
        assert search_order(execs, uses, before, 0) == found


def test_a_stretch_has_the_bytes_that_it_has_in_the_whole_order() -> None:
    _, execs, uses = tangle(1)
    now, size = Arrangement(execs, uses), len(execs)
    for start, stop in ((0, 9), (20, 60), (size - 3, size)):
        # Not a topological order any more, which the bytes do not ask for.
        turned = tuple(reversed(now.order[start:stop]))
        whole = (*now.order[:start], *turned, *now.order[stop:])
        now.put(now.stretch(start, turned))
        assert now.during == alive_by_definition(whole, uses)
        assert (tuple(now.order), now.lives) == (whole, Profile(whole, uses).lives)
        assert (now.peak, now.during[now.at_peak]) == (max(now.during), max(now.during))


def alive_by_definition(order: Order, uses: Uses) -> list[int]:
    """Each root from its first user to its last; no exec of a tangle is without pairs that may share memory."""
    users: dict[int, list[int]] = {}
    for step, key in enumerate(order):
        for root in uses.touched(key):
            users.setdefault(root, []).append(step)
    ends = {root: len(order) if root in uses.kept else steps[-1] for root, steps in users.items()}
    during = []
    for step, key in enumerate(order):
        alive = sum(uses.nbytes[root] for root, steps in users.items() if steps[0] <= step <= ends[root])
        sources, targets = set(), set()
        for source, target in uses.pairs[key]:
            shares = ends[source] == step == users[target][0] and source not in sources and target not in targets
            if shares:
                sources.add(source)
                targets.add(target)
        during.append(alive - sum(uses.nbytes[source] for source in sources))
    return during


def test_it_lowers_what_greedy_orders_and_stretches_leave() -> None:
    lowered = 0
    for seed in range(4):
        graph, execs, uses = tangle(seed)
        before = predecessors(graph, execs, uses, {})
        greedy = min(order_module._candidates(before, uses), key=lambda one: peak_bytes(one, uses))
        enough = order_module._least_peak(execs, uses)
        stretched = peak_bytes(order_module._improve(greedy, uses, before, enough), uses)
        shuffled = peak_bytes(choose_order(graph, execs, uses, {}), uses)
        assert shuffled <= stretched
        lowered += shuffled < stretched
    assert lowered > 0
