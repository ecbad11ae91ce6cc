"""Orders and reachability against what their definitions say."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nnc.errors import CycleError
from nnc.graph.visit import depth_first

from .conftest import NodeKey, TextGraph, graph_of, graphs

REPEATABLE = settings(derandomize=True, deadline=None, max_examples=80)


@REPEATABLE
@given(graphs(acyclic=True))
def test_M11_toposort_takes_the_smallest_ready_key(graph: TextGraph) -> None:
    done: list[NodeKey] = []
    for key in graph.toposort():
        ready = [one for one in graph.nodes() if one not in done and set(graph.predecessors(one)) <= set(done)]
        assert key == min(ready)
        done.append(key)
    assert len(done) == len(graph)


@REPEATABLE
@given(graphs(acyclic=True), st.data())
def test_toposort_of_some_keys_sees_only_the_edges_among_them(graph: TextGraph, data: st.DataObject) -> None:
    keys = data.draw(st.lists(st.sampled_from(graph.nodes())))
    order = graph.toposort(keys)
    assert sorted(order) == sorted(set(keys))
    for place, key in enumerate(order):
        assert not set(order[place:]) & set(graph.predecessors(key))


@REPEATABLE
@given(graphs())
def test_a_cycle_is_named_by_keys_that_follow_each_other(graph: TextGraph) -> None:
    try:
        graph.toposort()
    except CycleError as error:
        cycle = [NodeKey(int(key)) for key in re.findall(r"\d+", error.got)]
        assert cycle[0] == cycle[-1]
        assert all(target in graph.successors(source) for source, target in pairwise(cycle))
        assert any(len(part) > 1 for part in graph.strongly_connected()) or len(cycle) == 2
    else:
        assert all(len(part) == 1 for part in graph.strongly_connected())


def test_M12_the_cycle_error_reads_well() -> None:
    with pytest.raises(
        CycleError, match=re.escape("order: got the cycle 1 -> 2 -> 3 -> 1; need a graph without cycles")
    ):
        graph_of((0, 1), (1, 2), (2, 3), (3, 1), (3, 4)).toposort()
    with pytest.raises(CycleError, match=r"cycle 0 -> 1 -> 2 -> 3 -> 4 -> 5 -> … -> 45 -> 46 -> 47 -> 48 -> 49 -> 0;"):
        graph_of(*((number, (number + 1) % 50) for number in range(50))).toposort()


@REPEATABLE
@given(graphs(acyclic=True), st.data())
def test_M22_postorder_puts_predecessors_first(graph: TextGraph, data: st.DataObject) -> None:
    heads = data.draw(st.lists(st.sampled_from(graph.nodes())))
    order = graph.postorder(heads)
    assert set(order) == graph.reachable(heads, reverse=True)
    for place, key in enumerate(order):
        assert set(graph.predecessors(key)) <= set(order[:place])


@REPEATABLE
@given(graphs())
def test_reachable_is_the_closure_of_successors(graph: TextGraph) -> None:
    for head in graph.nodes():
        found = {head}
        while not found >= (wider := found.union(*map(graph.successors, found))):
            found = wider
        assert graph.reachable([head]) == found
        assert all(head in graph.reachable([key], reverse=True) for key in found)


def test_depth_first_walks_any_relation() -> None:
    assert depth_first([12], lambda number: (number // 2, number // 3) if number > 1 else ()) == (1, 3, 0, 2, 6, 4, 12)
