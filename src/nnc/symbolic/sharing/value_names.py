"""Names of values that several graphs compute alike, so that one copy serves them all.

    name(y) = digest(command, the names that it reads, which result it is)

Values of one name hold the same elements; the names of inputs are the caller's. They are the same in any process.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

from nnc.core.values.exact import exact_text
from nnc.symbolic.ir import SymbolicGraph
from nnc.symbolic.records import TensorKey


def value_names(graph: SymbolicGraph, inputs: Mapping[TensorKey, str]) -> dict[TensorKey, str]:
    """The names of roots: those of `inputs`, and of all that commands write, by what is written where."""
    names = dict(inputs)
    parts: dict[TensorKey, list[str]] = {}

    def named(root: TensorKey) -> str:
        if root not in names:
            text = "\n".join((repr(graph.tensors[root].spec), repr(graph.tensors[root].fill), *parts.get(root, ())))
            names[root] = blake2b(text.encode(), digest_size=20).hexdigest()
        return names[root]

    for key in graph.execs.toposort():
        record = graph.execs[key]
        read = [
            None
            if operand is None
            else (named(graph.root(operand)), graph.tensors[operand].spec, graph.region(operand))
            for operand in record.inputs
        ]
        command = exact_text(record.command) or repr(record.command)
        for place, output in enumerate(record.outputs):
            parts.setdefault(graph.root(output), []).append(f"{command} {read} {place} {graph.region(output)}")
    for root in parts:
        named(root)
    return names
