"""Graphs for the eye: a text dump and Graphviz, from one function per label."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from nnc.graph.view import GraphView

K = TypeVar("K", bound=int)
N = TypeVar("N")
E = TypeVar("E")


def label_of(data: object) -> str:
    """`str(data)`, and nothing for None: the default label."""
    return "" if data is None else str(data)


def dump(graph: GraphView[N, E, K], node_label: Callable[[N], str], edge_label: Callable[[E], str]) -> str:
    """One line per node by ascending key: `%key label <- %source edge-label, ...`."""
    count = f"graph: {len(graph)} nodes, {len(graph.edges())} edges"
    return "\n".join([count, *_lines(graph, node_label, edge_label)])


def _lines(graph: GraphView[N, E, K], node_label: Callable[[N], str], edge_label: Callable[[E], str]) -> Iterator[str]:
    for key, node in graph.items():
        sources = []
        for edge in map(graph.edge, graph.in_edges(key)):
            sources.append(f"%{edge.source} {edge_label(edge.data)}".rstrip())
        arrow = f" <- {', '.join(sources)}" if sources else ""
        yield f"%{key} {node_label(node)}".rstrip() + arrow


def to_dot(
    graph: GraphView[N, E, K],
    node_label: Callable[[N], str],
    edge_label: Callable[[E], str],
    directed: bool = True,
) -> str:
    """The Graphviz text: nodes and edges by ascending key."""
    kind, arrow = ("digraph", "->") if directed else ("graph", "--")
    nodes = (f"  n{key}{_attributes(node_label(node))};" for key, node in graph.items())
    edges = (
        f"  n{edge.source} {arrow} n{edge.target}{_attributes(edge_label(edge.data))};"
        for edge in map(graph.edge, graph.edges())
    )
    return "\n".join([f"{kind} {{", *nodes, *edges, "}"])


def _attributes(label: str) -> str:
    escaped = label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f' [label="{escaped}"]' if label else ""
