"""From a graph to Graphviz."""

from __future__ import annotations

from collections.abc import Iterator

from nnc.arguments import checked
from nnc.graph.text import dot_lines, wrap_dot
from nnc.symbolic.ir import SymbolicGraph, bodies_of
from nnc.symbolic.records import Dependency, ExecSymbol


@checked
def dot(graph: SymbolicGraph) -> str:
    """The Graphviz text: commands as nodes, the tensors that they hand on as edges, bodies as clusters."""
    return wrap_dot(_lines(graph, "n"))


def _lines(graph: SymbolicGraph, prefix: str) -> Iterator[str]:
    """Nodes, edges and clusters; a node's name is `prefix` and its key, those inside it go on from there."""

    def node(record: ExecSymbol) -> str:
        shown = record.command.op.name if bodies_of(record.command) else str(record.command)
        return f"{record.name}\n{shown}" if record.name else shown

    def edge(dependency: Dependency) -> str:
        return "order" if dependency.tensor is None else graph.label(dependency.tensor)

    yield from dot_lines(graph.execs, node, edge, prefix=prefix)
    for key, record in graph.execs.items():
        for place, (name, body) in enumerate(bodies_of(record.command)):
            inner = f"{prefix}{key}_{place}_"
            yield f"subgraph cluster_{inner} {{"
            yield f'  label="{record.command.op.name} {key}: {name}";'
            yield from (f"  {line}" for line in _lines(body.graph, inner))
            yield "}"
