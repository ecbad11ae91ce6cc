"""Times of copies between the host and a device, from two sizes that are measured."""

from __future__ import annotations

import pytest
from tests.simulated_device import simulated

from nnc.core.running import copy_rates
from nnc.core.running.copy_rates import round_trip_seconds
from nnc.core.values.device import Device
from nnc.errors import OutOfMemoryError

DEVICE = Device("cuda")


def test_a_time_has_a_part_for_each_copy_and_one_for_each_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copy_rates, "_RATES", {})
    with simulated() as machine:
        first = round_trip_seconds(DEVICE, [1 << 20])
        machine.driver.counts.clear()
        assert first > 0
        assert round_trip_seconds(DEVICE, [1 << 20] * 3) == pytest.approx(3 * first)
        assert round_trip_seconds(DEVICE, [1 << 21]) >= first
        assert not machine.driver.counts["upload"], "measured once"


def test_a_full_device_has_no_rate_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copy_rates, "_RATES", {})
    with simulated() as machine:
        allocate, full = machine.driver.allocate, OutOfMemoryError("storage", got="all", need="less")

        def refuse(*given: object) -> None:
            raise full

        monkeypatch.setattr(machine.driver, "allocate", refuse)
        assert round_trip_seconds(DEVICE, [100]) == 0.0
        monkeypatch.setattr(machine.driver, "allocate", allocate)
        assert round_trip_seconds(DEVICE, [100]) > 0
