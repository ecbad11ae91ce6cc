"""PyTorch's methods that end in `_`, `data`, and assignments that would be lost."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import nnc
from nnc import nn
from nnc.errors import ArgumentError, AttributeValueError, DTypeError, ShapeError, UsageError

METHODS: dict[str, tuple[Callable[[nnc.Variable], nnc.Variable], list[float]]] = {
    "add_": (lambda x: x.add_(1), [2.0, 3.0]),
    "add_ scaled": (lambda x: x.add_(x, alpha=2), [3.0, 6.0]),
    "sub_": (lambda x: x.sub_([1.0, 0.5], alpha=2), [-1.0, 1.0]),
    "mul_": (lambda x: x.mul_(3), [3.0, 6.0]),
    "div_": (lambda x: x.div_(2), [0.5, 1.0]),
    "clamp_": (lambda x: x.clamp_(max=1.5), [1.0, 1.5]),
    "lerp_": (lambda x: x.lerp_(nnc.zeros(2), 0.5), [0.5, 1.0]),
    "copy_": (lambda x: x.copy_(nnc.tensor([7, 8])), [7.0, 8.0]),
    "fill_": (lambda x: x.fill_(4), [4.0, 4.0]),
    "zero_": (lambda x: x.zero_(), [0.0, 0.0]),
}


@pytest.mark.parametrize("name", METHODS)
def test_values_hold_others_from_then_on(name: str) -> None:
    change, wanted = METHODS[name]
    x = nnc.tensor([1.0, 2.0])
    before = x * 1
    assert change(x) is x
    assert x.dtype is nnc.f32
    assert x.tolist() == wanted
    assert before.tolist() == [1.0, 2.0]
    leaf = nnc.variable([1.0, 2.0])
    with pytest.raises(UsageError, match=r"with nnc\.no_grad\(\): w\."):
        change(leaf)
    with nnc.no_grad():
        change(leaf)
    assert leaf.tolist() == wanted
    assert leaf.requires_grad


def test_data_is_the_leaf_s() -> None:
    layer = nn.Linear(2, 1)
    layer.weight.data.fill_(2.0)
    layer.bias.data = nnc.zeros(1)
    layer.weight.data[0, 0] = 5.0
    layer.weight.data -= 1.0
    assert layer(nnc.ones((1, 2))).item() == 5.0
    assert layer.weight.requires_grad
    assert not layer.weight.data.requires_grad
    x = nnc.tensor([np.nan])
    x.data.zero_()
    assert x.item() == 0.0
    with pytest.raises(ShapeError, match="data: got"):
        layer.bias.data = nnc.zeros(3)


def test_gradients_flow_through_values_that_were_changed() -> None:
    w = nnc.variable([1.0, 2.0])
    y = w * 2
    y.mul_(w)
    y.sum().backward()
    assert w.grad is not None
    assert w.grad.tolist() == [4.0, 8.0]
    w.grad.zero_()
    assert w.grad.tolist() == [0.0, 0.0]
    with pytest.raises(ShapeError, match="add_: got"):
        nnc.ones(2).add_(nnc.ones((3, 2)))
    with pytest.raises(ShapeError, match="copy_: got"):
        nnc.ones(2).copy_(nnc.ones(3))
    with pytest.raises(UsageError, match="x = x"):
        nnc.compile(lambda x: x.add_(1))(nnc.ones(2))


def test_what_would_be_lost_is_refused() -> None:
    x = nnc.zeros(2, 3)
    with pytest.raises(UsageError, match="a view"):
        x[0].fill_(1.0)
    row = x.reshape(-1)
    with pytest.raises(UsageError, match="a view"):
        row.add_(1.0)
    x[0, 0] = 2.0
    assert x.sub_(1.0).tolist() == [[1.0, -1.0, -1.0], [-1.0] * 3]
    x.zero_()
    w = nnc.variable([1.0, 2.0])
    doubled = w * 2
    with pytest.raises(UsageError, match="of a computed value"):
        doubled.data.zero_()
    with pytest.raises(DTypeError, match=r"nnc\.f32"):
        nnc.tensor([1, 2]).add_(0.5)
    w.detach()[0] = 7.0
    assert w.tolist() == [7.0, 2.0]
    assert (x.tolist(), doubled.tolist()) == ([[0.0] * 3] * 2, [2.0, 4.0])


def test_starting_values_reach_the_leaf_of_data() -> None:
    layer = nn.Linear(3, 2)
    nn.init.constant_(layer.weight.data, 0.5)
    assert nnc.array_equal(layer.weight, nnc.full_like(layer.weight, 0.5))


def test_sequences_are_scaled_as_arrays() -> None:
    assert nnc.ones(2).add_([1.0], alpha=2).tolist() == [3.0, 3.0]
    with pytest.raises(DTypeError, match="take real"):
        nnc.ones(2).add_([2j, 1.0])
    with pytest.raises(DTypeError, match="whole numbers"):
        nnc.tensor([1, 2]).add_([0.5, 1.0])


def test_numbers_of_numpy_are_scaled_as_those_of_python() -> None:
    """Their own product wrapped, or was infinite with a warning."""
    assert nnc.zeros(1).add_(np.int8(100), alpha=np.int8(100)).tolist() == [1e4]
    assert nnc.zeros(1).sub_(np.float64(1e308), alpha=1e308).tolist() == [-math.inf]
    assert nnc.zeros(1).add_([1e300]).tolist() == [math.inf]
    with pytest.raises(ArgumentError, match="an array or a number"):
        nnc.zeros(1).mul_(np.str_("a"))


def test_whether_gradients_are_recorded_is_a_choice() -> None:
    w = nnc.variable([1.0])
    for mode in (True, False):
        with nnc.set_grad_enabled(mode):
            assert (w * 2).requires_grad is mode
    with nnc.inference_mode():
        assert not (w * 2).requires_grad
        with nnc.enable_grad():
            assert (w * 2).requires_grad


def test_places_are_drawn_by_weights() -> None:
    nnc.seed(0)
    drawn = nnc.multinomial([0.0, 1.0, 3.0], 4000, replacement=True).numpy()
    assert abs((drawn == 2).mean() - 0.75) < 0.03
    assert not (drawn == 0).any()
    once = nnc.multinomial(nnc.ones((5, 3)), 3).numpy()
    assert (np.sort(once, 1) == [0, 1, 2]).all()
    with pytest.raises(ShapeError, match="no more than n"):
        nnc.multinomial([1.0], 2)
    for weights, count in (([-1.0, 2.0], 1), ([0.0, 1.0, 0.0], 2), ([float("nan"), 1.0], 1)):
        with pytest.raises(AttributeValueError, match="in each row"):
            nnc.multinomial(weights, count)
    with pytest.raises(AttributeValueError, match="2 above 0"):
        nnc.random.choice(3, (2,), replace=False, p=[0.0, 1.0, 0.0])
