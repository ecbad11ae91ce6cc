"""The devices of one kind for the rest of the package: each is opened when it is first asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from nnc.backends.gpu.device import OpenDevice
from nnc.backends.gpu.engine import DeviceEngine
from nnc.core.precautions.forking import FORK_GUARD
from nnc.core.running.devices import DeviceFacts
from nnc.core.values.device import Device
from nnc.core.values.storage import DeviceStorage


class DeviceLibrary(Protocol):
    """The library of a kind of devices."""

    @property
    def absence(self) -> str:
        """Why there is no device; empty where there is one."""

    @property
    def names(self) -> Sequence[str]:
        """Of the devices, in the order of their numbers."""

    def open(self, number: int) -> DeviceEngine:
        """The device of a number."""


class GpuDriver:
    """A `DeviceDriver`: what is asked goes to the device that it is asked of."""

    def __init__(self, kind: str, library: DeviceLibrary) -> None:
        self.kind = kind
        self._library = library
        self._opened: dict[int, OpenDevice] = {}

    def absence(self) -> str:
        """Why there is no such device on this machine; empty when there is one."""
        return self._library.absence

    def count(self) -> int:
        """How many there are."""
        return len(self._library.names)

    def opened(self, device: Device) -> OpenDevice:
        """The device, opened by one of the threads where several ask at once."""
        known = self._opened.get(device.index)
        if known is None:
            with FORK_GUARD:
                known = self._opened.get(device.index)
                if known is None:
                    known = self._opened[device.index] = OpenDevice(device, self._library.open(device.index))
        return known

    def facts(self, device: Device) -> DeviceFacts:
        """What it is and can do."""
        return self.opened(device).facts

    def allocate(self, device: Device, nbytes: int, label: str = "") -> DeviceStorage:
        """Memory of it, not initialized. OutOfMemoryError when it has not that much."""
        return self.opened(device).allocate(nbytes, label)

    def upload(self, device: Device, target: int, source: int, nbytes: int) -> None:
        """Copy bytes of the host to it; the host's bytes may change when this returns."""
        if nbytes:
            with self.opened(device).entered() as engine:
                engine.upload(target, source, nbytes)

    def download(self, device: Device, target: int, source: int, nbytes: int) -> None:
        """Copy bytes of it to the host; they are there when this returns."""
        if nbytes:
            with self.opened(device).entered() as engine:
                engine.download(target, source, nbytes)

    def copy(self, device: Device, target: int, source: int, nbytes: int) -> None:
        """Copy bytes inside it."""
        if nbytes:
            with self.opened(device).entered() as engine:
                engine.copy(target, source, nbytes)

    def fill(self, device: Device, target: int, nbytes: int, byte: int) -> None:
        """Make bytes of it all the same."""
        if nbytes:
            with self.opened(device).entered() as engine:
                engine.fill(target, nbytes, byte)

    def synchronize(self, device: Device) -> None:
        """Wait for all that was queued."""
        with self.opened(device).entered() as engine:
            engine.synchronize()
