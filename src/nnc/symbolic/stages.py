"""What passes did to a graph, step by step, for who looks: its execs as they stood behind each pass.

    with recorded_stages() as stages:
        step = model.training_step(8)
    step.compiled.page(stages=stages)

An exec is known through all stages by the tensor that it writes first. Nothing is noted unless somebody asks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from nnc.planning import GraphNode, GraphStage
from nnc.symbolic.ir import SymbolicGraph
from nnc.symbolic.records import ExecKey, TensorKey

_STAGES: ContextVar[list[GraphStage] | None] = ContextVar("stages", default=None)


@contextmanager
def recorded_stages() -> Iterator[list[GraphStage]]:
    """The graphs behind each pass that this thread runs inside."""
    stages: list[GraphStage] = []
    token = _STAGES.set(stages)
    try:
        yield stages
    finally:
        _STAGES.reset(token)


def note_stage(graph: SymbolicGraph, name: str, fired: Mapping[str, int] | None = None) -> None:
    """Tell who records how the graph is now, behind a pass with rules that `fired`."""
    stages = _STAGES.get()
    if stages is not None:
        stages.append(stage_of(graph, name, graph.execs.toposort(), fired=fired))


def stage_of(
    graph: SymbolicGraph,
    name: str,
    order: Sequence[ExecKey],
    moments: Sequence[int] = (),
    known: Mapping[TensorKey, TensorKey] | None = None,
    fired: Mapping[str, int] | None = None,
) -> GraphStage:
    """The execs in this order, at these moments; `known` says what a tensor was in the graph of the stages before."""

    def number(key: TensorKey) -> int:
        return key if known is None else known.get(key, -1 - key)

    nodes = []
    for place, key in enumerate(order):
        record = graph.execs[key]
        reads = dict.fromkeys(
            number(graph.execs[writer].outputs[0])
            for root in graph.roots(record.inputs)
            for writer in graph.writers(root)
        )
        own = number(record.outputs[0]) if record.outputs else -1 - key
        moment = moments[place] if moments else -1
        nodes.append(
            GraphNode(own, record.title, record.path, record.command.op.name, record.origin, tuple(reads), moment)
        )
    return GraphStage(name, nodes, fired or {})
