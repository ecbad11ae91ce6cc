"""When blocks of bodies live among those of the graph around: the steps of bodies are steps of its order.

    a loop or a branch at step s = enter, the steps of its bodies one body behind the other, leave

What ends at a `case..of` ends with its last use in a branch, and what begins there with its first. The blocks of two
branches never live at the same time, and so share bytes. A loop is one iteration, which all others repeat.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from nnc.classes import dataclass
from nnc.symbolic.compiler.place.liveness import LiveRange
from nnc.symbolic.compiler.place.memory import BlockSpan, block_name
from nnc.symbolic.compiler.place.planned import PlannedGraph
from nnc.symbolic.compiler.place.slots import Slot, Slots
from nnc.symbolic.control import CaseAttrs, WhileAttrs
from nnc.symbolic.ir import Body, bodies_of
from nnc.symbolic.records import ExecSymbol, TensorKey


@dataclass(slots=True)
class _Moments:
    """The first moment of each step of a graph, of the end of its run, and of what comes behind that."""

    planned: PlannedGraph
    starts: list[int]


def block_spans(planned: PlannedGraph) -> tuple[tuple[BlockSpan, ...], tuple[int, ...]]:
    """All blocks, those of bodies behind those of the graph; and the moment at which each of its steps begins.

    A memory of slots that nothing is in takes no bytes.
    """
    timeline = _Timeline()
    moments = timeline.add(planned, 0, None)
    own = {id(life): life for life in planned.lives.blocks()}
    spans = sorted(timeline.spans.items(), key=lambda item: item[0] not in own)
    ordered = [timeline.spans[number] for number in own if number in timeline.spans]
    inside = (span for number, span in spans if number not in own and span.lower < span.upper)
    return (*ordered, *inside), tuple(moments.starts)


class _Timeline:
    """The spans of blocks so far, by the identity of the block."""

    def __init__(self) -> None:
        self.spans: dict[int, BlockSpan] = {}

    def add(self, planned: PlannedGraph, moment: int, step: int | None) -> _Moments:
        """Add the blocks of a graph from this moment on; a body is inside of this `step` of the graph around all."""
        starts: list[int] = []
        entered: dict[int, list[_Moments]] = {}
        for number, key in enumerate(planned.order):
            starts.append(moment)
            moment += 1
            if key in planned.inner:
                entered[number] = []
                for body in planned.inner[key]:
                    entered[number].append(self.add(body, moment, number if step is None else step))
                    moment = entered[number][-1].starts[-1]
                moment += 1
        starts += [moment, moment + 1]
        for life in (*planned.lives.blocks(), *planned.slots.memories):
            self._put(planned, life, starts[life.lower], starts[life.upper], step)
        for number, bodies in entered.items():
            record = planned.graph.execs[planned.order[number]]
            if isinstance(record.command.attrs, WhileAttrs):
                self._host_loop(planned, record, number, starts, bodies[0])
            else:
                self._host_branches(planned, record, number, starts, bodies)
        self._fill_slots(planned.lives.of, planned.slots)
        return _Moments(planned, starts)

    def _fill_slots(self, lives: Mapping[TensorKey, LiveRange], slots: Slots) -> None:
        """What is in slots is in their memories, which are blocks."""
        inside: dict[Slot, list[BlockSpan]] = {}
        for root, slot in slots.of.items():
            span = self.spans.pop(id(lives[root]), None)
            if span is not None and span.lower < span.upper:
                inside.setdefault(slot, []).append(span)
        for slot, memory in enumerate(slots.memories):
            if slots.stays[slot]:
                span = self.spans[id(memory)]
                span.lower = min((value.lower for value in inside.get(slot, ())), default=span.lower)
                span.upper = max((value.upper for value in inside.get(slot, ())), default=span.lower)

    def _put(self, planned: PlannedGraph, life: LiveRange, lower: int, upper: int, step: int | None) -> None:
        exec_key = None if life.roots else planned.order[life.lower]
        name = block_name(life, planned.graph, exec_key)
        self.spans[id(life)] = BlockSpan(life, lower, upper, name, planned.graph, exec_key, step)

    def _begin(self, life: LiveRange | None, step: int, moment: int) -> None:
        """A block that begins with a step does so at this moment of it."""
        span = self.spans.get(id(life))
        if span is not None and span.life.lower == step and not span.life.outside:
            span.lower = moment

    def _end(self, life: LiveRange | None, step: int, moment: int) -> None:
        """A block that ends with a step does so at this moment of it."""
        span = self.spans.get(id(life))
        if span is not None and span.life.upper == step + 1 and (span.life.outside or span.life.lower != step):
            span.upper = moment

    def _host_loop(
        self, planned: PlannedGraph, record: ExecSymbol, step: int, starts: Sequence[int], inside: _Moments
    ) -> None:
        """Blocks that give memory to slots live as long as these; the count is written behind all iterations."""
        lives, body, outer = planned.lives.of, inside.planned, planned.lives.outer[step]
        attrs = record.command.attrs
        assert isinstance(attrs, WhileAttrs)
        for memory, root in outer.roots.items():
            span = self.spans.pop(id(body.slots.memories[memory]))
            self._begin(lives.get(root), step, span.lower)
            if root not in outer.placed.values():
                self._end(lives.get(root), step, span.upper)
        for place, key, life in _alone(planned, record):
            parameter = attrs.body.parameters[place]
            state = body.lives.of.get(parameter)
            if parameter in body.slots.of and place >= attrs.carried:
                continue
            if parameter in body.lent:
                self._end(life, step, self._last_use(inside, attrs.body, parameter, starts[step] + 1, starts[step + 1]))
                continue
            # What is handed on to another carried value is read in a later iteration.
            handed_on = parameter in attrs.body.results or key in outer.roots.values()
            if place < attrs.carried and state is not None and not handed_on:
                self._end(life, step, max(inside.starts[state.upper], inside.starts[body.tested]))
        for root in body.lent:
            self.spans.pop(id(body.lives.of.get(root)), None)
        self._begin(lives.get(record.outputs[0]), step, starts[step + 1] - 1)

    def _host_branches(
        self, planned: PlannedGraph, record: ExecSymbol, step: int, starts: Sequence[int], inside: Sequence[_Moments]
    ) -> None:
        attrs = record.command.attrs
        assert isinstance(attrs, CaseAttrs)
        bodies = [body for _, body in bodies_of(record.command)]
        entered, left = starts[step] + 1, starts[step + 1]
        for place, _, life in _alone(planned, record):
            if place < attrs.chosen:
                self._end(life, step, entered)
            else:
                ends = (
                    self._last_use(value, body, body.parameters[place - attrs.chosen], entered, left)
                    for value, body in zip(inside, bodies, strict=True)
                )
                self._end(life, step, max(ends))
        for place, output in enumerate(record.outputs):
            begins = (
                self._first_use(value, body, body.results[place], starts[step])
                for value, body in zip(inside, bodies, strict=True)
            )
            self._begin(planned.lives.of.get(output), step, min(begins))
        for value in inside:
            for root in value.planned.lent:
                self.spans.pop(id(value.planned.lives.of.get(root)), None)

    def _last_use(self, inside: _Moments, body: Body, parameter: TensorKey, entered: int, left: int) -> int:
        planned = inside.planned
        if parameter in planned.lent:
            span = self.spans.get(id(planned.lives.of.get(parameter)))
            return entered if span is None else span.upper
        return left if parameter in body.results or planned.touches(parameter) else entered

    def _first_use(self, inside: _Moments, body: Body, result: TensorKey, begin: int) -> int:
        if result in body.parameters:
            return inside.starts[-2]
        span = self.spans.get(id(inside.planned.lives.of.get(result))) if result in inside.planned.lent else None
        return begin if span is None else span.lower


def _alone(planned: PlannedGraph, record: ExecSymbol) -> Iterator[tuple[int, TensorKey, LiveRange]]:
    """Inputs, by place, whose blocks no other input has."""
    lives: Mapping[TensorKey, LiveRange] = planned.lives.of
    blocks = [None if key is None else lives.get(planned.graph.root(key)) for key in record.inputs]
    for place, (key, life) in enumerate(zip(record.inputs, blocks, strict=True)):
        if key is not None and life is not None and sum(other is life for other in blocks) == 1:
            yield place, key, life
