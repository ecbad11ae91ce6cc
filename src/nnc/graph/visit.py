"""Orders and reachability over any topology: iterative, deterministic, linear (a topological sort adds a heap)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush
from typing import TypeVar

from nnc.errors import CycleError
from nnc.graph.view import Topology

K = TypeVar("K", bound=int)


def toposort(graph: Topology[K], keys: Iterable[K] | None = None) -> tuple[K, ...]:
    """`source before target` for every edge among `keys` (default: all nodes); the smallest ready key comes first.

    Raises CycleError that names the keys of one cycle.
    """
    chosen = graph.nodes() if keys is None else tuple(sorted(set(keys)))
    inside = set(chosen)
    waiting = {key: sum(source in inside for source in graph.predecessors(key)) for key in chosen}
    ready = [key for key in chosen if not waiting[key]]
    heapify(ready)
    order: list[K] = []
    while ready:
        key = heappop(ready)
        order.append(key)
        for target in graph.successors(key):
            if target in inside:
                waiting[target] -= 1
                if not waiting[target]:
                    heappush(ready, target)
    if len(order) < len(chosen):
        raise cycle_error(find_cycle(graph, inside.difference(order)))
    return tuple(order)


def find_cycle(graph: Topology[K], stuck: set[K]) -> tuple[K, ...]:
    """The keys of one cycle, in edge order from its smallest, among nodes that each have a predecessor in `stuck`."""
    seen: dict[K, int] = {}
    path: list[K] = []
    key = min(stuck)
    while key not in seen:
        seen[key] = len(path)
        path.append(key)
        key = next(source for source in graph.predecessors(key) if source in stuck)
    cycle = path[seen[key] :][::-1]
    first = cycle.index(min(cycle))
    return (*cycle[first:], *cycle[:first])


def cycle_error(cycle: tuple[K, ...]) -> CycleError:
    """The error that names a cycle by its keys; a long one is shortened in the middle."""
    shown = [str(key) for key in (*cycle, cycle[0])]
    if len(shown) > 12:
        shown = [*shown[:6], "…", *shown[-6:]]
    return CycleError("order", got=f"the cycle {' -> '.join(shown)}", need="a graph without cycles")


def postorder(graph: Topology[K], heads: Iterable[K]) -> tuple[K, ...]:
    """Every node that the heads depend on, each after its predecessors, the heads included.

    Depth first in the order of the heads and of their in-edges, so it is a topological order of an acyclic graph.
    """
    return depth_first(heads, graph.predecessors)


def depth_first(heads: Iterable[K], following: Callable[[K], tuple[K, ...]]) -> tuple[K, ...]:
    """Post-order of a depth-first walk along `following`: a node comes after all that it leads to."""
    seen: set[K] = set()
    order: list[K] = []
    for head in heads:
        if head in seen:
            continue
        seen.add(head)
        stack = [(head, iter(following(head)))]
        while stack:
            key, rest = stack[-1]
            for other in rest:
                if other not in seen:
                    seen.add(other)
                    stack.append((other, iter(following(other))))
                    break
            else:
                stack.pop()
                order.append(key)
    return tuple(order)


def reachable(graph: Topology[K], heads: Iterable[K], reverse: bool = False) -> frozenset[K]:
    """The heads and all that follows from them along the edges; against the edges with `reverse`."""
    following = graph.predecessors if reverse else graph.successors
    work = list(dict.fromkeys(heads))
    seen = set(work)
    while work:
        for other in following(work.pop()):
            if other not in seen:
                seen.add(other)
                work.append(other)
    return frozenset(seen)
