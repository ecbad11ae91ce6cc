from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.symbolic.evaluation import check_gradients, inputs_of, values_of

from nnc import ops
from nnc.core.values.command import Command
from nnc.core.values.dtype import F64, I32
from nnc.core.values.spec import spec
from nnc.errors import ArityError, NotDifferentiableError, ShapeError, SymbolError
from nnc.graph import Op
from nnc.ops.elementwise.pointwise import exp, log
from nnc.ops.movement.copy import contiguous
from nnc.ops.operators import OPERATORS
from nnc.ops.optimizer.optimizer import SGD, SGDAttrs
from nnc.ops.reads import gradient_reads
from nnc.ops.rules import GRADIENT, NoAttrs, NotDifferentiable, example_of
from nnc.symbolic import ExecKey, Symbol, SymbolicGraph, backward, verify

COPIED = Command(contiguous, NoAttrs())


def line_of(text: str) -> str:
    lines = Path(__file__).read_text().splitlines()
    (number,) = [number for number, line in enumerate(lines, 1) if line.endswith(f"# {text}")]
    return f"{Path(__file__).name}:{number}"


@pytest.fixture
def graph() -> SymbolicGraph:
    return SymbolicGraph()


def value(graph: SymbolicGraph, symbol: Symbol, **values: object) -> np.ndarray:
    """The value of `symbol` with inputs by name."""
    named = {graph.symbol(key): record.name for key, record in graph.tensors.items() if record.name in values}
    return values_of(graph, [symbol], {one: np.asarray(values[name], np.float64) for one, name in named.items()})[0]


# ---- against central differences: compositions that the rules of single operators do not cover

COMPOSITIONS: dict[str, tuple[Callable[..., Symbol], tuple[tuple[int, ...], ...]]] = {
    "fan_out": (lambda x: x * x + ops.exp(x) * x, ((2, 3),)),
    "same_operand_twice": (lambda x: ops.multiply(x, x) / x, ((3,),)),
    "slice": (lambda x: ops.tanh(x[1:3]), ((4, 3),)),
    "inner_slice": (lambda x: ops.tanh(x[:, 1:3]), ((4, 3),)),
    "index": (lambda x: ops.tanh(x[1, 2]), ((4, 3),)),
    "disjoint_slices": (lambda x: x[:2] * x[2:4], ((4,),)),
    "overlapping_slices": (lambda x: x[:3] * ops.exp(x[1:4]), ((4, 2),)),
    "slice_and_whole": (lambda x: x[1] * x, ((3, 2),)),
    "slice_of_result": (lambda x: ops.exp(ops.sin(x)[:, 0:2]), ((3, 3),)),
    "slice_and_whole_of_result": (lambda x: ops.sin(x)[0] + ops.sin(x) * ops.sin(x)[1], ((3, 3),)),
    "reshape": (lambda x: ops.reshape(ops.exp(x), (3, 4)) @ ops.reshape(x, (4, 3)), ((2, 6),)),
    "reshape_of_slice": (lambda x: ops.tanh(ops.reshape(x[1:3], (3, 2))), ((4, 3),)),
    "reshape_of_column": (lambda x: ops.tanh(ops.reshape(x[:, 1:3], (8,))), ((4, 3),)),
    "scalar": (lambda x: x * ops.log(x) + 1.2 * x, ((),)),
    "broadcast_row": (lambda x, y: x * y + y, ((4, 3), (3,))),
    "broadcast_column": (lambda x, y: x / y, ((4, 3), (4, 1))),
    "broadcast_scalar": (lambda x, y: ops.exp(x) * y, ((2, 3), ())),
    "sums": (lambda x: ops.reduce_sum(x * x, 0) * ops.reduce_mean(x), ((4, 3),)),
    "softmax_of_product": (lambda x, w: ops.softmax(ops.tanh(x @ w)), ((2, 3), (3, 4))),
    "bias": (lambda x, w, b: ops.gemm(x, w, b), ((2, 3), (3, 4), (4,))),
    "concatenated_slices": (lambda x: ops.concatenate([x[1:3], ops.exp(x[0:2])], 0) * x, ((4, 2),)),
    "root_and_alias_of_a_concatenated": (lambda x: ops.concatenate([x, x * x], 1), ((2, 3),)),
    "transposed": (lambda x: ops.transpose(ops.sin(x)) @ x, ((3, 2),)),
    "power": (lambda x, y: x**y, ((3,), (3,))),
    "divided": (lambda x: (2.0 / x - x / 3.0 + 1.0 - x) ** 2, ((3,),)),
    "maximum": (lambda x, y: ops.maximum(x, 2.0 * y) * ops.minimum(x, y), ((5,), (5,))),
}


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_gradients_are_those_of_central_differences(name: str) -> None:
    function, shapes = COMPOSITIONS[name]
    check_gradients(function, *shapes)


SMOOTH = [
    "fan_out",
    "slice_and_whole",
    "overlapping_slices",
    "slice_and_whole_of_result",
    "reshape_of_column",
    "broadcast_column",
    "sums",
    "bias",
    "concatenated_slices",
]


@pytest.mark.parametrize("name", SMOOTH)
def test_gradients_of_gradients_are_those_of_central_differences(name: str) -> None:
    function, shapes = COMPOSITIONS[name]
    check_gradients(function, *shapes, order=2, tolerance=1e-5)


@pytest.mark.parametrize("name", ["scalar", "slice", "fan_out"])
def test_third_order_is_that_of_central_differences(name: str) -> None:
    function, shapes = COMPOSITIONS[name]
    check_gradients(function, *shapes, order=3, tolerance=1e-4)


def test_derivatives_of_any_order_in_closed_form(graph: SymbolicGraph) -> None:
    (x,) = inputs_of(graph, [()])
    y = ops.exp(x * 2.0) + ops.sin(x)
    derivatives = []
    for _ in range(5):
        (y,) = backward(graph, [y], [x])
        derivatives.append(y)
    point = 0.3
    sines = [math.cos(point), -math.sin(point), -math.cos(point), math.sin(point), math.cos(point)]
    expected = [2**order * math.exp(2 * point) + sine for order, sine in enumerate(sines, 1)]
    np.testing.assert_allclose(values_of(graph, derivatives, {x: np.array(point)}), expected, rtol=1e-12)
    verify(graph)


# ---- cases 25–27 of the reference


def test_sum_of_square_and_logarithm(graph: SymbolicGraph) -> None:
    (x,) = inputs_of(graph, [()])
    f = x**2 + ops.log(1.0 / x)
    (slope,) = backward(graph, [f], [x])
    assert value(graph, f, x0=0.84) == pytest.approx(0.84**2 + math.log(1 / 0.84))
    assert value(graph, slope, x0=0.84) == pytest.approx(2 * 0.84 - 1 / 0.84)


def test_product_of_difference_and_sum(graph: SymbolicGraph) -> None:
    x, y, other = inputs_of(graph, [(), (), ()])
    f = (x - y) * (y + 1.0)
    slopes = backward(graph, [f], [x, y, other])
    got = values_of(graph, slopes, {x: np.array(43.24), y: np.array(0.38), other: np.array(1.0)})
    np.testing.assert_allclose(got, [1.38, 43.24 - 1 - 2 * 0.38, 0.0])


def test_gradients_that_nobody_asks_for_are_not_made(graph: SymbolicGraph) -> None:
    x, y = inputs_of(graph, [(), ()])
    f = ops.exp(x) * ops.sin(y)
    before = len(graph.execs)
    backward(graph, [f], [y])
    made = [record.command.op.name for key, record in graph.execs.items() if key >= before]
    assert made == ["fill", "multiply", "cos", "multiply"]


def test_a_weight_gradient_alone_makes_one_product(graph: SymbolicGraph) -> None:
    x, w, bias = inputs_of(graph, [(4, 3), (3, 2), (2,)])
    y = ops.gemm(x, w, bias)
    before = len(graph.execs)
    backward(graph, [y], [w])
    made = [record.command.op.name for key, record in graph.execs.items() if key >= before]
    assert made == ["fill", "gemm"]


def test_execs_beside_the_way_are_not_differentiated(graph: SymbolicGraph) -> None:
    x, y = inputs_of(graph, [(3,), (3,)])
    frozen = ops.tanh(ops.exp(y))
    f = x * frozen
    ops.sin(f)
    before = len(graph.execs)
    backward(graph, [f], [x])
    assert [record.command.op.name for key, record in graph.execs.items() if key >= before] == ["fill", "multiply"]


def test_a_vector_with_aliases(graph: SymbolicGraph) -> None:
    (x,) = inputs_of(graph, [(2,)])
    shift = graph.input(spec((2,), F64), "shift")
    y = x + shift
    f = x[0] + (y[0] + y[0] ** 2) + ops.exp(y[1])
    (slope,) = backward(graph, [f], [x])
    got = value(graph, slope, x0=[0.44, -1.18], shift=[1, 1.5])
    np.testing.assert_allclose(got, [2 + 2 * 1.44, math.exp(0.32)])


def test_a_tensor_written_by_parts(graph: SymbolicGraph) -> None:
    (x,) = inputs_of(graph, [(2,)])
    y = graph.input(spec((2,), F64), "y")
    graph.apply(Command(log, NoAttrs()), [x[0]], [y[0]])
    graph.apply(COPIED, [x[1] ** 2], [y[1]])
    f = y[0] ** 2 + y[0] * y[1]
    (slope,) = backward(graph, [f], [x])
    one, two = 0.38, -2.8
    assert value(graph, f, x0=[one, two]) == pytest.approx(math.log(one) ** 2 + math.log(one) * two**2)
    expected = [(2 * math.log(one) + two**2) / one, math.log(one) * 2 * two]
    np.testing.assert_allclose(value(graph, slope, x0=[one, two]), expected)
    verify(graph)


def test_a_tensor_written_in_one_part_alone(graph: SymbolicGraph) -> None:
    (x,) = inputs_of(graph, [(2,)])
    y = graph.input(spec((2,), F64), "y")
    graph.apply(Command(exp, NoAttrs()), [x[0]], [y[0]])
    (slope,) = backward(graph, [y[0] * x[1]], [x])
    np.testing.assert_allclose(value(graph, slope, x0=[0.3, 2.0]), [2 * math.exp(0.3), math.exp(0.3)])


# ---- aliases as inputs and outputs


def test_gradients_by_aliases_are_parts_of_the_root_s(graph: SymbolicGraph) -> None:
    (x,) = inputs_of(graph, [(3, 4)])
    f = ops.reduce_sum(ops.exp(x) * x)
    row, column, whole = backward(graph, [f], [x[1], x[:, 1:3], x])
    values = np.linspace(0.1, 1.2, 12).reshape(3, 4)
    got = values_of(graph, [row, column, whole], {x: values})
    np.testing.assert_array_equal(got[0], got[2][1])
    np.testing.assert_array_equal(got[1], got[2][:, 1:3])
    np.testing.assert_allclose(got[2], np.exp(values) * (1 + values))


def test_a_gradient_by_an_alias_where_the_root_s_gradient_is_itself_a_slice(graph: SymbolicGraph) -> None:
    x, other = inputs_of(graph, [(2, 3), (2, 2)])
    weight = graph.input(spec((2, 5), F64), "weight")
    f = ops.concatenate([x, other], 1)
    (slope,) = backward(graph, [f], [x[:, 1:3]], [weight])
    weights = np.arange(10.0).reshape(2, 5)
    np.testing.assert_array_equal(value(graph, slope, weight=weights), weights[:, 1:3])


def test_outputs_may_be_aliases_inputs_and_repeated(graph: SymbolicGraph) -> None:
    (x,) = inputs_of(graph, [(4,)])
    y = x * x
    (slope,) = backward(graph, [y[1:3], y[2:4], x], [x])
    np.testing.assert_array_equal(value(graph, slope, x0=[1.0, 2.0, 3.0, 4.0]), [1.0, 5.0, 13.0, 9.0])
    (same,) = backward(graph, [x], [x])
    np.testing.assert_array_equal(value(graph, same, x0=[1.0, 2.0, 3.0, 4.0]), np.ones(4))


def test_a_gradient_by_an_intermediate(graph: SymbolicGraph) -> None:
    (x,) = inputs_of(graph, [()])
    y = ops.exp(x)
    f = y * y * x
    by_x, by_y = backward(graph, [f], [x, y])
    point = math.exp(0.5)
    assert value(graph, by_y, x0=0.5) == pytest.approx(2 * point * 0.5)
    assert value(graph, by_x, x0=0.5) == pytest.approx(2 * point**2 * 0.5 + point**2)


def test_what_an_alias_names_twice_gets_the_sum(graph: SymbolicGraph) -> None:
    """Σ of all windows' exponentials, differentiated twice: the inner elements stand in two windows."""
    (x,) = inputs_of(graph, [(4,)])
    windows = graph.alias(x.key, spec((3, 2), F64), 0, (1, 1))
    (slope,) = backward(graph, [ops.exp(windows)], [x])
    (curvature,) = backward(graph, [slope * slope], [x])
    verify(graph)
    values, count = np.array([0.1, 0.2, 0.3, 0.4]), np.array([1, 2, 2, 1])
    np.testing.assert_allclose(value(graph, slope, x0=values), count * np.exp(values), rtol=1e-12)
    np.testing.assert_allclose(value(graph, curvature, x0=values), 2 * count**2 * np.exp(2 * values), rtol=1e-12)


# ---- one gradient from those of the parts


def made_ops(graph: SymbolicGraph, before: int) -> list[str]:
    return [record.command.op.name for key, record in graph.execs.items() if key >= before]


def fills(graph: SymbolicGraph) -> list[float]:
    return [record.fill for _, record in graph.tensors.items() if record.fill is not None]


def test_parts_that_cover_a_tensor_need_no_zeros_and_no_sum(graph: SymbolicGraph) -> None:
    (x,) = inputs_of(graph, [(4, 6)])
    y = ops.exp(x)
    quarters = [ops.relu(y[row : row + 2, column : column + 3]) for row in (0, 2) for column in (0, 3)]
    before = len(graph.execs)
    (slope,) = backward(graph, quarters, [x])
    verify(graph)
    names = made_ops(graph, before)
    assert names.count("copy") == 4
    assert not {"add", "embed"} & set(names)
    assert fills(graph) == []
    values = np.linspace(-1.0, 1.0, 24).reshape(4, 6)
    np.testing.assert_allclose(value(graph, slope, x0=values), np.exp(values))


def test_parts_that_leave_a_gap_start_from_zeros(graph: SymbolicGraph) -> None:
    (x,) = inputs_of(graph, [(4, 6)])
    y = ops.exp(x)
    (slope,) = backward(graph, [ops.relu(y[0:2, 0:3]), ops.relu(y[2:4, 3:6])], [x])
    verify(graph)
    assert fills(graph) == [0.0]
    values = np.linspace(-1.0, 1.0, 24).reshape(4, 6)
    expected = np.exp(values)
    expected[0:2, 3:6] = expected[2:4, 0:3] = 0.0
    np.testing.assert_allclose(value(graph, slope, x0=values), expected)


def test_parts_that_meet_are_added(graph: SymbolicGraph) -> None:
    (x,) = inputs_of(graph, [(6,)])
    y = ops.exp(x)
    before = len(graph.execs)
    (slope,) = backward(graph, [ops.tanh(y[0:4]), ops.tanh(y[2:6]), ops.tanh(y[4:6])], [x])
    verify(graph)
    assert made_ops(graph, before).count("add") == 1
    values = np.linspace(-1.0, 1.0, 6)
    once = np.exp(values) * (1 - np.tanh(np.exp(values)) ** 2)
    np.testing.assert_allclose(value(graph, slope, x0=values), once * [1, 1, 2, 2, 2, 2])


def test_the_gradient_of_one_place_is_summed_there(graph: SymbolicGraph) -> None:
    (x,) = inputs_of(graph, [(8,)])
    y = graph.input(spec((8,), F64), "y")
    graph.apply(Command(exp, NoAttrs()), [x[0:4]], [y[0:4]])
    graph.apply(Command(exp, NoAttrs()), [x[4:8]], [y[4:8]])
    low = y[0:4]
    before = len(graph.execs)
    found = backward(graph, [ops.sin(low) * ops.cos(low)], [x[0:4]])
    assert "embed" not in made_ops(graph, before)
    assert found.of(y[4:8]) is None
    values = np.linspace(0.1, 0.8, 8)
    np.testing.assert_allclose(
        value(graph, found[0], x0=values), np.cos(2 * np.exp(values[:4])) * np.exp(values[:4]), rtol=1e-12
    )


def test_a_thousand_parts_are_put_together_once(graph: SymbolicGraph) -> None:
    (x,) = inputs_of(graph, [(1000, 2)])
    parts = [ops.tanh(x[step]) for step in range(1000)]
    before = len(graph.execs)
    (slope,) = backward(graph, parts, [x])
    assert made_ops(graph, before).count("copy") == 1000
    assert slope.shape == (1000, 2)
    assert fills(graph) == []


# ---- what belongs to what


def test_gradients_are_looked_up_by_symbol_and_by_exec(graph: SymbolicGraph) -> None:
    x, w, unused = inputs_of(graph, [(2, 3), (3, 2), (2,)])
    hidden = x @ w
    y = ops.tanh(hidden)
    ops.exp(unused)
    found = backward(graph, [y], [w])
    assert found.of(w) == found[0]
    assert found.of(hidden) is not None
    assert found.of(hidden).spec == hidden.spec
    assert found.of(hidden[0]).spec == hidden[0].spec
    assert found.of(x) is found.of(unused) is None
    product, tanh = graph.writers(hidden.key)[0], graph.writers(y.key)[0]
    assert set(found.execs) == {product, tanh}
    assert found.execs[product] == (found.writer_of(w),)
    assert found.writer_of(hidden) in found.execs[tanh]
    assert found.writer_of(x) is None


# ---- unused inputs, integers, seeds


def test_an_input_that_does_not_matter_has_a_gradient_of_zeros(graph: SymbolicGraph) -> None:
    x, unused = inputs_of(graph, [(2,), (3, 2)])
    _, zero = backward(graph, [ops.exp(x)], [x, unused])
    assert zero.shape == (3, 2)
    np.testing.assert_array_equal(value(graph, zero), np.zeros((3, 2)))


def test_a_flat_function_has_a_gradient_of_zeros(graph: SymbolicGraph) -> None:
    (x,) = inputs_of(graph, [(3,)])
    for f in (ops.sign(x), ops.step(x) * 2.0, ops.cast(ops.cast(x, I32), F64)):
        (slope,) = backward(graph, [f], [x])
        np.testing.assert_array_equal(value(graph, slope, x0=[-1.5, 0.5, 2.0]), np.zeros(3))


def test_an_integer_has_no_gradient(graph: SymbolicGraph) -> None:
    labels = graph.input(spec((3,), I32), "labels")
    (x,) = inputs_of(graph, [(3,)])
    for outputs, inputs in (([ops.exp(x)], [labels]), ([labels + labels], [x])):
        with pytest.raises(NotDifferentiableError, match="need a floating-point tensor") as caught:
            backward(graph, outputs, inputs)  # gradient of integers
        assert caught.value.origin == line_of("gradient of integers")


def test_an_operator_without_gradient_names_its_own_line(graph: SymbolicGraph) -> None:
    x, w, m = inputs_of(graph, [(3,), (3,), (3,)])
    rate = graph.input(spec(()), "rate")
    update = Command(SGD, SGDAttrs())
    from_update = graph.apply(update, [x, w, m, rate])[0]  # the update
    with pytest.raises(NotDifferentiableError, match="sgd") as caught:
        backward(graph, [ops.exp(from_update)], [x])
    assert caught.value.origin == line_of("the update")


def test_seeds_weigh_the_outputs(graph: SymbolicGraph) -> None:
    x, seed = inputs_of(graph, [(3,), (3,)])
    y, z = ops.exp(x), x * x
    (slope,) = backward(graph, [y, z], [x], [seed, None])
    values, weights = np.array([0.1, 0.2, 0.3]), np.array([1.0, -2.0, 0.5])
    expected = weights * np.exp(values) + 2 * values
    np.testing.assert_allclose(values_of(graph, [slope], {x: values, seed: weights})[0], expected)


def test_seeds_must_fit(graph: SymbolicGraph) -> None:
    x, seed = inputs_of(graph, [(3,), (2,)])
    y = ops.exp(x)
    with pytest.raises(ArityError, match="2 seeds; need 1"):
        backward(graph, [y], [x], [seed, seed])
    with pytest.raises(ShapeError, match="seed"):
        backward(graph, [y], [x], [seed])
    with pytest.raises(ShapeError, match="seed"):
        backward(graph, [y], [x], [graph.input(spec((3,), "f32"))])


def test_symbols_of_another_graph_are_refused(graph: SymbolicGraph) -> None:
    (x,) = inputs_of(graph, [(3,)])
    (other,) = inputs_of(SymbolicGraph(), [(3,)])
    with pytest.raises(SymbolError):
        backward(graph, [ops.exp(x)], [other])
    with pytest.raises(SymbolError):
        backward(graph, [other], [x])


def test_a_tensor_s_gradient_is_summed_once(graph: SymbolicGraph) -> None:
    (x,) = inputs_of(graph, [(3,)])
    y = ops.exp(x)
    f = ops.sin(y) + ops.cos(y) + y * y
    backward(graph, [f], [x])
    sums = [record for _, record in graph.execs.items() if record.command.op.name == "add"]
    # Two of the forward pass; y has four readers' parts (sin, cos, and both sides of the product).
    assert len(sums) == 2 + 3


# ---- what gradients read


@pytest.mark.parametrize(
    "op", [op for op in OPERATORS if not isinstance(GRADIENT[op], NotDifferentiable)], ids=lambda op: op.name
)
def test_a_gradient_reads_no_more_than_its_rule(op: Op[Any], graph: SymbolicGraph) -> None:
    example = example_of(op).typed(F64)
    inputs = [None if one is None else graph.input(one) for one in example.inputs]
    outputs = graph.apply(Command(op, example.attrs), inputs)
    seeds = [graph.input(output.spec) for output in outputs if output.spec.dtype.is_continuous]
    wanted = [one for one in inputs if one is not None and one.spec.dtype.is_continuous]
    forward = len(graph.execs)
    found = backward(graph, [output for output in outputs if output.spec.dtype.is_continuous], wanted, seeds)
    known = {symbol.key for symbol in (*outputs, *seeds, *wanted)}
    needed = graph.needed_for([symbol.key for symbol in found], known)
    assert all(key >= forward for key in needed)
    read = set(graph.inputs_of(needed)) | {graph.root(symbol.key) for symbol in found} & known
    reads = gradient_reads(op, example.attrs, example.inputs)
    allowed = {inputs[place].key for place in reads.inputs if inputs[place] is not None}
    allowed |= {outputs[place].key for place in reads.outputs}
    assert read - {seed.key for seed in seeds} == allowed


def test_what_lies_outside_of_sources_and_destinations_is_constant() -> None:
    graph = SymbolicGraph()
    x = graph.input(spec((2,), "f64"), "x")
    squared = ops.square(x)
    y, z = ops.exp(squared * x), ops.exp(x)
    (begin,), (end,), (other,) = (graph.writers(symbol.key) for symbol in (squared, y, z))
    values = np.array([0.5, -1.0])

    def slope(**ends: list[ExecKey]) -> list[float]:
        (gradient,) = backward(graph, [y, z], [x], **ends)
        return values_of(graph, [gradient], {x: values})[0].tolist()

    inside = 3 * values**2 * np.exp(values**3)
    np.testing.assert_allclose(slope(), inside + np.exp(values))
    np.testing.assert_allclose(slope(sources=[begin]), inside)
    np.testing.assert_allclose(slope(destinations=[end]), inside)
    np.testing.assert_allclose(slope(sources=[begin], destinations=[other]), 0.0)
