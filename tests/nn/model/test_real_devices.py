"""Values, functions and models on the devices that this machine has, beside the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnc
from nnc import nn
from nnc.core.values.device import Device
from nnc.core.values.dtype import F32, TOLERANCE

X = np.random.default_rng(0).standard_normal((16, 6)).astype(np.float32)
Y = np.arange(16) % 3
CLOSE = {"rtol": 10 * TOLERANCE[F32].relative, "atol": 10 * TOLERANCE[F32].absolute}


@pytest.fixture(params=["cuda", "vulkan"])
def device(request: pytest.FixtureRequest) -> Device:
    found = Device(request.param)
    if found not in nnc.devices():
        pytest.skip(f"no {request.param} on this machine")
    return found


def model_of(**options: Any) -> nn.Model:
    layers = nn.Sequential(nn.Dense(8), nn.BatchNorm(), nn.ReLU(), nn.Dropout(0.2), nn.Dense(3))
    return nn.Model(layers, (6,), loss=nn.CrossEntropyLoss(), seed=3, **options)


def test_values_and_gradients(device: Device) -> None:
    def slopes(place: Device | str) -> np.ndarray:
        x, w = nnc.tensor(X, device=place), nnc.variable(X[:6], device=place)
        nnc.tanh(x @ w * 0.1).sum().backward()
        assert w.grad is not None
        assert w.grad.device == nnc.device(place)
        return w.grad.cpu().numpy()

    np.testing.assert_allclose(slopes(device), slopes("cpu"), **CLOSE)


def test_functions_with_a_loop(device: Device) -> None:
    def turns(x: Any) -> Any:
        return nnc.while_loop(
            lambda k, y: k < 3, lambda k, y: (k + 1, nnc.tanh(y * 2)), (x.sum() * 0).astype("i64"), x
        )[1]

    there = nnc.compile(turns, device=device)(X)
    assert there.device == device
    np.testing.assert_allclose(there.cpu().numpy(), nnc.compile(turns)(X).numpy(), **CLOSE)


def test_training_and_a_move_back(device: Device) -> None:
    there, host = model_of(device=device), model_of()
    for _ in range(3):
        np.testing.assert_allclose(there.train_on_batch(X, Y), host.train_on_batch(X, Y), **CLOSE)
    there.to("cpu")
    np.testing.assert_allclose(there.train_on_batch(X, Y), host.train_on_batch(X, Y), **CLOSE)


def test_a_limit_changes_no_bit(device: Device) -> None:
    free = model_of(device=device)
    most = int(free.memory(16).step.on(device).arena * 0.85)
    limited = model_of(device=device, memory_limit={device: most})
    assert limited.memory(16).step.on(device).arena <= most
    for _ in range(2):
        assert limited.train_on_batch(X, Y) == free.train_on_batch(X, Y)
