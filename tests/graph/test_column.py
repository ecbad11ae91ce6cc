"""Columns and facts: typed, dense, and refused when they are older than their graph."""

from __future__ import annotations

import gc
import weakref

import pytest

from nnc.errors import StaleError, UnknownKeyError
from nnc.graph import Arena, Column, Fact, Facts

from .conftest import NodeKey, graph_of

RANK = Fact[int]("rank")
DEPTHS = Fact[Column[NodeKey, int]]("depths")


def test_a_column_holds_a_value_per_key() -> None:
    graph = graph_of((0, 1), (1, 2))
    zero, one, two = graph.nodes()
    column: Column[NodeKey, str] = Column(graph, "name")
    column[two], column[zero] = "two", "zero"
    assert (column[two], column.get(one, "none"), one in column, len(column)) == ("two", "none", False, 2)
    assert list(column.items()) == [(zero, "zero"), (two, "two")]
    assert repr(column) == "Column(name, 2 values, version 5)"
    with pytest.raises(UnknownKeyError, match=r"name\[1\]: got a key without a value"):
        column[one]
    with pytest.raises(UnknownKeyError, match=r"name\[9\]: got a key that is not in the graph"):
        column[NodeKey(9)] = "nine"
    with pytest.raises(UnknownKeyError):
        column[NodeKey(-1)]


def test_D8_a_column_older_than_its_graph_is_refused() -> None:
    graph = graph_of((0, 1))
    zero, one = graph.nodes()
    column: Column[NodeKey, int] = Column(graph, "shape")
    column[zero] = 1
    graph.replace_node(one, "changed")
    assert column.is_stale
    assert repr(column) == "Column(shape, 1 values, stale)"
    with pytest.raises(StaleError, match="shape: got a value of version 3; the graph is at version 4"):
        column[zero]
    for use in (lambda: column.get(zero, 0), lambda: list(column.items()), lambda: zero in column):
        with pytest.raises(StaleError):
            use()
    with pytest.raises(StaleError):
        column[zero] = 2
    column.preserve()
    assert column[zero] == 1


def test_a_column_lies_over_an_arena_too() -> None:
    arena: Arena[NodeKey, str] = Arena(NodeKey)
    key = arena.new("a")
    column: Column[NodeKey, float] = Column(arena)
    column[key] = 0.5
    arena.new("b")
    with pytest.raises(StaleError):
        column[key]


def test_M10_facts_are_read_by_typed_keys() -> None:
    graph = graph_of((0, 1))
    facts, others = Facts(graph), Facts(graph)
    with pytest.raises(UnknownKeyError, match="fact rank: got a fact that nothing has provided"):
        facts[RANK]
    facts[RANK] = 2
    assert (facts[RANK], RANK in facts, RANK in others, repr(RANK)) == (2, True, False, "Fact(rank)")


def test_D8_a_fact_older_than_its_graph_is_refused_unless_preserved() -> None:
    graph = graph_of((0, 1))
    facts = Facts(graph)
    depths: Column[NodeKey, int] = Column(graph, "depth")
    depths[NodeKey(0)] = 7
    facts[RANK], facts[DEPTHS] = 2, depths
    graph.add_node("new")
    assert RANK not in facts
    with pytest.raises(StaleError, match="fact rank: got a value of version 3; the graph is at version 4"):
        facts[RANK]
    facts.preserve(RANK, DEPTHS)
    assert facts[RANK] == 2
    assert facts[DEPTHS][NodeKey(0)] == 7
    facts.preserve(Fact[int]("absent"))


def test_D1_D2_two_facts_of_one_name_are_two_facts() -> None:
    facts = Facts(graph_of())
    facts[RANK] = 1
    with pytest.raises(UnknownKeyError):
        facts[Fact[int]("rank")]


def test_M4_facts_die_with_their_table() -> None:
    gc.disable()
    try:
        graph = graph_of((0, 1))
        facts = Facts(graph)
        facts[DEPTHS] = Column(graph, "depth")
        death = weakref.ref(graph)
        del graph, facts
        assert death() is None
    finally:
        gc.enable()
