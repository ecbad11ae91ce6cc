"""What the graph tests share: a node key, both storages, random graphs."""

from __future__ import annotations

from typing import NewType

import pytest
from hypothesis import strategies as st

from nnc.graph import DictStorage, Graph, ListStorage, StorageFactory

NodeKey = NewType("NodeKey", int)
TextGraph = Graph[str, str, NodeKey]


@pytest.fixture(params=[ListStorage, DictStorage])
def storage(request: pytest.FixtureRequest) -> StorageFactory:
    """Row M25: whatever uses this fixture holds for both storages."""
    factory: StorageFactory = request.param
    return factory


def graph_of(*edges: tuple[int, int], count: int = 0, storage: StorageFactory = ListStorage) -> TextGraph:
    """A graph with nodes named n0, n1, ... and edges named e0, e1, ..."""
    graph: TextGraph = Graph(NodeKey, storage=storage)
    top = max((max(edge) + 1 for edge in edges), default=0)
    keys = [graph.add_node(f"n{number}") for number in range(max(count, top))]
    for number, (source, target) in enumerate(edges):
        graph.add_edge(keys[source], keys[target], f"e{number}")
    return graph


@st.composite
def graphs(draw: st.DrawFn, acyclic: bool = False, most: int = 9) -> TextGraph:
    """Small random graphs with parallel edges; with loops and cycles unless `acyclic`."""
    count = draw(st.integers(1, most))
    numbers = st.integers(0, count - 1)
    edges = draw(st.lists(st.tuples(numbers, numbers), max_size=3 * count))
    if acyclic:
        edges = [(min(edge), max(edge)) for edge in edges if edge[0] != edge[1]]
    order = draw(st.permutations(range(count)))
    return graph_of(*[(order[source], order[target]) for source, target in edges], count=count)
