"""What depends on parameters alone, computed beforehand: values stay, and each run does less."""

from __future__ import annotations

import math

import pytest
from tests.symbolic.interpreter import interpret
from tests.symbolic.passes.equality import named
from tests.symbolic.passes.test_batch_norm import normalized

from nnc import ops
from nnc.concrete import CountBelow
from nnc.core.values.spec import spec
from nnc.core.values.tensor import Tensor
from nnc.errors import SymbolError
from nnc.symbolic import SymbolicGraph, compile, faults, while_loop
from nnc.symbolic.passes import Pass, bytes_beforehand, precompute, simplify
from nnc.symbolic.passes.precomputation import BYTES_A_COMMAND


def test_a_normalized_convolution_is_one_command_per_run() -> None:
    graph = SymbolicGraph()
    x, w = graph.input(spec((2, 6, 6, 3)), "x"), graph.input(spec((3, 3, 3, 4)), "w")
    y, statistics = normalized(graph, ops.convolution(x, w, window=ops.window_of(3, padding="same")))
    values = named([x, w, *statistics])
    simplify(graph, [y], [Pass.BATCH_NORM])
    (want,) = interpret(graph, [y], values)
    before = precompute(graph, [w, *statistics], [y])
    assert faults(graph) == faults(before.graph) == ()
    assert [record.command.op.name for _, record in graph.execs.items()] == ["convolution"]
    assert set(before.parameters) == {w, *statistics}
    found = interpret(
        before.graph,
        [*before.results.values()],
        {inner: values[symbol] for symbol, inner in before.parameters.items()},
    )
    given = dict(zip(before.results, map(Tensor.from_numpy, found), strict=True))
    assert len(given) == 2
    for _ in range(2):
        (got,) = compile(graph, [y], given=given, backend="reference")({x: values[x]}, y)
        assert got.tobytes() == want.tobytes()


def test_wanted_values_of_parameters_and_shared_constants() -> None:
    graph = SymbolicGraph()
    x, w = graph.input(spec((3,)), "x"), graph.input(spec((3,)), "w")
    two = ops.fill_like(w, 2.0)
    scaled = w * two
    outputs = [ops.exp(scaled), x * two + scaled[:1]]
    before = precompute(graph, [w], outputs)
    assert faults(graph) == faults(before.graph) == ()
    assert [record.command.op.name for _, record in before.graph.execs.items()] == ["fill", "multiply", "exp"]
    assert [record.command.op.name for _, record in graph.execs.items()] == ["fill", "multiply", "add"]
    assert set(before.results) == {outputs[0], scaled}


def test_what_depends_on_no_parameter_stays() -> None:
    graph = SymbolicGraph()
    x, w = graph.input(spec((3,))), graph.input(spec((3,)))
    kept = ops.exp(w)
    graph.keep(*graph.writers(kept.key))
    y = x * kept + ops.fill_like(x, 1.0)
    before = precompute(graph, [w], [y])
    assert (len(before.graph.execs), len(graph.execs), before.results) == (0, 4, {})


def test_a_symbol_of_another_graph_is_refused() -> None:
    graph, other = SymbolicGraph(), SymbolicGraph()
    y = ops.exp(graph.input(spec((3,))))
    with pytest.raises(SymbolError, match="another graph"):
        precompute(graph, [other.input(spec((3,)))], [y])


def work_on(limit: int) -> float:
    """Bytes of a loop of so many iterations that doubles a parameter, and of one more product."""
    graph = SymbolicGraph()
    x, w = graph.input(spec((3,))), graph.input(spec((BYTES_A_COMMAND,)))
    with while_loop(graph, CountBelow(limit)) as loop:
        state = loop.carry(w)
        loop.next(state, state + state)
    _ = x * ops.reduce_sum(loop.result(state))
    return bytes_beforehand(graph, [w])


def test_work_beforehand_is_told_in_bytes_iteration_by_iteration() -> None:
    assert work_on(1000) - work_on(999) == work_on(2) - work_on(1) == 4 * BYTES_A_COMMAND


def test_what_reads_no_parameter_is_no_work_beforehand_and_a_loop_without_end_has_no_limit() -> None:
    graph = SymbolicGraph()
    x, w = graph.input(spec((3,))), graph.input(spec((3,)))
    ops.exp(x)
    assert bytes_beforehand(graph, [w]) == 0
    with while_loop(graph) as loop:
        state = loop.carry(w)
        loop.go_on_while(ops.less(ops.reduce_sum(state), ops.fill_like(ops.reduce_sum(state), 5.0)))
        loop.next(state, state + state)
    assert bytes_beforehand(graph, [w]) == math.inf
