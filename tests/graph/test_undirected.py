"""The interference graph's kind: each edge once, found from both ends."""

from __future__ import annotations

from typing import NewType

import pytest

from nnc.errors import GraphError, UnknownKeyError
from nnc.graph import Column, StorageFactory, UndirectedGraph

BlockKey = NewType("BlockKey", int)
Blocks = UndirectedGraph[str, int, BlockKey]


def blocks(storage: StorageFactory, *pairs: tuple[int, int], count: int = 5) -> Blocks:
    graph: Blocks = UndirectedGraph(BlockKey, storage=storage)
    keys = [graph.add_node(f"b{number}") for number in range(count)]
    for left, right in pairs:
        graph.connect(keys[left], keys[right], left + right)
    return graph


def test_M11_M25_neighbours_are_the_same_from_both_ends(storage: StorageFactory) -> None:
    graph = blocks(storage, (3, 1), (1, 0), (2, 1), (4, 1))
    one = graph.nodes()[1]
    assert graph.neighbours(one) == (0, 3, 2, 4)
    assert graph.degree(one) == 4
    for other in graph.neighbours(one):
        assert graph.neighbours(other) == (one,)
        edge = graph.between(one, other)
        assert edge is not None
        assert edge == graph.between(other, one)
        assert graph.edge(edge).data == one + other
    assert graph.between(BlockKey(0), BlockKey(2)) is None


def test_each_edge_is_stored_once(storage: StorageFactory) -> None:
    graph = blocks(storage, (2, 0), (1, 2))
    assert [(graph.edge(key).source, graph.edge(key).target) for key in graph.edges()] == [(0, 2), (1, 2)]


def test_a_pair_is_joined_once_and_never_a_node_with_itself(storage: StorageFactory) -> None:
    graph = blocks(storage, (0, 1))
    with pytest.raises(GraphError, match="edge 1 -- 0: got a pair that is joined already"):
        graph.connect(BlockKey(1), BlockKey(0), 0)
    with pytest.raises(GraphError, match="edge 3 -- 3: got a node and itself"):
        graph.connect(BlockKey(3), BlockKey(3), 0)
    with pytest.raises(UnknownKeyError):
        graph.connect(BlockKey(0), BlockKey(9), 0)
    assert len(graph.edges()) == 1


def test_components_and_edits(storage: StorageFactory) -> None:
    graph = blocks(storage, (4, 0), (1, 3))
    assert graph.components() == ((0, 4), (1, 3), (2,))
    duplicate = graph.copy()
    graph.disconnect(graph.edges()[0])
    graph.replace_node(BlockKey(2), "other")
    assert graph.remove_node(BlockKey(3)) == "b3"
    assert graph.components() == ((0,), (1,), (2,), (4,))
    assert (graph[BlockKey(2)], BlockKey(3) in graph, len(graph)) == ("other", False, 4)
    assert duplicate.components() == ((0, 4), (1, 3), (2,))
    assert graph.version > duplicate.version
    assert repr(graph) == "UndirectedGraph(BlockKey, 4 nodes, 0 edges, version 10)"


def test_a_pair_can_be_joined_again_after_its_edge_or_its_node_is_gone(storage: StorageFactory) -> None:
    graph = blocks(storage, (0, 1), (1, 2))
    graph.disconnect(graph.edges()[0])
    again = graph.connect(BlockKey(1), BlockKey(0), 5)
    graph.replace_edge(again, 6)
    assert graph.edge(again).data == 6
    graph.remove_node(BlockKey(1))
    assert graph.between(BlockKey(1), BlockKey(2)) is None
    assert graph.edges() == ()


def test_a_column_lies_over_an_undirected_graph(storage: StorageFactory) -> None:
    graph = blocks(storage, (0, 1))
    sizes: Column[BlockKey, int] = Column(graph, "size")
    for key, name in graph.items():
        sizes[key] = len(name)
    assert list(sizes.items()) == [(key, 2) for key in graph]
