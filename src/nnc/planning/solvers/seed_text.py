"""The NNC tensor allocation algorithm as its text states it.

    until every block is in the allocation graph:
        candidates = the blocks with the most interference, each also with one and with two larger blocks that
                     interfere neither with it nor with each other, ordered by largest size, then by interference
        insert the first candidate that fits into an edge whose ends interfere with none of its blocks,
        or else the first candidate into a new edge from the source to the sink

What the text leaves open is settled so: of the larger blocks the largest is tried first, then the one with more
interference; of the edges that fit, the lightest, then the oldest; the last tie goes to the lower index. The text
forbids edges that touch the source or the sink. Read literally that forbids every plain chain, so `seed_text` forbids
only the edge from source to sink; `seed_literal` keeps to the letter. Both are here to be compared, not to win.
"""

from __future__ import annotations

from collections.abc import Iterator

from nnc.classes import dataclass
from nnc.planning.instance import Effort, Instance, Solution
from nnc.planning.solvers.flow import SINK, SOURCE, AllocationGraph, FlowEdge, flow_sizes, precedence, settled
from nnc.planning.solvers.normalize import conflicts

LARGEST_TUPLE = 3


@dataclass(frozen=True, slots=True)
class Insertion:
    """One round: candidates as tried, the chosen one in order of time, its edge (`None`: a new one), the edges then."""

    candidates: tuple[tuple[int, ...], ...]
    chosen: tuple[int, ...]
    edge: FlowEdge | None
    edges: tuple[FlowEdge, ...]


@dataclass(frozen=True, slots=True)
class SizeFacts:
    """What the rounds read: sizes, how many blocks each one meets, whom it meets, who is dead before and born after."""

    size: list[int]
    degree: list[int]
    meets: list[int]
    before: list[int]
    after: list[int]

    @classmethod
    def of(cls, instance: Instance) -> SizeFacts:
        """The facts of an instance, time rows as bits."""
        before, after = precedence(instance)
        everyone = (1 << instance.count) - 1
        unordered = [everyone & ~(before[i] | after[i] | 1 << i) for i in range(instance.count)]
        return cls(flow_sizes(instance), [len(row) for row in conflicts(instance)], unordered, before, after)


def seed_text(instance: Instance, effort: Effort) -> Solution:
    """The algorithm with edges that may touch the source or the sink, but not both."""
    return _run(instance, effort, literal=False)


def seed_literal(instance: Instance, effort: Effort) -> Solution:
    """The algorithm to the letter: no edge that touches the source or the sink is ever reused."""
    return _run(instance, effort, literal=True)


def _run(instance: Instance, effort: Effort, *, literal: bool) -> Solution:
    facts = SizeFacts.of(instance)
    graph = AllocationGraph(facts.size)
    for _ in rounds(facts, graph, literal=literal):
        if effort.expired:
            return Solution(None)
    return settled(instance, graph)


def rounds(facts: SizeFacts, graph: AllocationGraph, *, literal: bool = False) -> Iterator[Insertion]:
    """Insert everything into `graph`, one candidate per step."""
    left = set(range(len(facts.size)))
    while left:
        ordered = tuples_to_try(facts, left)
        chosen, edge = ordered[0], None
        for candidate in ordered:
            edge = _lightest(facts, graph.edges, candidate, literal=literal)
            if edge is not None:
                chosen = candidate
                break
        chosen = tuple(sorted(chosen, key=lambda i: facts.before[i].bit_count()))
        graph.insert(chosen, edge)
        left.difference_update(chosen)
        yield Insertion(tuple(ordered), chosen, edge, tuple(graph.edges))


def tuples_to_try(facts: SizeFacts, left: set[int]) -> list[tuple[int, ...]]:
    """The tuples of up to three blocks of `left`, in the order in which they are tried."""
    most = max(facts.degree[i] for i in left)
    by_size = sorted(left, key=lambda i: (-facts.size[i], -facts.degree[i], i))
    tuples: list[tuple[int, ...]] = []
    for i in sorted(left):
        if facts.degree[i] != most:
            continue
        members: tuple[int, ...] = (i,)
        met = facts.meets[i] | 1 << i
        tuples.append(members)
        for other in by_size:
            if facts.size[other] <= facts.size[i] or len(members) == LARGEST_TUPLE:
                break
            if not met >> other & 1:
                members, met = (*members, other), met | facts.meets[other] | 1 << other
                tuples.append(members)
    return sorted(tuples, key=lambda members: (-_largest(facts, members), -_interference(facts, members), members))


def _largest(facts: SizeFacts, members: tuple[int, ...]) -> int:
    return max(facts.size[i] for i in members)


def _interference(facts: SizeFacts, members: tuple[int, ...]) -> int:
    return sum(facts.degree[i] for i in members)


def _lightest(facts: SizeFacts, edges: list[FlowEdge], members: tuple[int, ...], *, literal: bool) -> FlowEdge | None:
    """The lightest edge, then the oldest, that all of `members` fit into: after its tail, before its head."""
    before, after = facts.before[members[0]], facts.after[members[0]]
    for i in members[1:]:
        before, after = before & facts.before[i], after & facts.after[i]
    needed = _largest(facts, members)
    best: FlowEdge | None = None
    for edge in edges:
        dummies = (edge.tail == SOURCE) + (edge.head == SINK)
        if edge.weight < needed or dummies > (0 if literal else 1) or (best is not None and best.weight <= edge.weight):
            continue
        if (edge.tail == SOURCE or before >> edge.tail & 1) and (edge.head == SINK or after >> edge.head & 1):
            best = edge
    return best
