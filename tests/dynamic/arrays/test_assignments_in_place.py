"""`x += y` of whole arrays is seen by all names of the array, as in NumPy, PyTorch and MLX."""

from __future__ import annotations

import numpy as np

import nnc


def test_all_names_of_an_array_see_what_is_added() -> None:
    weights, slopes = [nnc.ones(2), nnc.zeros(3)], [nnc.ones(2), nnc.ones(3)]
    for weight, slope in zip(weights, slopes, strict=True):
        weight -= 0.5 * slope  # what is tested
    assert [weight.tolist() for weight in weights] == [[0.5, 0.5], [-0.5, -0.5, -0.5]]
    x = y = nnc.ones(2)
    x *= 3
    x /= 2
    x += 1
    assert x is y
    assert y.tolist() == [2.5, 2.5]


def test_other_types_and_shapes_and_parts_are_new_values() -> None:
    x = y = nnc.arange(2)
    x += 0.5
    assert (x.tolist(), y.tolist()) == ([0.5, 1.5], [0, 1])
    x = y = nnc.ones(2)
    x += nnc.ones((2, 2))
    assert (x.shape, y.shape) == ((2, 2), (2,))
    whole = nnc.ones((2, 2))
    row = whole[0]
    row += 1
    assert (row.tolist(), whole.tolist()) == ([2.0, 2.0], [[1.0, 1.0], [1.0, 1.0]])


def test_gradients_flow_through_and_leaves_stay() -> None:
    w = nnc.variable([1.0, 2.0])
    h = again = w * 2
    h += w
    assert h is again
    h.sum().backward()
    assert w.grad is not None
    np.testing.assert_allclose(w.grad.numpy(), [3.0, 3.0])
    before = w
    w += 1.0
    assert before.tolist() == [1.0, 2.0]
    held = before.detach()
    held += 1.0
    assert before.tolist() == [2.0, 3.0]
