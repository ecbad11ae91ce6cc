"""Passes: what they declare is what they are; the manager computes, checks and names the guilty."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from nnc.errors import CycleError, RegistryError, VerificationError
from nnc.graph import (
    Changed,
    Column,
    Edge,
    EdgeKey,
    Fact,
    GraphView,
    PassManager,
    Snapshots,
    Timing,
    Transform,
    analysis,
    transform,
)

from .conftest import NodeKey, TextGraph, graph_of

View = GraphView[str, str, NodeKey]
Ranks = Column[NodeKey, int]

ALIVE = Fact[frozenset[NodeKey]]("alive")
ORDER = Fact[tuple[NodeKey, ...]]("order")
RANKS = Fact[Ranks]("ranks")
DEPTH = Fact[int]("depth")
LEFT = Fact[int]("left")
RIGHT = Fact[int]("right")

CALLS: list[str] = []


@analysis(ORDER)
def order(view: TextGraph) -> tuple[NodeKey, ...]:
    CALLS.append("order")
    return view.toposort()


@analysis(RANKS, ORDER)
def ranks(view: View, order: tuple[NodeKey, ...]) -> Ranks:
    CALLS.append("ranks")
    column: Ranks = Column(view, "rank")
    for key in order:
        column[key] = 1 + max((column[source] for source in view.predecessors(key)), default=0)
    return column


@analysis(DEPTH, ORDER, RANKS)
def depth(view: View, order: tuple[NodeKey, ...], ranks: Ranks) -> int:
    CALLS.append("depth")
    return max((ranks[key] for key in order), default=0)


@analysis(ALIVE)
def alive(view: TextGraph) -> frozenset[NodeKey]:
    return view.reachable([key for key, name in view.items() if name == "output"], reverse=True)


@transform(ALIVE)
def prune(graph: TextGraph, alive: frozenset[NodeKey]) -> Changed:
    dead = [key for key in graph.nodes() if key not in alive]
    for key in dead:
        graph.remove_node(key)
    return Changed(len(dead))


@transform(preserves=(ORDER, RANKS))
def rename(graph: TextGraph) -> Changed:
    for key in graph.nodes():
        graph.replace_node(key, graph[key].upper())
    return Changed(len(graph))


@transform(DEPTH)
def close_a_loop(graph: TextGraph, depth: int) -> Changed:
    graph.add_edge(graph.nodes()[-1], graph.nodes()[0], "back")
    return Changed(depth)


@transform()
def lie(graph: TextGraph) -> Changed:
    graph.add_node("secret")
    return Changed()


@transform()
def boast(graph: TextGraph) -> Changed:
    return Changed(3)


@analysis(DEPTH)
def meddle(graph: TextGraph) -> int:
    graph.add_node("secret")
    return 0


@analysis(LEFT, RIGHT)
def left(view: View, right: int) -> int:
    return right


@analysis(RIGHT, LEFT)
def right(view: View, left: int) -> int:
    return left


def acyclic(graph: TextGraph) -> Iterable[str]:
    try:
        graph.toposort()
    except CycleError as error:
        yield str(error)


@pytest.fixture(autouse=True)
def no_calls() -> None:
    CALLS.clear()


def manager(graph: TextGraph) -> PassManager[TextGraph]:
    return PassManager(graph, [depth, ranks, order, alive], acyclic)


def test_missing_facts_are_computed_on_demand_and_once() -> None:
    passes = manager(graph_of((0, 1), (1, 2)))
    assert passes.get(DEPTH) == 3
    assert passes.get(DEPTH) == passes.get(RANKS)[NodeKey(2)] == 3
    assert CALLS == ["order", "ranks", "depth"]


def test_D8_a_change_makes_facts_stale_and_they_are_computed_again() -> None:
    graph = graph_of((0, 1), (1, 2))
    graph.replace_node(NodeKey(1), "output")
    passes = manager(graph)
    assert passes.get(DEPTH) == 3
    assert passes.run(prune) == Changed(1)
    assert DEPTH not in passes.facts
    assert passes.get(DEPTH) == 2
    assert passes.run(prune) == Changed(0)
    assert DEPTH in passes.facts


def test_preserved_facts_stay_and_others_do_not() -> None:
    passes = manager(graph_of((0, 1), (1, 2)))
    passes.get(DEPTH)
    CALLS.clear()
    passes.run(rename)
    assert passes.get(RANKS)[NodeKey(1)] == 2
    assert CALLS == []
    passes.get(DEPTH)
    assert CALLS == ["depth"]


def test_what_was_stale_before_a_pass_is_not_preserved_by_it() -> None:
    graph = graph_of((0, 1))
    passes = manager(graph)
    passes.get(RANKS)
    graph.add_edge(NodeKey(1), graph.add_node("new"), "")
    passes.run(rename)
    assert RANKS not in passes.facts


def test_M15_the_pass_that_breaks_a_rule_is_named() -> None:
    passes = manager(graph_of((0, 1), (1, 2)))
    with pytest.raises(
        VerificationError, match="pass close_a_loop breaks 1 rules: order: got the cycle 0 -> 1 -> 2 -> 0"
    ):
        passes.run(rename, close_a_loop)


def test_M15_a_graph_that_comes_in_broken_is_not_blamed_on_a_pass() -> None:
    with pytest.raises(VerificationError, match="the graph before any pass breaks 1 rules"):
        manager(graph_of((0, 1), (1, 0)))


@pytest.mark.parametrize(
    ("one", "words"),
    [(lie, "pass lie declares 0 changes and made 1 edits"), (boast, "pass boast declares 3 changes and made 0 edits")],
)
def test_D4_a_pass_that_hides_or_invents_changes_is_named(one: Transform[TextGraph], words: str) -> None:
    with pytest.raises(VerificationError, match=words):
        manager(graph_of((0, 1))).run(one)


def test_D4_an_analysis_that_changes_the_graph_is_named() -> None:
    with pytest.raises(VerificationError, match="analysis meddle changed the graph"):
        PassManager(graph_of((0, 1)), [meddle]).get(DEPTH)


def test_a_missing_provider_two_providers_and_a_ring_are_errors() -> None:
    graph = graph_of((0, 1))
    with pytest.raises(RegistryError, match=r"Fact\(depth\): got no analysis that provides it"):
        PassManager(graph).get(DEPTH)
    with pytest.raises(RegistryError, match=r"Fact\(depth\): got the analyses depth and meddle"):
        PassManager(graph, [depth, meddle])
    with pytest.raises(RegistryError, match="facts that require each other: left -> right -> left"):
        PassManager(graph, [left, right]).get(LEFT)


def test_an_error_inside_a_pass_carries_its_name() -> None:
    @transform()
    def stumble(graph: TextGraph) -> Changed:
        raise ValueError("stone")

    with pytest.raises(ValueError, match="stone") as caught:
        manager(graph_of((0, 1))).run(stumble)
    assert caught.value.__notes__ == ["while the pass stumble was running"]


def test_instruments_see_every_pass() -> None:
    graph = graph_of((0, 1))
    timing, snapshots = Timing(), Snapshots(TextGraph.dump)
    PassManager(graph, [order, ranks, depth], instruments=[timing, snapshots]).run(rename, close_a_loop)
    assert [name for name, _ in timing.seconds] == ["rename", "order", "ranks", "depth", "close_a_loop"]
    assert snapshots.texts[0] == ("rename", "graph: 2 nodes, 1 edges\n%0 N0\n%1 N1 <- %0 e0")
    assert snapshots.texts[-1] == ("close_a_loop", "graph: 2 nodes, 2 edges\n%0 N0 <- %1 back\n%1 N1 <- %0 e0")


def test_M15_a_pass_can_be_called_alone() -> None:
    graph = graph_of((0, 1), (1, 2))
    assert prune.function(graph, frozenset([NodeKey(0)])) == Changed(2)
    assert depth.function(graph, (), Column(graph, "rank")) == 0


class GuardedView:
    """A view that notes what is read and has nothing else."""

    def __init__(self, graph: TextGraph) -> None:
        self._graph = graph
        self.read: list[str] = []

    @property
    def version(self) -> int:
        return self._graph.version

    def __contains__(self, key: object) -> bool:
        return key in self._graph

    def predecessors(self, key: NodeKey) -> tuple[NodeKey, ...]:
        self.read.append("predecessors")
        return self._graph.predecessors(key)


def test_M15_an_analysis_reads_only_the_public_view() -> None:
    graph = graph_of((0, 1))
    guarded = GuardedView(graph)
    column = ranks.function(guarded, graph.toposort())
    assert [column[key] for key in graph.nodes()] == [1, 2]
    assert guarded.read == ["predecessors", "predecessors"]


def test_M24_an_edge_of_a_view_is_a_record() -> None:
    view: View = graph_of((0, 1))
    edge = view.edge(EdgeKey(0))
    assert isinstance(edge, Edge)
    assert (edge.source, edge.target, edge.data) == (0, 1, "e0")
