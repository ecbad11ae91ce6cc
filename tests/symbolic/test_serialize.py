"""Symbolic graphs as JSON: round trip, canonical bytes, refusal of anything else (M14 at this layer)."""

from __future__ import annotations

import json

import numpy as np
import pytest

from nnc import ops
from nnc.core.spec import spec
from nnc.errors import FormatError
from nnc.symbolic import Symbol, SymbolicGraph, backward, compile
from nnc.symbolic.serialize import load, save


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


def damaged() -> list[str]:
    """Documents that are wrong in one place each."""
    document = json.loads(save(network()[0]))
    texts = ["", "[]", "{}"]
    for path, value in (
        (("version",), 2),
        (("format",), "other"),
        (("tensors", 0, "spec", "dtype"), "f33"),
        (("tensors", 0, "spec", "shape"), [-1]),
        (("tensors", 0, "alias"), [99, 0, [1]]),
        (("execs", 0, "inputs"), [0]),
        (("execs", 0, "outputs"), [10**9]),
        (("execs", 0, "call", "op"), "unheard_of"),
        (("execs", 0, "call", "attributes"), {}),
        (("execs", 0, "call", "attributes", "window", "strides"), [0, 0]),
        (("execs", 1, "outputs"), [0]),
    ):
        copy = json.loads(json.dumps(document))
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
