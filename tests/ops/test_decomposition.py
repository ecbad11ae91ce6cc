"""A gradient by decomposition is the gradient of the function, through views, shared values and several results."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from tests.ops.eager import Array, Eager, check_gradients, gradients

from nnc.core.values.dtype import F64, I64
from nnc.ops.decomposition import by_decomposition, pull_back
from nnc.ops.elementwise.pointwise import add, cast, exp, greater, multiply, square, tanh, where
from nnc.ops.movement.broadcast import reduce_sum, reshape
from nnc.ops.movement.movement import slice_axis, transpose
from nnc.ops.operand import T
from nnc.ops.rules import Applied, NoAttrs

X = np.random.default_rng(0).standard_normal((3, 4))


def agree(function: Callable[..., Sequence[T]], arrays: Sequence[Array]) -> None:
    inputs = [Eager(array) for array in arrays]
    seeds = [Eager(np.random.default_rng(1).standard_normal(y.shape)) for y in function(inputs)]
    got = pull_back(function, inputs, tuple(seeds), (True,) * len(inputs))
    for one, other in zip(got, gradients(function(inputs), seeds, inputs), strict=True):
        np.testing.assert_allclose(one.array, other.array, rtol=1e-12, atol=1e-12)


def test_views_of_inputs_and_of_values() -> None:
    def function(inputs: Sequence[T]) -> list[T]:
        (x,) = inputs
        upper, column = slice_axis(x, 0, 1, 3), slice_axis(exp(x), 1, 2, 3)
        flat = reshape(transpose(x), (12,))
        return [square(upper), multiply(column, column), slice_axis(multiply(flat, flat), 0, 3, 9)]

    agree(function, [X])


def test_values_used_more_than_once() -> None:
    agree(lambda inputs: [multiply(tanh(inputs[0]), add(tanh(inputs[0]), inputs[1]))], [X, X[:1]])


def test_a_result_may_be_an_input_or_a_view_of_one() -> None:
    agree(lambda inputs: [inputs[0], slice_axis(inputs[0], 0, 0, 2), reshape(inputs[0], (2, 6))], [X])


def test_inputs_that_are_not_in_row_major_order() -> None:
    whole = Eager(np.random.default_rng(2).standard_normal((5, 6)))
    part = whole[1:4, 2:5]
    (got,) = pull_back(
        lambda inputs: [square(slice_axis(inputs[0], 1, 1, 3))], [part], (Eager(np.ones((3, 2))),), (True,)
    )
    want = 2 * part.array
    want[:, 0] = 0
    np.testing.assert_allclose(got.array, want)


def test_only_wanted_inputs_get_a_gradient() -> None:
    a, b = Eager(X), Eager(X + 1)
    got = pull_back(lambda inputs: [multiply(*inputs)], [a, b], (Eager(np.ones_like(X)),), (False, True))
    assert got[0] is None
    np.testing.assert_array_equal(got[1].array, X)
    absent = pull_back(lambda inputs: [exp(inputs[0])], [a, None], (Eager(np.ones_like(X)),), (True, False))
    assert absent[1] is None
    assert pull_back(lambda inputs: [exp(inputs[0])], [a], (None,), (True,)) == (None,)


def test_nothing_flows_through_integers_and_truth_values() -> None:
    def function(inputs: Sequence[T]) -> list[T]:
        (x,) = inputs
        return [multiply(where(greater(x, cast(cast(x, I64), F64)), x, square(x)), x)]

    agree(function, [X])


def test_the_rule_of_an_operator() -> None:
    rule = by_decomposition(lambda attrs, inputs: [tanh(inputs[0]), reduce_sum(square(inputs[0]))])
    x, g = Eager(X), Eager(np.array(3.0))
    call = Applied(NoAttrs(), (x,), (), (True,))
    np.testing.assert_allclose(rule(call, (None, g))[0].array, 6 * X)
    both = rule(call, (Eager(np.ones_like(X)), g))[0]
    np.testing.assert_allclose(both.array, 6 * X + 1 - np.tanh(X) ** 2)


def test_the_result_can_be_differentiated_again() -> None:
    def slope(variables: Sequence[Eager]) -> Sequence[Eager]:
        (found,) = pull_back(lambda inputs: [exp(slice_axis(inputs[0], 0, 1, 3))], variables, (ones,), (True,))
        return [found]

    ones = Eager(np.ones((2, 4)))
    check_gradients(slope, [X])
