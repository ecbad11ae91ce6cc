"""L0: the typed graph and the open operator registry that every layer shares; standard library only.

arena       keys and records            graph       nodes, ordered multi-edges, version
view        the read-only protocols     visit       orders, reachability
structure   dominators, components      compare     structural hash and equality
text        dump, Graphviz              undirected  each edge once
column      columns and facts           passes      analyses, transforms, their manager
registry    operators, groups           attribute   open attributes and rules
serialize   versioned JSON              frontend    functions from the registry

What the seeds ask for and nnc itself does not use says so where it is.
"""

from nnc.graph.arena import Arena, DictStorage, KeyWidth, ListStorage, RecordStorage, StorageFactory
from nnc.graph.attribute import OpAttr, OpColumn, OpRule
from nnc.graph.codec import (
    STANDARD,
    Codec,
    Forms,
    Json,
    JsonObject,
    JsonValue,
    decode_call,
    encode_call,
    none_codec,
    record_codec,
    union_codec,
)
from nnc.graph.column import Column, Fact, FactKey, Facts
from nnc.graph.frontend import operator_function, stub
from nnc.graph.graph import Graph
from nnc.graph.passes import (
    Analysis,
    Changed,
    Instrument,
    PassManager,
    Provider,
    Snapshots,
    Timing,
    Transform,
    analysis,
    transform,
)
from nnc.graph.registry import (
    GROUP_LEVEL,
    OP_LEVEL,
    VARIADIC,
    AttributeKey,
    Group,
    Names,
    NoAttributes,
    Op,
    Registry,
    Variadic,
    default_registry,
)
from nnc.graph.serialize import GraphFormat, Upgrade, canonical_json, load_document, parse_json, save_document
from nnc.graph.structure import LongestPaths
from nnc.graph.undirected import UndirectedGraph
from nnc.graph.view import Edge, EdgeKey, GraphView, Keyed, Topology, Versioned

__all__ = [
    "GROUP_LEVEL",
    "OP_LEVEL",
    "STANDARD",
    "VARIADIC",
    "Analysis",
    "Arena",
    "AttributeKey",
    "Changed",
    "Codec",
    "Column",
    "DictStorage",
    "Edge",
    "EdgeKey",
    "Fact",
    "Forms",
    "FactKey",
    "Facts",
    "Graph",
    "GraphFormat",
    "GraphView",
    "Group",
    "Instrument",
    "Json",
    "JsonObject",
    "JsonValue",
    "KeyWidth",
    "Keyed",
    "ListStorage",
    "LongestPaths",
    "Names",
    "NoAttributes",
    "Op",
    "OpAttr",
    "OpColumn",
    "OpRule",
    "PassManager",
    "Provider",
    "RecordStorage",
    "Registry",
    "Snapshots",
    "StorageFactory",
    "Timing",
    "Topology",
    "Transform",
    "UndirectedGraph",
    "Upgrade",
    "Variadic",
    "Versioned",
    "analysis",
    "canonical_json",
    "decode_call",
    "default_registry",
    "encode_call",
    "none_codec",
    "operator_function",
    "parse_json",
    "load_document",
    "save_document",
    "record_codec",
    "stub",
    "transform",
    "union_codec",
]
