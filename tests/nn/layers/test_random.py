"""Layers that draw: anew at each step of training, never elsewhere, the same after a resume."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnc import nn
from nnc.core.values.dtype import BF16
from nnc.dynamic import DynamicGraph
from nnc.nn.data import Batches, Examples

X = np.ones((64, 8), np.float32)
ZEROS = np.zeros((64, 8), np.float32)
LAYERS = [nn.Dropout(0.25), nn.ChannelDropout(0.25), nn.GaussianNoise(0.1)]


def model(layer: nn.Layer, **options: object) -> nn.Model:
    net = nn.Sequential(nn.Dense(16), nn.Tanh(), layer, nn.Dense(8))
    return nn.Model(net, (8,), loss=nn.MeanSquaredError(), backend="reference", **options)  # type: ignore[arg-type]  # by name


def drawn(net: nn.Model) -> np.ndarray:
    """The output of one pass of training."""
    return net.training_pass(X, ZEROS, update=False, outputs=True)[2][0]


def test_a_share_is_dropped_and_the_mean_stays() -> None:
    net = nn.Model(nn.Dropout(0.25), (8,), loss=nn.MeanSquaredError())
    y = drawn(net)
    assert set(np.unique(y)) == {np.float32(0.0), np.float32(4 / 3)}
    assert 0.2 < (y == 0).mean() < 0.3
    assert not np.array_equal(y, drawn(net))
    np.testing.assert_array_equal(net.predict(X), X)
    assert net.evaluate(X, ZEROS).loss == 1.0


def test_channels_are_dropped_as_a_whole() -> None:
    x = np.ones((6, 3, 3, 4), np.float32)
    net = nn.Model(nn.ChannelDropout(0.5), (3, 3, 4), loss=nn.MeanSquaredError())
    y = net.training_pass(x, x, update=False, outputs=True)[2][0]
    assert np.ptp(y, axis=(1, 2)).max() == 0.0
    assert set(np.unique(y)) == {np.float32(0.0), np.float32(2.0)}


def test_noise_has_its_deviation() -> None:
    net = nn.Model(nn.GaussianNoise(0.5), (8,), loss=nn.MeanSquaredError())
    assert (drawn(net) - X).std() == pytest.approx(0.5, rel=0.1)


@pytest.mark.parametrize("backend", ["reference", "llvm"])
def test_each_layer_and_each_application_draws_its_own(backend: str) -> None:
    shared = nn.Dropout(0.5)
    net = nn.Model(nn.Concatenate(shared, shared, nn.Dropout(0.5)), (8,), loss=nn.MeanSquaredError(), backend=backend)
    y = net.training_pass(X, np.zeros((64, 24)), update=False, outputs=True)[2][0]
    parts = [part.tobytes() for part in np.split(y, 3, axis=1)]
    assert len(set(parts)) == 3


@pytest.mark.parametrize("layer", LAYERS, ids=repr)
def test_training_is_resumed_bit_by_bit(layer: nn.Layer, tmp_path: Path) -> None:
    whole, begun, resumed = (model(layer, seed=4) for _ in range(3))
    data = Examples("some", np.random.default_rng(1).standard_normal((20, 8)).astype(np.float32), np.zeros((20, 8)))
    batches, others = Batches(data, 8), Batches(data, 8)
    whole.fit(batches, epochs=3)
    begun.fit(others, epochs=3, stop=lambda: begun.updates == 4)
    nn.save_checkpoint(tmp_path / "c.safetensors", begun, nn.position_of(begun, others))
    position = nn.load_checkpoint(tmp_path / "c.safetensors", resumed)
    later = Batches(data, 8)
    later.restore(position.batches)
    resumed.fit(later, epochs=2)
    for path, tensor in whole.tensors().items():
        assert tensor.numpy().tobytes() == resumed.parameters[path].numpy().tobytes()


def test_another_seed_draws_other_numbers() -> None:
    first, same, other = (
        drawn(nn.Model(nn.Dropout(), (8,), loss=nn.MeanSquaredError(), seed=seed)) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, same)
    assert not np.array_equal(first, other)


def test_copies_go_on_alike() -> None:
    net = model(nn.Dropout())
    net.train_on_batch(X, ZEROS)
    twin = net.__copy__()
    for one in (net, twin):
        one.train_on_batch(X, ZEROS)
    np.testing.assert_array_equal(net.predict(X), twin.predict(X))


def test_what_is_computed_again_within_a_limit_draws_the_same() -> None:
    layers = [part for _ in range(6) for part in (nn.Dense(64), nn.Tanh(), nn.Dropout(0.3))]
    free = nn.Model(nn.Sequential(*layers, nn.Dense(8)), (8,), loss=nn.MeanSquaredError())
    arena = free.memory(64).step.arena
    tight = nn.Model(free.layer, (8,), loss=nn.MeanSquaredError(), memory_limit=int(0.8 * arena))
    assert tight.memory(64).budget is not None
    assert [free.train_on_batch(X, ZEROS) for _ in range(3)] == [tight.train_on_batch(X, ZEROS) for _ in range(3)]


def test_in_16_bits() -> None:
    net = model(nn.Dropout(), precision=BF16)
    assert np.isfinite(net.train_on_batch(X, ZEROS)[0])


def test_a_frozen_step_and_a_model_without_random_layers_have_no_counter() -> None:
    net = model(nn.Dropout())
    names = {record.name for _, record in net.training_step(4).compiled.planned.graph.tensors.items()}
    assert "draws" in names
    for step in (net.freeze(4), model(nn.Identity()).training_step(4), net.evaluation_step(4)):
        assert "draws" not in {record.name for _, record in step.compiled.planned.graph.tensors.items()}


def test_eager_application_draws_by_a_counter() -> None:
    net, graph = model(nn.Dropout()), DynamicGraph("reference")
    tensors = {path: graph.variable(value) for path, value in net.state_dict().items()}
    x = graph.variable(X)
    plain = net.apply(x, tensors, renewed={}).numpy()
    np.testing.assert_array_equal(plain, net.apply(x, tensors).numpy())
    counted = net.apply(x, tensors, renewed={}, draws=graph.variable(np.int64(3))).numpy()
    assert not np.array_equal(plain, counted)
