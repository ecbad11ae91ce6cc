"""Dominators, components, longest paths and implied edges against brute force."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from nnc.errors import CycleError

from .conftest import NodeKey, TextGraph, graph_of, graphs

REPEATABLE = settings(derandomize=True, deadline=None, max_examples=80)


def reached_without(graph: TextGraph, entry: NodeKey, removed: NodeKey) -> frozenset[NodeKey]:
    """What the entry reaches when one node is taken out."""
    if entry == removed:
        return frozenset()
    smaller = graph.copy()
    smaller.remove_node(removed)
    return smaller.reachable([entry])


@REPEATABLE
@given(graphs(most=7))
def test_M11_a_dominator_is_on_every_path(graph: TextGraph) -> None:
    entry = graph.nodes()[0]
    found = graph.dominators(entry)
    assert set(found) == graph.reachable([entry])
    assert found[entry] is None
    for key in found:
        above = set()
        step = found[key]
        while step is not None:
            above.add(step)
            step = found[step]
        cut = {one for one in found if one != key and key not in reached_without(graph, entry, one)}
        assert above == cut


@REPEATABLE
@given(graphs())
def test_M11_components_reach_each_other_and_stand_in_topological_order(graph: TextGraph) -> None:
    parts = graph.strongly_connected()
    assert sorted(key for part in parts for key in part) == list(graph.nodes())
    place = {key: number for number, part in enumerate(parts) for key in part}
    for left in graph.nodes():
        for right in graph.reachable([left]):
            assert (place[left] == place[right]) == (left in graph.reachable([right]))
            assert place[left] <= place[right]
    assert all(list(part) == sorted(part) for part in parts)


@REPEATABLE
@given(graphs(acyclic=True))
def test_M11_longest_paths_are_the_longest_of_all_paths(graph: TextGraph) -> None:
    weights = {key: 1 + key % 3 for key in graph.nodes()}

    def all_paths(key: NodeKey) -> list[int]:
        tails = [tail for target in graph.successors(key) for tail in all_paths(target)]
        return [weights[key] + tail for tail in tails] or [weights[key]]

    paths = graph.longest_paths(weights.__getitem__)
    assert paths.to_sink == {key: max(all_paths(key)) for key in graph.nodes()}
    assert paths.critical == max(paths.to_sink.values())
    assert {key for key in graph.nodes() if paths.from_source[key] == weights[key]} == set(graph.sources())


def test_an_empty_graph_has_no_paths() -> None:
    assert graph_of().longest_paths().critical == 0


@REPEATABLE
@given(graphs(acyclic=True))
def test_M11_the_transitive_reduction_orders_the_same_and_no_edge_can_go(graph: TextGraph) -> None:
    reduced = graph.transitive_reduction()
    for key in graph.nodes():
        assert reduced.reachable([key]) == graph.reachable([key])
    for edge in reduced.edges():
        smaller = reduced.copy()
        record = smaller.remove_edge(edge)
        assert record.target not in smaller.reachable([record.source])


def test_parallel_edges_are_redundant_but_the_first() -> None:
    graph = graph_of((0, 1), (0, 1), (0, 1))
    assert graph.redundant_edges() == graph.edges()[1:]


def test_orders_of_cyclic_graphs_are_refused() -> None:
    graph = graph_of((0, 1), (1, 0))
    for ask in (graph.longest_paths, graph.redundant_edges, graph.transitive_reduction):
        with pytest.raises(CycleError, match="0 -> 1 -> 0"):
            ask()
