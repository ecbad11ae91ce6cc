"""A package outside src/nnc adds an operator, an attribute and a pass, and every layer takes them as its own."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from examples.extension.operations import ELEMENTWISE, OPERATIONS
from examples.extension.reassociation import WORK, count_work, reassociated, reassociation
from examples.extension.snake import REGISTRY, SNAKE, SnakeAttrs, snake
from tests.symbolic.evaluation import Array, check_gradients, random_arrays, values_of

from nnc import ops
from nnc.concrete import ConcreteGraph
from nnc.core.values.command import Command
from nnc.core.values.spec import spec
from nnc.core.values.tensor import Tensor
from nnc.dynamic import DynamicGraph
from nnc.errors import AttributeValueError, DTypeError, RegistryError, StaleError
from nnc.graph import PassManager, default_registry
from nnc.ops.composed.fused import FUSED_POINTWISE
from nnc.ops.convolutions.convolutions import CONVOLUTION, ConvolutionAttrs
from nnc.ops.convolutions.window import window_of
from nnc.ops.elementwise.pointwise import exp
from nnc.ops.movement.movement import TRANSPOSE
from nnc.ops.products.products import GEMM, GemmAttrs
from nnc.ops.rules import PATTERN, NoAttrs, Pattern
from nnc.symbolic import Symbol, SymbolicGraph, backward, compile, faults
from nnc.symbolic.passes import simplify

ROOT = Path(__file__).resolve().parents[2]


def expected(x: np.ndarray, frequency: float) -> np.ndarray:
    return np.asarray(x + np.sin(frequency * x) ** 2 / frequency)


# ---- the operator


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_operator_runs_in_every_layer(dtype: type[np.generic]) -> None:
    x = np.linspace(-2.0, 2.0, 12).reshape(3, 4).astype(dtype)
    want = expected(x, 3.0)
    y = Tensor.empty(spec(x.shape, Tensor.from_numpy(x).dtype))
    concrete = ConcreteGraph()
    concrete.add(Command(SNAKE, SnakeAttrs(3.0)), [Tensor.from_numpy(x)], [y])
    concrete.run()
    graph = SymbolicGraph()
    symbol = graph.input(y.spec)
    result = snake(symbol, 3.0)
    (compiled,) = compile(graph, [result])({symbol: x}, result)
    eager = snake(DynamicGraph().variable(x), 3.0).numpy()
    results: list[Array] = [y.numpy(), compiled, eager]
    for got in results:
        np.testing.assert_allclose(got, want, rtol=1e-5)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_the_operator_has_derivatives_of_every_order(order: int) -> None:
    check_gradients(lambda x: snake(x, 2.0), (3,), order=order, tolerance=10.0 ** (order - 7))


def test_its_result_may_take_over_the_memory_of_its_input() -> None:
    graph = SymbolicGraph()
    y = ops.exp(snake(ops.exp(graph.input(spec((1000,)))), 2.0))
    memory = compile(graph, [y]).memory()
    assert memory.arena < 2 * y.spec.nbytes < memory.without_reuse


@pytest.mark.parametrize("backend", ["", "reference"])
def test_it_runs_inside_a_fused_expression(backend: str) -> None:
    graph = SymbolicGraph()
    x = graph.input(spec((10,)))
    y = snake(ops.tanh(x), 2.0)
    simplify(graph, [y])
    assert [record.command.op for _, record in graph.execs.items()] == [FUSED_POINTWISE]
    point = np.linspace(-1, 1, 10, dtype=np.float32)
    (found,) = compile(graph, [y], backend=backend)({x: point}, y)
    np.testing.assert_allclose(found, (tanh := np.tanh(point)) + np.sin(2 * tanh) ** 2 / 2, rtol=1e-5)


def test_it_refuses_what_it_does_not_take() -> None:
    graph = SymbolicGraph()
    with pytest.raises(AttributeValueError, match="frequency > 0"):
        SnakeAttrs(0.0)
    with pytest.raises(DTypeError, match="snake"):
        snake(graph.input(spec((3,), "i32")))


def test_it_lives_in_a_registry_of_its_own() -> None:
    assert REGISTRY.op("snake") is SNAKE
    assert "snake" not in default_registry
    assert PATTERN[SNAKE] is Pattern.ELEMENTWISE


# ---- the attribute


def test_the_attribute_holds_for_single_operators_and_for_a_group() -> None:
    a, b, y = spec((5, 7)), spec((7, 3)), spec((5, 3))
    assert OPERATIONS[GEMM](GemmAttrs(), (a, b, None), (y,)) == 2 * 5 * 7 * 3
    x, w, z = spec((1, 4, 4, 2)), spec((3, 3, 2, 6)), spec((1, 2, 2, 6))
    assert OPERATIONS[CONVOLUTION](ConvolutionAttrs(window_of(3)), (x, w, None), (z,)) == 2 * 24 * 18
    assert exp in ELEMENTWISE.members
    assert OPERATIONS[exp](NoAttrs(), (a,), (a,)) == 35
    assert OPERATIONS[SNAKE](SnakeAttrs(), (a,), (a,)) == 5 * 35
    assert OPERATIONS in default_registry.attributes_of(GEMM)
    with pytest.raises(RegistryError, match="operations"):
        OPERATIONS[TRANSPOSE]


# ---- the pass


def chain(*sizes: int) -> tuple[SymbolicGraph, list[Symbol], Symbol]:
    """relu of the product, from left to right, of matrices of these sizes; (graph, matrices, result)."""
    graph = SymbolicGraph()
    matrices = [graph.input(spec(shape, "f64")) for shape in pairwise(sizes)]
    product = matrices[0]
    for matrix in matrices[1:]:
        product = product @ matrix
    return graph, matrices, ops.relu(product)


def test_the_pass_multiplies_a_chain_in_the_cheaper_order() -> None:
    graph, matrices, y = chain(30, 40, 50, 2, 3)
    values = dict(zip(matrices, random_arrays([matrix.shape for matrix in matrices]), strict=True))
    want = values_of(graph, [y], values)[0]
    before, after = reassociated(graph, [y])
    assert before == 2 * (30 * 40 * 50 + 30 * 50 * 2 + 30 * 2 * 3) + 90
    assert after == 2 * (40 * 50 * 2 + 30 * 40 * 2 + 30 * 2 * 3) + 90
    np.testing.assert_allclose(values_of(graph, [y], values)[0], want, rtol=1e-12)


def test_the_pass_also_moves_products_to_the_left() -> None:
    graph = SymbolicGraph()
    a, b, c = (graph.input(spec(shape, "f64")) for shape in ((2, 30), (30, 40), (40, 50)))
    before, after = reassociated(graph, [a @ (b @ c)])
    assert (before, after) == (2 * (30 * 40 * 50 + 2 * 30 * 50), 2 * (2 * 30 * 40 + 2 * 40 * 50))


def test_the_pass_leaves_alone_what_is_cheap_read_twice_or_not_a_plain_product() -> None:
    graph = SymbolicGraph()
    a, b, c = (graph.input(spec(shape, "f64")) for shape in ((30, 40), (40, 50), (50, 2)))
    shared = a @ b
    biased = ops.gemm(a, b, graph.input(spec((50,), "f64"))) @ c
    before, after = reassociated(graph, [shared @ c, ops.exp(shared), biased])
    assert before == after


def test_the_manager_computes_the_fact_when_it_is_asked_and_when_it_is_stale() -> None:
    graph, _, y = chain(30, 40, 50, 2)
    manager = PassManager(graph, [count_work], verify=faults)
    first = manager.get(WORK)
    assert manager.get(WORK) is first
    assert manager.run(reassociation([y])).count > 0
    with pytest.raises(StaleError):
        manager.facts[WORK]
    assert manager.get(WORK).total < first.total
    assert manager.run(reassociation([y])).count == 0


def test_the_pass_works_on_graphs_with_the_new_operator_and_on_gradients() -> None:
    graph, matrices, y = chain(30, 40, 50, 2)
    loss = ops.reduce_sum(snake(y, 2.0))
    wanted = [loss, *backward(graph, [loss], matrices)]
    values = dict(zip(matrices, random_arrays([matrix.shape for matrix in matrices]), strict=True))
    want = values_of(graph, wanted, values)
    before, after = reassociated(graph, wanted)
    assert after <= before
    assert faults(graph) == ()
    for got, expected_value in zip(values_of(graph, wanted, values), want, strict=True):
        np.testing.assert_allclose(got, expected_value, rtol=1e-9)


def test_nnc_does_not_know_the_extension() -> None:
    for file in (ROOT / "src" / "nnc").rglob("*.py"):
        assert not re.search(r"^\s*(from|import) examples", file.read_text(), re.MULTILINE), file
