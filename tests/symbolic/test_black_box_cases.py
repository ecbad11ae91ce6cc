"""Cases that NNC's own tests run, on symbolic graphs: the same graphs, the same numbers.

Others of the list are tests beside what they are about: memory identity in `compile/test_lower.py`, gradients through
aliases in `test_gradient.py`, loops in `test_while.py`, passes in `test_simplify.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from tests.symbolic.evaluation import Array, values_of

from nnc import ops
from nnc.core.values.command import AnyCommand, Command
from nnc.core.values.spec import TensorSpec, spec
from nnc.core.values.tensor import Tensor
from nnc.ops.optimizer.optimizer import ADAM, RMSPROP, SGD, AdamAttrs, RMSPropAttrs, SGDAttrs
from nnc.ops.products.products import GEMM, GemmAttrs
from nnc.symbolic import ExecKey, Symbol, SymbolicGraph, backward, case_of, compile, minimize, verify

pytestmark = pytest.mark.usefixtures("debug")


@pytest.fixture
def graph() -> SymbolicGraph:
    return SymbolicGraph()


def scalars(graph: SymbolicGraph, count: int) -> list[Symbol]:
    return [graph.input(spec((1,))) for _ in range(count)]


def writer(graph: SymbolicGraph, symbol: Symbol) -> ExecKey:
    (key,) = graph.writers(symbol.key)
    return key


def fills(graph: SymbolicGraph) -> list[float]:
    return [record.fill for _, record in graph.tensors.items() if record.fill is not None]


# ---- shapes, order, bindings


def test_case_03_a_shape_that_is_set_after_building(graph: SymbolicGraph) -> None:
    a = graph.input(name="a")
    b = ops.log(a)
    a.specify(spec((1,)))
    assert b.spec == spec((1,))
    (found,) = compile(graph, [b], backend="reference")({a: [1.25]}, b)
    assert found == np.log(np.float32([1.25]))


def test_case_04_which_sources_reach_a_destination(graph: SymbolicGraph) -> None:
    a, c = scalars(graph, 2)
    b, d = ops.log(a), ops.log(c)
    e = a + c
    f = ops.log(d)
    g = b + f
    log1, log2, sum1, log3, sum2 = (writer(graph, symbol) for symbol in (b, d, e, f, g))

    def bits(sources: Sequence[ExecKey], destination: ExecKey) -> int:
        return sum(found << place for place, found in enumerate(graph.reaches(sources, [destination])))

    assert bits([sum1, log1, log2, log1], sum2) == 0b1110
    assert bits([sum1, log1, log2], sum1) == 1
    assert bits([log3, log1, log2], sum2) == 7


def test_case_05_sources_and_destinations_follow_edits(graph: SymbolicGraph) -> None:
    """sum → prod and sum → log; then they part, and then prod is gone."""
    a, b = scalars(graph, 2)
    total, product, logarithm = (writer(graph, symbol) for symbol in (a + b, a * b, ops.log(a)))
    graph.connect(total, product)
    graph.connect(total, logarithm)
    assert (graph.sources(), graph.destinations()) == ((total,), (product, logarithm))
    graph.disconnect(total, product)
    assert (graph.sources(), graph.destinations()) == ((total, product), (product, logarithm))
    graph.remove_exec(product)
    assert (graph.sources(), graph.destinations()) == ((total,), (logarithm,))
    verify(graph)


def test_case_07_what_an_alias_of_a_bound_tensor_gets_is_in_the_bound_memory(graph: SymbolicGraph) -> None:
    a, b = scalars(graph, 2)
    whole = graph.input(spec((2,)), "whole")
    c = ops.add(a, b)
    graph.apply(graph.execs[writer(graph, c)].command, [c, b], [whole[1:2]])
    graph.apply(graph.execs[writer(graph, c)].command, [c, a], [whole[0:1]])
    values = {a: [1.25], b: [0.5]}
    before = Tensor.zeros(spec((2,)))
    compile(graph, [whole], bind={whole: before}, backend="reference")(values)
    assert before.numpy().tolist() == [3.0, 2.25]
    after = Tensor.zeros(spec((2,)))
    compile(graph, [whole], bind={whole: None}, backend="reference").rebind({whole: after})(values)
    assert after.numpy().tolist() == [3.0, 2.25]


def test_case_11_the_gradient_of_a_dense_net_of_aliases(graph: SymbolicGraph) -> None:
    x = graph.input(spec((1, 4)), "x")
    weights = [graph.input(spec((size, 1))) for size in (1, 2, 3)]
    biases = [graph.input(spec((1,))) for _ in range(3)]
    for size, weight, bias in zip((1, 2, 3), weights, biases, strict=True):
        graph.apply(Command(GEMM, GemmAttrs()), [x[:, 0:size], weight, bias], [x[:, size : size + 1]])
    (slope,) = backward(graph, [x[:, 3:4]], weights[:1])
    values: dict[Symbol, Array] = {x: np.float32([[0.472, 0, 0, 0]])}
    numbers = ([0.234], [0.374, 0.886], [0.484, 0.912, 0.235])
    values.update((weight, np.float32(row)[:, None]) for weight, row in zip(weights, numbers, strict=True))
    values.update((bias, np.float32([value])) for bias, value in zip(biases, (0.1, 0.2, 0.3), strict=True))
    compiled = compile(graph, [x, slope], backend="reference")
    found, got = compiled(values, x, slope)
    one = 0.472 * 0.234 + 0.1
    two = 0.472 * 0.374 + one * 0.886 + 0.2
    three = 0.472 * 0.484 + one * 0.912 + two * 0.235 + 0.3
    np.testing.assert_allclose(found[0], [0.472, one, two, three], rtol=1e-6)
    np.testing.assert_allclose(got, [[(0.235 * 0.886 + 0.912) * 0.472]], rtol=1e-6)


# ---- branches


def piece(tensor: Tensor) -> int:
    """Which part of the piecewise function: 0 below 0, the input itself below 1, 1 below 2, 2 above."""
    value = float(tensor.numpy().item())
    return 0 if value < 0 else -1 if value < 1 else 1 if value < 2 else 2


def test_case_21_a_piecewise_function_runs_again_and_again(graph: SymbolicGraph) -> None:
    (x,) = scalars(graph, 1)
    branches = [lambda x: x * 0.0, lambda x: x * 0.5 + 0.5, lambda x: x * 0.0 + 1.5]
    (y,) = case_of(graph, (piece, [x]), branches, [x], bypass=[x])
    compiled = compile(graph, [y], backend="reference")
    pairs = ((-1.0, 0.0), (0.76, 0.76), (1.226, 1.113), (2.1, 1.5))
    for value, expected in (*pairs, *reversed(pairs)):
        np.testing.assert_array_max_ulp(compiled({x: [value]}, y)[0], np.float32([expected]))


def test_case_22_four_branches_and_a_bypass(graph: SymbolicGraph) -> None:
    (x,) = scalars(graph, 1)
    choice = graph.input(spec((), "i64"), "choice")
    (y,) = case_of(graph, choice, [ops.exp, ops.log, ops.reciprocal, lambda x: x * 1.1], [x], bypass=[x])
    compiled = compile(graph, [y], backend="reference")
    cases = ((0, -2.2, np.exp), (1, 1.1, np.log), (2, 0.9, np.reciprocal), (4, 1001.0, np.positive))
    for index, value, function in cases:
        assert compiled({x: [value], choice: index}, y)[0] == function(np.float32([value]))
    assert compiled({x: [2.2], choice: 3}, y)[0] == np.float32(1.1) * np.float32([2.2])


# ---- gradients


def test_case_25_a_formula_in_one_variable_and_one_in_two(graph: SymbolicGraph) -> None:
    (x,) = scalars(graph, 1)
    f = ops.square(x) + ops.log(ops.reciprocal(x))
    found = values_of(graph, [f, *backward(graph, [f], [x])], {x: np.float32([0.84])})
    np.testing.assert_allclose(found, [[0.84**2 - math.log(0.84)], [2 * 0.84 - 1 / 0.84]], rtol=1e-5)
    x, y, z = scalars(graph, 3)
    f = (x - y) * (y + 1.0)
    before = len(graph.execs)
    only = backward(graph, [f], [y])
    made = [record for key, record in graph.execs.items() if key >= before]
    assert not any(graph.tensors[key].name for record in made for key in record.outputs)
    assert only.of(x) is only.of(z) is None
    slopes = backward(graph, [f], [x, y, z])
    found = values_of(graph, [*slopes, *only], {x: np.float32([43.24]), y: np.float32([0.38]), z: np.float32([1.0])})
    np.testing.assert_allclose(found, [[1.38], [43.24 - 1 - 2 * 0.38], [0.0], [43.24 - 1 - 2 * 0.38]], rtol=1e-5)


def test_case_26_a_vector_with_aliases(graph: SymbolicGraph) -> None:
    x, shift = graph.input(spec((2,))), graph.input(spec((2,)))
    y = x + shift
    f = x[0] + (y[0] + ops.square(y[0])) + ops.exp(y[1])
    (slope,) = backward(graph, [f], [x])
    (found,) = values_of(graph, [slope], {x: np.float32([0.44, -1.18]), shift: np.float32([1, 1.5])})
    np.testing.assert_allclose(found, [2 + 2 * 1.44, math.exp(0.32)], rtol=1e-6)


@pytest.mark.parametrize("both", [True, False])
def test_case_27_a_tensor_written_in_parts(graph: SymbolicGraph, *, both: bool) -> None:
    """f = y₁² + y₁ y₂ of y₁ = ln x₁, y₂ = x₂²; without y₂ what it holds, and its gradient, is whatever was there."""
    x, y = graph.input(spec((2,))), graph.input(spec((2,)))
    graph.apply(Command(ops.elementwise.pointwise.log, ops.rules.NoAttrs()), [x[0:1]], [y[0:1]])
    if both:
        graph.apply(Command(ops.elementwise.pointwise.square, ops.rules.NoAttrs()), [x[1:2]], [y[1:2]])
    f = ops.square(y[0:1]) + (y[0:1] * y[1:2] if both else y[0:1])
    (slope,) = backward(graph, [f], [x])
    (found,) = values_of(graph, [slope], {x: np.float32([0.38, -2.8])})
    one = math.log(0.38)
    expected = [(2 * one + 2.8**2) / 0.38, one * 2 * -2.8] if both else [(2 * one + 1) / 0.38, 0.0]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize(("rows", "zeros", "sums"), [((0, 8), 0, 0), ((0,), 1, 0), ((0, 4), 2, 1)])
def test_case_28_zeros_only_where_parts_leave_a_gap(
    graph: SymbolicGraph, rows: tuple[int, ...], zeros: int, sums: int
) -> None:
    """b = a + bias; c = relu b; four, two and overlapping views of c, and what their gradients become."""
    a, bias = graph.input(spec((16, 16))), graph.input(spec((16,)))
    c = ops.relu(a + bias)
    views = [ops.exp(c[row : row + 8, column : column + 8]) for row in rows for column in (0, 8)]
    if sums:
        views.append(ops.exp(c[12:16, :]))
    before = len(graph.execs)
    slopes = backward(graph, views, [a, bias])
    verify(graph)
    made = [record.command.op.name for key, record in graph.execs.items() if key >= before]
    assert len(fills(graph)) == zeros
    assert made.count("add") == sums
    generator = np.random.default_rng(28)
    values = {a: generator.standard_normal((16, 16)).astype(np.float32), bias: np.full(16, 0.1, np.float32)}
    total = np.maximum(values[a] + 0.1, 0)
    count = np.zeros((16, 16))
    for row in rows:
        count[row : row + 8] += 1
    count[12:16] += bool(sums)
    expected = count * np.exp(total) * (total > 0)
    found = values_of(graph, slopes, values)
    np.testing.assert_allclose(found[0], expected, rtol=1e-5)
    np.testing.assert_allclose(found[1], expected.sum(0), rtol=1e-4)


def test_case_29_gradients_of_a_concatenation_come_after_the_sum(graph: SymbolicGraph) -> None:
    """Observations and actions side by side, read by two products: the gradients of both are parts of one sum."""
    observations, actions = graph.input(spec((64, 4))), graph.input(spec((64, 1)))
    both = graph.input(spec((64, 5)), "both")
    copy = Command(ops.movement.copy.contiguous, ops.rules.NoAttrs())
    graph.apply(copy, [observations], [both[:, 0:4]])
    graph.apply(copy, [actions], [both[:, 4:5]])
    weights = [graph.input(spec((5, 3))) for _ in range(2)]
    results = [both @ weight for weight in weights]
    found = backward(graph, results, [observations, actions])
    names = {key: record.command.op.name for key, record in graph.execs.items()}
    (total,) = (key for key, name in names.items() if name == "add")
    for slope in found:
        assert total in graph.execs.reachable(graph.writers(slope.key), reverse=True)
    generator = np.random.default_rng(29)
    matrices = [generator.standard_normal((5, 3)).astype(np.float32) for _ in range(2)]
    expected = np.broadcast_to(sum(matrix.sum(1) for matrix in matrices), (64, 5))
    data = {observations: np.ones((64, 4), np.float32), actions: np.ones((64, 1), np.float32)}
    slopes = values_of(graph, list(found), data | dict(zip(weights, matrices, strict=True)))
    np.testing.assert_allclose(np.concatenate(slopes, 1), expected, rtol=1e-5)


# ---- least squares


OPTIMIZERS: dict[str, tuple[AnyCommand, float, float]] = {
    "sgd": (Command(SGD, SGDAttrs(momentum=0.9)), 1e-3, 1e-6),
    "adam": (Command(ADAM, AdamAttrs(beta2=0.98)), 2e-2, 1e-6),
    "rmsprop": (Command(RMSPROP, RMSPropAttrs(alpha=0.9, momentum=0.9)), 1e-3, 1e-6),
    "adamw": (Command(ADAM, AdamAttrs(beta2=0.98, decoupled=True)), 2e-2, 1e-6),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_case_38_least_squares(graph: SymbolicGraph, name: str) -> None:
    """|a w + bias|² with a = [[10, 1], [3, 5]]: 10 w₀ + w₁ → -1 and 3 w₀ + 5 w₁ → 1, rates falling over 1000 steps."""
    command, first, last = OPTIMIZERS[name]
    a, w, bias = (graph.input(TensorSpec(shape)) for shape in ((2, 2), (2, 1), (2, 1)))
    residual = a @ w + bias
    loss = ops.reduce_sum(ops.square(residual))
    done = minimize(graph, command, [loss], [w])
    verify(graph)
    steering = {name: Tensor.zeros(symbol.spec) for name, symbol in done.scalars.items()}
    weights = Tensor.from_numpy(np.float32([[0.5], [-0.5]]))
    given = {
        a: Tensor.from_numpy(np.float32([[10, 1], [3, 5]])),
        bias: Tensor.from_numpy(np.float32([[1], [-1]])),
        w: weights,
        **{done.scalars[name]: tensor for name, tensor in steering.items()},
        **{state: Tensor.zeros(state.spec) for update in done.updates for state in update.states},
    }
    step = compile(graph, [loss], given=given, carry=done.carries(), backend="reference")
    for index in range(1000):
        steering["rate"].copy_from(first + (last - first) * index / 1000)
        if "step" in steering:
            steering["step"].copy_from(index + 1)
        step.run()
    (one,), (two,) = np.float32([[10, 1], [3, 5]]) @ weights.numpy()
    assert one == pytest.approx(-1.0, abs=1e-3)
    assert two == pytest.approx(1.0, abs=0.1)
