"""The graph itself: edits, order of edges, keys, ownership, size."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from dataclasses import FrozenInstanceError, dataclass
from itertools import pairwise
from typing import NewType, TypeVar, assert_never

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nnc.errors import GraphError, KeyOverflowError, UnknownKeyError
from nnc.graph import DictStorage, Edge, EdgeKey, Graph, GraphView, KeyWidth, ListStorage, StorageFactory

from .conftest import NodeKey, TextGraph, graph_of


def test_nodes_and_edges_keep_their_order(storage: StorageFactory) -> None:
    graph = graph_of((0, 2), (1, 2), (0, 2), (2, 0), storage=storage)
    zero, one, two = graph.nodes()
    assert [graph.edge(key).data for key in graph.in_edges(two)] == ["e0", "e1", "e2"]
    assert [graph.edge(key).target for key in graph.out_edges(zero)] == [two, two]
    assert graph.predecessors(two) == (zero, one)
    assert graph.successors(zero) == (two,)
    assert (graph.sources(), graph.sinks()) == ((one,), ())
    assert list(graph.items()) == [(zero, "n0"), (one, "n1"), (two, "n2")]
    assert repr(graph) == "Graph(NodeKey, 3 nodes, 4 edges, version 7)"


def test_a_replaced_edge_keeps_its_place(storage: StorageFactory) -> None:
    graph = graph_of((0, 1), (0, 1), storage=storage)
    first, _ = graph.edges()
    graph.replace_edge(first, "other")
    assert [graph.edge(key).data for key in graph.in_edges(graph.nodes()[1])] == ["other", "e1"]


def test_removing_a_node_removes_its_edges(storage: StorageFactory) -> None:
    graph = graph_of((0, 1), (1, 1), (1, 2), (0, 2), storage=storage)
    zero, one, two = graph.nodes()
    assert graph.remove_node(one) == "n1"
    assert [graph.edge(key).data for key in graph.edges()] == ["e3"]
    assert (graph.successors(zero), graph.predecessors(two)) == ((two,), (zero,))
    assert one not in graph


def test_each_edit_bumps_the_version_by_one(storage: StorageFactory) -> None:
    graph = graph_of((0, 1), storage=storage)
    zero, one = graph.nodes()
    edge = graph.edges()[0]
    edits: list[Callable[[], object]] = [
        lambda: graph.add_node("x"),
        lambda: graph.replace_node(one, "y"),
        lambda: graph.replace_edge(edge, "z"),
        lambda: graph.add_edge(one, zero, "w"),
        lambda: graph.remove_edge(edge),
        lambda: graph.remove_node(one),
    ]
    for edit in edits:
        before = graph.version
        edit()
        assert graph.version == before + 1


def test_refused_edits_change_nothing(storage: StorageFactory) -> None:
    graph = graph_of((0, 1), storage=storage)
    zero = graph.nodes()[0]
    bad, bad_edge = NodeKey(7), EdgeKey(7)
    before = (graph.dump(), graph.version)
    refused: list[Callable[[], object]] = [
        lambda: graph.add_edge(zero, bad, ""),
        lambda: graph.add_edge(bad, zero, ""),
        lambda: graph.remove_node(bad),
        lambda: graph.replace_node(bad, ""),
        lambda: graph.remove_edge(bad_edge),
        lambda: graph.replace_edge(bad_edge, ""),
        lambda: graph.in_edges(bad),
        lambda: graph.successors(bad),
        lambda: graph.reachable([bad]),
        lambda: graph.postorder([bad]),
        lambda: graph.toposort([bad]),
        lambda: graph.dominators(bad),
        lambda: graph.edge(bad_edge),
    ]
    for edit in refused:
        with pytest.raises(UnknownKeyError, match="Key 7: got a key that this arena never made"):
            edit()
    assert (graph.dump(), graph.version) == before


def test_M8_a_full_graph_refuses_a_node_and_stays_as_it_was(storage: StorageFactory) -> None:
    graph: TextGraph = Graph(NodeKey, KeyWidth.BITS8, storage, KeyWidth.BITS8)
    keys = [graph.add_node(str(number)) for number in range(256)]
    for source, target in pairwise(keys):
        graph.add_edge(source, target, "")
    graph.add_edge(keys[0], keys[255], "")
    before = (graph.dump(), graph.structural_hash(), graph.version)
    with pytest.raises(KeyOverflowError, match="NodeKey"):
        graph.add_node("one too many")
    with pytest.raises(KeyOverflowError, match="EdgeKey"):
        graph.add_edge(keys[0], keys[5], "one too many")
    assert (graph.dump(), graph.structural_hash(), graph.version) == before


def test_a_copy_has_the_same_keys_and_its_own_life(storage: StorageFactory) -> None:
    graph = graph_of((0, 1), (1, 2), storage=storage)
    graph.remove_node(graph.nodes()[0])
    duplicate = graph.copy()
    assert (duplicate.dump(), duplicate.version) == (graph.dump(), graph.version)
    one, two = duplicate.nodes()
    duplicate.add_edge(two, one, "back")
    assert len(graph.edges()) == 1
    assert graph.add_node("g") == duplicate.add_node("d")


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Tracked:
    """A record whose death can be watched."""

    name: str


def test_M4_a_dropped_graph_is_freed_without_the_cycle_collector(storage: StorageFactory) -> None:
    gc.disable()
    try:
        graph: Graph[Tracked, Tracked, NodeKey] = Graph(NodeKey, storage=storage)
        first, second = graph.add_node(Tracked("a")), graph.add_node(Tracked("b"))
        edges = [graph.add_edge(first, second, Tracked("e")), graph.add_edge(second, first, Tracked("f"))]
        graph.toposort([first])
        graph.dump()
        watched = [weakref.ref(graph[key]) for key in graph.nodes()]
        watched += [weakref.ref(graph.edge(key).data) for key in edges]
        death = weakref.ref(graph)
        del graph
        assert death() is None
        assert [one() for one in watched] == [None] * 4
    finally:
        gc.enable()


def test_M4_a_removed_record_is_freed_at_once(storage: StorageFactory) -> None:
    graph: Graph[Tracked, Tracked, NodeKey] = Graph(NodeKey, storage=storage)
    key = graph.add_node(Tracked("a"))
    watched = weakref.ref(graph[key])
    graph.remove_node(key)
    assert watched() is None


def test_M24_records_are_frozen() -> None:
    graph = graph_of((0, 1))
    with pytest.raises(FrozenInstanceError):
        graph.edge(graph.edges()[0]).data = "x"  # type: ignore[misc]  # the point of the test
    mutators = {"add_node", "remove_node", "replace_node", "add_edge", "remove_edge", "replace_edge", "copy"}
    assert not mutators & set(dir(GraphView))


# M6, M11: four kinds of graph, each with its own records, from outside the package; one set of algorithms.

N = TypeVar("N")
E = TypeVar("E")
K = TypeVar("K", bound=int)

ExecKey = NewType("ExecKey", int)
StepKey = NewType("StepKey", int)
BlockKey = NewType("BlockKey", int)
RegionKey = NewType("RegionKey", int)


@dataclass(frozen=True, slots=True, eq=False)
class Exec:
    """A node of an SSA graph."""

    op: str


@dataclass(frozen=True, slots=True, eq=False)
class Wire:
    """An edge of an SSA graph: which output of the source."""

    output: int


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """A node of a concrete graph."""

    command: str
    stream: int


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """A node of an allocation graph."""

    start: int
    size: int


def survey(graph: Graph[N, E, K], nodes: list[N], edge: Callable[[int], E]) -> list[object]:
    """Build 0 -> 1 -> 2 -> 3, 0 -> 2, 1 -> 3 and say what every algorithm finds."""
    keys = [graph.add_node(node) for node in nodes]
    for number, (source, target) in enumerate([(0, 1), (1, 2), (2, 3), (0, 2), (1, 3)]):
        graph.add_edge(keys[source], keys[target], edge(number))
    return [
        graph.toposort(),
        graph.postorder([keys[3]]),
        graph.reachable([keys[1]]),
        graph.reachable([keys[1]], reverse=True),
        graph.dominators(keys[0]),
        graph.strongly_connected(),
        graph.longest_paths().to_sink,
        graph.redundant_edges(),
        graph.transitive_reduction().edges(),
        graph.structurally_equal(graph.copy()),
    ]


SURVEYS: dict[str, Callable[[], list[object]]] = {
    "ssa": lambda: survey(Graph[Exec, Wire, ExecKey](ExecKey), [Exec(name) for name in "abcd"], Wire),
    "concrete": lambda: survey(
        Graph[Step, None, StepKey](StepKey, storage=DictStorage), [Step(name, 0) for name in "abcd"], lambda _: None
    ),
    "interference": lambda: survey(
        Graph[int, None, BlockKey](BlockKey, KeyWidth.BITS16), [64, 32, 16, 8], lambda _: None
    ),
    "allocation": lambda: survey(
        Graph[Region, int, RegionKey](RegionKey), [Region(place, 4) for place in range(4)], lambda number: number * 8
    ),
}


@pytest.mark.parametrize("kind", SURVEYS)
def test_M6_M11_all_algorithms_on_four_kinds_of_graph(kind: str) -> None:
    assert SURVEYS[kind]() == [
        (0, 1, 2, 3),
        (0, 1, 2, 3),
        {1, 2, 3},
        {0, 1},
        {0: None, 1: 0, 2: 0, 3: 0},
        ((0,), (1,), (2,), (3,)),
        {0: 4, 1: 3, 2: 2, 3: 1},
        (3, 4),
        (0, 1, 2),
        True,
    ]


# M19: the record of a node is a closed union.


@dataclass(frozen=True, slots=True, eq=False)
class Variable:
    """A node that something else fills."""

    name: str


Node = Variable | Exec


def label(node: Node) -> str:
    match node:
        case Variable():
            return f"var {node.name}"
        case Exec():
            return node.op
    assert_never(node)


def test_M19_variables_and_operators_are_one_record_type() -> None:
    graph: Graph[Node, Wire, ExecKey] = Graph(ExecKey)
    x, relu = graph.add_node(Variable("x")), graph.add_node(Exec("relu"))
    graph.add_edge(x, relu, Wire(0))
    assert (
        graph.dump(label, lambda wire: f"out{wire.output}") == "graph: 2 nodes, 1 edges\n%0 var x\n%1 relu <- %0 out0"
    )


def test_M17_records_have_no_untyped_info() -> None:
    graph = graph_of((0, 1))
    for thing in (graph, graph.edge(graph.edges()[0]), Edge(NodeKey(0), NodeKey(1), None)):
        assert not hasattr(thing, "info")
        assert not hasattr(thing, "__dict__")


def test_M7_M26_keys_are_indices_and_stay_when_backward_nodes_are_appended(storage: StorageFactory) -> None:
    graph = graph_of((0, 1), (1, 2), storage=storage)
    table = [graph[key] for key in graph.nodes()]
    before = list(graph.items())
    gradients = [graph.add_node(f"grad {table[key]}") for key in reversed(graph.nodes())]
    for source, target in pairwise(gradients):
        graph.add_edge(source, target, "")
    assert list(graph.items())[:3] == before
    assert [table[key] for key, _ in before] == ["n0", "n1", "n2"]
    assert gradients == [3, 4, 5]


@settings(derandomize=True, deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 5), st.integers(0, 5)), max_size=40))
def test_M25_the_same_edits_give_the_same_graph_in_both_storages(edits: list[tuple[int, int, int]]) -> None:
    dense, sparse = graph_of(count=3), graph_of(count=3, storage=DictStorage)
    for edit, left, right in edits:
        assert attempt(dense, edit, left, right) == attempt(sparse, edit, left, right)
    assert (dense.dump(), dense.version) == (sparse.dump(), sparse.version)
    assert dense.structural_difference(sparse) is None
    for key in dense.nodes():
        assert dense.reachable([key]) == sparse.reachable([key])
        assert dense.dominators(key) == sparse.dominators(key)
    assert dense.strongly_connected() == sparse.strongly_connected()


def attempt(graph: TextGraph, edit: int, left: int, right: int) -> object:
    """One edit by number; its result, or the words of its error."""
    edits: list[Callable[[], object]] = [
        lambda: graph.add_node(f"n{left}"),
        lambda: graph.remove_node(NodeKey(left)),
        lambda: graph.replace_node(NodeKey(left), "r"),
        lambda: graph.add_edge(NodeKey(left), NodeKey(right), "e"),
        lambda: graph.add_edge(NodeKey(right), NodeKey(left), "f"),
        lambda: graph.remove_edge(EdgeKey(left)).data,
        lambda: graph.replace_edge(EdgeKey(left), "g"),
    ]
    try:
        return edits[edit]()
    except GraphError as error:
        return str(error)


def test_M22_more_edges_than_2_to_the_16_are_built_sorted_and_dumped_without_recursion() -> None:
    count = 2**16 + 2
    graph: Graph[None, None, NodeKey] = Graph(NodeKey, storage=ListStorage)
    keys = [graph.add_node(None) for _ in range(count)]
    for source, target in pairwise(keys):
        graph.add_edge(source, target, None)
    assert graph.toposort() == tuple(range(count))
    assert graph.dump().endswith(f"\n%{count - 1} <- %{count - 2}")


def test_M22_every_walk_survives_a_chain_of_10_to_the_5() -> None:
    count = 10**5
    graph = graph_of(*((number + 1, number) for number in range(count - 1)))
    head, tail = graph.nodes()[-1], graph.nodes()[0]
    backwards = tuple(range(count - 1, -1, -1))
    assert graph.postorder([tail]) == graph.toposort() == backwards
    assert len(graph.reachable([head])) == len(graph.strongly_connected()) == count
    assert graph.dominators(head)[tail] == 1
    assert graph.longest_paths().critical == count
    assert graph.redundant_edges() == ()
    assert graph.structurally_equal(graph.copy())


def test_M22_the_visitor_is_typed_and_two_walks_are_equal() -> None:
    graph = graph_of((0, 3), (1, 3), (3, 2), (0, 2))
    names = [graph[key].upper() for key in graph.postorder(graph.sinks())]
    assert names == ["N0", "N1", "N3", "N2"]
    assert names == [graph[key].upper() for key in graph.postorder(graph.sinks())]


def test_D11_users_of_a_node_are_part_of_the_graph(storage: StorageFactory) -> None:
    graph = graph_of((0, 1), (0, 2), (0, 2), storage=storage)
    zero, one, two = graph.nodes()
    assert graph.successors(zero) == (one, two)
    graph.remove_edge(graph.out_edges(zero)[1])
    assert graph.successors(zero) == (one, two)
    graph.remove_node(two)
    assert graph.successors(zero) == (one,)
