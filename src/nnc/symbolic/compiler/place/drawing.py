"""How a compiled graph looks: its plan, steps, loops and branches as a page shows them, and what a run did when."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping

from nnc.concrete.profiling import RunProfile
from nnc.planning import Band, BlockText, GraphStage, MapView, StepText, TimelineBar
from nnc.symbolic.compiler.place.memory import BlockSpan
from nnc.symbolic.compiler.place.planned import PlannedGraph
from nnc.symbolic.compiler.place.slots import trips
from nnc.symbolic.control import WhileAttrs
from nnc.symbolic.ir import bodies_of
from nnc.symbolic.records import ExecKey, ExecSymbol, TensorKey
from nnc.symbolic.stages import stage_of

AGAIN = " again"


def map_of(planned: PlannedGraph, title: str) -> MapView:
    """The plan; a block is told by the first tensor in it, a step by its exec."""
    layout = planned.layout
    blocks = [_block(planned, span) for span in layout.spans]
    execs = (planned.graph.execs[key] for key in planned.order)
    steps = [StepText(at, _step(record), record.title.endswith(AGAIN)) for at, record in zip(layout.starts, execs)]
    return MapView(layout.problem, layout.plan, title, blocks, steps, tuple(_bands(planned, 0)))


def compiled_stage(planned: PlannedGraph, known: Mapping[TensorKey, TensorKey] | None) -> GraphStage:
    """The graph that runs, in its order; `known` as in `stage_of`."""
    return stage_of(planned.graph, "compiled", planned.order, planned.layout.starts, known)


def bars_of(planned: PlannedGraph, profile: RunProfile) -> list[TimelineBar]:
    """What ran, at the moments of the plan: in each run the execs of one name come in the order of the plan."""
    moments: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for moment, graph, key in _all_execs(planned):
        record = graph.graph.execs[key]
        moments[record.name, record.command.op.name].append(moment)
    return profile.bars(moments)


def _all_execs(planned: PlannedGraph) -> Iterator[tuple[int, PlannedGraph, ExecKey]]:
    """Execs of bodies too, at the moment of the step that they are in."""
    waiting = deque((moment, planned, key) for moment, key in zip(planned.layout.starts, planned.order))
    while waiting:
        moment, graph, key = waiting.popleft()
        yield moment, graph, key
        for body in graph.inner.get(key, ()):
            waiting.extend((moment, body, inner) for inner in body.order)


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
    return BlockText(span.name, layer, operator, role or _purpose(record), graph.tensors[root].origin)


def _purpose(record: ExecSymbol | None) -> str:
    title = "" if record is None else record.title
    return "computed again" if title.endswith(AGAIN) else "gradient" if "gradient of " in title else "between"


def _step(record: ExecSymbol) -> str:
    operator = record.command.op.name
    parts = (record.title, "" if record.title.endswith(operator) else operator, record.origin)
    return " · ".join(part for part in parts if part)


def _width(planned: PlannedGraph) -> int:
    """Moments of a body, the end of its run among them."""
    inner = sum(1 + sum(map(_width, bodies)) for bodies in planned.inner.values())
    return len(planned.order) + inner + 1


def _bands(planned: PlannedGraph, begin: int) -> Iterator[Band]:
    """Loops and branches whose graph begins at this moment, each in front of what is inside it."""
    moment = begin
    for key in planned.order:
        moment += 1
        if key in planned.inner:
            record = planned.graph.execs[key]
            for body, (name, _) in zip(planned.inner[key], bodies_of(record.command), strict=True):
                yield Band(moment, moment + _width(body), _band_text(record, body, name))
                yield from _bands(body, moment)
                moment += _width(body)
            moment += 1


def _band_text(record: ExecSymbol, body: PlannedGraph, name: str) -> str:
    """`while · 10 iterations; buffers turn: a → b → a`."""
    attrs = record.command.attrs
    if not isinstance(attrs, WhileAttrs):
        return f"{record.title} · {name}"
    times = trips(attrs)
    values = defaultdict[int, list[str]](list)
    for root, slot in body.slots.of.items():
        values[slot].append(body.graph.label(root).partition(":")[0])
    cycles = {
        frozenset(cycle): cycle for slot in range(len(body.slots.moves)) if len(cycle := body.slots.cycle(slot)) > 1
    }
    turns = [" → ".join("/".join(values[slot]) for slot in (*cycle, cycle[0])) for cycle in cycles.values()]
    return "; ".join(
        (
            f"{record.title} · " + ("one iteration of many" if times is None else f"one of {times} iterations"),
            *([f"buffers take turns: {', '.join(turns)}"] if turns else []),
        )
    )
