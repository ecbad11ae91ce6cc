"""Rematerialization as a pass: cheap chains run again, values stay."""

from __future__ import annotations

import numpy as np

from nnc.core.values.spec import spec
from nnc.ops import layer_norm, reduce_sum, relu, sin
from nnc.symbolic import Symbol, SymbolicGraph, backward, compile, verify
from nnc.symbolic.passes import Pass, simplify


def network(depth: int = 8) -> tuple[SymbolicGraph, list[Symbol], list[Symbol]]:
    """Products with norm and relu between them; inputs, and the loss with its gradients."""
    graph = SymbolicGraph()
    x = graph.input(spec((64, 32), "f32"), "x")
    weights = [graph.input(spec((32, 32), "f32"), f"w{layer}") for layer in range(depth)]
    y = x
    for weight in weights:
        y = relu(layer_norm(y @ weight))
    loss = reduce_sum(y * y)
    return graph, [x, *weights], [loss, *backward(graph, [loss], weights)]


def evaluate(graph: SymbolicGraph, inputs: list[Symbol], outputs: list[Symbol]) -> tuple[int, list[np.ndarray]]:
    compiled = compile(graph, outputs, backend="reference")
    generator = np.random.default_rng(0)
    arrays = {symbol: generator.standard_normal(symbol.shape).astype(np.float32) for symbol in inputs}
    return compiled.memory().arena, list(compiled(arrays, *outputs))


def test_cheap_chains_run_again_and_lower_the_peak() -> None:
    graph, inputs, outputs = network()
    before, want = evaluate(graph, inputs, outputs)
    (report,) = simplify(graph, outputs, (Pass.REMATERIALIZATION,))
    verify(graph)
    assert report.fired["repeated"] == report.after - report.before > 0
    again = {record.command.op.name for _, record in graph.execs.items() if not record.optimize}
    assert again <= {"layer_norm", "relu", "fill", "broadcast_to", "affine", "multiply"}
    after, got = evaluate(graph, inputs, outputs)
    assert after < 0.9 * before
    for one, other in zip(got, want, strict=True):
        np.testing.assert_array_equal(one, other)


def test_of_a_cheap_chain_about_the_square_root_is_kept() -> None:
    length, elements = 144, 64
    graph = SymbolicGraph()
    x = graph.input(spec((elements,)), "x")
    y = x
    for _ in range(length):
        y = sin(y)
    outputs = [y, *backward(graph, [y], [x])]
    before, want = evaluate(graph, [x], outputs)
    (report,) = simplify(graph, outputs, (Pass.REMATERIALIZATION,))
    assert report.fired["repeated"] <= 2 * length
    after, got = evaluate(graph, [x], outputs)
    assert before >= length * elements * 4
    assert after <= 4 * length**0.5 * elements * 4
    for one, other in zip(got, want, strict=True):
        np.testing.assert_array_equal(one, other)


def test_other_passes_leave_what_runs_again() -> None:
    graph, inputs, outputs = network()
    (report,) = simplify(graph, outputs, (Pass.REMATERIALIZATION,))
    memory, want = evaluate(graph, inputs, outputs)
    simplify(graph, outputs, (Pass.COMMON_SUBEXPRESSIONS, Pass.PRUNING))
    after, got = evaluate(graph, inputs, outputs)
    assert after <= memory
    assert sum(not record.optimize for _, record in graph.execs.items()) == report.fired["repeated"]
    for one, other in zip(got, want, strict=True):
        np.testing.assert_array_equal(one, other)
