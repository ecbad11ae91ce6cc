"""One versioned JSON form for graphs: the same graph gives the same bytes, and old versions still load.

    {"edges": [[source, target, data], ...], "format": name, "nodes": [data, ...], "version": number}

Nodes are written by ascending key and named by their position, so a loaded graph has dense keys. Edges are written
by ascending key, which keeps the order of the edges at each node.

`GraphFormat` is for those who build on `nnc.graph` (seed 003, rows P8 and P9 of docs/parity.md). Symbolic graphs and
compositions have rows of their own and share the rest: codecs, canonical text, versions (`load_document`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import field
from operator import index
from types import MappingProxyType
from typing import Generic, TypeGuard, TypeVar

from nnc.arguments import explained
from nnc.classes import dataclass
from nnc.errors import FormatError
from nnc.graph.arena import KeyWidth, ListStorage, StorageFactory
from nnc.graph.codec import Codec, Json, JsonObject
from nnc.graph.graph import Graph
from nnc.graph.view import GraphView

N = TypeVar("N")
E = TypeVar("E")
K = TypeVar("K", bound=int)

Upgrade = Callable[[JsonObject], JsonObject]
NO_UPGRADES: Mapping[int, Upgrade] = MappingProxyType({})


# Without slots, for the same reason as `Codec`.
@dataclass(frozen=True)
class GraphFormat(Generic[N, E, K]):
    """`load(save(graph))` is structurally equal to the graph.

    `upgrades[v]` turns a document of version `v` into one of version `v + 1`, as plain JSON.
    """

    name: str
    version: int
    key_type: Callable[[int], K]
    node: Codec[N]
    edge: Codec[E]
    upgrades: Mapping[int, Upgrade] = field(default_factory=dict)

    def save(self, graph: GraphView[N, E, K]) -> str:
        """The graph as canonical JSON: sorted keys, no spaces, one line."""
        position = {key: place for place, key in enumerate(graph.nodes())}
        edges = map(graph.edge, graph.edges())
        document: Json = {
            "nodes": [self.node.encode(node) for _, node in graph.items()],
            "edges": [[position[edge.source], position[edge.target], self.edge.encode(edge.data)] for edge in edges],
        }
        return save_document(self.name, self.version, document)

    def load(
        self, text: str, width: KeyWidth = KeyWidth.BITS32, storage: StorageFactory = ListStorage
    ) -> Graph[N, E, K]:
        """The graph of a text that this or an earlier version wrote. Raises FormatError."""
        document = load_document(text, self.name, self.version, self.upgrades)
        graph: Graph[N, E, K] = Graph(self.key_type, width, storage)
        nodes = _list(document, "nodes")
        keys = [graph.add_node(self.node.decode(data, f"nodes[{place}]")) for place, data in enumerate(nodes)]
        for place, link in enumerate(_list(document, "edges")):
            where = f"edges[{place}]"
            source, target, data = _link(link, where, len(keys))
            graph.add_edge(keys[source], keys[target], self.edge.decode(data, f"{where}.data"))
        return graph


@explained
def save_document(name: str, version: int, document: Json) -> str:
    """A JSON object as canonical JSON that says its format and version."""
    if not isinstance(document, dict):
        raise FormatError(name, got=f"a {type(document).__name__}", need="an object")
    if not all(isinstance(key, str) for key in document):
        raise FormatError(name, got="a name that is no text", need="an object with names that are texts")
    return canonical_json({"format": name, "version": index(version), **document})


@explained
def load_document(text: str, name: str, version: int, upgrades: Mapping[int, Upgrade] = NO_UPGRADES) -> JsonObject:
    """The JSON object of a text that says this format, in this version. Raises FormatError."""
    document = parse_json(text, name)
    if document.get("format") != name:
        raise FormatError(name, got=f"the format {document.get('format')!r}", need=repr(name))
    at = document.get("version")
    while at != version:
        if type(at) is not int or at not in upgrades:
            raise FormatError(
                name,
                got=f"version {at!r}",
                need=f"version {version} or one that it can upgrade: {sorted(upgrades)}",
                fix="load it with the release that wrote it",
            )
        document = upgrades[at](document)
        at += 1
    return {key: value for key, value in document.items() if key not in ("format", "version")}


def canonical_json(document: Json) -> str:
    """JSON with sorted keys and no spaces: equal values give equal bytes."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)


def parse_json(text: str, subject: str) -> JsonObject:
    """The JSON object of a text. Raises FormatError for anything else."""
    try:
        document: Json = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(subject, got=f"text that is not JSON ({error})", need="a JSON object") from None
    if not isinstance(document, dict):
        raise FormatError(subject, got=f"JSON of type {type(document).__name__}", need="a JSON object")
    return document


def _list(document: JsonObject, name: str) -> list[Json]:
    value = document.get(name)
    if not isinstance(value, list):
        raise FormatError(name, got=f"JSON of type {type(value).__name__}", need="a list")
    return value


def _link(link: Json, where: str, count: int) -> tuple[int, int, Json]:
    need = f"[source, target, data] with positions below {count}"
    if not isinstance(link, list) or len(link) != 3:
        raise FormatError(where, got=f"JSON of type {type(link).__name__}", need=need)
    source, target, data = link
    if not _is_position(source, count) or not _is_position(target, count):
        raise FormatError(where, got="a node that is not there", need=need)
    return source, target, data


def _is_position(value: Json, count: int) -> TypeGuard[int]:
    return type(value) is int and 0 <= value < count
