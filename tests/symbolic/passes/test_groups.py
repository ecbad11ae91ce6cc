"""Fusion groups: what joins, what stays outside, and that values, gradients and memory stay what they were."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from tests.symbolic.interpreter import interpret
from tests.symbolic.passes.equality import named
from tests.symbolic.programs import Program, programs, run

from nnc import ops
from nnc.backends.llvm.backend import LlvmBackend
from nnc.core.values.dtype import BF16, F32, TOLERANCE
from nnc.core.values.spec import TensorSpec, spec
from nnc.core.values.tensor import Tensor
from nnc.ops.composed.fused import FUSED
from nnc.ops.convolutions.window import window_of
from nnc.symbolic import Symbol, SymbolicGraph, backward, compile, faults
from nnc.symbolic.passes import Pass, fuse, simplify
from nnc.symbolic.serialize import load, save
from nnc.symbolic.text import dump, parse

ROWS = spec((3, 4))
EXAMPLES = settings(max_examples=100, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
BACKENDS = ["reference"] if LlvmBackend().absence() else ["reference", "llvm"]


def names_of(graph: SymbolicGraph) -> list[str]:
    """The operators in order."""
    return [graph.execs[key].command.op.name for key in graph.execs.toposort()]


def expression_of(graph: SymbolicGraph) -> str:
    """The only fused exec as a formula."""
    (found,) = [record for _, record in graph.execs.items() if record.command.op in FUSED.values()]
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


def test_sums_and_products_join_from_smaller_shapes() -> None:
    graph = SymbolicGraph()
    x, scale, bias, mean = graph.input(spec((5, 37))), *(graph.input(spec((37,))) for _ in range(3))
    expression = fused_values(graph, ops.relu(x * scale + (bias - mean * scale)), [x, scale, bias, mean], 4)
    assert expression == "relu(add(multiply(x0, x1), subtract(x2, multiply(x3, x1))))"


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
        m, b = graph.input(spec((4, 2), "f64")), graph.input(spec((2,), "f64"))
        h = ops.tanh(ops.exp(x * w) - 0.5)
        z = ops.sin(ops.gemm(h, m) + b)
        y = ops.reduce_mean(ops.square(z - 0.5), 1)
        if fused:
            assert fuse(graph, [y, z]) == 7
            assert sorted(names_of(graph)) == ["fused_output", "fused_pointwise", "fused_reduction"]
        first = backward(graph, [y], [x, w, m, b])
        second = backward(graph, [ops.reduce_sum(ops.square(first[0]))], [x, w, m, b])
        assert faults(graph) == ()
        return values_of(graph, [y, *first, *second], [x, w, m, b], "reference")

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
    product = ops.relu(ops.gemm(y, y, transpose_b=True)) + 1.0
    fuse(graph, [ops.reduce_max(ops.square(y - 1.0), 0), product])
    assert sorted(names_of(graph)) == ["fused_output", "fused_pointwise", "fused_reduction"]
    text = save(graph)
    again = load(text)
    assert save(again) == text
    assert dump(parse(dump(graph))) == dump(graph)
    assert [record.command for _, record in again.execs.items()] == [
        record.command for _, record in graph.execs.items()
    ]


def fused_values(graph: SymbolicGraph, y: Symbol, inputs: list[Symbol], gone: int) -> str:
    """Fuse; the values stay the same bits on the reference and within the table on LLVM. The formula of the group."""
    before = values_of(graph, [y], inputs, "reference")
    assert fuse(graph, [y]) == gone
    assert faults(graph) == ()
    np.testing.assert_array_equal(values_of(graph, [y], inputs, "reference"), before)
    row = TOLERANCE[F32]
    for backend in BACKENDS:
        (got,) = values_of(graph, [y], inputs, backend)
        np.testing.assert_allclose(
            got, before[0], row.relative, row.absolute * max(1.0, float(np.abs(before[0]).max()))
        )
    return expression_of(graph)


@pytest.mark.parametrize("axes", [None, 0, 1, (0, 2), 2])
@pytest.mark.parametrize("reduce", [ops.reduce_sum, ops.reduce_mean, ops.reduce_max, ops.reduce_min, ops.reduce_norm])
def test_a_reduction_ends_a_group(reduce: Callable[..., Symbol], axes: int | tuple[int, ...] | None) -> None:
    graph = SymbolicGraph()
    x, b, c = graph.input(spec((6, 5, 37))), graph.input(spec((37,))), graph.input(spec((6, 1, 1)))
    y = reduce(ops.exp(x * b) - c, axes)
    expression = fused_values(graph, y, [x, b, c], 3)
    assert expression.startswith(f"{reduce.__name__}(")
    assert expression.endswith("(subtract(exp(multiply(x0, x1)), x2))")


def test_a_long_reduction_is_cut_into_parts() -> None:
    graph = SymbolicGraph()
    x, b = graph.input(spec((300, 401))), graph.input(spec((401,)))
    fused_values(graph, ops.reduce_mean(ops.square(x - b)), [x, b], 2)


def test_what_is_reduced_and_read_stays_outside() -> None:
    graph = SymbolicGraph()
    x = graph.input(ROWS)
    h = ops.exp(x) * 2.0
    fuse(graph, [h / ops.reduce_sum(h, 1, keepdims=True)])
    assert names_of(graph) == ["fused_pointwise", "reduce_sum", "divide"]


def test_a_product_starts_a_group() -> None:
    graph = SymbolicGraph()
    x, w, b = graph.input(spec((33, 20))), graph.input(spec((20, 37))), graph.input(spec((37,)))
    gain = graph.input(spec(()))
    y = ops.relu(ops.gemm(x, w) + b) * gain - 0.25
    expression = fused_values(graph, y, [x, w, b, gain], 4)
    assert expression == "affine(shift=-0.25)(multiply(relu(add(gemm(x0, x1), x2)), x3))"


def test_products_of_a_batch_and_long_sums() -> None:
    graph = SymbolicGraph()
    x, w, bias = graph.input(spec((3, 70, 900))), graph.input(spec((3, 900, 30))), graph.input(spec((30,)))
    y = ops.relu(ops.square(ops.gemm(x, w, bias) * 0.01) - bias)
    fused_values(graph, y, [x, w, bias], 4)


def test_a_convolution_starts_a_group() -> None:
    graph = SymbolicGraph()
    x, w, bias = graph.input(spec((2, 7, 7, 8))), graph.input(spec((1, 1, 8, 12))), graph.input(spec((12,)))
    y = ops.relu(ops.convolution(x, w, bias, window=window_of(1)) * bias)
    assert fused_values(graph, y, [x, w, bias], 2).startswith("relu(multiply(convolution(")


def test_what_a_product_reads_stays_outside() -> None:
    graph = SymbolicGraph()
    x, w, b = graph.input(spec((3, 4))), graph.input(spec((4, 4))), graph.input(spec((4,)))
    h = ops.exp(b)
    y = ops.gemm(x, w, h) + h
    assert fused_values(graph, y, [x, w, b], 1) == "add(gemm(x0, x1, x2), x3)"
    assert names_of(graph) == ["exp", "fused_output"]


def test_one_product_in_a_group() -> None:
    graph = SymbolicGraph()
    x, w = graph.input(spec((4, 4))), graph.input(spec((4, 4)))
    y = ops.relu(ops.gemm(ops.relu(ops.gemm(x, w)), w))
    fuse(graph, [y])
    assert names_of(graph) == ["fused_output", "fused_output"]


def test_a_group_that_its_backend_does_not_serve_does_without_its_product() -> None:
    graph = SymbolicGraph()
    x, w, c = graph.input(spec((4, 4))), graph.input(spec((4, 4))), graph.input(spec((4, 1)))
    served_by_one = "llvm" not in BACKENDS
    fused_values(graph, ops.tanh(ops.gemm(x, w) * c), [x, w, c], 2 if served_by_one else 1)
    assert names_of(graph) == (["fused_output"] if served_by_one else ["gemm", "fused_pointwise"])


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


@EXAMPLES
@given(programs())
def test_random_programs_keep_their_bits(program: Program) -> None:
    graph = SymbolicGraph()
    symbols = [graph.input(TensorSpec(shape), f"x{index}") for index, shape in enumerate(program.shapes)]
    _, wanted = run(program, symbols)
    outputs = [*wanted, *backward(graph, wanted, symbols)]
    values = named(symbols)
    before = interpret(graph, outputs, values)
    simplify(graph, outputs, [Pass.GROUPS])
    assert faults(graph) == ()
    for got, want in zip(interpret(graph, outputs, values), before, strict=True):
        np.testing.assert_array_equal(got, want)
