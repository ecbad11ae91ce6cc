"""Loops with gradients in parts: the same bits, in less memory where a limit asks for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from tests.symbolic.compiler.repeat.test_budget import assert_same_bits, repeats, smallest_limit, values

from nnc.concrete import CountBelow
from nnc.core.values.spec import spec
from nnc.ops import reduce_sum, sigmoid, tanh
from nnc.ops.indexing.indexing import index_select
from nnc.symbolic import Symbol, SymbolicGraph, backward, compile, verify, while_loop
from nnc.symbolic.compiler.repeat.checkpoints import in_parts, taped_loops
from nnc.symbolic.passes import simplify
from nnc.symbolic.records import TensorKey

pytestmark = pytest.mark.usefixtures("debug")

Program = Callable[[SymbolicGraph, int], tuple[list[Symbol], list[Symbol]]]
SIDE = 16
BUFFER = 4 * SIDE * SIDE


def recurrence(graph: SymbolicGraph, trips: int) -> tuple[list[Symbol], list[Symbol]]:
    """h ← tanh(h w), `trips` times: inputs, and the loss with its gradients."""
    h0, w = (graph.input(spec((SIDE, SIDE), "f32"), name) for name in "hw")
    with while_loop(graph, CountBelow(trips)) as loop:
        h = loop.carry(h0)
        loop.next(h, tanh(h @ w))
    y = loop.result(h)
    loss = reduce_sum(y * y)
    return [h0, w], [loss, *backward(graph, [loss], [w, h0])]


def cell(graph: SymbolicGraph, trips: int) -> tuple[list[Symbol], list[Symbol]]:
    """A gated cell over the rows of x, all of whose states are read: inputs, and the loss with its gradients."""
    matrix = spec((SIDE, SIDE), "f32")
    h0, c0, w = (graph.input(matrix, name) for name in "hcw")
    rows = graph.input(spec((trips, SIDE, SIDE), "f32"), "x")
    with while_loop(graph, CountBelow(trips)) as loop:
        h, c = loop.carry(h0), loop.carry(c0)
        gate = sigmoid(h @ loop.capture(w) + index_select(loop.capture(rows), loop.count))
        cell = gate * c + h
        state = gate * tanh(cell)
        loop.next(h, state)
        loop.next(c, cell)
    states = loop.rows(state)
    loss = reduce_sum(states * states) + reduce_sum(loop.result(c))
    return [h0, c0, w, rows], [loss, *backward(graph, [loss], [w, h0, rows])]


def wanted(graph: SymbolicGraph, symbols: Sequence[Symbol]) -> set[TensorKey]:
    return {graph.root(graph.own(symbol)) for symbol in symbols}


@pytest.mark.parametrize("simplified", [False, True])
@pytest.mark.parametrize("parts", [2, 3, 10])
@pytest.mark.parametrize("program", [recurrence, cell])
def test_a_loop_in_parts_gives_the_same_bits(program: Program, parts: int, *, simplified: bool) -> None:
    """Ten iterations: in equal parts, with a shorter last one, and each alone."""
    graph = SymbolicGraph()
    inputs, outputs = program(graph, 10)
    if simplified:
        simplify(graph, outputs)
    copy = in_parts(graph, taped_loops(graph, wanted(graph, outputs)), parts)
    verify(copy.graph)
    loops = [record for _, record in copy.graph.execs.items() if record.command.op.name == "while"]
    assert len(loops) == 2 * len(range(0, 10, -(-10 // parts)))
    moved = [copy.graph.symbol(copy.tensors[symbol.key]) for symbol in (*inputs, *outputs)]
    given, asked = moved[: len(inputs)], moved[len(inputs) :]
    got = values(compile(copy.graph, asked, backend="reference"), given, asked)
    assert_same_bits(got, values(compile(graph, outputs, backend="reference"), inputs, outputs))


def test_a_recurrent_loop_within_a_limit_keeps_a_few_of_its_states() -> None:
    """16 states and five others without a limit; at its smallest, a tape of two, and checkpoints."""
    graph = SymbolicGraph()
    inputs, outputs = recurrence(graph, 16)
    simplify(graph, outputs)
    free = compile(graph, outputs, backend="reference")
    assert free.memory().arena > 20 * BUFFER
    want, least = values(free, inputs, outputs), smallest_limit(graph, outputs)
    assert least < 9 * BUFFER
    work = 10.0
    for limit in (least, 17 * BUFFER):
        compiled = compile(graph, outputs, backend="reference", memory_limit=limit)
        assert compiled.memory().arena <= limit
        assert compiled.budget is not None
        assert compiled.budget.work_ratio <= work
        work = compiled.budget.work_ratio
        assert_same_bits(values(compiled, inputs, outputs), want)
    assert work < 1.2


def test_rows_of_all_iterations_are_written_once_by_parts_that_run_again() -> None:
    """The caller's rows and the tape of one part: what runs again writes its rows nowhere."""
    graph = SymbolicGraph()
    h0, w = (graph.input(spec((SIDE, SIDE), "f32"), name) for name in "hw")
    with while_loop(graph, CountBelow(16)) as loop:
        h = loop.carry(h0)
        state = tanh(h @ w)
        loop.next(h, state)
    rows = loop.rows(state)
    loss = reduce_sum(loop.result(h))
    outputs = [rows, *backward(graph, [loss], [w])]
    free = compile(graph, outputs, backend="reference")
    assert free.memory().arena > 34 * BUFFER
    compiled = compile(graph, outputs, backend="reference", memory_limit=28 * BUFFER)
    assert compiled.memory().arena <= 28 * BUFFER
    assert repeats(compiled, graph, "while") > 14
    assert_same_bits(values(compiled, [h0, w], outputs), values(free, [h0, w], outputs))


def test_a_tape_that_others_read_stays_whole() -> None:
    graph = SymbolicGraph()
    _, outputs = recurrence(graph, 8)
    (pair,) = taped_loops(graph, wanted(graph, outputs))
    (tape,) = pair.tapes
    assert not taped_loops(graph, {tape, *wanted(graph, outputs)})
    tanh(graph.symbol(tape))
    assert not taped_loops(graph, wanted(graph, outputs))


def test_rows_that_are_read_in_another_order_stay_whole() -> None:
    """A second loop that reads the rows of a first one forwards is no gradient of it."""
    graph = SymbolicGraph()
    x = graph.input(spec((SIDE, SIDE), "f32"), "x")
    with while_loop(graph, CountBelow(8)) as first:
        h = first.carry(x)
        first.next(h, tanh(h))
    rows = first.rows(h)
    with while_loop(graph, CountBelow(8)) as second:
        total = second.carry(x)
        second.next(total, total + index_select(second.capture(rows), second.count))
    assert not taped_loops(graph, wanted(graph, [second.result(total)]))
