"""Drivers: who has the memory of a kind of device and runs what is queued on it.

A driver is found by the kind in a device's name. All that it does for one device happens in the order in which it was
asked: programs, copies and fills are queued, and `download` and `synchronize` wait for what was queued before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING, Protocol

from nnc.classes import dataclass
from nnc.core.precautions.forking import FORK_GUARD
from nnc.core.values.device import CPU, FILE, Device, device_of
from nnc.core.values.storage import DeviceMemory
from nnc.errors import DeviceError
from nnc.faces import wire


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """What a driver tells of a device: its name, bytes of its memory, and what its kernels may use.

    `subgroup` threads run in step; `group_threads` at most make a group, which shares `group_bytes` of memory. Memory
    that is `unified` is the host's too. `features` are what there is beside f32 and i32, by name: f16, f64, i64 …
    """

    name: str
    memory_bytes: int
    subgroup: int
    group_threads: int
    group_bytes: int
    unified: bool = False
    features: frozenset[str] = frozenset()


class DeviceDriver(DeviceMemory, Protocol):
    """The devices of one kind, and their memory. Addresses are those of `Storage.address` plus an offset."""

    @property
    def kind(self) -> str:
        """The kind in the names of its devices."""

    def absence(self) -> str:
        """Why there is no such device on this machine; empty when there is one."""

    def count(self) -> int:
        """How many there are; their numbers begin with 0."""

    def facts(self, device: Device) -> DeviceFacts:
        """What it is and can do."""


@dataclass(slots=True, eq=False)
class Devices:
    """The table of drivers by kind; each is made when a device of its kind is first asked for."""

    _makers: dict[str, Callable[[], DeviceDriver]] = field(default_factory=dict)
    _drivers: dict[str, DeviceDriver] = field(default_factory=dict)

    def add(self, kind: str, make: Callable[[], DeviceDriver]) -> None:
        """`make()` gives the driver of this kind."""
        self._makers[kind] = make
        self._drivers.pop(kind, None)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds that compute and have a driver, whether or not there is such a device."""
        return tuple(kind for kind in self._makers if kind != FILE)

    def driver(self, device: Device) -> DeviceDriver:
        """The driver of a device that is there; DeviceError otherwise, with the reason and with those that are."""
        device = device_of(device)
        driver = self._of(device.kind)
        reason = f"nnc has no driver for {device.kind}" if driver is None else driver.absence()
        if driver is None or reason or device.index >= driver.count():
            need = "one of " + " ".join(map(str, self.present()))
            raise DeviceError("device", got=str(device), need=need, fix=reason)
        return driver

    def _of(self, kind: str) -> DeviceDriver | None:
        """The driver of a kind, whether or not there is such a device; None where nnc has none."""
        if kind in self._makers and kind not in self._drivers:
            with FORK_GUARD:
                self._drivers.setdefault(kind, self._makers[kind]())
        return self._drivers.get(kind)

    def present(self) -> tuple[Device, ...]:
        """The host, and all other devices of this machine that compute."""
        there = [CPU]
        for kind in self.kinds:
            driver = self._of(kind)
            if driver is not None and not driver.absence():
                there += [Device(kind, index) for index in range(driver.count())]
        return tuple(there)


_OF_PROCESS = Devices()

if TYPE_CHECKING:
    DEVICES = _OF_PROCESS
else:

    def __getattr__(name: str) -> object:
        """`DEVICES`, the table of this process, with its drivers from the first time that it is asked for."""
        if name != "DEVICES":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        wire()
        return _OF_PROCESS
