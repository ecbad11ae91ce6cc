"""Devices as doctor reports them: what they are, and what was measured of them."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from nnc.classes import dataclass
from nnc.core.running.devices import DEVICES
from nnc.core.running.dispatch import DISPATCHER, Call
from nnc.core.values.command import Command
from nnc.core.values.device import Device
from nnc.core.values.spec import TensorSpec
from nnc.core.values.tensor import Tensor
from nnc.errors import DeviceError
from nnc.ops.products.products import GEMM, GemmAttrs

# As much of a device's memory as is copied, and the sizes of the product.
COPIED, SIZE = 1 << 26, 1024
TIMES = 5


@dataclass(frozen=True, slots=True)
class DeviceRates:
    """Gigabytes a second to the device, from it and inside (read and written); operations of a product in f32."""

    upload: float
    download: float
    copy: float
    gigaflops: float


@dataclass(frozen=True, slots=True)
class DeviceReport:
    """A device, or why a kind has none."""

    device: str
    name: str
    absence: str
    memory_bytes: int
    unified: bool
    subgroup: int
    features: list[str]
    rates: DeviceRates | None


def device_reports(*, measured: bool) -> list[DeviceReport]:
    """Of all devices beside the processor, and of kinds that have none."""
    reports = []
    for kind in DEVICES.kinds:
        try:
            count = DEVICES.driver(Device(kind)).count()
        except DeviceError as error:
            reports.append(DeviceReport(kind, "", error.fix or str(error), 0, False, 0, [], None))
            continue
        reports += [_report(Device(kind, number), measured) for number in range(count)]
    return reports


def _report(device: Device, measured: bool) -> DeviceReport:
    try:
        facts = DEVICES.driver(device).facts(device)
        rates = device_rates(device) if measured else None
    except DeviceError as error:
        return DeviceReport(str(device), "", str(error), 0, False, 0, [], None)
    told = facts.name, "", facts.memory_bytes, facts.unified, facts.subgroup, sorted(facts.features)
    return DeviceReport(str(device), *told, rates)


def device_rates(device: Device) -> DeviceRates:
    """The best of some runs each."""
    driver, host = DEVICES.driver(device), np.zeros(COPIED, np.uint8)
    first, second = (driver.allocate(device, COPIED) for _ in range(2))
    place, source, target = int(host.ctypes.data), first.address, second.address

    def best(run: Callable[[], None]) -> float:
        seconds = []
        for _ in range(TIMES):
            driver.synchronize(device)
            began = time.perf_counter()
            run()
            driver.synchronize(device)
            seconds.append(time.perf_counter() - began)
        return min(seconds)

    uploaded = best(lambda: driver.upload(device, source, place, COPIED))
    downloaded = best(lambda: driver.download(device, place, source, COPIED))
    copied = best(lambda: driver.copy(device, target, source, COPIED))
    computed = best(_product(device))
    billion = 1e9
    return DeviceRates(
        COPIED / uploaded / billion,
        COPIED / downloaded / billion,
        2 * COPIED / copied / billion,
        2 * SIZE**3 / computed / billion,
    )


def _product(device: Device) -> Callable[[], None]:
    """A square product, ready to run."""
    spec = TensorSpec((SIZE, SIZE), device=device)
    left, right, result = (Tensor.zeros(spec) for _ in range(3))
    specs, command = (spec, spec, None), Command(GEMM, GemmAttrs())
    claim = DISPATCHER.claim(command, specs, (spec,))
    workspace = None
    if nbytes := claim.kernel.workspace_bytes:
        workspace = Tensor.zeros(TensorSpec((nbytes // 4 + 1,), device=device))
    program = claim.backend.program([Call(claim.kernel, (left, right, None), (result,), workspace)])
    program()
    return program
