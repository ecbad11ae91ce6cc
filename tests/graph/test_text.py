"""Golden texts: dump and Graphviz from one function per label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType

from nnc.graph import Graph, UndirectedGraph

from .conftest import TextGraph, graph_of

RegionKey = NewType("RegionKey", int)
BlockKey = NewType("BlockKey", int)


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """A node of an allocation graph, from outside the package."""

    name: str
    size: int


def allocation() -> Graph[Region, int, RegionKey]:
    graph: Graph[Region, int, RegionKey] = Graph(RegionKey)
    source, first, second = (graph.add_node(Region(name, size)) for name, size in [("in", 0), ("a", 64), ("b", 16)])
    graph.add_edge(source, first, 64)
    graph.add_edge(first, second, 16)
    graph.add_edge(source, second, 0)
    return graph


def test_M12_M13_dump_takes_two_labels() -> None:
    assert allocation().dump(lambda region: f"{region.name}[{region.size}]", lambda size: f"({size} B)") == (
        "graph: 3 nodes, 3 edges\n%0 in[0]\n%1 a[64] <- %0 (64 B)\n%2 b[16] <- %1 (16 B), %0 (0 B)"
    )


def test_M12_M13_dot_takes_two_labels() -> None:
    assert allocation().to_dot(lambda region: region.name, lambda size: str(size or "")) == (
        "digraph {\n"
        '  n0 [label="in"];\n'
        '  n1 [label="a"];\n'
        '  n2 [label="b"];\n'
        '  n0 -> n1 [label="64"];\n'
        '  n1 -> n2 [label="16"];\n'
        "  n0 -> n2;\n"
        "}"
    )


def test_default_labels_are_the_data_and_nothing_for_none() -> None:
    graph: Graph[str | None, int | None, RegionKey] = Graph(RegionKey)
    a, b = graph.add_node("a"), graph.add_node(None)
    graph.add_edge(a, b, None)
    graph.add_edge(a, b, 3)
    assert graph.dump() == "graph: 2 nodes, 2 edges\n%0 a\n%1 <- %0, %0 3"


def test_dump_shows_cycles_and_gaps() -> None:
    graph: TextGraph = graph_of((0, 1), (1, 0), (2, 2))
    graph.remove_node(graph.nodes()[0])
    assert graph.dump() == "graph: 2 nodes, 1 edges\n%1 n1\n%2 n2 <- %2 e2"


def test_dot_escapes_what_graphviz_reads() -> None:
    graph: TextGraph = graph_of(count=1)
    graph.replace_node(graph.nodes()[0], 'say "hi"\\\nbye')
    assert graph.to_dot() == 'digraph {\n  n0 [label="say \\"hi\\"\\\\\\nbye"];\n}'


def test_undirected_graphs_print_each_edge_once() -> None:
    graph: UndirectedGraph[str, None, BlockKey] = UndirectedGraph(BlockKey)
    a, b, c = (graph.add_node(name) for name in "abc")
    graph.connect(c, a, None)
    graph.connect(a, b, None)
    assert graph.dump() == "graph: 3 nodes, 2 edges\n%0 a\n%1 b -- %0\n%2 c -- %0"
    assert graph.to_dot(lambda _: "") == "graph {\n  n0;\n  n1;\n  n2;\n  n0 -- n2;\n  n0 -- n1;\n}"
