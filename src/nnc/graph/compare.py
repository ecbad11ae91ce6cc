"""Equality and hash of graphs by structure: the numbers of the keys do not matter.

Both come from one canonical form. Nodes are numbered in post-order from the heads (by default the nodes that nothing
follows, in key order) along the in-edges in their order; nodes that no head depends on come last. Each node is then
its label and the (edge label, number of the source) of its in-edges.

For those who build on `nnc.graph` (seed 003, row G11 of docs/parity.md). Symbolic graphs compare by their text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import sha256
from itertools import chain, zip_longest
from typing import Generic, TypeVar

from nnc.classes import dataclass
from nnc.graph.view import GraphView
from nnc.graph.visit import postorder

K = TypeVar("K", bound=int)
N = TypeVar("N")
E = TypeVar("E")


@dataclass(frozen=True, slots=True)
class CanonicalNode(Generic[K]):
    """A node of the canonical form: `label <- (edge label, canonical number of the source)...`."""

    key: K
    label: str
    inputs: tuple[tuple[str, int], ...]

    def describe(self) -> str:
        """The node in words, for a message."""
        sources = ", ".join(f"#{number} {label}".rstrip() for label, number in self.inputs)
        return f"%{self.key} {self.label}" + (f" <- {sources}" if sources else "")


def canonical(
    graph: GraphView[N, E, K],
    node_label: Callable[[N], str],
    edge_label: Callable[[E], str],
    heads: Iterable[K] | None = None,
) -> tuple[CanonicalNode[K], ...]:
    """The canonical form: equal for two graphs exactly when they have the same structure and labels."""
    if heads is None:
        heads = [key for key in graph.nodes() if not graph.successors(key)]
    order = postorder(graph, chain(heads, graph.nodes()))
    number = {key: position for position, key in enumerate(order)}

    def inputs(key: K) -> tuple[tuple[str, int], ...]:
        edges = map(graph.edge, graph.in_edges(key))
        return tuple((edge_label(edge.data), number[edge.source]) for edge in edges)

    return tuple(CanonicalNode(key, node_label(graph[key]), inputs(key)) for key in order)


def structural_hash(form: Iterable[CanonicalNode[K]]) -> str:
    """`sha256(canonical form)` in hexadecimal: the same in every process."""
    digest = sha256()
    for node in form:
        digest.update(repr((node.label, node.inputs)).encode())
    return digest.hexdigest()


def first_difference(left: Iterable[CanonicalNode[K]], right: Iterable[CanonicalNode[K]]) -> str | None:
    """In words where two canonical forms first differ; None when they are equal."""
    for number, (ours, theirs) in enumerate(zip_longest(left, right)):
        if ours is None or theirs is None:
            side, extra = ("right", theirs) if ours is None else ("left", ours)
            return f"node #{number} only on the {side}: {extra.describe()}"
        if ours.label != theirs.label or ours.inputs != theirs.inputs:
            return f"node #{number}: {ours.describe()} on the left, {theirs.describe()} on the right"
    return None
