"""Devices by name: what is there, and where arrays are made.

nnc.devices()                        (cpu:0, cuda:0): the host, and all other devices that have drivers here
x.to("cuda"), nnc.ones(3, device=d)  on a device; commands on it are queued, and copies to the host wait for them
with nnc.device("cuda"): …           inside, arrays of numbers are made there
"""

from __future__ import annotations

from nnc.arguments import checked
from nnc.core.running.devices import DEVICES
from nnc.core.values.device import AnyDevice, Device, device_of


@checked
def device(name: AnyDevice) -> Device:
    """The device `cpu`, `cuda:1`, …, which is there; as a context, arrays of numbers are made there inside.

    DeviceError, with the devices that are there, for any other.

    >>> with nnc.device("cpu"):
    ...     nnc.zeros(2).device
    Device(kind='cpu', index=0)
    """
    return present(device_of(name))


def present(chosen: Device) -> Device:
    """The device, which is there; DeviceError for any other."""
    if not chosen.is_host:
        DEVICES.driver(chosen)
    return chosen


def devices() -> tuple[Device, ...]:
    """The host, and all other devices of this machine.

    >>> print(nnc.devices()[0])
    cpu:0
    """
    return DEVICES.present()
