"""An order of the nodes of a file: each reads what is written before it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush

import onnx
from nnc.errors import CycleError, FormatError


def check_unique(names: Sequence[str]) -> None:
    """FormatError for names that stand twice."""
    if len(set(names)) < len(names):
        twice = sorted({str(name) for name in names if names.count(name) > 1})[:4]
        raise FormatError(
            "onnx", got=f"names that are written twice: {', '.join(twice)}", need="a name for each tensor"
        )


def ordered(nodes: Iterable[onnx.NodeProto]) -> list[onnx.NodeProto]:
    """The nodes so that each reads what is written before it; CycleError where there is no such order."""
    listed = list(nodes)
    written = [name for node in listed for name in node.output if name]
    check_unique(written)
    writers = {name: place for place, node in enumerate(listed) for name in node.output if name}
    before = [{writers[name] for name in reads(node) if name in writers} for node in listed]
    readers: dict[int, list[int]] = {}
    for place, needed in enumerate(before):
        for writer in needed:
            readers.setdefault(writer, []).append(place)
    missing = [len(needed) for needed in before]
    ready = [place for place, count in enumerate(missing) if not count]
    heapify(ready)
    result: list[onnx.NodeProto] = []
    while ready:
        place = heappop(ready)
        result.append(listed[place])
        for reader in readers.get(place, ()):
            missing[reader] -= 1
            if not missing[reader]:
                heappush(ready, reader)
    if len(result) < len(listed):
        got = f"{len(listed) - len(result)} nodes that wait for each other"
        raise CycleError("onnx", got=got, need="a graph without circles")
    return result


def reads(node: onnx.NodeProto) -> set[str]:
    """The names that a node reads, also inside its graphs, without what those write themselves."""
    names = {name for name in node.input if name}
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            inner = attribute.g
            own = {entry.name for entry in (*inner.input, *inner.initializer)} | {
                n for entry in inner.node for n in entry.output
            }
            names |= {name for entry in inner.node for name in reads(entry)} - own
            names |= {entry.name for entry in inner.output} - own
    return names
