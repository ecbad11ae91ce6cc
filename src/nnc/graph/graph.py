"""The typed graph that every layer shares: an arena of nodes, ordered multi-edges both ways, and a version.

`Graph[N, E, K]` knows nothing of what its nodes and edges mean. Records are values that hold keys, never each other
and never the graph, so a dropped graph is freed at once. All walks are iterative and deterministic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

from nnc.arguments import explained, frequent
from nnc.graph import compare, structure, text, visit
from nnc.graph.arena import Arena, KeyWidth, ListStorage, RecordStorage, StorageFactory
from nnc.graph.screen import preformatted
from nnc.graph.structure import LongestPaths
from nnc.graph.view import Edge, EdgeKey, GraphView

N = TypeVar("N")
E = TypeVar("E")
K = TypeVar("K", bound=int)


@explained
class Graph(Generic[N, E, K]):
    """`source -> target` with data on both: nodes by key, parallel edges allowed, order of insertion kept.

    `key_type` makes a node's key from an integer (a `NewType`). `storage` is used for nodes, edges and adjacency
    alike. Edits check everything first and then change, so a refused edit leaves the graph as it was.
    """

    __slots__ = ("__weakref__", "_edges", "_in", "_nodes", "_out", "_version")

    def __init__(
        self,
        key_type: Callable[[int], K],
        width: KeyWidth = KeyWidth.BITS32,
        storage: StorageFactory = ListStorage,
        edge_width: KeyWidth = KeyWidth.BITS64,
    ) -> None:
        self._nodes: Arena[K, N] = Arena(key_type, width, storage)
        self._edges: Arena[EdgeKey, Edge[K, E]] = Arena(EdgeKey, edge_width, storage)
        # Per node the edges on one side with the node at their other end: neighbours need no look at the edges.
        self._in: RecordStorage[dict[EdgeKey, K]] = storage()
        self._out: RecordStorage[dict[EdgeKey, K]] = storage()
        self._version = 0

    # Reading.

    @property
    def version(self) -> int:
        """Grows by one with each edit; columns and facts of another version are stale."""
        return self._version

    def __len__(self) -> int:
        return len(self._nodes)

    def __contains__(self, key: object) -> bool:
        return key in self._nodes

    def __getitem__(self, key: K) -> N:
        return self._nodes[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._nodes)

    def nodes(self) -> tuple[K, ...]:
        """All live keys, ascending."""
        return tuple(self._nodes)

    def items(self) -> Iterator[tuple[K, N]]:
        """Pairs of key and node record, by ascending key."""
        return self._nodes.items()

    def edges(self) -> tuple[EdgeKey, ...]:
        """All live edge keys, ascending."""
        return tuple(self._edges)

    def edge(self, key: EdgeKey) -> Edge[K, E]:
        """The edge's record: source, target and data."""
        return self._edges[key]

    def in_edges(self, key: K) -> tuple[EdgeKey, ...]:
        """The edges that enter the node, in the order in which they were added."""
        return tuple(self._side(self._in, key))

    def out_edges(self, key: K) -> tuple[EdgeKey, ...]:
        """The edges that leave the node, in the order in which they were added."""
        return tuple(self._side(self._out, key))

    @frequent
    def predecessors(self, key: K) -> tuple[K, ...]:
        """The distinct sources of the edges that enter, in order of the first such edge."""
        return tuple(dict.fromkeys(self._side(self._in, key).values()))

    @frequent
    def successors(self, key: K) -> tuple[K, ...]:
        """The distinct targets of the edges that leave, in order of the first such edge."""
        return tuple(dict.fromkeys(self._side(self._out, key).values()))

    def sources(self) -> tuple[K, ...]:
        """The nodes that no edge enters, ascending."""
        return tuple(key for key in self._nodes if not self._in[key])

    def sinks(self) -> tuple[K, ...]:
        """The nodes that no edge leaves, ascending."""
        return tuple(key for key in self._nodes if not self._out[key])

    def _side(self, side: RecordStorage[dict[EdgeKey, K]], key: K) -> dict[EdgeKey, K]:
        try:
            return side[key]
        except (KeyError, TypeError):
            raise self._nodes.unknown(key) from None

    # Editing.

    def add_node(self, data: N) -> K:
        """Append a node; keys made before keep their meaning."""
        key = self._nodes.new(data)
        self._in[key] = {}
        self._out[key] = {}
        self._version += 1
        return key

    def remove_node(self, key: K) -> N:
        """Take out the node with all its edges and return its record."""
        for edge in dict.fromkeys((*self.in_edges(key), *self.out_edges(key))):
            self._detach(edge)
        del self._in[key]
        del self._out[key]
        self._version += 1
        return self._nodes.remove(key)

    def replace_node(self, key: K, data: N) -> None:
        """Give the node another record; its edges stay."""
        self._nodes.replace(key, data)
        self._version += 1

    def add_edge(self, source: K, target: K, data: E) -> EdgeKey:
        """Append `source -> target` after the other edges of both nodes."""
        leaving, entering = self._side(self._out, source), self._side(self._in, target)
        key = self._edges.new(Edge(source, target, data))
        leaving[key] = target
        entering[key] = source
        self._version += 1
        return key

    def remove_edge(self, key: EdgeKey) -> Edge[K, E]:
        """Take the edge out and return its record."""
        edge = self._detach(key)
        self._version += 1
        return edge

    def replace_edge(self, key: EdgeKey, data: E) -> None:
        """Give the edge other data; its ends and its place in the order stay."""
        edge = self._edges[key]
        self._edges.replace(key, Edge(edge.source, edge.target, data))
        self._version += 1

    def _detach(self, key: EdgeKey) -> Edge[K, E]:
        edge = self._edges.remove(key)
        del self._out[edge.source][key]
        del self._in[edge.target][key]
        return edge

    def copy(self) -> Graph[N, E, K]:
        """A graph with the same keys, records and version, to be changed on its own."""
        duplicate: Graph[N, E, K] = Graph.__new__(Graph)
        duplicate._nodes = self._nodes.copy()
        duplicate._edges = self._edges.copy()
        duplicate._in = _copy_sides(self._in)
        duplicate._out = _copy_sides(self._out)
        duplicate._version = self._version
        return duplicate

    # Walking.

    def toposort(self, keys: Iterable[K] | None = None) -> tuple[K, ...]:
        """Sources before targets among `keys` (default: all), the smallest ready key first. Raises CycleError."""
        if keys is not None:
            keys = self._known(keys)
        return visit.toposort(self, keys)

    def postorder(self, heads: Iterable[K]) -> tuple[K, ...]:
        """All that the heads depend on, each node after its predecessors, depth first in edge order."""
        return visit.postorder(self, self._known(heads))

    def reachable(self, heads: Iterable[K], reverse: bool = False) -> frozenset[K]:
        """The heads and all that follows from them along the edges; against the edges with `reverse`."""
        return visit.reachable(self, self._known(heads), reverse)

    def dominators(self, entry: K) -> dict[K, K | None]:
        """`idom[n]`: the last other node on every path from `entry` to `n`; None for the entry itself."""
        return structure.dominators(self, entry)

    def strongly_connected(self) -> tuple[tuple[K, ...], ...]:
        """The sets of nodes that reach each other, in topological order, keys ascending within a set."""
        return structure.strongly_connected(self)

    def longest_paths(self, weight: Callable[[K], int] | None = None) -> LongestPaths[K]:
        """Per node the heaviest path from any source and to any sink; a node weighs 1 by default."""
        return structure.longest_paths(self, weight)

    def redundant_edges(self) -> tuple[EdgeKey, ...]:
        """The edges that another path implies, and the later ones of parallel edges. Raises CycleError."""
        redundant: list[EdgeKey] = []
        implied = structure.implied_successors(self)
        for key in self._nodes:
            seen = set(implied.get(key, ()))
            for edge, target in self._out[key].items():
                if target in seen:
                    redundant.append(edge)
                seen.add(target)
        return tuple(sorted(redundant))

    def transitive_reduction(self) -> Graph[N, E, K]:
        """A copy with the fewest edges that orders the same nodes in the same way; keys stay. Raises CycleError."""
        reduced = self.copy()
        for key in self.redundant_edges():
            reduced.remove_edge(key)
        return reduced

    def _known(self, keys: Iterable[K]) -> tuple[K, ...]:
        known = tuple(keys)
        for key in known:
            self._nodes.require(key)
        return known

    # Comparing and printing.

    def structural_hash(
        self,
        node_label: Callable[[N], str] = text.label_of,
        edge_label: Callable[[E], str] = text.label_of,
        heads: Iterable[K] | None = None,
    ) -> str:
        """`sha256` of labels and structure, whatever the numbers of the keys: the same in every process."""
        return compare.structural_hash(compare.canonical(self, node_label, edge_label, heads))

    def structural_difference(
        self,
        other: GraphView[N, E, K],
        node_label: Callable[[N], str] = text.label_of,
        edge_label: Callable[[E], str] = text.label_of,
    ) -> str | None:
        """In words where two graphs first differ in labels or structure; None when they do not."""
        ours = compare.canonical(self, node_label, edge_label)
        theirs = compare.canonical(other, node_label, edge_label)
        return compare.first_difference(ours, theirs)

    def structurally_equal(
        self,
        other: GraphView[N, E, K],
        node_label: Callable[[N], str] = text.label_of,
        edge_label: Callable[[E], str] = text.label_of,
    ) -> bool:
        """Same labels and structure, whatever the numbers of the keys."""
        return self.structural_difference(other, node_label, edge_label) is None

    def dump(
        self, node_label: Callable[[N], str] = text.label_of, edge_label: Callable[[E], str] = text.label_of
    ) -> str:
        """One line per node: `%key label <- %source edge-label, ...`."""
        return text.dump(self, node_label, edge_label)

    def to_dot(
        self, node_label: Callable[[N], str] = text.label_of, edge_label: Callable[[E], str] = text.label_of
    ) -> str:
        """The Graphviz text."""
        return text.to_dot(self, node_label, edge_label)

    def _repr_html_(self) -> str:
        return preformatted(f"{self!r}\n{self.dump()}")

    def __repr__(self) -> str:
        return f"Graph({self._nodes.key_name}, {len(self)} nodes, {len(self._edges)} edges, version {self._version})"


def _copy_sides(sides: RecordStorage[dict[EdgeKey, K]]) -> RecordStorage[dict[EdgeKey, K]]:
    duplicate = sides.copy()
    for index in sides:
        duplicate[index] = sides[index].copy()
    return duplicate
