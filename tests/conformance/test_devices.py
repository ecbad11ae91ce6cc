"""Devices that are there agree with the reference: a part of the rows here, all of them in a campaign."""

from __future__ import annotations

import pytest
from tests.conformance.cases import CASES, Case
from tests.conformance.on_devices import check_row
from tests.conformance.runs import IS_CAMPAIGN

from nnc.core.running.devices import DEVICES
from nnc.core.values.device import CPU, Device
from nnc.errors import DeviceError

# Mesa's lavapipe takes 0.1 s for a run.
ROWS = CASES if IS_CAMPAIGN else CASES[::45]


def absence(kind: str) -> str:
    try:
        DEVICES.driver(Device(kind))
    except DeviceError as error:
        return error.fix
    return ""


ABSENT = absence("vulkan")


@pytest.mark.turns(4)
@pytest.mark.skipif(bool(ABSENT), reason=f"no Vulkan device: {ABSENT}")
@pytest.mark.parametrize("case", ROWS[:1] if ABSENT else ROWS, ids=str)
def test_a_device_agrees_with_the_reference(case: Case) -> None:
    _, _, failed = check_row(case, Device("vulkan"))
    assert failed == []


def test_the_host_is_there() -> None:
    assert CPU in DEVICES.present()
