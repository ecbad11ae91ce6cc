"""Gradients through loops and branches: against the unrolled graph, differences, and each other."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.symbolic.evaluation import Array, check_gradients, inputs_of, random_arrays, values_of

from nnc.concrete import CountBelow
from nnc.core.values.spec import spec
from nnc.core.values.tensor import Tensor
from nnc.errors import NotDifferentiableError, SymbolError
from nnc.ops import reduce_sum
from nnc.ops.elementwise.pointwise import less, log, tanh
from nnc.ops.indexing.indexing import index_select
from nnc.symbolic import Symbol, SymbolicGraph, backward, case_of, compile, jvp, prune, verify, while_loop
from nnc.symbolic.ir import bodies_of

pytestmark = pytest.mark.usefixtures("debug")


def repeated(x0: Symbol, w: Symbol) -> Symbol:
    """x ← tanh(w x) + x[0] three times."""
    with while_loop(x0.graph, CountBelow(3)) as loop:
        x = loop.carry(x0)
        loop.next(x, tanh(w * x) + x[:1])
    return loop.result(x)


def unrolled(x: Symbol, w: Symbol) -> Symbol:
    """The same without a loop."""
    for _ in range(3):
        x = tanh(w * x) + x[:1]
    return x


def until_large(x0: Symbol, w: Symbol) -> Symbol:
    """x ← x w + x until the sum is 20 or more: the number of iterations depends on the values."""
    with while_loop(x0.graph, at_most=12) as loop:
        x = loop.carry(x0)
        new = x * w + x
        loop.go_on_while(lambda tensor: bool(tensor.numpy().item() < 20.0), reduce_sum(new))
        loop.next(x, new)
    return loop.result(new)


def coupled(x0: Symbol, w: Symbol) -> Symbol:
    """Values that change places, an iteration count, and a value that never changes."""
    with while_loop(x0.graph, CountBelow(4)) as loop:
        a, b, c = loop.carry(x0), loop.carry(w), loop.carry(x0 * w)
        loop.next(a, b)
        loop.next(b, a * b + c * w)
        loop.next(c, c)
    return loop.result(a) * loop.result(b) + loop.result(c)


def nested(x0: Symbol, w: Symbol) -> Symbol:
    """A loop within a loop, each with invariants of the graphs around."""
    with while_loop(x0.graph, CountBelow(2)) as outer:
        x = outer.carry(x0)
        with while_loop(outer.body, CountBelow(2)) as inner:
            y = inner.carry(x)
            inner.next(y, tanh(y * w) + x)
        outer.next(x, inner.result(y) * w)
    return outer.result(x)


def branching(x: Symbol, w: Symbol) -> Symbol:
    """A branch in a loop, by the loop's count; the third iteration passes."""
    with while_loop(x.graph, CountBelow(3)) as loop:
        y = loop.carry(x)
        (z,) = case_of(loop.body, loop.count, [lambda y: tanh(y * w), lambda y: y * y], [y], bypass=[y])
        loop.next(y, z + w)
    return loop.result(y)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("function", [repeated, until_large, coupled, nested, branching])
def test_gradients_are_those_of_differences(function: object, order: int) -> None:
    assert callable(function)
    check_gradients(function, (2,), (2,), order=order, tolerance=2e-5)


def test_a_loop_has_the_gradient_of_the_unrolled_graph() -> None:
    arrays = random_arrays([(3,), (3,)])
    found = [_gradients(function, arrays) for function in (repeated, unrolled)]
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13)


def _gradients(function: object, arrays: list[Array]) -> list[Array]:
    assert callable(function)
    graph = SymbolicGraph()
    symbols = inputs_of(graph, [array.shape for array in arrays])
    gradients = backward(graph, [function(*symbols)], symbols)
    verify(graph)
    return values_of(graph, gradients, dict(zip(symbols, arrays, strict=True)))


def test_forward_mode_and_reverse_mode_agree() -> None:
    """⟨u, J v⟩ = ⟨Jᵀ u, v⟩."""
    graph = SymbolicGraph()
    x, w, u, v, t = inputs_of(graph, [(3,)] * 5)
    y = repeated(x, w)
    (change,) = jvp(graph, [y], [x, w], [v, t])
    dx, dw = backward(graph, [y], [x, w], [u])
    arrays = random_arrays([(3,)] * 5)
    products = [reduce_sum(u * change), reduce_sum(dx * v) + reduce_sum(dw * t)]
    one, other = values_of(graph, products, dict(zip((x, w, u, v, t), arrays, strict=True)))
    assert one.item() == pytest.approx(other.item(), rel=1e-12)


def test_the_tape_has_one_row_per_iteration_and_only_what_is_read() -> None:
    """x ← w x reads x for the gradient of w, and nothing for that of x alone."""
    sizes = {}
    for wanted in ("x", "w"):
        for limit in (10, 20):
            graph = SymbolicGraph()
            x0, w = graph.input(spec((64,), "f32"), "x0"), graph.input(spec((64,), "f32"), "w")
            with while_loop(graph, CountBelow(limit)) as loop:
                x = loop.carry(x0)
                loop.next(x, w * x)
            gradients = backward(graph, [loop.result(x)], [x0 if wanted == "x" else w])
            given = {x0: Tensor.zeros(x0.spec), w: Tensor.zeros(w.spec)}
            sizes[wanted, limit] = compile(graph, gradients, given=given, backend="reference").memory().arena
    assert sizes["x", 20] == sizes["x", 10]
    assert sizes["w", 20] - sizes["w", 10] == 10 * 64 * 4


def test_a_loop_of_unknown_length_asks_for_a_bound() -> None:
    graph = SymbolicGraph()
    (x0,) = inputs_of(graph, [(1,)])
    with while_loop(graph) as loop:
        x = loop.carry(x0)
        loop.go_on_while(less(reduce_sum(x), loop.capture(reduce_sum(x0)) + 5.0))
        loop.next(x, x + 1.0)
    with pytest.raises(NotDifferentiableError, match=r"at_most.*test_control_gradient\.py"):
        backward(graph, [loop.result(x)], [x0])


def test_the_power_of_a_loop_at_order_three() -> None:
    """y = x⁵: y' = 5 x⁴, y'' = 20 x³, y''' = 60 x²."""
    graph = SymbolicGraph()
    (x,) = inputs_of(graph, [()])
    with while_loop(graph, CountBelow(4)) as loop:
        y = loop.carry(x)
        loop.next(y, y * x)
    derivative, found = loop.result(y), []
    for _ in range(3):
        (derivative,) = backward(graph, [derivative], [x])
        found.append(derivative)
    verify(graph)
    values = values_of(graph, found, {x: np.array(1.3)})
    expected = [math.perm(5, order) * 1.3 ** (5 - order) for order in (1, 2, 3)]
    assert [value.item() for value in values] == pytest.approx(expected, rel=1e-12)


def test_repeated_logarithms_times_a_factor() -> None:
    """u = v · z, z ← log(z y) five times, tested at the end: du/dy by the chain rule."""
    graph = SymbolicGraph()
    x, y, v = inputs_of(graph, [(), (), ()])
    with while_loop(graph, CountBelow(4)) as loop:
        z = loop.carry(x)
        new = log(z * y)
        loop.next(z, new)
    (gradient,) = backward(graph, [v * loop.result(new)], [y])
    value, change = 1.0, 0.0
    for _ in range(5):
        change = change / value + 1 / 3.2
        value = math.log(value * 3.2)
    given = {x: np.array(1.0), y: np.array(3.2), v: np.array(0.22)}
    assert values_of(graph, [gradient], given)[0].item() == pytest.approx(0.22 * change, rel=1e-12)


@pytest.mark.parametrize(("value", "slope"), [(-1.0, 0.0), (0.76, 1.0), (1.226, 0.5), (2.1, 0.0)])
def test_a_piecewise_function_has_the_slope_of_its_piece(value: float, slope: float) -> None:
    graph = SymbolicGraph()
    (x,) = inputs_of(graph, [()])

    def piece(tensor: Tensor) -> int:
        number = float(tensor.numpy().item())
        return 0 if number < 0 else -1 if number < 1 else 1 if number < 2 else 2

    branches = (lambda x: x * 0.0, lambda x: x * 0.5 + 0.5, lambda x: x * 0.0 + 1.5)
    (y,) = case_of(graph, (piece, [x]), branches, [x], bypass=[x])
    (gradient,) = backward(graph, [y], [x])
    assert values_of(graph, [gradient], {x: np.array(value)})[0].item() == slope


def test_without_its_gradient_a_loop_has_no_tape() -> None:
    """A tape that only unwanted execs read goes when they are pruned."""
    statements = []
    for differentiated in (False, True):
        graph = SymbolicGraph()
        x0 = graph.input(spec((64,), "f32"), "x0")
        with while_loop(graph, CountBelow(50)) as loop:
            x = loop.carry(x0)
            loop.next(x, tanh(x))
        y = loop.result(x)
        if differentiated:
            backward(graph, [y], [x0])
            prune(graph, [y])
            verify(graph)
        statements.append(compile(graph, [y], given={x0: Tensor.zeros(x0.spec)}, backend="reference").memory().arena)
    assert statements[0] == statements[1]


@pytest.mark.parametrize("order", [1, 2])
def test_a_gradient_by_rows_is_put_together_once(order: int) -> None:
    """h ← tanh(x[t] + w h): what an iteration does about x does not grow with the number of rows."""
    iterations = []
    for steps in (3, 30):
        graph = SymbolicGraph()
        x, w, h0 = graph.input(spec((steps, 4), "f64"), "x"), *inputs_of(graph, [(4,), (4,)])
        with while_loop(graph, CountBelow(steps)) as loop:
            h = loop.carry(h0)
            loop.next(h, tanh(index_select(x, loop.count) + w * h))
        value = loop.result(h)
        for _ in range(order):
            value = reduce_sum(backward(graph, [reduce_sum(value * value)], [x])[0])
        prune(graph, [value])
        loops = [body.graph for _, record in graph.execs.items() for _, body in bodies_of(record.command)]
        written = [key for inner in loops for _, record in inner.execs.items() for key in record.outputs]
        graphs = [inner for inner in loops for _, record in inner.execs.items() for _ in record.outputs]
        iterations.append(sum(one.tensors[key].spec.nbytes for one, key in zip(graphs, written, strict=True)))
    assert iterations[0] == iterations[1]


def test_the_values_of_all_iterations_have_gradients() -> None:
    """Rows of h ← tanh(w h), zero behind the end of the loop; their gradient is that of the unrolled graph."""
    start, weight = random_arrays([(3,), (3,)])
    found = []
    for looped in (True, False):
        graph = SymbolicGraph()
        h0, w = inputs_of(graph, [(3,), (3,)])
        if looped:
            with while_loop(graph, at_most=6) as loop:
                h = loop.carry(h0)
                loop.go_on_while(less(loop.count, loop.count * 0 + 4))
                loop.next(h, tanh(w * h))
            rows = loop.rows(h)
            total = reduce_sum(rows * rows)
        else:
            values = [h0]
            for _ in range(3):
                values.append(tanh(w * values[-1]))
            total = reduce_sum(values[0] * values[0])
            for value in values[1:]:
                total = total + reduce_sum(value * value)
        found.append(values_of(graph, [total, *backward(graph, [total], [h0, w])], {h0: start, w: weight}))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13)


def test_rows_of_a_loop_of_unknown_length_ask_for_a_bound() -> None:
    graph = SymbolicGraph()
    (x0,) = inputs_of(graph, [(1,)])
    with while_loop(graph) as loop:
        x = loop.carry(x0)
        loop.go_on_while(lambda tensor: bool(tensor.numpy().item() < 3.0), x)
        loop.next(x, x + 1.0)
    with pytest.raises(SymbolError, match=r"at_most.*test_control_gradient\.py"):
        loop.rows(x)
