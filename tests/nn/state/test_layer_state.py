"""Layers that are called: weights of their own, made once, shared by whoever shares the layer."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import nnc
from nnc import nn
from nnc.errors import ArgumentError, FormatError, UsageError

X = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)


def test_the_first_call_makes_weights_and_the_next_ones_use_them() -> None:
    dense = nn.Dense(2)
    assert not dense.state_dict()
    first = dense(X)
    assert list(dense.state_dict()) == ["weight", "bias"]
    np.testing.assert_array_equal(first.numpy(), dense(X).numpy())
    np.testing.assert_allclose(first.numpy(), X @ dense.state_dict()["weight"], rtol=1e-5, atol=1e-6)


def test_weights_follow_the_seed_and_differ_between_layers() -> None:
    def made() -> list[np.ndarray]:
        nnc.seed(4)
        layers = nn.Dense(2), nn.Dense(2)
        return [layer(X).numpy() for layer in layers]

    first, again = made(), made()
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(*first)


def test_a_shared_layer_has_the_same_weights_wherever_it_is() -> None:
    encoder = nn.Sequential(nn.Dense(4), nn.Tanh())
    encoder(X)
    left, right = nn.Sequential(encoder, nn.Dense(2)), nn.Sequential(encoder, nn.Dense(2))
    left(X), right(X)
    assert list(left.state_dict()) == ["0.0.weight", "0.0.bias", "1.weight", "1.bias"]
    assert dict(left.named_parameters())["0.0.weight"] is dict(right.named_parameters())["0.0.weight"]
    assert len(encoder.parameters()) == 2


def test_parts_that_a_layer_makes_are_its_own() -> None:
    attention = nn.MultiHeadAttention(2)
    x = np.ones((1, 3, 4), np.float32)
    attention(x)
    model = nn.Model(attention, (3, 4), loss=nn.MeanSquaredError())
    assert attention.own.variables.keys() == model.parameters.keys()
    np.testing.assert_allclose(model.predict(x), attention(x).numpy(), rtol=1e-5, atol=1e-6)


def test_adapters_beside_a_layer_of_ones_own() -> None:
    dense = nn.Dense(2)
    plain = dense(X).numpy()
    adapted = nn.LoRA(nn.Sequential(dense), ("0",), rank=1)
    np.testing.assert_allclose(adapted(X).numpy(), plain, rtol=1e-6)
    adapted(X).sum().backward()
    gradients = {path for path, variable in adapted.named_parameters() if variable.grad is not None}
    assert {path.rpartition(".")[2] for path in gradients} == {"lora_a", "lora_b"}


def test_inputs_of_other_features_are_told() -> None:
    dense = nn.Dense(2)
    dense(X)
    with pytest.raises(UsageError, match=r"got weight of f32\[3, 2\]; need f32\[4, 2\]"):
        dense(np.ones((5, 4), np.float32))


def test_states_that_do_not_fit_change_nothing() -> None:
    dense = nn.Dense(2)
    dense(X)
    before = dense.state_dict()
    with pytest.raises(FormatError, match="missing: bias; of another shape: weight; unexpected: gain"):
        dense.load_state_dict({"weight": np.zeros((4, 2)), "gain": np.zeros(2)})
    np.testing.assert_array_equal(dense.state_dict()["weight"], before["weight"])
    dense.load_state_dict({"bias": np.ones(2), "gain": np.zeros(2)}, strict=False)
    np.testing.assert_array_equal(dense.state_dict()["bias"], np.ones(2))


def test_options_stay_values_and_copies_take_weights_along() -> None:
    dense = nn.Dense(2)
    dense(X)
    other = copy.deepcopy(dense)
    assert dense == nn.Dense(2) == other
    np.testing.assert_array_equal(other(X).numpy(), dense(X).numpy())
    assert dict(other.named_parameters())["weight"] is not dict(dense.named_parameters())["weight"]


def test_training_draws_and_renews_and_eval_does_not() -> None:
    net = nn.Sequential(nn.Dense(8), nn.BatchNorm(), nn.Dropout(0.5))
    first, second = net(X).numpy(), net(X).numpy()
    assert not np.array_equal(first, second)
    mean = net.state_dict()["1.running_mean"]
    assert mean.any()
    np.testing.assert_array_equal(net.eval()(X).numpy(), net(X).numpy())
    np.testing.assert_array_equal(net.state_dict()["1.running_mean"], mean)


def test_layers_on_inputs_still_compose() -> None:
    a = nn.Input((3,))
    shared = nn.Dense(3)
    net = nn.Functional(a, shared(shared(a)))
    assert net(X).shape == (5, 3)
    assert list(net.state_dict()) == ["0.weight", "0.bias"]
    assert dict(net.named_parameters())["0.weight"] is dict(shared.named_parameters())["weight"]


def test_a_part_may_draw_while_the_whole_is_in_use() -> None:
    net = nn.Sequential(nn.Dense(8), drop=nn.Dropout(0.5)).eval()
    whole = net(X).numpy()
    np.testing.assert_array_equal(net(X).numpy(), whole)
    dict(net.named_children())["drop"].train()
    assert (net(X).numpy() == 0).any()
    dict(net.train().named_children())["drop"].eval()
    np.testing.assert_array_equal(net(X).numpy(), whole)


@pytest.mark.parametrize(
    ("values", "odd"),
    [({"weight": np.ones((5, 5))}, "another shape: weight"), ({"wait": np.ones(1)}, "unexpected: wait")],
)
def test_an_update_that_does_not_fit_sets_nothing(values: dict[str, NDArray[np.float64]], odd: str) -> None:
    layer = nn.Linear(2, 2)
    layer(nnc.ones((1, 2)))
    before = layer.bias.tolist()
    with pytest.raises(FormatError, match=odd):
        layer.update({"bias": np.full(2, 7.0), **values})
    assert layer.bias.tolist() == before


@pytest.mark.parametrize("values", ["text", None, np.ones(2)])
def test_an_update_with_what_has_no_names_is_told_of(values: object) -> None:
    with pytest.raises(ArgumentError, match="arrays by path"):
        nn.Linear(2, 2).update(values)


def test_parameters_are_a_dictionary_by_path_where_values_are_nested(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    net.freeze()
    halved = nnc.tree.map(lambda p, q: (p + q) * 0.25, net.parameters(), dict(net.named_parameters()))
    assert list(halved) == [path for path, _ in net.named_parameters()]
    nnc.save(tmp_path / "x.safetensors", {"net": net.parameters(), "epoch": nnc.tensor(3)})
    stored = nnc.load(tmp_path / "x.safetensors")["net"]
    np.testing.assert_array_equal(stored["0.weight"].numpy() * 0.5, halved["0.weight"].numpy())
    other = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1)).update(net.parameters())
    np.testing.assert_array_equal(other.state_dict()["1.bias"].numpy(), net.state_dict()["1.bias"].numpy())
    net.unfreeze()
    slopes = nnc.grad(lambda params: (params["1.bias"] * 3.0).sum())(net.parameters())
    assert slopes["1.bias"].tolist() == [3.0]
    assert not slopes["0.weight"].numpy().any()
    (slope,) = nnc.autograd.grad(net(np.ones((1, 2), np.float32)).sum(), net.parameters())[-1:]
    assert slope.tolist() == [1.0]
