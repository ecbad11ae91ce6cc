"""Fused operators in the symbolic graph: gradients of orders 1 and 2 compile, run, and agree with eager ones.

The inputs are views in the middle of larger tensors, so that places inside roots are tried too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from tests.ops.eager import Array, Eager, gradients

from nnc.core.values.dtype import F64
from nnc.core.values.spec import Shape, TensorSpec
from nnc.ops import (
    RecurrentWeights,
    add,
    batch_norm,
    group_norm,
    gru,
    layer_norm,
    lstm,
    recurrent_layers,
    reduce_sum,
    rms_norm,
    rotary_embedding,
    scaled_dot_product_attention,
    slice_axis,
    square,
)
from nnc.ops.operand import T
from nnc.symbolic import SymbolicGraph, compile
from nnc.symbolic.gradient import backward

CASES: tuple[tuple[str, Callable[..., object], tuple[Shape, ...]], ...] = (
    ("layer_norm", layer_norm, ((3, 5), (5,), (5,))),
    ("group_norm", lambda x, scale, bias: group_norm(x, 2, scale, bias), ((2, 3, 3, 4), (4,), (4,))),
    ("rms_norm", rms_norm, ((3, 5), (5,))),
    ("batch_norm", lambda *operands: batch_norm(*operands)[0], ((3, 5), (5,), (5,), (5,), (5,))),
    (
        "attention",
        lambda *operands: scaled_dot_product_attention(*operands, causal=True),
        ((2, 3, 4, 2), (2, 3, 2, 2), (2, 3, 2, 2), (3, 3)),
    ),
    ("rotary", rotary_embedding, ((2, 3, 2, 4), (3, 2))),
    ("lstm", lambda x, *weights: lstm(x, RecurrentWeights(*weights))[0], ((4, 2, 3), (3, 8), (2, 8), (8,))),
    (
        "gru in two directions",
        lambda x, *weights: recurrent_layers(
            lambda x, part, reverse: gru(x, part, reverse=reverse)[0], x, [[RecurrentWeights(*weights)] * 2]
        ),
        ((3, 2, 3), (3, 6), (2, 6), (6,), (6,)),
    ),
)


def sum_of_squares(parts: Sequence[T]) -> T:
    total = reduce_sum(square(parts[0]))
    for part in parts[1:]:
        total = add(total, reduce_sum(square(part)))
    return total


def eagerly(function: Callable[..., Eager], arrays: Sequence[Array]) -> list[Array]:
    inputs, one = [Eager(array) for array in arrays], Eager(np.ones(()))
    first = gradients([reduce_sum(square(function(*inputs)))], [one], inputs)
    second = gradients([sum_of_squares(first)], [one], inputs)
    return [part.array for part in (*first, *second)]


@pytest.mark.turns(4)
@pytest.mark.parametrize(("function", "shapes"), [row[1:] for row in CASES], ids=[row[0] for row in CASES])
def test_gradients_of_orders_one_and_two(function: Callable[..., object], shapes: tuple[Shape, ...]) -> None:
    generator = np.random.default_rng(0)
    arrays = [generator.standard_normal(shape) for shape in shapes]
    graph = SymbolicGraph()
    roots = [graph.input(TensorSpec((shape[0] + 2, *shape[1:]), F64)) for shape in shapes]
    inputs = [slice_axis(root, 0, 1, 1 + shape[0]) for root, shape in zip(roots, shapes, strict=True)]
    first = backward(graph, [reduce_sum(square(function(*inputs)))], inputs)
    second = backward(graph, [sum_of_squares(first)], inputs)
    compiled = compile(graph, (*first, *second))
    for root, array in zip(roots, arrays, strict=True):
        compiled.write(root, np.pad(array, [(1, 1), *[(0, 0)] * (array.ndim - 1)]))
    compiled.run()
    for symbol, want in zip((*first, *second), eagerly(function, arrays), strict=True):
        np.testing.assert_allclose(compiled.tensor(symbol).numpy(), want, rtol=1e-9, atol=1e-9)
