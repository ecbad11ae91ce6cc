from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from nnc import ops
from nnc.core.values.spec import spec
from nnc.symbolic import ExecKey, SymbolicGraph
from nnc.symbolic.compiler.order.uses import Profile, Uses, peak_bytes, uses_of
from nnc.symbolic.compiler.order.window import best_stretch

Before = dict[ExecKey, set[ExecKey]]


def all_orders(before: Before, done: tuple[ExecKey, ...] = ()) -> list[tuple[ExecKey, ...]]:
    """Every topological order."""
    ready = [key for key, sources in before.items() if key not in done and sources.issubset(done)]
    return [order for key in ready for order in all_orders(before, (*done, key))] if ready else [done]


def program(steps: list[tuple[int, int, int]]) -> tuple[tuple[ExecKey, ...], Uses, Before]:
    graph = SymbolicGraph()
    pool = [graph.input(spec((4,)))]
    for first, second, width in steps:
        wide = ops.broadcast_to(pool[first % len(pool)], (width, 4))
        pool.append(ops.reduce_sum(ops.multiply(wide, pool[second % len(pool)]), 0))
    outputs = [symbol.key for symbol in pool[-2:]]
    execs = graph.needed_for(outputs)
    before = {key: set(graph.execs.predecessors(key)) for key in execs}
    return execs, uses_of(graph, execs, (), outputs), before


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(1, 9)), min_size=1, max_size=3))
def test_a_whole_graph_gets_the_best_order_there_is(steps: list[tuple[int, int, int]]) -> None:
    execs, uses, before = program(steps)
    lowest = min(peak_bytes(order, uses) for order in all_orders(before))
    found = best_stretch(Profile(execs, uses), 0, len(execs), before, 1 << 40)
    assert peak_bytes(found, uses) == lowest
    assert best_stretch(Profile(execs, uses), 0, len(execs), before, lowest) == ()


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(1, 9)), min_size=3, max_size=6))
def test_a_stretch_in_the_middle_raises_nothing(steps: list[tuple[int, int, int]]) -> None:
    execs, uses, before = program(steps)
    peak = peak_bytes(execs, uses)
    best = best_stretch(Profile(execs, uses), 2, 7, before, peak + 1)
    order = (*execs[:2], *best, *execs[7:])
    place = {key: step for step, key in enumerate(order)}
    assert place.keys() == set(execs)
    assert all(place[source] < place[key] for key, sources in before.items() for source in sources)
    assert peak_bytes(order, uses) <= peak
