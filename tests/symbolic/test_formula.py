"""Formulas become symbols: rows S11, S14 and S15 of NNVM on this package's operators."""

from __future__ import annotations

import numpy as np
import pytest

from nnc.core.values.command import Command
from nnc.core.values.spec import spec
from nnc.core.values.tensor import Tensor
from nnc.errors import ArityError, AttributeValueError, ShapeError
from nnc.ops.elementwise.pointwise import tanh
from nnc.ops.optimizer.optimizer import SGD, SGDAttrs
from nnc.ops.products.products import GEMM
from nnc.ops.reduction.reduction import REDUCE_MEAN
from nnc.symbolic import SymbolicGraph, backward, compile, minimize
from nnc.symbolic.formula import Formula, infer_specs, instantiate


def test_s11_arithmetic_with_formulas_and_numbers() -> None:
    x, y = Formula.variable("x"), Formula.variable("y")
    formula = 2.0 * (x + y) ** 2 - x / y + (1.0 - x) / 4.0 + 3.0 / y - (-x)
    graph = SymbolicGraph()
    symbols = {"x": graph.input(spec((2,), "f64")), "y": graph.input(spec((2,), "f64"))}
    (result,) = instantiate(formula, graph, **symbols)
    a, b = np.array([0.5, 2.0]), np.array([4.0, -1.0])
    (got,) = compile(graph, [result], backend="reference")({symbols["x"]: a, symbols["y"]: b}, result)
    np.testing.assert_allclose(got, 2 * (a + b) ** 2 - a / b + (1 - a) / 4 + 3 / b + a, rtol=1e-12)


def test_numbers_in_divisions_divide() -> None:
    """49 / 49.0 is 1 and no 1 - 2^-24, of formulas as of symbols."""
    x, graph = Formula.variable("x"), SymbolicGraph()
    symbol = graph.input(spec((2,), "f32"))
    (whole,) = instantiate(x / 49.0, graph, x=symbol)
    (found,) = compile(graph, [whole], backend="reference")({symbol: np.float32([49.0, 98.0])}, whole)
    assert found.tolist() == [1.0, 2.0]
    assert infer_specs(x / 49.0, x=symbol.spec)["x"] == symbol.spec


def test_s14_specs_of_everything_before_any_graph() -> None:
    hidden = Formula.of(tanh, Formula.of(GEMM, Formula.variable("x"), name="dense"), name="act")
    specs = infer_specs(hidden, x=spec((4, 3)), dense_b=spec((3, 2)))
    assert {name: str(found) for name, found in specs.items()} == {
        "x": "f32[4, 3]",
        "dense_b": "f32[3, 2]",
        "dense_y": "f32[4, 2]",
        "act_y": "f32[4, 2]",
    }
    with pytest.raises(ShapeError, match="gemm"):
        infer_specs(hidden, x=spec((4, 3)), dense_b=spec((5, 2)))
    with pytest.raises(ArityError, match="dense_b"):
        infer_specs(hidden, x=spec((4, 3)))
    with pytest.raises(AttributeValueError, match="other"):
        infer_specs(hidden, x=spec((4, 3)), dense_b=spec((3, 2)), other=spec())


def test_s14_s15_gradients_and_updates_of_a_composed_loss() -> None:
    loss = Formula.of(REDUCE_MEAN, (Formula.variable("w") - 3.0) ** 2, axes=(0,))
    graph = SymbolicGraph()
    w = graph.input(spec((4,)), "w")
    (value,) = instantiate(loss, graph, w=w)
    (gradient,) = backward(graph, [value], [w])
    step = minimize(graph, Command(SGD, SGDAttrs()), [value], [w])
    weights, state = Tensor.zeros(w.spec), Tensor.zeros(w.spec)
    given = {w: weights, step.updates[0].states[0]: state, step.scalars["rate"]: Tensor.from_numpy(np.float32(2.0))}
    compiled = compile(graph, [gradient], given=given, carry=step.carries(), backend="reference")
    compiled.run()
    np.testing.assert_allclose(compiled.tensor(gradient).numpy(), -1.5)
    np.testing.assert_allclose(weights.numpy(), 3.0)


def test_s12_control_dependencies_are_an_order_of_execs() -> None:
    x = Formula.variable("x")
    first = Formula.of(tanh, x, name="first")
    second = Formula.of(tanh, x, name="second").following(first, x)
    graph = SymbolicGraph()
    instantiate(second, graph, x=graph.input(spec((2,))))
    names = {record.name: key for key, record in graph.execs.items()}
    assert graph.execs.predecessors(names["second"]) == (names["first"],)
    assert graph.execs.predecessors(names["first"]) == ()
