"""The shape of a graph: dominators, strong components, longest paths, edges that others imply.

`nnc.concrete.schedule` uses the last two. Dominators and strong components are for those who build on `nnc.graph`
(seed 004, row M11 of docs/parity.md): loops and branches of nnc are commands with bodies, so that no graph has cycles.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Generic, TypeVar

from nnc.classes import dataclass
from nnc.errors import ArgumentError
from nnc.graph.view import Topology
from nnc.graph.visit import depth_first, toposort

K = TypeVar("K", bound=int)


@dataclass(frozen=True, slots=True)
class LongestPaths(Generic[K]):
    """Per node the weight of the heaviest path that ends or starts there, the node's own weight included."""

    from_source: dict[K, int]
    to_sink: dict[K, int]

    @property
    def critical(self) -> int:
        """The weight of the heaviest path of the whole graph; 0 when it is empty."""
        return max(self.from_source.values(), default=0)


def dominators(graph: Topology[K], entry: K) -> dict[K, K | None]:
    """`idom[n]`: the last node, other than `n`, that every path from `entry` to `n` passes; None for the entry.

    Only what is reachable from the entry appears, in reverse post-order. Cooper, Harvey and Kennedy,
    "A Simple, Fast Dominance Algorithm" (2001).
    """
    order = depth_first([entry], graph.successors)[::-1]
    rank = {key: position for position, key in enumerate(order)}
    above: dict[K, K] = {entry: entry}
    changed = True
    while changed:
        changed = False
        for key in order[1:]:
            known = [source for source in graph.predecessors(key) if source in above]
            dominator = known[0]
            for source in known[1:]:
                dominator = _common(above, rank, dominator, source)
            if above.get(key) != dominator:
                above[key] = dominator
                changed = True
    return {key: None if key == entry else above[key] for key in order}


def _common(above: dict[K, K], rank: dict[K, int], left: K, right: K) -> K:
    while left != right:
        if rank[left] > rank[right]:
            left = above[left]
        else:
            right = above[right]
    return left


def strongly_connected(graph: Topology[K]) -> tuple[tuple[K, ...], ...]:
    """The sets of nodes that reach each other: keys ascending within a set, sets in topological order.

    Kosaraju's two walks: finishing times along the edges, then collection against them.
    """
    taken: set[K] = set()
    components: list[tuple[K, ...]] = []
    for head in reversed(depth_first(graph.nodes(), graph.successors)):
        if head in taken:
            continue
        taken.add(head)
        component = [head]
        for key in component:
            fresh = [source for source in graph.predecessors(key) if source not in taken]
            taken.update(fresh)
            component.extend(fresh)
        components.append(tuple(sorted(component)))
    return tuple(components)


def longest_paths(graph: Topology[K], weight: Callable[[K], int] | None = None) -> LongestPaths[K]:
    """`to_sink[n] = weight(n) + max(to_sink[m] for n -> m)`, and the same from the sources; weight 1 by default.

    Raises CycleError.
    """
    order = toposort(graph)
    weights = dict.fromkeys(order, 1) if weight is None else {key: weight(key) for key in order}
    if not all(isinstance(value, Real) for value in weights.values()):
        raise ArgumentError("longest_paths", got="a weight that is no number", need="a number for each node")
    from_source: dict[K, int] = {}
    for key in order:
        before = max((from_source[source] for source in graph.predecessors(key)), default=0)
        from_source[key] = weights[key] + before
    to_sink: dict[K, int] = {}
    for key in reversed(order):
        after = max((to_sink[target] for target in graph.successors(key)), default=0)
        to_sink[key] = weights[key] + after
    return LongestPaths(from_source, to_sink)


def implied_successors(graph: Topology[K]) -> dict[K, frozenset[K]]:
    """Per node its successors that it also reaches through another successor; nodes without any are left out.

    Each walk is bounded by the rank of the farthest successor, so skip connections of short range cost little.
    Raises CycleError.
    """
    rank = {key: position for position, key in enumerate(toposort(graph))}
    implied: dict[K, frozenset[K]] = {}
    for key in graph.nodes():
        direct = graph.successors(key)
        if len(direct) > 1:
            longer = _reached_below(graph, rank, direct).intersection(direct)
            if longer:
                implied[key] = longer
    return implied


def _reached_below(graph: Topology[K], rank: dict[K, int], starts: tuple[K, ...]) -> frozenset[K]:
    """What lies strictly after any of the starts, up to the highest rank among them."""
    limit = max(rank[key] for key in starts)
    seen: set[K] = set()
    work = list(starts)
    while work:
        for target in graph.successors(work.pop()):
            if rank[target] <= limit and target not in seen:
                seen.add(target)
                work.append(target)
    return frozenset(seen)
