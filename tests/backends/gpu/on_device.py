"""What tests of all kinds of devices do on one: tensors, programs, a driver of their own, what holds for each kind."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

from nnc.backends.gpu.assembly import GpuKernel
from nnc.backends.gpu.driver import GpuDriver
from nnc.codegen.kernels.elementwise.pointwise import Pointwise
from nnc.core.running.devices import DEVICES
from nnc.core.running.dispatch import DISPATCHER, Call
from nnc.core.settings import SETTINGS
from nnc.core.values.command import Command
from nnc.core.values.device import CPU, Device
from nnc.core.values.dtype import F32
from nnc.core.values.tensor import Tensor
from nnc.dynamic.graph import default_graph
from nnc.errors import DeviceError
from nnc.ops.elementwise.pointwise import exp
from nnc.ops.rules import NoAttrs, infer


def forget() -> None:
    """Kernels of a driver that is gone."""
    DISPATCHER._claims.clear()
    default_graph()._ready.clear()


@contextmanager
def served(driver: GpuDriver) -> Iterator[GpuDriver]:
    """Inside, devices of its kind are those of this driver."""
    makers, drivers = dict(DEVICES._makers), dict(DEVICES._drivers)
    DEVICES.add(driver.kind, lambda: driver)
    forget()
    yield driver
    forget()
    DEVICES._makers.update(makers)
    DEVICES._drivers.clear()
    DEVICES._drivers.update(drivers)


def on(device: Device, values: object, dtype=F32) -> Tensor:
    return Tensor.from_numpy(np.asarray(values), dtype).to(device)


def program(device: Device, command: Command, inputs: list[Tensor], times: int = 1):
    """The program of a command, and its result."""
    specs = tuple(tensor.spec for tensor in inputs)
    results = tuple(spec.on(device) for spec in infer(command.op, command.attrs, specs))
    claim = DISPATCHER.claim(command, specs, results)
    outputs = tuple(map(Tensor.empty, results))
    call = Call(claim.kernel, tuple(inputs), outputs, None)
    return claim.backend.program([call] * times), outputs[0]


def check_a_forked_child(driver: GpuDriver, device: Device) -> None:
    """It is refused, and the process that forked goes on."""
    x = on(device, np.ones(4))
    child = os.fork()
    if not child:
        code = 1
        try:
            driver.synchronize(device)
        except DeviceError as error:
            code = 0 if "spawn" in error.fix else 2
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    np.testing.assert_array_equal(x.to(CPU).numpy(), np.ones(4))


def check_two_threads(device: Device) -> None:
    """Each has the results of its own values."""
    wrong: list[str] = []

    def work(seed: int) -> None:
        values = np.random.default_rng(seed).random(100).astype(np.float32)
        run, y = program(device, Command(exp, NoAttrs()), [on(device, values)])
        for _ in range(50):
            run()
            if not np.allclose(y.to(CPU).numpy(), np.exp(values), rtol=1e-5):
                wrong.append(f"thread {seed}")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def check_bounds(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """In debugging a kernel that goes too far is named, with its operand and the place; memory behind it stays."""
    monkeypatch.setattr(SETTINGS, "debug", True)
    x, both = on(device, np.zeros(100)), on(device, np.zeros(200))
    y, behind = (both.view(x.spec, offset, (1,)) for offset in (0, 100))
    claim = DISPATCHER.claim(Command(exp, NoAttrs()), (x.spec,), (x.spec,))
    kernel = claim.kernel
    assert isinstance(kernel, GpuKernel)
    good, bad = kernel.generator, replace(kernel.generator, shape=(101,))
    assert isinstance(good, Pointwise)
    calls = (lambda: kernel.run((x,), (y,), None), claim.backend.program([Call(kernel, (x,), (y,), None)]))
    kernel.generator = bad
    wrong = (calls[0], claim.backend.program([Call(kernel, (x,), (y,), None)]))
    before = behind.to(CPU).numpy().tobytes()
    for run in wrong:
        with pytest.raises(DeviceError, match=r"kernel exp: got a write of 4 bytes at byte 400 of operand 1 \(y\)"):
            run()
    kernel.generator = good
    for run in calls:
        run()
        np.testing.assert_array_equal(y.to(CPU).numpy(), np.ones(100))
    assert behind.to(CPU).numpy().tobytes() == before
