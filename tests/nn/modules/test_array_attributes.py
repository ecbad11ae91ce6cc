"""Arrays that are attributes: parameters where a class says `__call__`, constants where it says `forward`."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import nnc
from nnc import nn
from nnc.errors import UsageError
from nnc.nn.state.weight_order import is_in_first

X = nnc.ones((2,))


class Called(nn.Module):
    """As MLX's users write it."""

    def __init__(self) -> None:
        super().__init__()
        self.w, self._mask, self.steps = nnc.ones(2), nnc.ones(2), nnc.arange(2)
        self.pair, self.named = [nnc.ones(2), nnc.zeros(2)], {"left": nnc.ones(2)}
        self.blocks = [{"w": nnc.ones(2), "b": nnc.zeros(2)} for _ in range(2)]
        self.late: list[nnc.Variable] = []
        self.late.append(nnc.ones(2))

    def __call__(self, x: nnc.Variable) -> nnc.Variable:
        self._last = x.detach()
        for block in self.blocks:
            x = x * block["w"] + block["b"]
        for each in self.late[:1]:
            x = x * each
        return (x * self.w * self.pair[0] + self.pair[1]) * self.named["left"] * self._mask + self.steps


class Forward(nn.Module):
    """As PyTorch's users write it."""

    def __init__(self) -> None:
        super().__init__()
        self.mean, self.listed = nnc.ones(2), [nn.Parameter(nnc.ones(2))]

    def forward(self, x: nnc.Variable) -> nnc.Variable:
        return (x - self.mean) * self.listed[0]


def test_arrays_of_a_class_that_says_call_are_trained_wherever_they_stand() -> None:
    net = Called()
    paths = {"w", "pair.0", "pair.1", "named.left", "blocks.0.w", "blocks.0.b", "blocks.1.w", "blocks.1.b", "late.0"}
    assert {path for path, _ in net.named_parameters()} == paths
    _, gradients = nn.value_and_grad(net, lambda x: net(x).sum())(X)
    assert gradients.keys() == paths
    nn.SGD(0.1, momentum=0.0).update(net, gradients)
    np.testing.assert_allclose(net.w.numpy(), [0.9, 0.9], rtol=1e-6)
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net)), nnc.compile(net)):
        np.testing.assert_allclose(other(X).numpy(), net(X).numpy(), rtol=1e-6)
    assert paths <= nn.Model(Called(), (2,)).state_dict().keys()


def test_arrays_of_a_class_that_says_forward_are_constants() -> None:
    net = Forward()
    assert [path for path, _ in net.named_parameters()] == ["listed.0"]
    net.freeze()
    with pytest.raises(UsageError, match="self.w = nn.Parameter"):
        nnc.value_and_grad(net, lambda x: net(x).sum())(X)


def test_parameters_beside_layers_in_a_list_are_refused() -> None:
    net = Called()
    net.mixed = [nnc.ones(2), nn.Linear(2, 2)]
    with pytest.raises(UsageError, match="an attribute each"):
        net.parameters().opened()


def test_frozen_by_name() -> None:
    class Norm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight, self.running = nnc.ones(2), nnc.zeros(2)
            self.freeze(keys=["running"], recurse=False)

        def __call__(self, x: nnc.Variable) -> nnc.Variable:
            self.running = 0.5 * self.running + 0.5 * x.mean(0)
            return (x - x.mean(0)) * self.weight

    norm = Norm()
    _, gradients = nn.value_and_grad(norm, lambda x: (norm(x) ** 2).sum())(nnc.ones((3, 2)))
    assert gradients.keys() == {"weight"}
    assert norm.running.tolist() == [0.5, 0.5]
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    assert list(net.freeze(keys="bias").trainable_parameters()) == ["0.weight", "1.weight"]
    assert list(net.freeze().unfreeze(keys="bias").trainable_parameters()) == ["0.bias", "1.bias"]
    assert len(net.requires_grad_(True).trainable_parameters()) == 4


def test_what_a_state_is_given_in_place_the_net_has() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    state = net.state_dict()
    state["0.weight"].mul_(0)
    state["0.bias"] += 1
    state["0.weight"][0] = 7
    state["1.running_mean"].fill_(3)
    now = net.state_dict()
    assert now["0.weight"].tolist()[0] == [7, 7]
    assert now["1.running_mean"].tolist() == [3, 3]
    for path, value in state.items():
        np.testing.assert_array_equal(value.numpy(), now[path].numpy())
    copy.deepcopy(state)["0.weight"].mul_(0)
    assert net[0].weight.tolist()[0] == [7, 7]
    net[0].weight.data.add_(1)
    with pytest.raises(UsageError, match="changed since"):
        state["0.weight"].mul_(0)
    net.load_state_dict(state)
    assert net[0].weight.tolist()[0] == [7, 7]


def test_copies_of_a_dense_layer_know_the_order_of_its_weight() -> None:
    layer = nn.Dense(3)
    layer(nnc.ones((1, 2)))
    for copied in (layer, copy.copy(layer), copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        weight = copied.own.variables["weight"]
        assert all(map(is_in_first, (weight, weight.data, copied.state_dict()["weight"])))
