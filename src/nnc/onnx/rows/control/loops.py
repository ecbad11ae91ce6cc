"""Loop and Scan as `while` of ours: one body, however many iterations. What does not fit that is unrolled."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

import onnx
from nnc import ops
from nnc.concrete import CountBelow
from nnc.core.values.dtype import BOOL
from nnc.errors import ShapeError, UsageError
from nnc.onnx.importer import OnnxImporter
from nnc.onnx.kept.asked_elements import Unknown
from nnc.onnx.node import OnnxNode
from nnc.onnx.node_values import OnnxValue
from nnc.symbolic import Symbol, while_loop
from nnc.symbolic.control import Loop

# Fewer iterations are unrolled: passes see through them then. More than the last number are no loop that ends.
UNROLLED = 32
MOST_ITERATIONS = 1 << 24
Scope = Mapping[str, OnnxValue]


def repeated(
    importer: OnnxImporter,
    node: OnnxNode,
    body: onnx.GraphProto,
    count: int | None,
    condition: OnnxValue | None,
    carried: Sequence[OnnxValue],
    scope: Scope,
) -> list[OnnxValue] | None:
    """What a Loop gives; None where its body is no body of ours, or changes what it carries."""
    check_count(node, count)
    known = condition is None or condition.array is not None
    stacked = len(body.output) - 1 - len(carried)
    try:
        if known and count is not None:
            counted = _counted(importer, body, count, carried, scope)
            if counted is not None:
                return counted
        return None if stacked else _tested(importer, body, count, condition, carried, scope)
    except (Unknown, UsageError):
        return None


def check_count(node: OnnxNode, count: int | None) -> None:
    """ShapeError for a loop that does not end in our time."""
    if count is not None and count > MOST_ITERATIONS:
        raise ShapeError(node.label, got=f"{count} iterations", need=f"at most {MOST_ITERATIONS}")


def _counted(
    importer: OnnxImporter, body: onnx.GraphProto, count: int, carried: Sequence[OnnxValue], scope: Scope
) -> list[OnnxValue] | None:
    """A loop whose condition stays true; None where it does not."""
    initial = [importer.operand(operand) for operand in carried]
    loop = while_loop(importer.graph, CountBelow(count))
    states = [loop.carry(operand) for operand in initial]
    go_on, *results = _body(importer, loop, body, OnnxValue(np.array(True)), states, scope)
    if go_on.array is None or not go_on.array.all():
        return None
    rows = _close(importer, loop, states, results)
    sources = _sources(scope, carried)
    finals = [loop.result(operand) for operand in states]
    return [OnnxValue(symbol=operand, sources=sources) for operand in (*finals, *map(loop.rows, rows))]


def _tested(
    importer: OnnxImporter,
    body: onnx.GraphProto,
    count: int | None,
    condition: OnnxValue | None,
    carried: Sequence[OnnxValue],
    scope: Scope,
) -> list[OnnxValue]:
    """A loop that goes on while its condition holds, which depends on data."""
    flag = importer.operand(OnnxValue(np.array(True)) if condition is None else condition)
    initial = [importer.operand(operand) for operand in carried]
    loop = while_loop(importer.graph, at_most=MOST_ITERATIONS if count is None else count + 1)
    go_on = loop.carry(ops.cast(ops.reshape(flag, ()), BOOL))
    states = [loop.carry(operand) for operand in initial]
    with _inside(importer, loop):
        test = go_on if count is None else ops.logical_and(go_on, loop.count < count)
        loop.go_on_while(test)
    after, *results = _body(importer, loop, body, OnnxValue(symbol=go_on), states, scope)
    with _inside(importer, loop):
        loop.next(go_on, ops.cast(ops.reshape(importer.operand(after), ()), BOOL))
    _close(importer, loop, states, results)
    sources = _sources(scope, carried)
    return [OnnxValue(symbol=loop.result(operand), sources=sources) for operand in states]


def scan_of(
    importer: OnnxImporter,
    body: onnx.GraphProto,
    count: int,
    states: Sequence[OnnxValue],
    pick: Callable[[Symbol], Sequence[OnnxValue]],
    scope: Scope,
) -> list[OnnxValue] | None:
    """What a Scan of `count` steps gives, rows along axis 0 in the order of the steps; None for a body that is none."""
    try:
        # A loop of ours carries something.
        spare = [] if states else [OnnxValue(np.zeros((), np.int64))]
        initial = [importer.operand(operand) for operand in (*states, *spare)]
        loop = while_loop(importer.graph, CountBelow(count))
        carried = [loop.carry(operand) for operand in initial]
        with _inside(importer, loop):
            values = pick(loop.count)
        given = [*(OnnxValue(symbol=operand) for operand in carried[: len(states)]), *values]
        with _inside(importer, loop):
            results = importer.run(body, {**scope, **dict(zip((operand.name for operand in body.input), given))})
        rows = _close(
            importer,
            loop,
            carried,
            [
                *results[: len(states)],
                *(OnnxValue(symbol=operand) for operand in carried[len(states) :]),
                *results[len(states) :],
            ],
        )
    except (Unknown, UsageError):
        return None
    finals = [loop.result(operand) for operand in carried[: len(states)]]
    sources = _sources(scope, states)
    return [OnnxValue(symbol=operand, sources=sources) for operand in (*finals, *map(loop.rows, rows))]


@contextmanager
def _inside(importer: OnnxImporter, loop: Loop) -> Iterator[None]:
    """What is imported meanwhile goes into the loop's body."""
    outer, importer.graph = importer.graph, loop.body
    try:
        yield
    finally:
        importer.graph = outer


def _body(
    importer: OnnxImporter,
    loop: Loop,
    body: onnx.GraphProto,
    go_on: OnnxValue,
    states: Sequence[Symbol],
    scope: Scope,
) -> list[OnnxValue]:
    """The body's outputs in the loop's graph."""
    given = [OnnxValue(symbol=loop.count), go_on, *(OnnxValue(symbol=operand) for operand in states)]
    with _inside(importer, loop):
        return importer.run(body, {**scope, **dict(zip((operand.name for operand in body.input), given))})


def _close(importer: OnnxImporter, loop: Loop, states: Sequence[Symbol], results: Sequence[OnnxValue]) -> list[Symbol]:
    """Hand the states on and end the loop; the symbols of which all rows are kept."""
    with _inside(importer, loop):
        symbols = [importer.operand(result) for result in results]
        for state, value in zip(states, symbols):
            loop.next(state, value)
    with loop:
        pass
    return symbols[len(states) :]


def _sources(scope: Scope, carried: Sequence[OnnxValue]) -> frozenset[str]:
    """The inputs that a loop's results may depend on."""
    return frozenset[str]().union(*(operand.sources for operand in (*scope.values(), *carried)))
