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
# What no kernel of ours claims on the host either, or what lies on two devices.
KINDS = ("vulkan",)


def absence(kind: str) -> str:
    try:
        DEVICES.driver(Device(kind))
    except DeviceError as error:
        return error.fix
    return ""


ABSENT = {kind: absence(kind) for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", ROWS, ids=str)
def test_a_device_agrees_with_the_reference(case: Case, kind: str) -> None:
    if ABSENT[kind]:
        pytest.skip(f"no {kind} device: {ABSENT[kind]}")
    _, _, failed = check_row(case, Device(kind))
    assert failed == []


def test_the_host_is_there() -> None:
    assert CPU in DEVICES.present()
