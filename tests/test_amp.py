"""Loops that are written for mixed precision: scales, skipped updates, and what is kept of them."""

from __future__ import annotations

import numpy as np
import pytest

import nnc
from nnc import optim
from nnc.errors import ArgumentError, DeviceError, UsageError


def updated(scaler: nnc.amp.GradScaler, slope: float) -> float:
    w = nnc.variable([1.0])
    optimizer = optim.SGD([w], lr=0.5)
    scaler.scale((w * slope).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    return float(w.item())


def test_updates_are_those_without_a_scale() -> None:
    assert (
        updated(nnc.amp.GradScaler(init_scale=1024.0), 0.5) == updated(nnc.amp.GradScaler(enabled=False), 0.5) == 0.75
    )


def test_what_is_not_finite_is_skipped_and_halves_the_scale() -> None:
    scaler = nnc.amp.GradScaler(init_scale=4.0, growth_interval=2)
    assert updated(scaler, np.inf) == 1.0
    assert scaler.get_scale() == 2.0
    assert [updated(scaler, 0.5) for _ in range(2)] == [0.75, 0.75]
    assert scaler.get_scale() == 4.0
    other = nnc.amp.GradScaler()
    other.load_state_dict(scaler.state_dict())
    assert other.state_dict() == {"scale": 4.0, "_growth_tracker": 0}
    with pytest.raises(ArgumentError, match="_growth_tracker"):
        other.load_state_dict({"scale": 1.0})


def test_gradients_are_unscaled_once_before_they_are_clipped() -> None:
    w = nnc.variable([1.0])
    optimizer, scaler = optim.SGD([w], lr=1.0), nnc.amp.GradScaler(init_scale=8.0)
    for _ in range(2):
        optimizer.zero_grad()
        scaler.scale((w * 3.0).sum()).backward()
        scaler.unscale_(optimizer)
        assert w.grad is not None
        assert w.grad.item() == 3.0
        with pytest.raises(UsageError, match="unscaled already"):
            scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
    assert w.item() == -5.0


def test_autocast_is_a_region_and_a_decorator() -> None:
    with nnc.autocast("cpu", dtype=nnc.bfloat16):
        assert nnc.ones(2).dtype is nnc.f32
    assert nnc.amp.autocast("cpu", enabled=False)(lambda x: x + 1)(nnc.ones(1)).item() == 2.0
    with pytest.raises(ArgumentError, match="dtype"):
        nnc.amp.autocast("cpu", dtype=object())  # type: ignore[arg-type]


def test_devices_that_nobody_has_are_named() -> None:
    for made in (nnc.amp.autocast, nnc.amp.GradScaler):
        with pytest.raises(DeviceError, match="got nowhere:0; need one of cpu"):
            made("nowhere")
