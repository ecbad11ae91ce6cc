"""Loops and branches without what nobody needs of them.

| goes                        | when                                                                                   |
| an output of a loop         | nobody reads it                                                                        |
| a carried value             | no output, no test and no carried value that stays depends on it                       |
| a result of a branch        | nobody reads it                                                                        |
| a captured symbol           | no body reads it, or gives it back                                                     |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import compress
from typing import Any, TypeVar

from nnc.core.values.command import Command
from nnc.graph import Op
from nnc.symbolic.bodies import Renamed, change_bodies, copy_body
from nnc.symbolic.control import CASE_OF, WHILE, CaseAttrs, WhileAttrs
from nnc.symbolic.ir import Body
from nnc.symbolic.records import ExecSymbol, TensorKey

T = TypeVar("T")


def trim(record: ExecSymbol, used: Sequence[bool]) -> ExecSymbol:
    """The exec without what only its unused outputs need; the same record when nothing goes."""
    rule = _TRIMS.get(record.command.op)
    return record if rule is None else rule(record, used)


def _trim_while(record: ExecSymbol, used: Sequence[bool]) -> ExecSymbol:
    attrs: WhileAttrs = record.command.attrs
    kept = tuple(compress(attrs.kept, used[1:]))
    asked = (*attrs.asked(), *(row.symbol for row in kept))
    carried = _live_places(attrs, asked)
    body = attrs.body
    read = _read(body, (*asked, *(body.results[place] for place in carried)))
    invariants = [place for place in range(attrs.carried, len(record.inputs)) if body.parameters[place] in read]
    places = [*carried, *invariants]
    if len(places) == len(record.inputs) and len(kept) == len(attrs.kept):
        return record
    smaller = Body(body.graph, _at(body.parameters, places), _at(body.results, carried))
    command = Command(WHILE, replace(attrs, body=smaller, carried=len(carried), kept=kept))
    outputs = (record.outputs[0], *compress(record.outputs[1:], used[1:]))
    return replace(record, command=change_bodies(command, _needed), inputs=_at(record.inputs, places), outputs=outputs)


def _live_places(attrs: WhileAttrs, asked: Sequence[TensorKey]) -> list[int]:
    """Positions of carried values that the asked symbols depend on, from iteration to iteration; at least one."""
    body = attrs.body
    live: set[int] = set()
    waiting = [*asked]
    while waiting or not live:
        read = _read(body, waiting or body.parameters[:1])
        newly_read = {place for place in range(attrs.carried) if body.parameters[place] in read} - live
        live |= newly_read
        waiting = [body.results[place] for place in sorted(newly_read)]
    return sorted(live)


def _trim_case(record: ExecSymbol, used: Sequence[bool]) -> ExecSymbol:
    attrs: CaseAttrs = record.command.attrs
    bodies = [body for _, body in attrs.bodies()]
    places = [place for place, is_used in enumerate(used) if is_used]
    reads = [_read(body, _at(body.results, places)) for body in bodies]
    operands = [
        place
        for place in range(len(record.inputs) - attrs.chosen)
        if any(body.parameters[place] in read for body, read in zip(bodies, reads, strict=True))
    ]
    if len(places) == len(record.outputs) and len(operands) == len(record.inputs) - attrs.chosen:
        return record

    def cut(body: Body, named: tuple[TensorKey, ...]) -> tuple[Body, Renamed]:
        return _needed(Body(body.graph, _at(body.parameters, operands), _at(body.results, places)), named)

    inputs = (*record.inputs[: attrs.chosen], *_at(record.inputs[attrs.chosen :], operands))
    command = change_bodies(record.command, cut)
    return replace(record, command=command, inputs=inputs, outputs=_at(record.outputs, places))


def _needed(body: Body, named: tuple[TensorKey, ...]) -> tuple[Body, Renamed]:
    """The body without execs that neither its results nor the named symbols need."""
    return copy_body(body, body.graph.needed_for((*body.results, *named)), named)


def _read(body: Body, ends: Sequence[TensorKey]) -> set[TensorKey]:
    """Roots that these symbols of a body are, or are computed from."""
    graph = body.graph
    return {graph.root(key) for key in ends}.union(graph.inputs_of(graph.needed_for(ends)))


def _at(keys: Sequence[T], places: Sequence[int]) -> tuple[T, ...]:
    return tuple(keys[place] for place in places)


_TRIMS: Mapping[Op[Any], Callable[[ExecSymbol, Sequence[bool]], ExecSymbol]] = {
    WHILE: _trim_while,
    CASE_OF: _trim_case,
}
