"""Training steps as each school writes them: the same losses, eagerly and compiled."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import nnc
from nnc import nn
from nnc.errors import ArgumentError
from nnc.nn import optim
from nnc.nn.optim import StepOptimizer

X = np.random.default_rng(0).standard_normal((16, 4)).astype(np.float32)
Y = X[:, :2] * 2.0 - 1.0


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.norm, self.out = nn.Dense(8), nn.BatchNorm(), nn.Dense(2)

    def forward(self, x: nnc.Variable) -> nnc.Variable:
        return self.out(nnc.ops.tanh(self.norm(self.hidden(x))))


Step = Callable[[np.ndarray, np.ndarray], nnc.Variable]


def torch_step(net: Net) -> Step:
    optimizer = optim.Adam(net.parameters(), lr=0.05)

    def step(x: np.ndarray, y: np.ndarray) -> nnc.Variable:
        optimizer.zero_grad()
        loss = ((net(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    return step


def mlx_step(net: Net) -> Step:
    optimizer = nn.Adam(0.05)

    def loss_of(x: np.ndarray, y: np.ndarray) -> nnc.Variable:
        return ((net(x) - y) ** 2).mean()

    def step(x: np.ndarray, y: np.ndarray) -> nnc.Variable:
        loss, gradients = nnc.value_and_grad(net, loss_of)(x, y)
        optimizer.update(net, gradients)
        return loss

    return step


def equinox_step(net: Net) -> Step:
    optimizer = nn.Adam(0.05)

    def step(x: np.ndarray, y: np.ndarray) -> nnc.Variable:
        loss, gradients = nnc.value_and_grad(lambda net, x, y: ((net(x) - y) ** 2).mean())(net, x, y)
        optimizer.update(net, gradients)
        return loss

    return step


@pytest.mark.parametrize("way", [torch_step, mlx_step, equinox_step])
def test_schools_agree_and_compiled_steps_are_one_program(way: Callable[[Net], Step]) -> None:
    losses: dict[str, list[float]] = {}
    for name in ("reference", "eager", "compiled"):
        nnc.seed(2)
        net = Net()
        step = torch_step(net) if name == "reference" else way(net)
        run = nnc.compile(step) if name == "compiled" else step
        losses[name] = [run(X, Y).item() for _ in range(6)]
        if name == "compiled":
            assert run.recorded == 1
            assert net.state_dict()["norm.running_mean"].any()
    assert losses["reference"][-1] < 0.7 * losses["reference"][0]
    np.testing.assert_allclose(losses["eager"], losses["reference"], rtol=1e-6)
    np.testing.assert_allclose(losses["compiled"], losses["reference"], rtol=1e-3)


def test_an_update_is_that_of_a_model() -> None:
    nnc.seed(5)
    net = nn.Sequential(nn.Dense(8), nn.Tanh(), nn.Dense(2))
    net(X)
    model = nn.Model(net, (4,), loss=nn.MeanSquaredError(), optimizer=nn.SGD(0.1, momentum=0.9))
    optimizer = optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for _ in range(3):
        model.train_on_batch(X, Y)
        optimizer.zero_grad()
        ((net(X) - Y) ** 2).mean().backward()
        optimizer.step()
    for path, value in net.state_dict().items():
        np.testing.assert_allclose(value, model.parameters[path].numpy(), rtol=1e-4, atol=1e-5)


def test_gradients_add_up_until_they_are_set_to_zero() -> None:
    w = nn.Parameter(np.array([1.0, 2.0], np.float32))
    for count in (1, 2):
        (w * w).sum().backward()
        np.testing.assert_allclose(w.grad.numpy(), count * 2.0 * w.numpy())
    optimizer = optim.SGD([w], lr=0.5)
    optimizer.step()
    np.testing.assert_allclose(w.numpy(), [-1.0, -2.0])
    optimizer.zero_grad()
    assert w.grad is None
    optimizer.step()
    np.testing.assert_allclose(w.numpy(), [-1.0, -2.0])


def test_what_was_computed_before_an_update_keeps_its_gradient() -> None:
    w = nn.Parameter(np.array(3.0, np.float32))
    y = w * w
    w.become(nnc.tensor(np.array(5.0, np.float32)))
    assert (y.item(), (w * w).item()) == (9.0, 25.0)


def test_an_optimizer_may_come_before_the_first_call() -> None:
    net = nn.Dense(2)
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    net(X).sum().backward()
    before = net.state_dict()["bias"]
    optimizer.step()
    np.testing.assert_allclose(net.state_dict()["bias"], before - 0.1 * len(X), rtol=1e-6)


def test_state_of_an_optimizer_goes_on_with_another_rate_and_from_a_file() -> None:
    net = nn.Dense(2)
    optimizer = optim.Adam(net.parameters(), lr=0.1)
    net(X).sum().backward()
    optimizer.step()
    optimizer.lr = 0.01
    assert optimizer.lr == 0.01
    optimizer.step()
    kept = optimizer.state_dict()
    assert kept["step"] == 2
    other = nn.Dense(2)
    other.load_state_dict(net.state_dict())
    other(X).sum().backward()
    resumed = optim.Adam(other.parameters(), lr=0.01)
    resumed.load_state_dict(kept)
    for one in (optimizer, resumed):
        one.step()
    np.testing.assert_allclose(other.state_dict()["weight"], net.state_dict()["weight"], rtol=1e-6)


def test_mistakes_are_named() -> None:
    net = nn.Dense(2)
    net(X)
    with pytest.raises(ArgumentError, match="one of 'gain'"):
        nn.SGD(0.1).update(net, {"gain": nnc.tensor(1.0)})
    with pytest.raises(ArgumentError, match="leaf variables"):
        optim.SGD([nnc.tensor(1.0)], lr=0.1)
    with pytest.raises(ArgumentError, match="a layer or module beside its loss"):
        nnc.value_and_grad(lambda x: x, lambda x: x)


def test_a_compiled_function_updates_several_times() -> None:
    """Behind an update a parameter is a leaf again, as in eager code: two steps in one call, and losses in turn."""

    def trained(compiled: bool) -> dict[str, np.ndarray]:
        nnc.seed(0)
        maker, critic = nn.Linear(3, 2), nn.Linear(2, 1)
        rules = [optim.Adam(layer.parameters(), lr=0.1) for layer in (critic, maker, critic)]

        def step(x: nnc.Variable) -> None:
            drawn = maker(x)
            for rule, output in zip(rules, (drawn.detach(), drawn, drawn.detach()), strict=True):
                rule.zero_grad()
                (critic(output) ** 2).mean().backward()
                rule.step()

        run = nnc.compile(step) if compiled else step
        for _ in range(3):
            run(nnc.tensor(X[:, :3]))
        return {
            f"{number}.{path}": value
            for number, net in enumerate((maker, critic))
            for path, value in net.state_dict().items()
        }

    eager, compiled = trained(compiled=False), trained(compiled=True)
    for path, value in eager.items():
        np.testing.assert_allclose(compiled[path], value, rtol=1e-4, atol=1e-5, err_msg=path)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (lambda w: optim.Adagrad([w], lr=0.1), -0.1),
        (lambda w: optim.Adamax([w], lr=0.1), -0.1),
        (lambda w: optim.Lion([w], lr=0.1), -0.1),
        (lambda w: optim.Adadelta([w], lr=1.0), -((1e-6 / (0.1 * 4.0 + 1e-6)) ** 0.5) * 2.0),
    ],
)
def test_first_steps_of_further_optimizers(made: Callable[[nnc.Variable], StepOptimizer], expected: float) -> None:
    w = nnc.variable([1.0])
    optimizer = made(w)
    (2.0 * w).sum().backward()
    optimizer.step()
    assert w.item() - 1.0 == pytest.approx(expected, rel=1e-3)


def test_adafactor_goes_down() -> None:
    w = nnc.variable(np.ones((3, 2), np.float32))
    optimizer = optim.Adafactor([w], lr=0.1)
    (w * w).sum().backward()
    optimizer.step()
    assert (w < 1.0).all()
