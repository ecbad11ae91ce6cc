"""The memory map of a compiled graph: its plan as a page, with what the graph knows of each block and step."""

from __future__ import annotations

from nnc.planning import BlockText, StepText, memory_map
from nnc.symbolic.compiler.place.memory import BlockSpan
from nnc.symbolic.compiler.place.planned import PlannedGraph
from nnc.symbolic.ir import ExecSymbol


def page_of(planned: PlannedGraph, title: str) -> str:
    """The page; a block is told by the first tensor in it, a step by its exec."""
    layout = planned.layout
    blocks = [_block(planned, span) for span in layout.spans]
    execs = (planned.graph.execs[key] for key in planned.order)
    steps = [StepText(moment, _step(record)) for moment, record in zip(layout.starts, execs)]
    return memory_map(layout.problem, layout.plan, title, blocks, steps)


def _block(planned: PlannedGraph, span: BlockSpan) -> BlockText:
    graph, life = span.graph, span.life
    if span.exec is not None:
        user = graph.execs[span.exec]
        return BlockText(span.name, user.path, user.command.op.name, "workspace", user.origin)
    root = life.roots[0]
    writers = graph.writers(root)
    record = graph.execs[writers[0]] if writers else None
    role = "input" if life.outside else "output" if graph is planned.graph and life.upper > planned.lives.steps else ""
    layer, operator = ("", "") if record is None else (record.path, record.command.op.name)
    return BlockText(span.name, layer, operator, role or "between", graph.tensors[root].origin)


def _step(record: ExecSymbol) -> str:
    return " · ".join(part for part in (record.command.op.name, record.path, record.origin) if part)
