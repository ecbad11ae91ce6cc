"""The static schedule: every edge holds, no wait is needless, chains stay together, results are the serial ones."""

from __future__ import annotations

from typing import NewType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.concrete.eager import (
    ADDITION,
    MATRIX_PRODUCT,
    PRODUCT,
    affine,
    elements,
    graph,
    noise,
    room,
    rooms,
    run,
    tensor,
)

from nnc.concrete import Carry, ConcreteGraph, CountBelow, Phi
from nnc.concrete.body import ExecKey
from nnc.concrete.schedule import Schedule, make_schedule
from nnc.core.running.stream import Stream
from nnc.core.values.tensor import Tensor
from nnc.errors import StaleError, UsageError
from nnc.graph import Graph

Key = NewType("Key", int)
Plain = Graph[str, None, Key]


def plain(count: int, edges: list[tuple[int, int]]) -> Plain:
    made: Plain = Graph(Key)
    keys = [made.add_node("") for _ in range(count)]
    for source, target in edges:
        made.add_edge(keys[source], keys[target], None)
    return made


def happened_before(schedule: Schedule[Key], dropped: tuple[Key, Key] | None = None) -> dict[Key, frozenset[Key]]:
    """What is certainly done when a node begins, by the order of lanes and the signals alone."""
    earlier: dict[Key, list[Key]] = {}
    for lane in schedule.lanes:
        for place, key in enumerate(lane):
            earlier[key] = list(lane[max(place - 1, 0) : place])
            earlier[key] += [source for source in schedule.waits.get(key, ()) if (source, key) != dropped]
    known: dict[Key, frozenset[Key]] = {}
    # Work off nodes whose requirements are known: that it ends shows that no lanes wait for each other for ever.
    while len(known) < len(earlier):
        ready = [key for key in earlier if key not in known and all(source in known for source in earlier[key])]
        assert ready, "the lanes block each other"
        for key in ready:
            known[key] = frozenset(earlier[key]).union(*(known[source] for source in earlier[key]))
    return known


def holds(made: Plain, known: dict[Key, frozenset[Key]]) -> bool:
    return all(edge.source in known[edge.target] for edge in map(made.edge, made.edges()))


def known_at_the_end(schedule: Schedule[Key]) -> frozenset[Key]:
    known = happened_before(schedule)
    ends = [*schedule.lanes[0][-1:], *schedule.end]
    return frozenset(ends).union(*(known[key] for key in ends))


@st.composite
def graphs(draw: st.DrawFn) -> Plain:
    count = draw(st.integers(1, 14))
    pairs = [(i, j) for i in range(count) for j in range(i + 1, count)]
    return plain(count, draw(st.lists(st.sampled_from(pairs), max_size=30)) if pairs else [])


@settings(max_examples=150, deadline=None)
@given(graphs(), st.integers(1, 5))
def test_every_edge_holds_and_every_wait_is_needed(made: Plain, streams: int) -> None:
    schedule = make_schedule(made, made.nodes(), streams)
    assert sorted(key for lane in schedule.lanes for key in lane) == list(made.nodes())
    assert 1 <= len(schedule.lanes) <= streams
    assert holds(made, happened_before(schedule))
    for key, sources in schedule.waits.items():
        for source in sources:
            assert not holds(made, happened_before(schedule, (source, key)))
    assert known_at_the_end(schedule) == frozenset(made.nodes())
    assert make_schedule(made, made.nodes(), streams) == schedule


def test_one_stream_needs_no_signal() -> None:
    schedule = make_schedule(plain(4, [(0, 1), (0, 2), (1, 3), (2, 3)]), [Key(n) for n in range(4)], 1)
    assert schedule.lanes == ((0, 1, 2, 3),)
    assert schedule.signals == 0


def test_chains_stay_on_their_streams() -> None:
    made = plain(6, [(0, 2), (2, 4), (1, 3), (3, 5)])
    schedule = make_schedule(made, made.nodes(), 4)
    assert schedule.lanes == ((0, 2, 4), (1, 3, 5))
    assert (schedule.waits, schedule.begin, schedule.end) == ({}, (1,), (5,))


def test_the_longest_chain_continues_on_the_same_stream() -> None:
    made = plain(5, [(0, 1), (0, 2), (2, 3), (3, 4), (1, 4)])
    schedule = make_schedule(made, made.nodes(), 2)
    assert schedule.lanes == ((0, 2, 3, 4), (1,))
    assert schedule.waits == {1: (0,), 4: (1,)}
    assert (schedule.begin, schedule.end) == ((), ())


def test_a_stream_is_used_again_when_its_last_node_precedes() -> None:
    """Three diamonds in a row on two streams."""
    edges = [(3 * n + a, 3 * n + b) for n in range(3) for a, b in ((0, 1), (0, 2), (1, 3), (2, 3))]
    made = plain(10, edges)
    assert len(make_schedule(made, made.nodes(), 8).lanes) == 2


def test_the_kind_of_command_breaks_ties() -> None:
    """Both successors are as far from the end; the one of the stream's own kind stays on it."""
    made: Plain = Graph(Key)
    first, other, same = (made.add_node(kind) for kind in ("gemm", "add", "gemm"))
    for target in (other, same):
        made.add_edge(first, target, None)
    assert make_schedule(made, made.nodes(), 2, lambda key: made[key]).lanes == ((first, same), (other,))
    assert make_schedule(made, made.nodes(), 2).lanes == ((first, other), (same,))


def test_implied_waits_are_dropped() -> None:
    """0 -> 1 -> 2 on one stream, 3 and 4 on another: 4 waits for 1 alone, since 0 is before it."""
    made = plain(5, [(0, 1), (1, 2), (3, 4), (0, 4), (1, 4), (0, 2)])
    schedule = make_schedule(made, made.nodes(), 2)
    assert schedule.waits == {4: (1,)}
    assert schedule.emitters == {1, 4}


def test_the_text_of_a_schedule() -> None:
    made = plain(4, [(0, 1), (0, 2), (1, 3), (2, 3)])
    assert str(make_schedule(made, made.nodes(), 2)) == "stream 0: %0 %1 ^2→%3\nstream 1: ^0→%2\nend: "


def test_no_stream_is_no_schedule() -> None:
    with pytest.raises(UsageError, match="at least 1"):
        make_schedule(plain(1, []), [Key(0)], 0)
    with pytest.raises(UsageError, match="at least 1"):
        graph().set_default_streams(0)


def fan_in(root: ConcreteGraph) -> tuple[Tensor, Tensor]:
    """d = ((b1 · b2) + …): five products of matrices into one sum; the sum and what it must be."""
    factors = [(noise(n, 6, 6), noise(n + 10, 6, 6)) for n in range(5)]
    products = rooms(5, 6, 6)
    last, total = None, room(6, 6)
    sums = [total, room(6, 6)]
    expected = None
    for place, ((a, b), product) in enumerate(zip(factors, products, strict=True)):
        key = root.add(MATRIX_PRODUCT, [a, b, None], [product])
        value = run(MATRIX_PRODUCT, a, b, None)
        expected = value if expected is None else run(ADDITION, expected, value)
        if place:
            before = products[0] if place == 1 else sums[place % 2]
            after = [key] if last is None else [key, last]
            last = root.add(ADDITION, [before, product], [sums[(place + 1) % 2]], after=after)
            if place == 1:
                root.connect(root.execs.nodes()[0], last)
    assert expected is not None
    return sums[(4 + 1) % 2], expected


@pytest.mark.parametrize("streams", [1, 2, 3, 8])
def test_a_fan_in_gives_the_serial_result(streams: int) -> None:
    root = graph()
    total, expected = fan_in(root)
    schedule = root.schedule(streams)
    assert len(schedule.table.lanes) <= streams
    for _ in range(20):
        total.numpy()[...] = np.nan
        root.run(schedule=schedule)
        np.testing.assert_array_equal(elements(total), elements(expected))
    with Stream() as stream:
        total.numpy()[...] = np.nan
        signal = root.run(stream, schedule=schedule)
        assert signal is not None
        signal.wait()
        np.testing.assert_array_equal(elements(total), elements(expected))


def looping(root: ConcreteGraph) -> tuple[Tensor, float]:
    """A loop whose body has two independent chains and a branch; the result and what it must be."""
    x, y = tensor([1.0]), tensor([1.0])
    body, branch = graph("body"), graph("branch")
    carried_x, carried_y = Carry(x), Carry(y)
    next_x, next_y = body.multiview(rooms(2, 1)), body.multiview(rooms(2, 1))
    body.add(affine(2.0), [carried_x], [next_x])
    one = body.add(affine(1.0, 1.0), [carried_y], [next_y])
    spare = body.multiview(rooms(2, 1))
    chosen = Phi(next_y, spare)
    case = body.case_of(lambda count: int(count.numpy()) % 2, inputs=[body.count], outputs=[chosen], after=[one])
    left = branch.add(affine(3.0), [next_y], [spare])
    branch.add(affine(1.0), [next_y], [room(1)])
    branch.add(affine(1.0, 1.0), [spare], [spare], after=[left])
    body.set_case(case, 1, branch)
    body.carry_over(next_x, carried_x)
    body.carry_over(chosen, carried_y)
    loop = root.while_loop(body, CountBelow(6))
    product = room(1)
    root.add(PRODUCT, [next_x, chosen], [product], after=[loop])
    expected = 1.0
    for count in range(6):
        expected = expected + 1.0 if count % 2 == 0 else 3.0 * (expected + 1.0) + 1.0
    return product, expected * 2.0**6


@pytest.mark.parametrize("streams", [1, 2, 4])
def test_loops_and_branches_run_on_several_streams(streams: int) -> None:
    root = graph()
    product, expected = looping(root)
    root.set_default_streams(streams)
    with Stream() as stream:
        for _ in range(5):
            product.numpy()[...] = np.nan
            root.run(stream)
        stream.drain()
        assert product.numpy().item() == expected
    root.run()
    assert product.numpy().item() == expected


def test_parts_are_scheduled_and_joined() -> None:
    """Two chains as schedules of their own on two streams, then what joins them."""
    root = graph()
    values = rooms(4, 1)
    a, b = (tensor([n]) for n in (2.0, 3.0))
    first = root.add(affine(2.0), [a], [values[0]])
    second = root.add(affine(3.0), [b], [values[1]])
    third = root.add(affine(1.0, 1.0), [values[0]], [values[2]], after=[first])
    fourth = root.add(affine(1.0, 1.0), [values[1]], [values[3]], after=[second])
    total = room(1)
    join = root.add(ADDITION, [values[2], values[3]], [total], after=[third, fourth])
    parts = [root.schedule(2, sources=[head], destinations=[tail]) for head, tail in ((first, third), (second, fourth))]
    assert [part.table.lanes for part in parts] == [((first, third),), ((second, fourth),)]
    with Stream("left") as left, Stream("right") as right:
        signals = [root.run(stream, schedule=part) for stream, part in zip((left, right), parts, strict=True)]
        for signal in signals:
            assert signal is not None
            left.wait(signal)
        root.run(left, sources=[join])
        left.drain()
    assert total.numpy().item() == 15.0


def test_a_schedule_of_an_older_graph_is_refused() -> None:
    root = graph()
    key = root.add_noop()
    schedule = root.schedule(2)
    assert str(schedule) == f"stream 0: %{key}\nend: "
    with pytest.raises(UsageError, match="one of them"):
        root.run(schedule=schedule, sources=[key])
    root.add_noop()
    with pytest.raises(StaleError, match=r"schedule\(\) again"):
        root.run(schedule=schedule)


@settings(max_examples=40, deadline=None)
@given(graphs(), st.integers(2, 4))
def test_any_graph_gives_the_serial_result_on_any_number_of_streams(made: Plain, streams: int) -> None:
    """Each node adds up what its predecessors gave, plus one."""
    root = graph()
    values: dict[Key, Tensor] = {}
    nodes: dict[Key, ExecKey] = {}
    for key in made.nodes():
        total = tensor([1.0])
        after: list[ExecKey] = []
        for source in made.predecessors(key):
            following = room(1)
            behind = [nodes[source], *after[-1:]]
            after.append(root.add(ADDITION, [total, values[source]], [following], after=behind))
            total = following
        values[key] = room(1)
        nodes[key] = root.add(affine(1.0), [total], [values[key]], after=after[-1:])
    root.run()
    expected = [elements(value) for value in values.values()]
    schedule = root.schedule(streams)
    for value in values.values():
        value.numpy()[...] = np.nan
    root.run(schedule=schedule)
    assert [elements(value) for value in values.values()] == expected
