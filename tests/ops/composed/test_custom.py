"""Custom commands from Python functions, in the symbolic, the dynamic and the concrete graph."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import nnc
from nnc.concrete.graph import ConcreteGraph
from nnc.core.values.command import Command
from nnc.core.values.spec import TensorSpec, spec
from nnc.core.values.tensor import Tensor
from nnc.dynamic import DynamicGraph
from nnc.errors import BackendError, NotDifferentiableError, RegistryError, ShapeError
from nnc.graph import Op, Registry
from nnc.ops.composed.custom import KERNEL, custom_operator
from nnc.ops.elementwise.pointwise import affine, multiply, square
from nnc.ops.operand import T, apply
from nnc.ops.rules import Applied, Gradients, Inplace, NoAttrs, Specs, operator
from nnc.symbolic import SymbolicGraph, backward, compile

# Importing the package puts its backends into the dispatcher.
assert nnc.__name__ == "nnc"

Arrays = Sequence[NDArray[Any] | None]
REGISTRY = Registry("custom")
NUMBERS = itertools.count()


@dataclass(frozen=True, slots=True)
class CubeAttrs:
    """y = scale · x³."""

    scale: float = 1.0


def same(attrs: object, specs: Specs) -> Specs:
    return specs[:1]


def cube_kernel(attrs: CubeAttrs, inputs: Arrays, outputs: Sequence[NDArray[Any]]) -> None:
    (x,) = inputs
    assert x is not None
    np.multiply(attrs.scale, x**3, out=outputs[0])


def cube_gradient(call: Applied[CubeAttrs], gradients: Gradients) -> Gradients:
    (g,) = gradients
    assert g is not None
    return (affine(multiply(g, square(call.inputs[0])), 3.0 * call.attrs.scale),)


CUBE = custom_operator(
    "cube",
    CubeAttrs,
    infer=same,
    kernel=cube_kernel,
    gradient=cube_gradient,
    inplace=Inplace(allowed=((0, 0),)),
    registry=REGISTRY,
    doc="y = scale · x³",
)


def cube(x: T, scale: float = 1.0) -> T:
    return apply(CUBE, CubeAttrs(scale), x)


def fresh(**rules: object) -> Op[NoAttrs]:
    """An operator that copies, but for what `rules` say."""
    given = {"infer": same, "kernel": lambda attrs, inputs, outputs: np.copyto(outputs[0], inputs[0]), **rules}
    return custom_operator(f"copy{next(NUMBERS)}", registry=REGISTRY, **given)


X = np.array([0.5, -1.0, 2.0], np.float32)


def test_in_a_concrete_graph() -> None:
    graph = ConcreteGraph()
    x, y = Tensor.from_numpy(X), Tensor.empty(spec((3,)))
    first = graph.add(Command(CUBE, CubeAttrs(2.0)), [x], [y])
    graph.add(Command(CUBE, CubeAttrs()), [y], [y], after=[first])
    graph.run()
    np.testing.assert_allclose(y.numpy(), (2 * X**3) ** 3, rtol=1e-6)


def test_in_a_symbolic_graph_with_gradients_of_two_orders() -> None:
    graph = SymbolicGraph()
    x = graph.input(spec((3,)), "x")
    y = cube(x, 2.0) * x
    (first,) = backward(graph, [y], [x])
    (second,) = backward(graph, [first], [x])
    compiled = compile(graph, [y, first, second])
    results = compiled({x: X}, y, first, second)
    for got, want in zip(results, (2 * X**4, 8 * X**3, 24 * X**2), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)


def test_in_a_dynamic_graph() -> None:
    graph = DynamicGraph()
    x = graph.variable(X)
    y = cube(cube(x))
    np.testing.assert_allclose(y.numpy(), X**9, rtol=1e-5)
    (g,) = graph.backward([y], [x])
    np.testing.assert_allclose(g.numpy(), 9 * X**8, rtol=1e-5)


def test_a_kernel_cannot_write_its_inputs() -> None:
    def greedy(attrs: NoAttrs, inputs: Arrays, outputs: Sequence[NDArray[Any]]) -> None:
        inputs[0][...] = 0  # type: ignore[index]  # the point of the test

    x = DynamicGraph().constant(X)
    with pytest.raises(ValueError, match="read-only"):
        apply(fresh(kernel=greedy), NoAttrs(), x)


def test_optional_inputs_and_several_outputs() -> None:
    def parts(attrs: NoAttrs, inputs: Arrays, outputs: Sequence[NDArray[Any]]) -> None:
        x, shift = inputs
        assert x is not None
        np.trunc(x if shift is None else x + shift, out=outputs[0])
        np.subtract(x, outputs[0], out=outputs[1])

    op = custom_operator(
        "parts",
        NoAttrs,
        ("x", "shift"),
        ("whole", "rest"),
        infer=lambda attrs, specs: (specs[0], specs[0]),
        kernel=parts,
        optional=(1,),
        registry=REGISTRY,
    )
    graph = DynamicGraph()
    x, one = graph.constant(X), graph.constant(np.ones(3, np.float32))
    whole, rest = x.apply(Command(op, NoAttrs()), (x, None))
    np.testing.assert_array_equal(whole.numpy() + rest.numpy(), X)
    np.testing.assert_array_equal(x.apply(Command(op, NoAttrs()), (x, one))[0].numpy(), np.trunc(X + 1))
    second, concrete = Tensor.empty(spec((3,))), ConcreteGraph()
    concrete.add(Command(op, NoAttrs()), [x.tensor, None], [None, second])
    concrete.run()
    np.testing.assert_array_equal(second.numpy(), rest.numpy())


def test_a_variadic_command() -> None:
    def largest(attrs: NoAttrs, inputs: Arrays, outputs: Sequence[NDArray[Any]]) -> None:
        np.max(np.stack([array for array in inputs if array is not None]), axis=0, out=outputs[0])

    op = fresh(kernel=largest, variadic=True)
    x = DynamicGraph().constant(X)
    np.testing.assert_array_equal(apply(op, NoAttrs(), x, affine(x, -1.0), x).numpy(), np.abs(X))


def test_a_command_without_a_gradient_says_so() -> None:
    graph = SymbolicGraph()
    x = graph.input(spec((3,)))
    y = apply(fresh(), NoAttrs(), x)
    with pytest.raises(NotDifferentiableError, match="its author gave no gradient"):
        backward(graph, [y], [x])


@pytest.mark.parametrize("result", [[], (), ((3,),), (spec((3,)), spec((3,)))])
def test_an_infer_rule_must_give_one_spec_per_output(result: object) -> None:
    graph = SymbolicGraph()
    x = graph.input(spec((3,)))
    with pytest.raises(RegistryError, match="infer rule"):
        apply(fresh(infer=lambda attrs, specs: result), NoAttrs(), x)


def test_errors_of_the_infer_rule_name_the_command() -> None:
    def picky(attrs: NoAttrs, specs: tuple[TensorSpec, ...]) -> Specs:
        raise ShapeError("rule", got=str(specs[0]), need="another shape")

    op = fresh(infer=picky)
    with pytest.raises(ShapeError, match=rf"{op.name}: got f32\[3\]; need another shape"):
        apply(op, NoAttrs(), DynamicGraph().constant(X))


def test_an_operator_without_a_kernel_is_claimed_by_nobody() -> None:
    op = operator(
        "bare", NoAttrs, ("x",), infer=same, gradient=lambda call, g: g, registry=REGISTRY, doc="no kernel anywhere"
    )
    assert op not in KERNEL
    with pytest.raises(BackendError, match="no kernel"):
        apply(op, NoAttrs(), DynamicGraph().constant(X))


def test_names_are_unique_in_a_registry() -> None:
    with pytest.raises(RegistryError, match="cube"):
        custom_operator("cube", registry=REGISTRY, infer=same, kernel=cube_kernel)
