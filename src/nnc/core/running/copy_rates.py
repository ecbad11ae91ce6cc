"""What it takes to bring values of a device to the host and back, measured once for each device and process.

seconds = calls · latency + bytes · seconds of a byte
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

import numpy as np

from nnc.core.precautions.forking import fork_safe_lock
from nnc.core.running.devices import DEVICES
from nnc.core.values.device import Device
from nnc.errors import OutOfMemoryError

# The two sizes that a latency and a rate follow from, and how often each is copied: the least counts.
SMALL, LARGE, TIMES = 1 << 12, 1 << 22, 5

_RATES: dict[Device, tuple[float, float]] = {}
_LOCK = fork_safe_lock()


def round_trip_seconds(device: Device, sizes: Sequence[int]) -> float:
    """Of values of so many bytes, one after another; 0 where the device has no memory to measure with."""
    with _LOCK:
        rates = _RATES.get(device)
    if rates is None:
        try:
            rates = _measured(device)
        except OutOfMemoryError:
            return 0.0
        with _LOCK:
            _RATES[device] = rates
    latency, of_byte = rates
    return sum(latency + nbytes * of_byte for nbytes in sizes)


def _measured(device: Device) -> tuple[float, float]:
    small, large = (_seconds(device, nbytes) for nbytes in (SMALL, LARGE))
    of_byte = max((large - small) / (LARGE - SMALL), 0.0)
    return max(small - SMALL * of_byte, 0.0), of_byte


def _seconds(device: Device, nbytes: int) -> float:
    driver, host = DEVICES.driver(device), np.zeros(nbytes, np.uint8)
    memory, place, seconds = driver.allocate(device, nbytes), int(host.ctypes.data), list[float]()
    driver.upload(device, memory.address, place, nbytes)
    driver.synchronize(device)
    for _ in range(TIMES):
        begin = perf_counter()
        driver.download(device, place, memory.address, nbytes)
        driver.upload(device, memory.address, place, nbytes)
        driver.synchronize(device)
        seconds.append(perf_counter() - begin)
    return min(seconds)
