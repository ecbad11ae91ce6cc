"""Linear layers whose input size is said when they are made."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import numpy as np
import pytest

import nnc
from nnc import nn
from nnc.errors import ArgumentError, OutOfMemoryError, ShapeError
from nnc.nn import optim

X = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)


def test_it_is_a_product_and_a_sum() -> None:
    layer = nn.Linear(3, 4)
    weight, bias = layer.weight.numpy(), layer.bias.numpy()
    np.testing.assert_allclose(layer(X).numpy(), X @ weight.T + bias, atol=1e-6)
    np.testing.assert_allclose(layer(X[0]).numpy(), X[0] @ weight.T + bias, atol=1e-6)
    np.testing.assert_allclose(layer(X[None]).numpy(), (X @ weight.T + bias)[None], atol=1e-6)
    np.testing.assert_allclose(nnc.vmap(layer)(X).numpy(), X @ weight.T + bias, atol=1e-6)


def test_reading_its_tensors_does_not_look_through_them() -> None:
    memory = np.ones((3, 4), np.float32)
    own = [*nn.Linear(3, 4).parameters(), nn.Parameter(memory), nn.Parameter(nnc.ones((3, 4)).tensor)]
    # A watched tensor is summed up whenever something recorded reads it: 48 ms for 64 MB.
    assert all(parameter.tensor.storage.watch is None for parameter in own)
    memory[...] = 2.0
    assert own[2].numpy().max() == 1.0


def test_its_tensors_are_there_from_the_start() -> None:
    nnc.seed(3)
    layer, without = nn.Linear(400, 8), nn.Linear(3, 4, bias=False)
    assert [(path, one.shape) for path, one in layer.named_parameters()] == [("weight", (8, 400)), ("bias", (8,))]
    assert [path for path, _ in without.named_parameters()] == ["weight"]
    assert without.bias is None
    assert np.abs(layer.weight.numpy()).max() <= 1 / 20 < 1.1 * np.abs(layer.weight.numpy()).max()
    nnc.seed(3)
    np.testing.assert_array_equal(nn.Linear(400, 8).weight.numpy(), layer.weight.numpy())
    assert repr(without) == "Linear(in_features=3, out_features=4, bias=False)"


def test_it_learns_by_itself_in_a_module_and_in_a_model() -> None:
    layers = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    optimizer = optim.SGD(layers.parameters(), lr=0.1)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = ((layers(X) - X[:, :1]) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    model = nn.Model(layers, (3,), loss=nn.MeanSquaredError())
    np.testing.assert_allclose(model.predict(X), layers(X).numpy(), atol=1e-6)
    assert model.train_on_batch(X, X[:, :1])[0] > 0
    theirs = nn.torch_state_dict(model)
    assert {path: one.shape for path, one in theirs.items()} == {
        "0.weight": (4, 3), "0.bias": (4,), "2.weight": (1, 4), "2.bias": (1,)
    }  # fmt: skip


def test_copies_pickles_and_files_keep_what_it_is(tmp_path: Path) -> None:
    layer = nn.Linear(3, 4)
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        np.testing.assert_array_equal(twin(X).numpy(), layer(X).numpy())
    other = nn.Linear(3, 4)
    other.load_state_dict(layer.state_dict())
    np.testing.assert_array_equal(other(X).numpy(), layer(X).numpy())
    model = nn.Model(nn.Sequential(layer, nn.Linear(4, 2, bias=False)), (3,))
    nn.save_model(tmp_path / "a.nnc", model)
    np.testing.assert_array_equal(nn.load_model(tmp_path / "a.nnc").predict(X), model.predict(X))


def test_other_sizes_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"Linear: got f32\[5, 3\]; need 7 on the last axis. Fix: nn.Linear\(3, 4\)"):
        nn.Linear(7, 4)(X)
    with pytest.raises(ArgumentError, match="in_features=0"):
        nn.Linear(0, 4)
    with pytest.raises(ArgumentError, match="bias"):
        nn.Linear(3, 4, nn.ReLU())  # type: ignore[arg-type]


def test_layers_in_a_row_may_be_a_list() -> None:
    layers = nn.Sequential([nn.Linear(3, 4), nn.ReLU()])
    assert len(layers) == 2
    assert isinstance(layers[0], nn.Linear)
    assert layers[-1] == nn.ReLU()
    with pytest.raises(ArgumentError, match="Sequential: got 0=3; need layers"):
        nn.Sequential([3])  # type: ignore[list-item]


def test_sizes_that_nothing_can_hold_are_refused_by_name() -> None:
    with pytest.raises(ArgumentError, match=r"Linear: got in_features=an integer of .* and < 2\^63"):
        nn.Linear(10**400, 1)
    with pytest.raises(OutOfMemoryError, match=r"Linear: got \d+ bytes for \[1, 4611686018427387904\]"):
        nn.Linear(2**62, 1)
