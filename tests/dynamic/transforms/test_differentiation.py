"""Derivatives of functions: against formulas, nested, recorded exactly where that matters."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnc
from nnc import ops
from nnc.dynamic import DynamicGraph
from nnc.dynamic.graph import default_graph
from nnc.errors import AttributeValueError, DTypeError, NotDifferentiableError, ShapeError, UsageError

X = np.array([0.5, -1.0, 2.0])
# Every test runs eagerly and inside a compiled function.
WAYS = pytest.mark.parametrize("way", [lambda function: function, nnc.compile], ids=["eager", "compiled"])
Way = Callable[[Callable[..., Any]], Callable[..., Any]]


def cubes(x: Any) -> Any:
    return (x * x * x).sum()


def line_of(text: str) -> str:
    lines = Path(__file__).read_text().splitlines()
    (number,) = [number for number, line in enumerate(lines, 1) if line.endswith(f"# {text}")]
    return f"{Path(__file__).name}:{number}"


@WAYS
def test_the_gradient_of_a_scalar(way: Way) -> None:
    np.testing.assert_allclose(way(nnc.grad(cubes))(X), 3 * X**2)
    value, slope = way(nnc.value_and_grad(cubes))(X)
    np.testing.assert_allclose(value, np.sum(X**3))
    np.testing.assert_allclose(slope, 3 * X**2)


@WAYS
def test_gradients_come_in_the_containers_of_the_arguments(way: Way) -> None:
    def loss(parameters: Any, x: Any, *, scale: float) -> Any:
        return ((x @ parameters["w"] + parameters["b"][0]) ** 2).sum() * scale

    x, w, b = np.ones((2, 3)), np.full((3, 1), 0.5), np.array([1.0])
    found = way(nnc.grad(loss))({"w": w, "b": [b]}, x, scale=0.5)
    residual = x @ w + b
    np.testing.assert_allclose(found["w"], x.T @ residual)
    np.testing.assert_allclose(found["b"][0], residual.sum(0))
    both = way(nnc.grad(loss, argnums=(1, -2)))({"w": w, "b": [b]}, x, scale=0.5)
    np.testing.assert_allclose(both[0], residual @ w.T)
    np.testing.assert_allclose(both[1]["w"], x.T @ residual)


@WAYS
def test_other_things_stand_beside_the_value(way: Way) -> None:
    def loss(x: Any) -> Any:
        return (x * x).sum(), {"largest": x.max(), "name": "loss"}

    (value, aux), slope = way(nnc.value_and_grad(loss, has_aux=True))(X)
    assert (value.item(), aux["largest"].item(), aux["name"]) == (np.sum(X**2), 2.0, "loss")
    np.testing.assert_allclose(slope, 2 * X)
    slope, aux = way(nnc.grad(loss, has_aux=True))(X)
    assert aux["largest"].item() == 2.0


@WAYS
def test_derivatives_nest_to_any_order(way: Way) -> None:
    function: Any = lambda x: ops.sin(x * 2.0) * ops.exp(x)  # noqa: E731  # one of a row of functions
    for order in range(1, 5):
        function = nnc.grad(function)
        expected = ((1 + 2j) ** order * np.exp((1 + 2j) * 0.7)).imag
        assert way(function)(np.float64(0.7)).item() == pytest.approx(expected)


@WAYS
def test_a_derivative_goes_by_the_argument_alone(way: Way) -> None:
    """d/dz of (d/dy z·y at y = z) is 1: the z of the outside is no y."""
    outer = nnc.grad(lambda z: nnc.grad(lambda y: z * y)(z))
    assert way(outer)(np.float64(3.0)).item() == 1.0
    both = nnc.grad(lambda x: nnc.grad(lambda y: x * y * y)(x * 2.0))
    assert way(both)(np.float64(3.0)).item() == 4 * 2 * 3.0


def test_numbers_are_arguments_too() -> None:
    assert nnc.grad(lambda x: x * x)(3.0).item() == 6.0
    assert nnc.grad(lambda x, y: x * y, argnums=1)(3.0, 2.0).dtype is nnc.f32


@WAYS
def test_vectors_times_jacobians(way: Way) -> None:
    def function(d: Any, y: Any) -> Any:
        return {"product": d["x"] * y, "sum": (d["x"] + y).sum()}

    def pulled(x: Any, y: Any, u: Any, v: Any) -> Any:
        value, pullback = nnc.vjp(function, {"x": x}, y)
        return value, pullback({"product": u, "sum": v})

    x, y, u = X, X + 1, np.array([1.0, 0.0, 2.0])
    value, (by_d, by_y) = way(pulled)(x, y, u, np.float64(3.0))
    np.testing.assert_allclose(value["product"], x * y)
    np.testing.assert_allclose(by_d["x"], u * y + 3)
    np.testing.assert_allclose(by_y, u * x + 3)


@WAYS
def test_jacobians_times_vectors(way: Way) -> None:
    matrix = np.arange(6.0).reshape(2, 3)

    def pushed(x: Any, v: Any) -> Any:
        return nnc.jvp(lambda x: (ops.tanh(nnc.tensor(matrix) @ x), x.sum()), (x,), (v,))

    (y, total), (change, by_sum) = way(pushed)(X, np.ones(3))
    t = np.tanh(matrix @ X)
    np.testing.assert_allclose(y, t)
    np.testing.assert_allclose(change, (1 - t**2) * matrix.sum(1))
    assert (total.item(), by_sum.item()) == (X.sum(), 3.0)


@WAYS
def test_a_hessian_vector_product_by_composition(way: Way) -> None:
    def product(x: Any, v: Any) -> Any:
        return nnc.jvp(nnc.grad(cubes), (x,), (v,))[1]

    np.testing.assert_allclose(way(product)(X, X + 1), 6 * X * (X + 1))


@WAYS
def test_the_matrix_of_second_derivatives(way: Way) -> None:
    def function(x: Any) -> Any:
        return ops.exp(x.sum()) + (x[0] * x[1]).sum()

    x = np.array([[0.1, 0.2], [0.3, -0.4]])
    found = way(nnc.hessian(function))(x)
    expected = np.full((2, 2, 2, 2), np.exp(x.sum()))
    for column in range(2):
        expected[0, column, 1, column] += 1
        expected[1, column, 0, column] += 1
    np.testing.assert_allclose(found, expected)
    assert way(nnc.hessian(cubes))(np.zeros(0)).shape == (0, 0)


def test_what_does_not_depend_on_an_argument_has_zeros() -> None:
    np.testing.assert_array_equal(nnc.grad(lambda x: nnc.tensor(2.0))(X), np.zeros(3))
    _, change = nnc.jvp(lambda x: nnc.tensor([2.0]), (X,), (X,))
    np.testing.assert_array_equal(change, np.zeros(1))


# ---- what is recorded


def test_a_loop_of_updates_leaves_nothing_behind() -> None:
    gc.collect()
    before = len(default_graph().record.tensors)
    w = nnc.tensor(X)
    for _ in range(5):
        w = w - 0.1 * nnc.grad(cubes)(w)
        assert w.key is None
    assert len(default_graph().record.tensors) == before


def test_what_depends_on_recorded_variables_stays_recorded() -> None:
    x, scale = nnc.variable(np.float64(2.0)), nnc.variable(np.float64(3.0))
    penalty = nnc.grad(lambda y: scale * y * y * y)(x)
    assert penalty.key is not None
    by_x, by_scale = default_graph().backward([penalty], [x, scale])
    assert (by_x.item(), by_scale.item()) == (3 * 6 * 2.0, 3 * 4.0)
    # The argument is no variable, and yet the gradient depends on the one beside it.
    closed = nnc.grad(lambda y: scale * y * y)(np.float64(5.0))
    assert default_graph().backward([closed], [scale])[0].item() == 10.0
    with nnc.no_grad():
        assert nnc.grad(lambda y: scale * y * y)(x).key is None


def test_variables_of_a_graph_of_ones_own_stay_there() -> None:
    graph = DynamicGraph(backend="reference")
    x = graph.variable(X)
    slope = nnc.grad(cubes)(x)
    assert slope.graph is graph
    (second,) = graph.backward([slope], [x])
    np.testing.assert_allclose(second, 6 * X)


# ---- errors


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: nnc.grad(lambda x: x * x)(X), ShapeError, r"grad: got a function that gives f64\[3\]; need a scalar"),
        (lambda: nnc.grad(lambda x: 2.0)(X), ShapeError, "gives a float"),
        (lambda: nnc.grad(cubes)(np.arange(3)), NotDifferentiableError, r"grad: got i64\[3\]"),
        (lambda: nnc.grad(cubes)("text"), NotDifferentiableError, "got a str"),
        (lambda: nnc.grad(cubes, argnums=1)(X), AttributeValueError, "argument 1 of 1"),
        (lambda: nnc.jvp(cubes, (X,), (X[:2],)), ShapeError, r"jvp: got shapes \[\(2,\)\]"),
        (lambda: nnc.jvp(cubes, (X,), (X, X)), ShapeError, "nested alike"),
        (lambda: nnc.vjp(cubes, X)[1](X), ShapeError, r"vjp: got shapes \[\(3,\)\]; need \[\(\)\]"),
    ],
)
def test_what_cannot_be_differentiated_is_said(call: Callable[[], Any], error: type[UsageError], match: str) -> None:
    with pytest.raises(error, match=match) as caught:
        call()
    assert caught.value.origin.startswith("test_differentiation.py:")


def test_errors_inside_a_function_name_its_line() -> None:
    with pytest.raises(ShapeError) as caught:
        nnc.grad(lambda x: (x + np.ones(4)).sum())(X)  # inside the function
    assert caught.value.origin == line_of("inside the function")


@WAYS
def test_no_gradient_flows_through_what_is_stopped(way: Way) -> None:
    def quiet(x: Any) -> Any:
        with nnc.no_grad():
            factor = ops.exp(x) * 2.0
            inner = nnc.grad(cubes)(x)
        return (x * factor * inner.detach()).sum()

    np.testing.assert_allclose(way(nnc.grad(quiet))(X), 6 * np.exp(X) * X**2)
    np.testing.assert_allclose(nnc.grad(way(quiet))(X), 6 * np.exp(X) * X**2)
    stopped = way(nnc.grad(lambda x: (x * ops.stop_gradient(x)).sum()))(X)
    np.testing.assert_allclose(stopped, X)
    mapped = way(nnc.vmap(nnc.grad(lambda x: x * x.detach())))(X)
    np.testing.assert_allclose(mapped, X)


def test_a_complex_slope_of_real_numbers_is_told_of() -> None:
    """The imaginary part was lost, with NumPy's warning."""
    for call in (lambda: nnc.jvp(cubes, (X,), (2j,)), lambda: nnc.vjp(cubes, X)[1](2j)):
        with pytest.raises(DTypeError, match="take real"):
            call()


def test_a_slope_beyond_the_element_type_is_infinite() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, change = nnc.jvp(lambda x: x * 2, (nnc.tensor([1.0]),), (np.array([-1e308]),))
    assert change.tolist() == [-np.inf]
