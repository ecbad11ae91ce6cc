"""Parts of a file's graph: what leads to a tensor, and a graph in two where elements of the data are asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import onnx
from nnc.onnx.file import GraphPart
from nnc.onnx.node import check_names
from nnc.onnx.node_order import ordered, reads

Graph = onnx.GraphProto | GraphPart
# Operators that draw: to compute one twice gives other elements.
DRAWS = ("RandomNormal", "RandomUniform")


def leading_to(graph: Graph, outputs: Iterable[str]) -> GraphPart | None:
    """The graph with only what these tensors need, as its outputs; None where something writes none of them."""
    wanted = list(outputs)
    part = part_of(graph, ordered(graph.node), (), wanted)
    written = {name for node in part.node for name in node.output}
    return part if written.issuperset(wanted) else None


def part_of(graph: Graph, nodes: Sequence[onnx.NodeProto], given: Iterable[str], outputs: Iterable[str]) -> GraphPart:
    """Those of the nodes, in order, that the outputs need; `given` names come from outside."""
    results = list(dict.fromkeys(outputs))
    needed, kept, outside = set(results), list[onnx.NodeProto](), set(given)
    for node in reversed(nodes):
        if needed.intersection(node.output) - outside - {""}:
            kept.append(node)
            needed |= reads(node)
    own = {value.name: value for value in graph.input}
    infos = [
        own.get(name) or onnx.helper.make_empty_tensor_value_info(name)
        for name in (*own, *sorted(outside - own.keys()))
    ]
    return GraphPart(
        kept[::-1],
        [info for info in infos if info.name in needed],
        [onnx.helper.make_empty_tensor_value_info(name) for name in results],
        [value for value in graph.initializer if value.name in needed and value.name not in outside],
    )


def split(graph: Graph, place: int, *, whole: bool) -> tuple[GraphPart, GraphPart | None, GraphPart]:
    """The graph in front of the node at `place`, that node, and the rest; the node belongs to the rest unless `whole`.

    What is made of constants alone is in each part that needs it, so that only data goes from part to part.
    """
    for node in graph.node:
        check_names(node)
    nodes = ordered(graph.node)
    fixed = {value.name for value in graph.initializer}
    constant = list[onnx.NodeProto]()
    for node in nodes[:place]:
        if reads(node) <= fixed and not node.op_type.startswith(DRAWS):
            constant.append(node)
            fixed.update(node.output)
    before = {name for node in nodes[:place] for name in node.output if name} - fixed
    at = nodes[place]
    behind = nodes[place + whole :]
    read = {value.name for value in graph.output}.union(*(reads(node) for node in behind))
    written = {name for name in at.output if name} if whole else set[str]()
    there = before | written | ({value.name for value in graph.input} - fixed)
    results = [value.name for value in graph.output if value.name not in there]
    live = sorted(before & (read | reads(at) if whole else read))
    head = part_of(graph, nodes[:place], (), live)
    alone = part_of(graph, [*constant, at], before, sorted(written & read)) if written & read else None
    return head, alone, part_of(graph, [*constant, *behind], before | written, results)
