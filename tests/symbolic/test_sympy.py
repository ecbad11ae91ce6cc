"""Derivatives up to order 4 against those that SymPy finds, in f64."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import mpmath
import numpy as np
import pytest
import sympy
from tests.symbolic.evaluation import Array, values_of

from nnc import ops
from nnc.core.values.spec import spec
from nnc.symbolic import Symbol, SymbolicGraph, backward

ORDERS = 4
POINTS = np.array([0.3, 0.7, 1.1, 1.9])
TOLERANCE = 1e-9

# One text for both sides: `m` has the functions of either. `Any`: x is a symbol of ours or one of SymPy's.
Formula = Callable[[Any, Any], Any]

SCALAR: dict[str, Formula] = {
    "polynomial": lambda m, x: x * x * x * 2.0 - x * x / 3.0 + x - 1.0,
    "exponential": lambda m, x: m.exp(x * 2.0),
    "gaussian": lambda m, x: m.exp(-x * x),
    "logarithm": lambda m, x: m.log(x) * x,
    "logarithm of one more": lambda m, x: m.log(1.0 + x * x),
    "root": lambda m, x: m.sqrt(1.0 + x * x),
    "root of a root": lambda m, x: m.sqrt(x + m.sqrt(x)),
    "sine": lambda m, x: m.sin(x * x),
    "sine times cosine": lambda m, x: m.sin(x) * m.cos(2.0 * x),
    "tangent": lambda m, x: m.sin(x / 2.0) / m.cos(x / 2.0),
    "hyperbolic tangent": lambda m, x: m.tanh(x),
    "hyperbolic tangent of a product": lambda m, x: m.tanh(x * m.exp(-x)),
    "error function": lambda m, x: m.erf(x) * x,
    "arctangent": lambda m, x: m.atan(x) * x,
    "complementary error function": lambda m, x: m.erfc(x) * x,
    "sigmoid": lambda m, x: 1.0 / (1.0 + m.exp(-x)),
    "softplus": lambda m, x: m.log(1.0 + m.exp(x)),
    "swish": lambda m, x: x / (1.0 + m.exp(-x)),
    "power of a number": lambda m, x: x**2.5,
    "power with an exponent": lambda m, x: x**x,
    "quotient": lambda m, x: (x * x - 1.0) / (x * x + 1.0),
    "quotient of functions": lambda m, x: m.exp(x) / (m.log(x + 2.0) + 1.0),
    "continued fraction": lambda m, x: 1.0 / (1.0 + x / (1.0 + x / (1.0 + x))),
    "nested": lambda m, x: m.exp(m.sin(m.log(x + 1.0))),
    "tower": lambda m, x: m.log(1.0 + m.exp(m.tanh(x * x))),
    "oscillation that fades": lambda m, x: m.exp(-x / 2.0) * m.cos(3.0 * x),
}

MATRIX = np.array([[0.5, -0.2, 0.1], [0.3, 0.4, -0.6], [-0.7, 0.2, 0.9]])
POINT = np.array([0.4, 0.9, -0.3])
DIRECTION = np.array([1.0, -0.5, 0.75])


def product(matrix: Symbol, x: Symbol) -> Symbol:
    """matrix @ x"""
    return ops.reshape(matrix @ ops.reshape(x, (3, 1)), (3,))


def rows(x: list[sympy.Expr]) -> list[sympy.Expr]:
    """MATRIX @ x"""
    return [sum(float(entry) * one for entry, one in zip(row, x, strict=True)) for row in MATRIX]


# Functions of a vector and a matrix: ours on tensors, and the same written out.
VECTOR: dict[str, tuple[Callable[[Symbol, Symbol], Symbol], Callable[[list[sympy.Expr]], sympy.Expr]]] = {
    "quadratic form": (
        lambda x, a: ops.reduce_sum(x * product(a, x)),
        lambda x: sum(one * row for one, row in zip(x, rows(x), strict=True)),
    ),
    "layer": (
        lambda x, a: ops.reduce_sum(ops.tanh(product(a, x))),
        lambda x: sum(sympy.tanh(row) for row in rows(x)),
    ),
    "two layers": (
        lambda x, a: ops.reduce_mean(ops.square(product(a, ops.tanh(x)))),
        lambda x: sum(row**2 for row in rows([sympy.tanh(one) for one in x])) / 3,
    ),
    "logarithm of a sum of exponentials": (
        lambda x, a: ops.log(ops.reduce_sum(ops.exp(x))),
        lambda x: sympy.log(sum(map(sympy.exp, x))),
    ),
    "weighted softmax": (
        lambda x, a: ops.reduce_sum(ops.softmax(x) * a[0]),
        lambda x: sum(sympy.exp(one) * float(w) for one, w in zip(x, MATRIX[0], strict=True)) / sum(map(sympy.exp, x)),
    ),
    "norm": (
        lambda x, a: ops.sqrt(ops.reduce_sum(ops.square(x))),
        lambda x: sympy.sqrt(sum(one**2 for one in x)),
    ),
    "elements": (
        lambda x, a: x[0] * ops.exp(x[1]) / (1.0 + x[2] ** 2),
        lambda x: x[0] * sympy.exp(x[1]) / (1 + x[2] ** 2),
    ),
    "overlapping parts": (
        lambda x, a: ops.reduce_sum(ops.sin(x[0:2] * x[1:3])),
        lambda x: sympy.sin(x[0] * x[1]) + sympy.sin(x[1] * x[2]),
    ),
    "mean times sum": (
        lambda x, a: ops.reduce_mean(ops.exp(x)) * ops.reduce_sum(x * x * x),
        lambda x: sum(map(sympy.exp, x)) / 3 * sum(one**3 for one in x),
    ),
}


def values_in_sympy(symbols: list[sympy.Symbol], expressions: list[sympy.Expr], points: Array) -> Array:
    """The expressions, evaluated with 30 digits at each row of `points`."""
    function = sympy.lambdify(symbols, expressions, "mpmath", cse=True)
    with mpmath.workdps(30):
        return np.array([[float(value) for value in function(*map(mpmath.mpf, row))] for row in points])


@pytest.mark.turns(4)
@pytest.mark.parametrize("name", SCALAR)
def test_derivatives_of_scalar_functions(name: str) -> None:
    graph, ours = SymbolicGraph(), SimpleNamespace(**vars(ops))
    x = graph.input(spec(POINTS.shape, "f64"), "x")
    derivatives = [SCALAR[name](ours, x)]
    for _ in range(ORDERS):
        derivatives.extend(backward(graph, derivatives[-1:], [x]))
    symbol = sympy.Symbol("x", positive=True)
    expressions = [sympy.nsimplify(SCALAR[name](sympy, symbol), rational=True)]
    for _ in range(ORDERS):
        expressions.append(sympy.diff(expressions[-1], symbol))
    expected = values_in_sympy([symbol], expressions, POINTS[:, None]).T
    found = values_of(graph, derivatives, {x: POINTS})
    np.testing.assert_allclose(found, expected, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.turns(4)
@pytest.mark.parametrize("name", VECTOR)
def test_derivatives_of_functions_of_vectors(name: str) -> None:
    """The gradients of f, of ∇f · v, of ∇(∇f · v) · v and so on, v a fixed direction."""
    function, written_out = VECTOR[name]
    graph = SymbolicGraph()
    x, matrix, v = (graph.input(spec(shape, "f64"), "x") for shape in ((3,), (3, 3), (3,)))
    value, gradients = function(x, matrix), []
    for _ in range(ORDERS):
        (gradient,) = backward(graph, [value], [x])
        gradients.append(gradient)
        value = ops.reduce_sum(gradient * v)
    symbols = [sympy.Symbol(f"x{place}", real=True) for place in range(3)]
    scalar, expressions = written_out(symbols), []
    for _ in range(ORDERS):
        slopes = [sympy.diff(scalar, symbol) for symbol in symbols]
        expressions.extend(slopes)
        scalar = sum(float(step) * slope for step, slope in zip(DIRECTION, slopes, strict=True))
    expected = values_in_sympy(symbols, expressions, POINT[None]).reshape(ORDERS, 3)
    found = values_of(graph, gradients, {x: POINT, matrix: MATRIX, v: DIRECTION})
    np.testing.assert_allclose(found, expected, rtol=TOLERANCE, atol=TOLERANCE)
