"""A device of NVIDIA's that is a double, in the tables of the process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.backends.gpu.fake_cuda import FakeCuda
from tests.backends.gpu.on_device import served

from nnc.backends.gpu.cuda import assembler
from nnc.backends.gpu.cuda import driver as cuda
from nnc.backends.gpu.driver import GpuDriver
from nnc.codegen.device.device_targets import cuda_target
from nnc.core.values.device import Device


@pytest.fixture
def double() -> FakeCuda:
    """The library that the driver finds."""
    return FakeCuda()


@pytest.fixture
def driver(double: FakeCuda, monkeypatch: pytest.MonkeyPatch, tmp_path) -> Iterator[GpuDriver]:
    """Its driver: threads of the device are run one after another, so that none exchanges anything with another."""
    monkeypatch.setattr(assembler, "ptx_of", lambda text, target: text)
    monkeypatch.setattr("nnc.codegen.device.launch.group_kernel", lambda *given: None, raising=False)
    monkeypatch.setattr(cuda, "cuda_target", lambda *capability: alone(*capability))
    monkeypatch.setattr("nnc.core.settings.SETTINGS.cache_folder", tmp_path)
    with served(GpuDriver("cuda", cuda.CudaDevices(double))) as made:
        yield made


def alone(major: int, minor: int):
    """The target of single threads; None where there is none."""
    target = cuda_target(major, minor)
    return None if target is None else replace(target, threads=1)


@pytest.fixture
def device(driver: GpuDriver) -> Device:
    """The first device."""
    return Device("cuda")
