"""Devices by name: what is there, and where arrays are made.

nnc.devices()                        (cpu:0, cuda:0): the host, and all other devices that have drivers here
x.to("cuda"), nnc.ones(3, device=d)  on a device; commands on it are queued, and copies to the host wait for them
with nnc.device("cuda"): …           inside, arrays of numbers are made there
nnc.cuda.is_available()              whether there is a device of this kind; nnc.vulkan alike
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from nnc.arguments import Size, checked
from nnc.classes import dataclass
from nnc.core.running.devices import DEVICES
from nnc.core.values.device import AnyDevice, Device, device_of
from nnc.errors import DeviceError
from nnc.vocabulary.answers import unknown_name
from nnc.vocabulary.names import KIND


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


@checked
@dataclass(frozen=True, slots=True)
class DeviceKind:
    """The devices of one kind, as programs that run with them and without ask."""

    kind: str

    def is_available(self) -> bool:
        """Whether there is one.

        >>> nnc.device("cuda" if nnc.cuda.is_available() else "cpu") in nnc.devices()
        True
        """
        return self.device_count() > 0

    def device_count(self) -> int:
        """How many there are."""
        try:
            return DEVICES.driver(Device(self.kind)).count()
        except DeviceError:
            return 0

    def get_device_name(self, index: Size = 0) -> str:
        """What its driver calls it. DeviceError where there is none of this number."""
        chosen = Device(self.kind, index)
        return DEVICES.driver(chosen).facts(chosen).name

    def synchronize(self, index: Size = 0) -> None:
        """Wait for all that was queued on it, such as before a clock is read. DeviceError where there is none."""
        chosen = Device(self.kind, index)
        DEVICES.driver(chosen).synchronize(chosen)

    if not TYPE_CHECKING:
        # A type checker goes by what there is.
        def __getattr__(self, name: str) -> NoReturn:
            raise unknown_name(f"nnc.{self.kind}", name, KIND, lambda: dir(DeviceKind), f"nnc.{self.kind}.")


cuda, vulkan = DeviceKind("cuda"), DeviceKind("vulkan")
