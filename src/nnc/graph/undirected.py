"""Undirected graphs: a thin wrapper that stores each edge once, from its smaller key to its larger one.

For those who build on `nnc.graph` (seed 004, row M6 of docs/parity.md). Inside nnc nothing uses it: the planner keeps
which blocks meet as rows of bits (`nnc.planning.Interference`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from nnc.arguments import explained
from nnc.errors import GraphError
from nnc.graph import text
from nnc.graph.arena import KeyWidth, ListStorage, StorageFactory
from nnc.graph.graph import Graph
from nnc.graph.view import Edge, EdgeKey
from nnc.graph.visit import reachable

N = TypeVar("N")
E = TypeVar("E")
K = TypeVar("K", bound=int)


@explained
class UndirectedGraph(Generic[N, E, K]):
    """`a -- b` with data on both: at most one edge between two nodes, none from a node to itself."""

    __slots__ = ("__weakref__", "_graph", "_pairs")

    def __init__(
        self, key_type: Callable[[int], K], width: KeyWidth = KeyWidth.BITS32, storage: StorageFactory = ListStorage
    ) -> None:
        self._graph: Graph[N, E, K] = Graph(key_type, width, storage)
        self._pairs: dict[tuple[K, K], EdgeKey] = {}

    @property
    def version(self) -> int:
        """Grows by one with each edit."""
        return self._graph.version

    def __len__(self) -> int:
        return len(self._graph)

    def __contains__(self, key: object) -> bool:
        return key in self._graph

    def __getitem__(self, key: K) -> N:
        return self._graph[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._graph)

    def items(self) -> Iterator[tuple[K, N]]:
        """Pairs of key and node record, by ascending key."""
        return self._graph.items()

    def nodes(self) -> tuple[K, ...]:
        """All live keys, ascending."""
        return self._graph.nodes()

    def edges(self) -> tuple[EdgeKey, ...]:
        """All live edge keys, ascending."""
        return self._graph.edges()

    def edge(self, key: EdgeKey) -> Edge[K, E]:
        """The edge's record; its source is the smaller key."""
        return self._graph.edge(key)

    def neighbours(self, key: K) -> tuple[K, ...]:
        """The nodes that share an edge with this one: the smaller keys first, each part in order of insertion."""
        return (*self._graph.predecessors(key), *self._graph.successors(key))

    def predecessors(self, key: K) -> tuple[K, ...]:
        """The neighbours: an undirected edge can be walked both ways."""
        return self.neighbours(key)

    def successors(self, key: K) -> tuple[K, ...]:
        """The neighbours: an undirected edge can be walked both ways."""
        return self.neighbours(key)

    def degree(self, key: K) -> int:
        """The number of neighbours."""
        return len(self._graph.in_edges(key)) + len(self._graph.out_edges(key))

    def between(self, left: K, right: K) -> EdgeKey | None:
        """The edge that joins two nodes, or None."""
        return self._pairs.get(_ordered(left, right))

    def add_node(self, data: N) -> K:
        """Append a node."""
        return self._graph.add_node(data)

    def remove_node(self, key: K) -> N:
        """Take out the node with all its edges and return its record."""
        for edge in (*self._graph.in_edges(key), *self._graph.out_edges(key)):
            self._forget(self._graph.edge(edge))
        return self._graph.remove_node(key)

    def replace_node(self, key: K, data: N) -> None:
        """Give the node another record; its edges stay."""
        self._graph.replace_node(key, data)

    def connect(self, left: K, right: K, data: E) -> EdgeKey:
        """Join two nodes. Raises GraphError for a node with itself or a pair that is joined already."""
        if left == right:
            raise GraphError(f"edge {left} -- {right}", got="a node and itself", need="two different nodes")
        pair = _ordered(left, right)
        if pair in self._pairs:
            raise GraphError(f"edge {left} -- {right}", got="a pair that is joined already", need="a new pair")
        key = self._graph.add_edge(*pair, data)
        self._pairs[pair] = key
        return key

    def disconnect(self, key: EdgeKey) -> Edge[K, E]:
        """Take the edge out and return its record."""
        edge = self._graph.remove_edge(key)
        self._forget(edge)
        return edge

    def replace_edge(self, key: EdgeKey, data: E) -> None:
        """Give the edge other data; its ends stay."""
        self._graph.replace_edge(key, data)

    def _forget(self, edge: Edge[K, E]) -> None:
        del self._pairs[edge.source, edge.target]

    def components(self) -> tuple[tuple[K, ...], ...]:
        """The sets of nodes that are joined by paths, keys ascending, in order of their smallest key."""
        seen: set[K] = set()
        parts: list[tuple[K, ...]] = []
        for key in self.nodes():
            if key not in seen:
                part = reachable(self, [key])
                seen |= part
                parts.append(tuple(sorted(part)))
        return tuple(parts)

    def copy(self) -> UndirectedGraph[N, E, K]:
        """A graph with the same keys, records and version, to be changed on its own."""
        duplicate: UndirectedGraph[N, E, K] = UndirectedGraph.__new__(UndirectedGraph)
        duplicate._graph = self._graph.copy()
        duplicate._pairs = self._pairs.copy()
        return duplicate

    def dump(
        self, node_label: Callable[[N], str] = text.label_of, edge_label: Callable[[E], str] = text.label_of
    ) -> str:
        """One line per node with its edges to smaller keys."""
        return text.dump(self._graph, node_label, edge_label).replace(" <- ", " -- ")

    def to_dot(
        self, node_label: Callable[[N], str] = text.label_of, edge_label: Callable[[E], str] = text.label_of
    ) -> str:
        """The Graphviz text."""
        return text.to_dot(self._graph, node_label, edge_label, directed=False)

    def __repr__(self) -> str:
        return f"Undirected{self._graph!r}"


def _ordered(left: K, right: K) -> tuple[K, K]:
    return (left, right) if left < right else (right, left)
