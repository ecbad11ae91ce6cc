"""to_device between the host and two devices, and what is no transfer."""

from __future__ import annotations

import numpy as np
import pytest
from tests.backends.gpu.fake_cuda import FakeCuda

from nnc.backends.gpu.driver import GpuDriver
from nnc.core.running.dispatch import DISPATCHER, Call
from nnc.core.values.command import Command
from nnc.core.values.device import CPU, Device
from nnc.core.values.spec import spec
from nnc.core.values.tensor import Tensor
from nnc.ops.elementwise.pointwise import exp
from nnc.ops.movement.transfer import TO_DEVICE, TransferAttrs
from nnc.ops.rules import NoAttrs

FIRST, SECOND = Device("cuda"), Device("cuda", 1)
pytestmark = pytest.mark.skipif(bool(DISPATCHER.backends["llvm"].absence()), reason="LLVM is absent")


@pytest.fixture
def double() -> FakeCuda:
    return FakeCuda(devices=2)


@pytest.mark.parametrize(("source", "target"), [(CPU, FIRST), (FIRST, CPU), (FIRST, SECOND), (SECOND, FIRST)], ids=str)
@pytest.mark.parametrize("turned", [False, True], ids=["plain", "with gaps"])
def test_elements_go_from_one_device_to_another(
    driver: GpuDriver, source: Device, target: Device, turned: bool
) -> None:
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    x = Tensor.from_numpy(values).to(source)
    if turned:
        x, values = x.view(spec((4, 3)).on(source), 0, (1, 4)), values.T
    y = Tensor.empty(x.spec.on(target))
    claim = DISPATCHER.claim(Command(TO_DEVICE, TransferAttrs(target)), (x.spec,), (y.spec,))
    assert str(claim) == "transfer"
    claim.backend.program([Call(claim.kernel, (x,), (y,), None)])()
    np.testing.assert_array_equal(y.to(CPU).numpy(), values)


def test_inside_a_device_its_own_kernel_copies(driver: GpuDriver) -> None:
    there = spec((3,)).on(SECOND)
    assert str(DISPATCHER.claim(Command(TO_DEVICE, TransferAttrs(SECOND)), (there,), (there,))) == "cuda"


def test_devices_of_one_kind_are_not_mixed(driver: GpuDriver) -> None:
    x, y = spec((3,)).on(FIRST), spec((3,)).on(SECOND)
    assert (
        DISPATCHER.backend("cuda").refusal(Command(exp, NoAttrs()), (x,), (y,)) == "tensors outside one device of cuda"
    )
    assert (
        DISPATCHER.backend("transfer").refusal(Command(exp, NoAttrs()), (x,), (y,)) == "no transfer between two devices"
    )


def test_each_device_has_memory_of_its_own(driver: GpuDriver) -> None:
    held = driver.allocate(SECOND, 1 << 20)
    assert driver.opened(SECOND).bytes_in_use == held.nbytes
    assert driver.opened(FIRST).bytes_in_use == 0
