"""The table of drivers, and memory that has no bytes in the process."""

from __future__ import annotations

import copy
import pickle

import pytest

import nnc
from nnc.core.running.devices import DEVICES, Devices
from nnc.core.values.device import CPU, Device, device_of
from nnc.core.values.spec import TensorSpec
from nnc.core.values.storage import DeviceStorage, Storage, allocate_on
from nnc.core.values.tensor import Tensor
from nnc.errors import DeviceError


@pytest.mark.parametrize(
    ("text", "device"), [("cpu", CPU), ("cuda", Device("cuda")), ("vulkan:3", Device("vulkan", 3)), (CPU, CPU)]
)
def test_the_device_of_a_text(text: str, device: Device) -> None:
    assert device_of(text) == device


@pytest.mark.parametrize("text", ["", "gpu", "cuda:", "cuda:-1", "cuda:x", "CUDA", "cuda:1:2", 3, None])
def test_texts_of_no_device(text: str) -> None:
    with pytest.raises(DeviceError, match="device: got"):
        device_of(text)


def test_devices_without_a_driver_are_refused() -> None:
    with pytest.raises(DeviceError, match="cuda:0; need one of cpu"):
        Devices().driver(Device("cuda"))
    assert CPU in DEVICES.present()
    assert type(allocate_on(CPU, 8)) is Storage


def test_kinds_tell_whether_there_is_a_device() -> None:
    for kind in (nnc.cuda, nnc.vulkan):
        there = [each for each in nnc.devices() if each.kind == kind.kind]
        assert kind.device_count() == len(there)
        assert kind.is_available() is bool(there)
        with pytest.raises(DeviceError, match=f"{kind.kind}:{len(there)}"):
            kind.get_device_name(len(there))
        with pytest.raises(DeviceError):
            kind.synchronize(len(there))
        for each in there:
            assert kind.get_device_name(each.index)
            kind.synchronize(each.index)


def test_memory_of_a_device_has_no_bytes() -> None:
    storage = DeviceStorage(Device("cuda"), None, 1 << 40, 64)
    tensor = Tensor(TensorSpec((4,), device=Device("cuda")), storage)
    assert tensor.address == 1 << 40
    for read in (tensor.numpy, lambda: storage.bytes, lambda: copy.copy(storage), lambda: pickle.dumps(storage)):
        with pytest.raises(DeviceError, match="cuda:0"):
            read()
