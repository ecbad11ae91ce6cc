"""Graphs for the eye: a text dump and Graphviz, from one function per label."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from nnc.arguments import shown
from nnc.errors import ArgumentError
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
    return wrap_dot(dot_lines(graph, node_label, edge_label, directed), directed)


def wrap_dot(lines: Iterable[str], directed: bool = True) -> str:
    """The Graphviz text of these lines."""
    return "\n".join(["digraph {" if directed else "graph {", *(f"  {line}" for line in lines), "}"])


def dot_lines(
    graph: GraphView[N, E, K],
    node_label: Callable[[N], str],
    edge_label: Callable[[E], str],
    directed: bool = True,
    prefix: str = "n",
) -> Iterator[str]:
    """One line per node and per edge; a node's name is `prefix` and its key."""
    arrow = "->" if directed else "--"
    for key, node in graph.items():
        yield f"{prefix}{key}{_attributes(node_label(node))};"
    for edge in map(graph.edge, graph.edges()):
        yield f"{prefix}{edge.source} {arrow} {prefix}{edge.target}{_attributes(edge_label(edge.data))};"


def _attributes(label: str) -> str:
    if not isinstance(label, str):
        raise ArgumentError("to_dot", got=f"a label that is {shown(label)}", need="a text")
    escaped = label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f' [label="{escaped}"]' if label else ""
