"""Graphs as versioned JSON: round trip, same bytes, old versions, refused files."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nnc.errors import FormatError, KeyOverflowError
from nnc.graph import (
    DictStorage,
    Graph,
    GraphFormat,
    JsonObject,
    KeyWidth,
    canonical_json,
    none_codec,
    parse_json,
    record_codec,
)

from .conftest import NodeKey, TextGraph, graph_of, graphs


@dataclass(frozen=True, slots=True)
class Layer:
    """Version 1 had `width` and no `bias`."""

    kind: str
    units: int
    bias: bool


LayerGraph = Graph[Layer, None, NodeKey]


def rename_width(document: JsonObject) -> JsonObject:
    nodes = document["nodes"]
    assert isinstance(nodes, list)
    renamed = [{"kind": node["kind"], "units": node["width"]} for node in nodes if isinstance(node, dict)]
    return {**document, "nodes": [*renamed]}


def add_bias(document: JsonObject) -> JsonObject:
    nodes = document["nodes"]
    assert isinstance(nodes, list)
    return {**document, "nodes": [{**node, "bias": True} for node in nodes if isinstance(node, dict)]}


LAYERS = GraphFormat("layers", 3, NodeKey, record_codec(Layer), none_codec(), upgrades={1: rename_width, 2: add_bias})
TEXTS = GraphFormat("texts", 1, NodeKey, record_codec(str), record_codec(str))


@settings(derandomize=True, deadline=None, max_examples=80)
@given(graphs(), st.data())
def test_M14_load_of_save_is_structurally_equal_and_saves_to_the_same_bytes(
    graph: TextGraph, data: st.DataObject
) -> None:
    graph.remove_node(data.draw(st.sampled_from(graph.nodes())))
    text = TEXTS.save(graph)
    loaded = TEXTS.load(text, storage=DictStorage)
    assert graph.structural_difference(loaded) is None
    assert TEXTS.save(loaded) == text == TEXTS.save(graph)
    assert loaded.nodes() == tuple(range(len(graph)))


def test_M14_the_form_is_canonical() -> None:
    assert TEXTS.save(graph_of((1, 0), (0, 1))) == (
        '{"edges":[[1,0,"e0"],[0,1,"e1"]],"format":"texts","nodes":["n0","n1"],"version":1}'
    )
    assert canonical_json({"b": 1, "a": [True, None]}) == '{"a":[true,null],"b":1}'


@pytest.mark.parametrize("version", [1, 2, 3])
def test_M14_every_old_version_still_loads(version: int) -> None:
    text = (Path(__file__).parent / "fixtures" / f"layers_v{version}.json").read_text()
    graph: LayerGraph = LAYERS.load(text)
    assert [node for _, node in graph.items()] == [
        Layer("dense", 8, True),
        Layer("relu", 8, True),
        Layer("dense", 2, True),
    ]
    assert graph.dump(lambda layer: layer.kind) == "graph: 3 nodes, 2 edges\n%0 dense\n%1 relu <- %0\n%2 dense <- %1"


def edited(**changes: object) -> str:
    return json.dumps({**json.loads(TEXTS.save(graph_of((0, 1)))), **changes})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "texts: got text that is not JSON"),
        ("[" * 100_000, "texts: got text that is not JSON"),
        ("[]", "texts: got JSON of type list; need a JSON object"),
        (edited(format="other"), "texts: got the format 'other'; need 'texts'"),
        (edited(version=2), "texts: got version 2; need version 1 or one that it can upgrade: []"),
        (edited(version="1"), "texts: got version '1'"),
        (edited(version=None), "texts: got version None"),
        (edited(nodes={}), "nodes: got JSON of type dict; need a list"),
        (edited(nodes=["a", 1]), "nodes[1]: got JSON of type int; need str"),
        (
            edited(edges=[[0, 2, ""]]),
            "edges[0]: got a node that is not there; need [source, target, data] with positions",
        ),
        (edited(edges=[[0, True, ""]]), "edges[0]: got a node that is not there"),
        (edited(edges=[[-1, 0, ""]]), "edges[0]: got a node that is not there"),
        (edited(edges=[[0, 1]]), "edges[0]: got JSON of type list"),
        (edited(edges=[[0, 1, ""], [0, 1, None]]), "edges[1].data: got JSON of type NoneType; need str"),
    ],
)
def test_M14_a_wrong_file_is_refused_with_its_place(text: str, words: str) -> None:
    with pytest.raises(FormatError) as caught:
        TEXTS.load(text)
    assert words in str(caught.value)


def test_M8_a_file_with_too_many_nodes_for_the_width_is_refused() -> None:
    with pytest.raises(KeyOverflowError):
        TEXTS.load(TEXTS.save(graph_of(count=257)), KeyWidth.BITS8)


def test_parse_json_gives_an_object() -> None:
    assert parse_json('{"a": 1}', "file") == {"a": 1}
