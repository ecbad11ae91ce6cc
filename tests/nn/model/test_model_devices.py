"""Models and layers on devices: the same figures as on the host, and no copies of tensors inside a step."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.simulated_device import SimulatedMachine, simulated

import nnc
from nnc import nn
from nnc.core.values.device import CPU, Device
from nnc.errors import DeviceError
from nnc.symbolic.passes import QuantizationMode

HERE, THERE = Device("cuda"), Device("cuda", 1)
RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((16, 6)).astype(np.float32), RNG.integers(0, 3, 16)


@pytest.fixture
def machine() -> Iterator[SimulatedMachine]:
    with simulated(count=2, server="llvm") as made:
        yield made


def model_of(**options: Any) -> nn.Model:
    layers = nn.Sequential(nn.Dense(8), nn.BatchNorm(), nn.ReLU(), nn.Dropout(0.2), nn.Dense(3))
    return nn.Model(layers, (6,), loss=nn.CrossEntropyLoss(), seed=3, **options)


def weights_of(model: nn.Model) -> dict[str, list[float]]:
    return {path: array.ravel().tolist() for path, array in model.state_dict().items()}


def test_training_on_a_device_is_training_on_the_host(machine: SimulatedMachine) -> None:
    host, there = model_of(), model_of(device="cuda:1")
    for _ in range(3):
        assert there.train_on_batch(X, Y) == host.train_on_batch(X, Y)
    assert weights_of(there) == weights_of(host)
    np.testing.assert_array_equal(there.predict(X), host.predict(X))
    assert there.evaluate(X, Y).loss == host.evaluate(X, Y).loss
    assert {tensor.spec.device for tensor in there.tensors_of("train").values()} == {THERE}
    assert there.memory(16).step.arenas.keys() == {"cuda:1"}


def test_a_step_moves_examples_numbers_and_the_loss_alone(machine: SimulatedMachine) -> None:
    model = model_of(device="cuda")
    model.train_on_batch(X, Y)
    counts = machine.driver.counts
    counts.clear()
    model.train_on_batch(X, Y)
    # Inputs and targets, the count of draws, the scale of the loss and Adam's three numbers; loss and score.
    assert (counts["upload"], counts["download"]) == (2 + 2 + len(model.optimizer.scalars(1)), 2)
    assert counts["allocate"] == 0


def test_a_model_moves_with_all_that_it_keeps(machine: SimulatedMachine) -> None:
    host, moved = model_of(), model_of()
    for device in ("cuda", "cuda:1", "cpu", "cuda:1"):
        host.train_on_batch(X, Y)
        moved.train_on_batch(X, Y)
        assert moved.to(device) is moved
        assert moved.device == nnc.device(device)
        assert {str(tensor.spec.device) for tensor in moved.parameters.values()} == {str(nnc.device(device))}
        assert weights_of(moved) == weights_of(host)
    assert machine.driver.used(HERE) == 0
    with pytest.raises(DeviceError, match=r"cuda:9; need one of cpu:0"):
        moved.to("cuda:9")
    assert moved.train_on_batch(X, Y) == host.train_on_batch(X, Y)


def test_accumulated_gradients_on_a_device(machine: SimulatedMachine) -> None:
    host, there = model_of(), model_of(device="cuda")
    for model in (host, there):
        model.backward(X[:8], Y[:8])
        model.backward(X[8:], Y[8:])
        model.apply_gradients()
        model.zero_gradients()
    assert weights_of(there) == weights_of(host)


def test_models_are_made_where_arrays_are(machine: SimulatedMachine) -> None:
    with nnc.device("cuda:1"):
        assert model_of().device == THERE
        assert model_of(device="cpu").device == CPU
    assert model_of().device == CPU


def test_copies_and_files(machine: SimulatedMachine, tmp_path: Path) -> None:
    model = model_of(device="cuda")
    model.fit(X, Y, epochs=2)
    for twin in (copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert twin.device == HERE
        assert weights_of(twin) == weights_of(model)
        assert twin.train_on_batch(X, Y) == copy.copy(model).train_on_batch(X, Y)
    model.save_weights(tmp_path / "w.safetensors")
    other = model_of(device="cuda:1")
    other.load_weights(tmp_path / "w.safetensors")
    assert weights_of(other) == weights_of(model)
    model.save(tmp_path / "m.nnc")
    assert weights_of(nn.load_model(tmp_path / "m.nnc")) == weights_of(model)
    model.load_state_dict(other.state_dict())


def test_a_model_whose_device_lacks_kernels_trains(machine: SimulatedMachine) -> None:
    machine.refused = {nnc.ops.relu}
    host, there = model_of(passes=()), model_of(passes=(), device="cuda")
    for _ in range(2):
        assert there.train_on_batch(X, Y) == host.train_on_batch(X, Y)
    np.testing.assert_array_equal(there.predict(X), host.predict(X))


def test_a_limit_on_the_arena_is_met_on_a_device(machine: SimulatedMachine) -> None:
    def deep(**options: Any) -> nn.Model:
        layers = [nn.Dense(64), nn.Tanh()] * 6
        return nn.Model(nn.Sequential(*layers, nn.Dense(3)), (6,), loss=nn.CrossEntropyLoss(), **options)

    free = deep(device="cuda").memory(16).step.arena
    limited, host = deep(device="cuda", memory_limit=int(free * 0.8)), deep()
    assert limited.memory(16).step.arena <= free * 0.8
    assert limited.train_on_batch(X, Y) == host.train_on_batch(X, Y)
    assert limited.train_on_batch(X, Y) == host.train_on_batch(X, Y)


def test_layers_move_and_stay_the_same_variables(machine: SimulatedMachine) -> None:
    layer = nn.Sequential(nn.Dense(4), nn.Tanh(), nn.Dense(2))
    x = nnc.tensor(X)
    host = layer(x)
    (host * host).sum().backward()
    before = next(iter(layer.parameters()))
    assert layer.to("cuda:1") is layer
    assert next(iter(layer.parameters())) is before
    assert {parameter.device for parameter in layer.parameters()} == {THERE}
    assert {parameter.grad.device for parameter in layer.parameters()} == {THERE}
    np.testing.assert_allclose(layer(x.to("cuda:1")).cpu().numpy(), host.numpy(), rtol=1e-5)
    with pytest.raises(DeviceError, match="x.to"):
        layer(x)
    compiled = nnc.compile(layer)
    np.testing.assert_allclose(compiled(x.to("cuda:1")).cpu().numpy(), host.numpy(), rtol=1e-5)
    layer.to("cpu")
    np.testing.assert_allclose(compiled(x).numpy(), host.numpy(), rtol=1e-5)


def test_layers_are_made_where_their_input_is(machine: SimulatedMachine) -> None:
    layer = nn.Dense(3)
    assert layer(nnc.tensor(X, device="cuda")).device == HERE
    assert {parameter.device for parameter in layer.parameters()} == {HERE}


@pytest.mark.parametrize("make", [nnc.optim.SGD, nnc.optim.Adam])
def test_optimizers_of_loops_of_ones_own(machine: SimulatedMachine, make: Any) -> None:
    def trained(device: str) -> list[list[float]]:
        nnc.seed(0)
        layer = nn.Dense(2)
        x = nnc.tensor(X, device=device)
        layer(x)
        optimizer = make(layer.parameters(), lr=0.1)
        for _ in range(3):
            layer.zero_grad()
            layer(x).square().mean().backward()
            optimizer.step()
        assert {str(entry.device) for name, entry in optimizer.state.items() if name != "step"} <= {f"{device}:0"}
        again = make(layer.parameters(), lr=0.1)
        again.load_state_dict(optimizer.state_dict())
        again.step()
        return [parameter.tolist() for parameter in layer.parameters()]

    for there, host in zip(trained("cuda"), trained("cpu"), strict=True):
        np.testing.assert_allclose(there, host, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("mode", ["weights", "dynamic"])
def test_frozen_weights_of_eight_bits_stay_on_the_device(machine: SimulatedMachine, mode: QuantizationMode) -> None:
    model = nn.Model(nn.Sequential(nn.Dense(8), nn.ReLU(), nn.Dense(3)), (6,), seed=3, device=THERE)
    step = model.freeze(16, quantize=mode)
    (there,) = step.run(X)
    assert step.compiled.memory().arenas.keys() == {str(THERE)}
    (here,) = model.to("cpu").freeze(16, quantize=mode).run(X)
    np.testing.assert_allclose(there, here, rtol=1e-5, atol=1e-5)
