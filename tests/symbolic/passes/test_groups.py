"""Fusion groups: what joins, what stays outside, and that values, gradients and memory stay what they were."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from tests.symbolic.programs import Program, programs, run

from nnc import ops
from nnc.backends.llvm.backend import LlvmBackend
from nnc.core.dtype import BF16, F32, TOLERANCE
from nnc.core.spec import TensorSpec, spec
from nnc.core.tensor import Tensor
from nnc.symbolic import Symbol, SymbolicGraph, backward, compile, faults
from nnc.symbolic.passes import Pass, fuse, simplify
from nnc.symbolic.serialize import load, save

ROWS = spec((3, 4))
EXAMPLES = settings(max_examples=100, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
BACKENDS = ["reference"] if LlvmBackend().absence() else ["reference", "llvm"]


def names_of(graph: SymbolicGraph) -> list[str]:
    """The operators in order."""
    return [graph.execs[key].command.op.name for key in graph.execs.toposort()]


def expression_of(graph: SymbolicGraph) -> str:
    """The only fused exec as a formula."""
    (found,) = [record for _, record in graph.execs.items() if record.command.op.name == "fused_pointwise"]
    return str(found.command.attrs)


def values_of(graph: SymbolicGraph, outputs: list[Symbol], inputs: list[Symbol], backend: str) -> list[np.ndarray]:
    """The outputs for fixed random inputs."""
    generator = np.random.default_rng(7)
    given = {symbol: Tensor.from_numpy(generator.standard_normal(symbol.shape), symbol.spec.dtype) for symbol in inputs}
    return list(compile(graph, outputs, given=given, backend=backend)({}, *outputs))


def test_a_chain_is_one_command() -> None:
    graph = SymbolicGraph()
    x, b = graph.input(ROWS, "x"), graph.input(spec((4,)), "b")
    y = ops.tanh(ops.exp(x) * 2.0 + b)
    before = values_of(graph, [y], [x, b], "reference")
    assert fuse(graph, [y]) == 3
    assert faults(graph) == ()
    assert expression_of(graph) == "tanh(add(affine(scale=2.0)(exp(x0)), x1))"
    assert graph.tensors[y.key].spec == ROWS
    np.testing.assert_array_equal(values_of(graph, [y], [x, b], "reference"), before)


def test_a_diamond_is_one_command() -> None:
    graph = SymbolicGraph()
    x = graph.input(ROWS)
    h = ops.exp(x)
    y = ops.sin(h) * ops.cos(h) + h
    assert fuse(graph, [y]) == 4
    assert faults(graph) == ()


def test_what_others_read_stays_outside() -> None:
    graph = SymbolicGraph()
    x = graph.input(ROWS)
    h = ops.exp(x)
    y = ops.tanh(ops.sin(h))
    total = ops.reduce_sum(h)
    fuse(graph, [y, total])
    assert sorted(names_of(graph)) == ["exp", "fused_pointwise", "reduce_sum"]


def test_what_is_wanted_or_read_in_part_stays_outside() -> None:
    graph = SymbolicGraph()
    x = graph.input(ROWS)
    h = ops.exp(x)
    assert fuse(graph, [h, ops.sin(h)]) == 0
    graph = SymbolicGraph()
    h = ops.exp(graph.input(ROWS))
    assert fuse(graph, [ops.sin(h[0]) * 2.0]) == 1
    assert sorted(names_of(graph)) == ["exp", "fused_pointwise"]


def test_nothing_is_computed_once_per_row() -> None:
    graph = SymbolicGraph()
    x, b = graph.input(ROWS), graph.input(spec((4,)))
    y = ops.tanh(x + ops.exp(b))
    assert fuse(graph, [y]) == 1
    assert sorted(names_of(graph)) == ["exp", "fused_pointwise"]


def test_constants_and_copies_join() -> None:
    graph = SymbolicGraph()
    x, b = graph.input(ROWS), graph.input(spec((4,)))
    y = ops.maximum(x * ops.broadcast_to(b, (3, 4)), ops.scalar_like(x, 0.5))
    before = values_of(graph, [y], [x, b], "reference")
    assert fuse(graph, [y]) == 3
    np.testing.assert_array_equal(values_of(graph, [y], [x, b], "reference"), before)


def test_integers_and_roundings_stay_outside() -> None:
    graph = SymbolicGraph()
    x, n = graph.input(ROWS), graph.input(spec((3,), "i32"))
    y = ops.cast(ops.cast(x, BF16), F32)
    assert fuse(graph, [y, n + n]) == 0


def test_groups_have_an_end() -> None:
    graph = SymbolicGraph()
    x = y = graph.input(spec((2,)))
    for _ in range(100):
        y = ops.sin(y)
    before = values_of(graph, [y], [x], "reference")
    assert fuse(graph, [y]) == 95
    assert faults(graph) == ()
    np.testing.assert_array_equal(values_of(graph, [y], [x], "reference"), before)


def test_a_fused_exec_can_be_differentiated_twice() -> None:
    def slopes(fused: bool) -> list[np.ndarray]:
        graph = SymbolicGraph()
        x, w = graph.input(spec((3, 4), "f64")), graph.input(spec((4,), "f64"))
        y = ops.tanh(ops.exp(x * w) - 0.5)
        if fused:
            assert fuse(graph, [y]) == 3
        first = backward(graph, [y], [x, w])
        second = backward(graph, [ops.reduce_sum(ops.square(first[0]))], [x, w])
        assert faults(graph) == ()
        return values_of(graph, [y, *first, *second], [x, w], "reference")

    for got, want in zip(slopes(True), slopes(False), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)


def test_a_result_takes_over_the_memory_of_an_input() -> None:
    graph = SymbolicGraph()
    x = graph.input(spec((1024,)))
    y = ops.tanh(ops.exp(x) * x)
    fuse(graph, [y])
    assert compile(graph, [y], backend="reference").memory().arena == 4096


def test_a_fused_graph_is_saved_and_loaded() -> None:
    graph = SymbolicGraph()
    x = graph.input(ROWS)
    y = ops.where(ops.greater(x, ops.scalar_like(x, 0.25)), ops.exp(x), x * 2.0)
    fuse(graph, [y])
    text = save(graph)
    again = load(text)
    assert save(again) == text
    assert [record.command for _, record in again.execs.items()] == [
        record.command for _, record in graph.execs.items()
    ]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_network_with_gradients(backend: str) -> None:
    def build() -> tuple[SymbolicGraph, list[Symbol], list[Symbol]]:
        graph = SymbolicGraph()
        x, w, b = graph.input(spec((5, 4))), graph.input(spec((4, 3))), graph.input(spec((3,)))
        loss = ops.reduce_mean(ops.square(ops.gelu_tanh(ops.gemm(x, w) + b) * 2.0 + 1.0))
        return graph, [loss, *backward(graph, [loss], [w, b])], [x, w, b]

    graph, outputs, inputs = build()
    want = values_of(graph, outputs, inputs, "reference")
    (report,) = simplify(graph, outputs, [Pass.GROUPS])
    assert report.after < report.before
    assert report.fired["fused"] > 5
    row = TOLERANCE[F32]
    for got, expected in zip(values_of(graph, outputs, inputs, backend), want, strict=True):
        np.testing.assert_allclose(got, expected, row.relative, row.absolute)


def inputs_for(program: Program) -> list[np.ndarray]:
    """Fixed random arrays."""
    generator = np.random.default_rng(7)
    return [generator.standard_normal(shape).astype(np.float32) for shape in program.shapes]


@EXAMPLES
@given(programs())
def test_random_programs_keep_their_bits(program: Program) -> None:
    graph = SymbolicGraph()
    symbols = [graph.input(TensorSpec(shape), f"x{index}") for index, shape in enumerate(program.shapes)]
    _, wanted = run(program, symbols)
    outputs = [*wanted, *backward(graph, wanted, symbols)]
    given_inputs = dict(zip(symbols, inputs_for(program), strict=True))

    def values() -> list[np.ndarray]:
        tensors = {symbol: Tensor.from_numpy(array) for symbol, array in given_inputs.items()}
        return list(compile(graph, outputs, given=tensors, backend="reference")({}, *outputs))

    before = values()
    simplify(graph, outputs, [Pass.GROUPS])
    assert faults(graph) == ()
    for got, want in zip(values(), before, strict=True):
        np.testing.assert_array_equal(got, want)
