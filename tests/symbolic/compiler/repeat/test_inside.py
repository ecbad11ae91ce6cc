"""Recomputation inside of branches and loops: as at the top, at the same bits, and work by iterations."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from tests.symbolic.compiler.repeat.test_budget import assert_same_bits, smallest_limit, tower, values

from nnc.concrete import CountBelow
from nnc.core.values.dtype import I64
from nnc.core.values.spec import TensorSpec, spec
from nnc.core.values.tensor import Tensor
from nnc.ops import reduce_sum, tanh
from nnc.symbolic import Compiled, Symbol, SymbolicGraph, backward, case_of, compile, verify, while_loop

pytestmark = pytest.mark.usefixtures("debug")

DEPTH = 4
Moved = tuple[SymbolicGraph, list[Symbol], list[Symbol], dict[Symbol, Tensor | None]]


def grafted(graph: SymbolicGraph, given: Sequence[Symbol]) -> list[Symbol]:
    """What a tower computes from these values."""
    source = SymbolicGraph()
    inputs, outputs = tower(source, DEPTH)
    keys = [symbol.key for symbol in outputs]
    mapped = {symbol.key: value.key for symbol, value in zip(inputs, given, strict=True)}
    graph.graft(source, source.needed_for(keys), keys, mapped)
    return [graph.symbol(mapped[key]) for key in keys]


def alone() -> Moved:
    graph = SymbolicGraph()
    inputs, outputs = tower(graph, DEPTH)
    return graph, inputs, outputs, {}


def as_branch() -> Moved:
    graph, given = SymbolicGraph(), alone()[1]
    inputs = [graph.input(symbol.spec) for symbol in given]
    choice = graph.input(TensorSpec((), I64))
    results = case_of(graph, choice, [lambda *given: tuple(grafted(given[0].graph, given))], inputs)
    return graph, inputs, list(results), {choice: Tensor.from_numpy(np.array(0))}


def as_iteration() -> Moved:
    _, given, wanted, _ = alone()
    graph = SymbolicGraph()
    inputs = [graph.input(symbol.spec) for symbol in given]
    begun = [graph.input(symbol.spec) for symbol in wanted]
    with while_loop(graph, CountBelow(1)) as loop:
        state = [loop.carry(symbol) for symbol in begun]
        values = [loop.capture(symbol) for symbol in inputs]
        for symbol, value in zip(state, grafted(loop.body, values), strict=True):
            loop.next(symbol, value)
    outside = {symbol: Tensor.from_numpy(np.zeros(symbol.shape, np.float32)) for symbol in begun}
    return graph, inputs, [loop.result(symbol) for symbol in state], dict(outside)


def within(moved: Moved, limit: int) -> tuple[Compiled, list[np.ndarray]]:
    graph, inputs, outputs, given = moved
    compiled = compile(graph, outputs, given=given, backend="reference", memory_limit=limit)
    verify(compiled.planned.graph)
    return compiled, values(compiled, inputs, outputs)


@pytest.mark.turns(4)
@pytest.mark.parametrize("move", [as_branch, as_iteration])
def test_what_is_moved_into_a_body_takes_as_little_within_a_limit(move: Callable[[], Moved]) -> None:
    """The smallest limit is the same, and so are the memory and the work at one in between."""
    top, body = alone(), move()
    graph, _, outputs, _ = top
    least = smallest_limit(graph, outputs)
    assert smallest_limit(body[0], body[2], body[3]) == least
    free = compile(graph, outputs, backend="reference").memory().arena
    for limit in (least, (least + free) // 2):
        (one, want), (other, got) = within(top, limit), within(body, limit)
        assert one.memory().arena == other.memory().arena
        assert one.budget == other.budget
        assert_same_bits(got, want)


def test_repeats_in_an_iteration_count_once_per_iteration() -> None:
    """A loop of gradient steps on a tower: its body runs parts of the forward pass again."""

    def steps(trips: int) -> Moved:
        graph = SymbolicGraph()
        x = graph.input(spec((64, 32), "f32"))
        starts = [graph.input(spec((32, 32), "f32")) for _ in range(DEPTH)]
        with while_loop(graph, CountBelow(trips)) as loop:
            weights = [loop.carry(start) for start in starts]
            y = loop.capture(x)
            for weight in weights:
                y = tanh(y @ weight)
            gradients = backward(loop.body, [reduce_sum(y * y)], weights)
            for weight, gradient in zip(weights, gradients, strict=True):
                loop.next(weight, weight - gradient * 0.01)
        return graph, [x, *starts], [loop.result(weight) for weight in weights], {}

    extra = []
    for trips in (1, 3):
        graph, inputs, outputs, _ = moved = steps(trips)
        free = compile(graph, outputs, backend="reference")
        limit = free.memory().arena * 7 // 8
        compiled, got = within(moved, limit)
        assert compiled.memory().arena <= limit
        assert compiled.budget is not None
        assert compiled.budget.repeated
        extra.append(compiled.budget.extra_work)
        assert_same_bits(got, values(free, inputs, outputs))
    assert extra[1] == 3 * extra[0]


def test_a_branch_in_a_loop_computes_again() -> None:
    """The body of a body: its level is that of all others."""
    graph, given = SymbolicGraph(), alone()[1]
    inputs = [graph.input(symbol.spec) for symbol in given]
    with while_loop(graph, CountBelow(2)) as loop:
        state = [loop.carry(symbol) for symbol in inputs[1:]]
        (_, *slopes) = case_of(
            loop.body,
            loop.count,
            [lambda *one: tuple(grafted(one[0].graph, one))] * 2,
            [loop.capture(inputs[0]), *state],
        )
        for symbol, slope in zip(state, slopes, strict=True):
            loop.next(symbol, symbol - slope * 0.01)
    outputs = [loop.result(symbol) for symbol in state]
    free = compile(graph, outputs, backend="reference")
    limit = free.memory().arena * 7 // 8
    compiled, got = within((graph, inputs, outputs, {}), limit)
    assert compiled.memory().arena <= limit
    assert_same_bits(got, values(free, inputs, outputs))
