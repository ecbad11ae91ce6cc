"""Optimizers with parameters: state, groups, resuming, copies."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import nnc
from nnc import nn
from nnc.errors import ArgumentError, FormatError, UsageError
from nnc.nn import optim
from nnc.nn.optim import StepOptimizer

X = np.random.default_rng(5).standard_normal((8, 3)).astype(np.float32)


def made() -> tuple[nn.Layer, StepOptimizer]:
    nnc.seed(0)
    net = nn.Linear(3, 2)
    return net, optim.Adam(net.parameters(), lr=0.05)


def train(net: nn.Layer, optimizer: StepOptimizer, steps: int) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        (net(X) ** 2).mean().backward()
        optimizer.step()


def test_training_goes_on_from_saved_states(tmp_path: object) -> None:
    net, optimizer = made()
    train(net, optimizer, 3)
    optimizer.lr = 0.02
    values, state = net.state_dict(), optimizer.state_dict()
    assert state.keys() == {"step", "rate", *(f"{p}.{s}" for p in ("weight", "bias") for s in ("moment", "variance"))}
    other, resumed = made()
    other.load_state_dict(values)
    resumed.load_state_dict(state)
    assert resumed.lr == 0.02
    train(net, optimizer, 2)
    train(other, resumed, 2)
    np.testing.assert_array_equal(net.state_dict()["weight"], other.state_dict()["weight"])


def test_the_state_of_no_update_is_loaded_too() -> None:
    net, optimizer = made()
    optimizer.load_state_dict(made()[1].state_dict())
    train(net, optimizer, 1)
    with pytest.raises(FormatError, match="weight"):
        optimizer.load_state_dict({"step": 1.0})


@pytest.mark.parametrize("way", [copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))])
def test_copies_of_a_net_and_its_optimizer_go_together(way: object) -> None:
    net, optimizer = made()
    train(net, optimizer, 2)
    other, resumed = way((net, optimizer))
    train(net, optimizer, 2)
    kept = other.state_dict()["weight"]
    train(other, resumed, 2)
    assert not np.array_equal(kept, other.state_dict()["weight"])
    np.testing.assert_array_equal(net.state_dict()["weight"], other.state_dict()["weight"])


def test_groups_have_the_rate_of_all_parameters() -> None:
    _, optimizer = made()
    (group,) = optimizer.param_groups
    assert group["lr"] == 0.05
    assert len(group["params"]) == 2
    assert dict(group).keys() == {"params", "lr", "weight_decay", "eps"}
    for group in optimizer.param_groups:
        group["lr"] = 0.5
    assert optimizer.lr == 0.5
    with pytest.raises(ArgumentError, match="'lr'"):
        group["betas"] = 0.5
    with pytest.raises(KeyError):
        group["betas"]


def test_mlx_s_optimizers_have_no_parameters() -> None:
    net, _ = made()
    optimizer = optim.Adam(learning_rate=0.05)
    with pytest.raises(UsageError, match=r"net\.parameters\(\)"):
        optimizer.step()
    assert optimizer.state == {}
    _, gradients = nnc.value_and_grad(net, lambda: (net(X) ** 2).mean())()
    optimizer.update(net, gradients)
    assert float(optimizer.state["step"]) == 1.0
    assert optimizer.learning_rate.item() == pytest.approx(0.05)
    optimizer.learning_rate = 0.1
    assert optimizer.lr == 0.1


def test_a_schedule_may_be_the_rate() -> None:
    net, _ = made()
    optimizer = optim.SGD(net.parameters(), lr=nn.StepDecay(0.4, 2, 0.5))
    rates = []
    for _ in range(4):
        rates.append(optimizer.lr)
        train(net, optimizer, 1)
    assert rates == [0.4, 0.4, 0.2, 0.2]
    assert "rate" not in optimizer.state_dict()


def test_groups_have_rates_and_options_of_their_own() -> None:
    body, head = nnc.variable([1.0, 1.0]), nnc.variable([1.0])
    groups = [{"params": [body], "lr": 0.5}, {"params": head, "weight_decay": 0.5}]
    optimizer = optim.SGD(groups, lr=0.1)
    (body.sum() + head.sum()).backward()
    optimizer.step()
    assert np.allclose(body, 0.5)
    assert np.allclose(head, 1.0 - 0.1 * 1.5)
    assert [group["lr"] for group in optimizer.param_groups] == [0.5, 0.1]
    assert [len(group["params"]) for group in optimizer.param_groups] == [1, 1]
    for group in optimizer.param_groups:
        group["lr"] *= 2
    optimizer.zero_grad()
    (body.sum() + head.sum()).backward()
    optimizer.step()
    assert np.allclose(body, -0.5)
    with pytest.raises(UsageError, match="param_groups"):
        optimizer.lr = 1.0


@pytest.mark.parametrize(
    ("group", "said"),
    [
        ({"params": []}, "no parameters in group 0"),
        ({"params": [1.0]}, "leaf variables"),
        ({"lr": 0.1}, "leaf variables"),
        ({"params": nnc.variable([1.0]), "betas": (0.9, 0.99)}, "params, lr, momentum, nesterov, weight_decay"),
    ],
)
def test_groups_are_refused_by_what_is_wrong(group: dict[str, Any], said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        optim.SGD([group], lr=0.1)


@pytest.mark.parametrize("grouped", [False, True])
def test_a_group_more_is_trained_and_the_others_go_on(grouped: bool) -> None:
    body, head = nn.Linear(2, 2), nn.Linear(2, 1)
    given = [{"params": head.parameters()}] if grouped else head.parameters()
    optimizer = optim.Adam(given, lr=0.1)
    x = nnc.ones((3, 2))
    (head(body(x)) ** 2).mean().backward()
    optimizer.step()
    moments = {name: value.numpy().copy() for name, value in optimizer.state.items() if name.endswith("weight.m")}
    optimizer.add_param_group({"params": body.parameters(), "lr": 0.01})
    assert [group["lr"] for group in optimizer.param_groups] == [0.1, 0.01]
    kept = [value.numpy() for name, value in optimizer.state.items() if name.endswith(".m") and name.startswith("0.")]
    assert len(kept) == (0 if not moments else 2) or any(
        np.array_equal(each, value) for each in kept for value in moments.values()
    )
    before = body.weight.numpy().copy()
    optimizer.zero_grad()
    (head(body(x)) ** 2).mean().backward()
    optimizer.step()
    assert not np.array_equal(before, body.weight.numpy())
    with pytest.raises(ArgumentError, match="of another group"):
        optimizer.add_param_group({"params": head.parameters()})
    with pytest.raises(ArgumentError, match="need a dictionary"):
        optimizer.add_param_group(body.parameters())  # type: ignore[arg-type]  # what is tested


def test_groups_hold_what_is_frozen_and_train_it_when_it_no_longer_is() -> None:
    net = nn.Linear(2, 1)
    net.weight.requires_grad = False
    optimizer = optim.SGD([{"params": net.parameters()}], lr=0.1)
    for trained in (False, True):
        net.weight.requires_grad = trained
        before = net.weight.numpy().copy()
        optimizer.zero_grad()
        net(nnc.ones((1, 2))).sum().backward()
        optimizer.step()
        assert np.array_equal(before, net.weight.numpy()) is not trained
