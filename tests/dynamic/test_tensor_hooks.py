"""Hooks on gradients of values: what PyTorch 2.13 gives for the same lines stands beside them."""

from __future__ import annotations

import gc
from typing import Any

import pytest

import nnc
from nnc import nn, optim
from nnc.errors import ShapeError, UsageError


def test_gradients_go_through_hooks_from_the_end_on() -> None:
    x, seen = nnc.variable([1.0, 2.0]), []
    y = x * 3.0
    z = y * y
    y.register_hook(lambda g: seen.append(g.tolist()))
    z.register_hook(lambda g: g * 2.0)
    y.retain_grad()
    x.register_hook(lambda g: g + 1.0)
    z.sum().backward()
    assert (seen, y.grad.tolist(), x.grad.tolist()) == ([[12.0, 24.0]], [12.0, 24.0], [37.0, 73.0])


def test_hooks_of_values_that_nobody_holds_of_parts_and_of_outputs() -> None:
    w = nnc.variable([1.0, 2.0])

    def scaled(x: Any, by: float) -> Any:
        h = x * 2.0
        h.register_hook(lambda g: g * by)
        return h.sqrt().square()

    scaled(scaled(w, 3.0), 5.0).sum().backward()
    gc.collect()
    assert w.grad.tolist() == pytest.approx([60.0, 60.0])
    w.grad = None
    first, second = nnc.split(w * 2.0, 2)
    first.register_hook(lambda g: g * 5.0)
    (first.sum() + second.sum()).backward()
    assert w.grad.tolist() == [10.0, 2.0]
    w.grad = None
    with (w * 1.0)[0:1].register_hook(lambda g: g * 7.0):
        pass
    (w * 2.0).backward(nnc.tensor([1.0, 10.0]))
    assert w.grad.tolist() == [2.0, 20.0]


def test_a_step_in_the_backward_pass() -> None:
    net = nn.Linear(2, 1)
    net.weight = [[1.0, -0.5]]
    optimizers = {id(p): optim.SGD([p], lr=0.25) for p in net.parameters()}

    def step(parameter: Any) -> None:
        optimizers[id(parameter)].step()
        parameter.grad = None

    for parameter in net.parameters():
        parameter.register_post_accumulate_grad_hook(step)
    net(nnc.ones((1, 2))).sum().backward()
    assert net.weight.grad is None
    assert net.weight.tolist() == [[0.75, -0.75]]


def test_refusals() -> None:
    x = nnc.variable([1.0])
    with pytest.raises(UsageError, match=r"a constant f32\[\]; need a value with a gradient"):
        nnc.tensor(1.0).register_hook(print)
    with pytest.raises(UsageError, match="a value that is no leaf"):
        (x * 2.0).register_post_accumulate_grad_hook(print)
    y = x * 1.0
    y.register_hook(lambda g: nnc.ones(3))
    with pytest.raises(ShapeError, match=r"got f32\[3\]; need f32\[1\] or None"):
        y.sum().backward()
    net = nn.Linear(1, 1)
    net.weight.register_hook(lambda g: g)

    def step(x: Any) -> Any:
        loss = net(x).sum()
        loss.backward()
        return loss

    with pytest.raises(UsageError, match="a parameter with a hook; need an eager loop"):
        nnc.compile(step)(nnc.ones((1, 1)))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(3, 3), nn.Dense(2)

    def forward(self, x: Any, scale: float = 1.0) -> Any:
        return self.b(nn.relu(self.a(x))) * scale


def test_hooks_around_layers() -> None:
    net, seen, x = Net(), [], nnc.variable([[1.0, 2.0, 3.0]])
    for name, layer in net.named_modules():
        layer.register_full_backward_hook(
            lambda layer, by_x, by_y, name=name: seen.append((name, by_x[0].shape, by_y[0].shape))
        )
    net.register_forward_pre_hook(lambda net, given, options: seen.append((len(given), options)), with_kwargs=True)
    net.register_forward_hook(lambda net, given, options, y: y * options["scale"], with_kwargs=True)
    y = net(x, scale=2.0)
    y.sum().backward()
    assert seen == [(1, {"scale": 2.0}), ("b", (1, 3), (1, 2)), ("a", (1, 3), (1, 3)), ("", (1, 3), (1, 2))]
    slope = x.grad
    x.grad = None
    net.a.register_full_backward_hook(lambda layer, by_x, by_y: (by_x[0] * 3.0,))
    net(x, scale=2.0).sum().backward()
    assert x.grad.tolist()[0] == pytest.approx((slope * 3.0).tolist()[0])
    with pytest.raises(UsageError, match="a function that is being compiled; need an eager call"):
        nnc.compile(net)(x)
