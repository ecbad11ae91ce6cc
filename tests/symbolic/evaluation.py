"""What tests of symbolic graphs share: values of symbols, and gradients by central differences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnc.core.values.spec import Shape, spec
from nnc.core.values.tensor import Tensor
from nnc.ops import reduce_sum, square
from nnc.symbolic import Compiled, Symbol, SymbolicGraph, backward, compile, verify

# `Any`: elements of any type.
Array = NDArray[Any]
Function = Callable[..., Symbol]

STEP = 1e-6


def values_of(graph: SymbolicGraph, outputs: Sequence[Symbol], inputs: Mapping[Symbol, Array]) -> list[Array]:
    """The values of `outputs` on the reference backend; inputs that nobody reads may be named."""
    return list(compiled_for(graph, outputs, inputs)({}, *outputs))


def compiled_for(graph: SymbolicGraph, outputs: Sequence[Symbol], inputs: Mapping[Symbol, Array]) -> Compiled:
    """The outputs of these inputs, or of others of the same shapes."""
    given = {symbol: Tensor.from_numpy(value, symbol.spec.dtype) for symbol, value in inputs.items()}
    return compile(graph, outputs, given=given, backend="reference")


def inputs_of(graph: SymbolicGraph, shapes: Sequence[Shape]) -> list[Symbol]:
    """One f64 input per shape."""
    return [graph.input(spec(shape, "f64"), f"x{index}") for index, shape in enumerate(shapes)]


def random_arrays(shapes: Sequence[Shape], seed: int = 0, low: float = 0.2, high: float = 1.5) -> list[Array]:
    """Numbers away from the kinks of maximum, absolute and their like."""
    generator = np.random.default_rng(seed)
    return [generator.uniform(low, high, shape) for shape in shapes]


def check_gradients(function: Function, *shapes: Shape, order: int = 1, tolerance: float = 1e-6) -> None:
    """Each gradient of Σ weights · function(inputs) against central differences; of its gradient at `order` 2."""
    graph = SymbolicGraph()
    symbols, arrays = inputs_of(graph, shapes), random_arrays(shapes)
    value = function(*symbols)
    for _ in range(order - 1):
        value = sum_of(backward(graph, [value], symbols))
    weight = graph.input(value.spec, "weight")
    arrays.append(random_arrays([value.shape], 1)[0])
    gradients = backward(graph, [value], symbols, [weight])
    verify(graph)
    named = dict(zip([*symbols, weight], arrays, strict=True))

    compiled = compiled_for(graph, [value], named)

    def scalar() -> float:
        return float((compiled(named, value)[0] * arrays[-1]).sum())

    for gradient, array in zip(values_of(graph, gradients, named), arrays[:-1], strict=True):
        expected = np.zeros_like(array)
        for place in np.ndindex(array.shape):
            before = array[place]
            array[place] = before + STEP
            upper = scalar()
            array[place] = before - STEP
            expected[place] = (upper - scalar()) / (2 * STEP)
            array[place] = before
        np.testing.assert_allclose(gradient, expected, rtol=tolerance, atol=tolerance)


def sum_of(symbols: Sequence[Symbol]) -> Symbol:
    """The sum of the squares of all elements: no gradient of it is constant."""
    total, *others = [reduce_sum(square(symbol)) for symbol in symbols]
    for other in others:
        total = total + other
    return total
