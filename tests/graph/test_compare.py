"""Structural hash and equality: independent of key numbers, sensitive to everything else."""

from __future__ import annotations

import os
import subprocess
import sys

from hypothesis import given, settings
from hypothesis import strategies as st

from nnc.graph import Graph

from .conftest import NodeKey, TextGraph, graph_of, graphs

REPEATABLE = settings(derandomize=True, deadline=None, max_examples=80)


def renumbered(graph: TextGraph) -> TextGraph:
    """The same structure under other keys."""
    shifted: TextGraph = Graph(NodeKey)
    shifted.remove_node(shifted.add_node("gone"))
    keys = {key: shifted.add_node(node) for key, node in graph.items()}
    for edge in map(graph.edge, graph.edges()):
        shifted.add_edge(keys[edge.source], keys[edge.target], edge.data)
    return shifted


@REPEATABLE
@given(graphs())
def test_numbers_of_keys_do_not_matter(graph: TextGraph) -> None:
    other = renumbered(graph)
    assert graph.structural_difference(other) is None
    assert graph.structurally_equal(other)
    assert graph.structural_hash() == other.structural_hash()


@REPEATABLE
@given(graphs(), st.data())
def test_every_single_edit_is_seen(graph: TextGraph, data: st.DataObject) -> None:
    other = graph.copy()
    key = data.draw(st.sampled_from(graph.nodes()))
    edits = ["relabel", "add node", "add edge"] + (["remove edge", "relabel edge"] if graph.edges() else [])
    match data.draw(st.sampled_from(edits)):
        case "relabel":
            other.replace_node(key, "changed")
        case "add node":
            other.add_node("new")
        case "add edge":
            other.add_edge(key, data.draw(st.sampled_from(graph.nodes())), "new")
        case "remove edge":
            other.remove_edge(data.draw(st.sampled_from(graph.edges())))
        case _:
            other.replace_edge(data.draw(st.sampled_from(graph.edges())), "changed")
    assert not graph.structurally_equal(other)
    assert graph.structural_hash() != other.structural_hash()


def test_M12_the_first_difference_is_readable() -> None:
    graph, other = graph_of((0, 2), (1, 2)), graph_of((0, 2), (1, 2))
    other.replace_node(other.nodes()[2], "changed")
    assert graph.structural_difference(other) == (
        "node #2: %2 n2 <- #0 e0, #1 e1 on the left, %2 changed <- #0 e0, #1 e1 on the right"
    )
    assert graph_of(count=1).structural_difference(graph_of(count=2)) == "node #1 only on the right: %1 n1"
    assert graph_of(count=2).structural_difference(graph_of(count=1)) == "node #1 only on the left: %1 n1"


def test_sharing_is_not_the_same_as_copies() -> None:
    shared, copied = graph_of((0, 1), (0, 2)), graph_of((0, 1), (3, 2))
    for graph in (shared, copied):
        for key in graph.nodes():
            graph.replace_node(key, "same")
        for edge in graph.edges():
            graph.replace_edge(edge, "")
    assert not shared.structurally_equal(copied)


def test_the_order_of_inputs_matters_and_that_of_users_does_not() -> None:
    assert not graph_of((0, 2), (1, 2)).structurally_equal(graph_of((1, 2), (0, 2)), edge_label=lambda _: "")
    assert graph_of((0, 1), (0, 2)).structurally_equal(graph_of((0, 2), (0, 1)), edge_label=lambda _: "")


def test_heads_choose_the_order_of_the_walk() -> None:
    graph, other = graph_of((0, 1), (0, 2)), graph_of((0, 2), (0, 1))
    for key, name in zip(other.nodes(), ["n0", "n2", "n1"]):
        other.replace_node(key, name)
    zero, one, two = graph.nodes()
    ours = graph.structural_hash(edge_label=lambda _: "", heads=[one, two])
    assert ours != other.structural_hash(edge_label=lambda _: "")
    assert ours == other.structural_hash(edge_label=lambda _: "", heads=[two, one])
    assert zero in graph


def test_the_hash_is_the_same_in_every_process() -> None:
    code = (
        "from typing import NewType; from nnc.graph import Graph; K = NewType('K', int); g = Graph(K);"
        "a, b = g.add_node('a'), g.add_node('b'); g.add_edge(a, b, 'e'); print(g.structural_hash())"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(seen) == 1
