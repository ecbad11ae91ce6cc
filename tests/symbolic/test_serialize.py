"""Symbolic graphs as JSON: round trip, canonical bytes, refusal of anything else (M14 at this layer)."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.symbolic.evaluation import values_of

from nnc import ops
from nnc.concrete import CountBelow
from nnc.core.values.spec import spec
from nnc.errors import FormatError
from nnc.symbolic import Symbol, SymbolicGraph, backward, case_of, compile, while_loop
from nnc.symbolic.serialize import load, save
from nnc.symbolic.text import dump


def network() -> tuple[SymbolicGraph, list[Symbol], list[Symbol]]:
    """A small network with aliases, nested attributes, absent inputs and gradients."""
    graph = SymbolicGraph("net")
    x, w = graph.input(spec((2, 6, 6, 1)), "x"), graph.input(spec((3, 3, 1, 2)), "w")
    y = ops.relu(ops.convolution(x, w, window=ops.window_of(3, padding="same")))
    y = ops.max_pool(y, (2, 2), ops.window_of(2, stride=2))
    loss = ops.reduce_mean(ops.reshape(y, (2, -1))[:, 1:5] * 2.0)
    return graph, [x, w], [loss, *backward(graph, [loss], [w])]


def test_round_trip_keeps_text_and_values() -> None:
    graph, inputs, outputs = network()
    text = save(graph)
    again = load(text)
    assert save(again) == text
    assert str(again) == str(graph)
    generator = np.random.default_rng(1)
    values = [generator.standard_normal(symbol.shape).astype(np.float32) for symbol in inputs]
    results = [
        compile(g, [g.symbol(symbol.key) for symbol in outputs], backend="reference")(
            {g.symbol(symbol.key): value for symbol, value in zip(inputs, values, strict=True)},
            *(g.symbol(symbol.key) for symbol in outputs),
        )
        for g in (graph, again)
    ]
    assert all(np.array_equal(one, other) for one, other in zip(*results, strict=True))


def controlled() -> tuple[SymbolicGraph, Symbol, Symbol]:
    """A branch in a loop, with rows and a gradient through both."""
    graph = SymbolicGraph("controlled")
    x0 = graph.input(spec((3,)), "x0")
    with while_loop(graph, CountBelow(3)) as loop:
        x = loop.carry(x0, "x")
        (y,) = case_of(loop.body, loop.count, [lambda x: ops.sin(x) * x0], [x], bypass=[x[::-1]])
        loop.next(x, y)
    total = ops.reduce_sum(loop.result(x)) + ops.reduce_sum(loop.rows(y))
    (slope,) = backward(graph, [total], [x0])
    return graph, x0, slope


def test_loops_and_branches_come_back_with_their_gradients() -> None:
    graph, x0, slope = controlled()
    text = save(graph)
    again = load(text)
    assert save(again) == text
    assert dump(again) == dump(graph)
    values = np.array([0.5, 1.0, 1.5])
    (before,) = values_of(graph, [slope], {x0: values})
    (after,) = values_of(again, [again.symbol(slope.key)], {again.symbol(x0.key): values})
    np.testing.assert_array_equal(after, before)


def damaged() -> list[str]:
    """Documents that are wrong in one place each."""
    texts = ["", "[]", "{}"]
    net, loop = network()[0], controlled()[0]
    attributes = ("execs", 0, "call", "attributes")
    for graph, path, value in (
        (net, ("version",), 1),
        (net, ("format",), "other"),
        (net, ("tensors", 0, "spec", "dtype"), "f33"),
        (net, ("tensors", 0, "spec", "dtype"), 32),
        (net, ("tensors", 0, "spec", "shape"), [-1]),
        (net, ("tensors", 0, "alias"), [99, 0, [1]]),
        (net, ("tensors", 0, "fill"), "much"),
        (net, ("execs", 0, "optimize"), 1),
        (net, ("execs", 1, "after"), [1]),
        (net, ("execs", 1, "after"), ["0"]),
        (net, ("execs", 0, "inputs"), [0]),
        (net, ("execs", 0, "outputs"), [10**9]),
        (net, ("execs", 0, "call", "op"), "unheard_of"),
        (net, ("execs", 0, "call", "attributes"), {}),
        (net, ("execs", 0, "call", "attributes", "window", "strides"), [0, 0]),
        (net, ("execs", 1, "outputs"), [0]),
        (loop, (*attributes, "carried"), 2),
        (loop, (*attributes, "count"), 99),
        (loop, (*attributes, "test"), {"is": "Holds", "value": {"symbol": 99}}),
        (loop, (*attributes, "kept"), [{"symbol": 99, "rows": False}]),
        (loop, (*attributes, "body", "parameters"), [99]),
        (loop, (*attributes, "body", "results"), []),
        (loop, (*attributes, "body", "name"), 1),
        (loop, (*attributes, "body", "execs", 0, "inputs"), [99]),
        (loop, (*attributes, "body", "execs", 1, "call", "attributes", "branches"), []),
        (loop, (*attributes, "test", "is"), "PythonCondition"),
    ):
        copy = json.loads(save(graph))
        place = copy
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value
        texts.append(json.dumps(copy))
    return texts


@pytest.mark.parametrize("text", damaged(), ids=range(len(damaged())))
def test_damaged_documents_are_refused(text: str) -> None:
    with pytest.raises(FormatError):
        load(text)
