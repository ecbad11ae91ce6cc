from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from nnc import ops
from nnc.core.values.command import Command
from nnc.core.values.spec import spec
from nnc.ops.movement.copy import contiguous
from nnc.ops.rules import NoAttrs
from nnc.symbolic import ExecKey, Symbol, SymbolicGraph
from nnc.symbolic.compiler.order.choose import choose_order, orderable
from nnc.symbolic.compiler.order.uses import peak_bytes, uses_of

COPIED = Command(contiguous, NoAttrs())


def order_of(graph: SymbolicGraph, outputs: list[Symbol]) -> tuple[tuple[ExecKey, ...], int]:
    execs = graph.needed_for([symbol.key for symbol in outputs])
    uses = uses_of(graph, execs, (), [graph.root(symbol.key) for symbol in outputs])
    order = choose_order(graph, execs, uses, {})
    return order, peak_bytes(order, uses)


def test_peak_counts_what_is_alive_at_once() -> None:
    graph = SymbolicGraph()
    x = graph.input(spec((10,)))
    y = ops.exp(x)
    z = ops.reduce_sum(y)
    execs = graph.needed_for([z.key])
    uses = uses_of(graph, execs, (), [z.key])
    assert peak_bytes(execs, uses) == 44  # y in the place of x, then y and z
    assert peak_bytes(execs, uses_of(graph, execs, (), [x.key, z.key])) == 84
    assert peak_bytes(execs, uses_of(graph, execs, [x.key], [z.key])) == 44
    assert peak_bytes(execs, uses_of(graph, execs, (), [z.key], {execs[1]: 100})) == 144


def test_wide_branches_are_finished_one_by_one() -> None:
    """Appended breadth first; depth first uses one large tensor at a time."""
    graph = SymbolicGraph()
    x = graph.input(spec((10,)))
    wide = [ops.broadcast_to(ops.affine(x, float(branch)), (100, 10)) for branch in range(8)]
    sums = [ops.reduce_sum(one) for one in wide]
    total = sums[0]
    for one in sums[1:]:
        total = total + one
    order, peak = order_of(graph, [total])
    assert len(order) == len(graph.execs)
    assert 4000 < peak < 2 * 4000


def test_the_order_of_appending_wins_ties() -> None:
    graph = SymbolicGraph()
    y = graph.input(spec((10,)))
    for _ in range(5):
        y = ops.exp(y)
    assert order_of(graph, [y])[0] == tuple(graph.execs)


def test_parts_with_a_writer_each_lose_no_exec() -> None:
    """An exec becomes cheaper when another one has brought its output's root into memory."""
    graph = SymbolicGraph()
    x, whole = graph.input(spec((8,))), graph.input(spec((8,)))
    for start in range(0, 8, 2):
        part = ops.exp(ops.sin(x[start : start + 2]))
        graph.apply(COPIED, [part], [whole[start : start + 2]])
    result = ops.reduce_sum(whole)
    order, _ = order_of(graph, [result])
    assert set(order) == set(graph.execs)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50), st.integers(1, 9)), min_size=1, max_size=25))
def test_any_order_chosen_is_whole_and_topological(steps: list[tuple[int, int, int]]) -> None:
    graph = SymbolicGraph()
    pool = [graph.input(spec((4,)))]
    for first, second, width in steps:
        value = ops.add(pool[first % len(pool)], pool[second % len(pool)])
        pool.append(ops.reduce_sum(ops.broadcast_to(value, (width, 4)), 0))
    order, peak = order_of(graph, [pool[-1]])
    place = {key: step for step, key in enumerate(order)}
    assert set(order) == set(graph.needed_for([pool[-1].key]))
    assert all(place[source] < place[key] for key in order for source in graph.execs.predecessors(key))
    execs = graph.needed_for([pool[-1].key])
    assert peak <= peak_bytes(execs, uses_of(graph, execs, (), [pool[-1].key]))


def test_updates_follow_the_other_readers_of_the_old_value() -> None:
    graph = SymbolicGraph()
    w, x = graph.input(spec((4,))), graph.input(spec((4,)))
    new = ops.affine(w, 0.5)
    late = ops.multiply(w, x)
    execs = graph.needed_for([new.key, late.key])
    uses = uses_of(graph, execs, [w.key, new.key], [late.key])
    carries = {new.key: w.key}
    assert orderable(graph, execs, uses, carries) == carries
    assert choose_order(graph, execs, uses, carries) == (graph.writers(late.key)[0], graph.writers(new.key)[0])


def test_two_values_that_swap_places_cannot_both_be_written_in_place() -> None:
    graph = SymbolicGraph()
    a, b = graph.input(spec((4,))), graph.input(spec((4,)))
    new_a, new_b = ops.exp(b), ops.sin(a)
    execs = graph.needed_for([new_a.key, new_b.key])
    uses = uses_of(graph, execs, (), ())
    assert orderable(graph, execs, uses, {new_a.key: a.key, new_b.key: b.key}) == {}
    assert orderable(graph, execs, uses, {new_a.key: a.key}) == {new_a.key: a.key}
