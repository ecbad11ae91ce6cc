"""The NNC tensor allocation algorithm as its reference implementation codes it since 2019, without its slips.

    until every block is placed, companions counting as one block as large as the largest of them:
        candidates = the largest blocks left, those with the most interference left first
        insert the first one that fits into an edge, at the least distance in time from both ends of the edge,
        or else the first candidate into a new edge from the source to the sink

An edge may touch the source or the sink at a price that any other edge beats. The reference makes a buffer of each new
edge; here they lie one behind the other in one arena, which takes the same bytes. It leaves the order of equal
candidates to its sort and bars companions from a second look by mistake; here the lower index goes first and all that
did not fit are looked at again after a new edge, which is the only time that they can begin to fit.
"""

from __future__ import annotations

from nnc.planning.instance import Effort, Instance, Solution
from nnc.planning.solvers.flow import SINK, SOURCE, AllocationGraph, FlowEdge, flow_sizes, precedence, settled
from nnc.planning.solvers.normalize import conflicts

Group = tuple[int, ...]


def reference_coded(instance: Instance, effort: Effort) -> Solution:
    """Largest first into the nearest edge; see the module."""
    size = flow_sizes(instance)
    graph = AllocationGraph(size)
    before, after = precedence(instance)
    neighbours = conflicts(instance, effort)
    degree = [len(row) for row in neighbours]
    left = _groups(instance, before)
    barred: set[Group] = set()
    while left:
        if effort.expired:
            return Solution(None)
        largest = max(max(size[i] for i in group) for group in left)
        ordered = sorted(
            (group for group in left if max(size[i] for i in group) == largest),
            key=lambda group: (-sum(degree[i] for i in group), min(group)),
        )
        chosen, edge = ordered[0], None
        for group in ordered:
            edge = None if group in barred else _nearest(instance, graph.edges, group, largest, before, after)
            if edge is not None:
                chosen = group
                break
            barred.add(group)
        graph.insert(chosen, edge)
        left.remove(chosen)
        if edge is None:
            barred.clear()
        for i in chosen:
            for j in neighbours[i]:
                degree[j] -= 1
    return settled(instance, graph)


def _groups(instance: Instance, before: list[int]) -> list[Group]:
    """Companions in order of time, and every other block alone."""
    grouped = {i for group in instance.groups for i in group}
    groups = [tuple(sorted(group, key=lambda i: before[i].bit_count())) for group in instance.groups]
    return groups + [(i,) for i in range(instance.count) if i not in grouped]


def _nearest(
    instance: Instance, edges: list[FlowEdge], group: Group, needed: int, before: list[int], after: list[int]
) -> FlowEdge | None:
    """The edge that holds `needed` bytes and whose ends are nearest; first those to the sink, then from the source."""
    dead, unborn = before[group[0]], after[group[0]]
    for i in group[1:]:
        dead, unborn = dead & before[i], unborn & after[i]
    far = instance.steps + 1
    birth, death = min(instance.lower[i] for i in group), max(instance.upper[i] for i in group)
    best: tuple[int, int, int] | None = None
    nearest: FlowEdge | None = None
    for edge in edges:
        to_sink, from_source = edge.head == SINK, edge.tail == SOURCE
        if edge.weight < needed or (to_sink and from_source):
            continue
        if (from_source or dead >> edge.tail & 1) and (to_sink or unborn >> edge.head & 1):
            since = far if from_source else birth - instance.upper[edge.tail] + 1
            until = far if to_sink else instance.lower[edge.head] - death + 1
            cost = (since + until, 0 if to_sink else 1 if from_source else 2, since)
            if best is None or cost < best:
                best, nearest = cost, edge
    return nearest
