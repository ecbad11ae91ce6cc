"""Tensors in memory of a device: copies there and back, views, pickles, files, and what needs the host."""

from __future__ import annotations

import copy
import gc
import pickle
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.simulated_device import SimulatedMachine, simulated

from nnc.core.running.devices import DEVICES
from nnc.core.values.device import CPU, Device
from nnc.core.values.exchange import from_dlpack
from nnc.core.values.pool import Pool
from nnc.core.values.serialize import checksum, load_tensors, save_tensors
from nnc.core.values.spec import TensorSpec, spec
from nnc.core.values.tensor import Tensor
from nnc.errors import DeviceError, DTypeError, OutOfMemoryError, ShapeError

HERE, THERE = Device("cuda"), Device("cuda", 1)


@pytest.fixture
def machine() -> Iterator[SimulatedMachine]:
    with simulated(count=2) as made:
        yield made


def count(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


@pytest.mark.parametrize("device", [CPU, HERE, THERE])
def test_elements_go_to_a_device_and_back(machine: SimulatedMachine, device: Device) -> None:
    for array in (count(2, 3), count(3, 2).T, count(0, 4), np.float32(3.0), np.array([True, False])):
        tensor = Tensor.from_numpy(array).to(device)
        assert tensor.spec.device == device
        assert tensor.to(device) is tensor
        np.testing.assert_array_equal(tensor.to(THERE).to(CPU).numpy(), array)


def test_memory_goes_back_with_its_last_holder(machine: SimulatedMachine) -> None:
    tensor = Tensor.from_numpy(count(16)).to(HERE)
    part = tensor.view(spec([4], device=HERE), 2, (3,))
    del tensor
    assert machine.driver.used(HERE) == 64
    np.testing.assert_array_equal(part.to(CPU).numpy(), [2, 5, 8, 11])
    del part
    assert machine.driver.used(HERE) == 0


def test_writes_into_parts_leave_what_is_between(machine: SimulatedMachine) -> None:
    tensor = Tensor.from_numpy(count(2, 4)).to(HERE)
    column = tensor.view(spec([2], device=HERE), 1, (4,))
    column.copy_from([10.0, 20.0])
    column.copy_from(Tensor.from_numpy(np.float32([30.0, 40.0])).to(THERE))
    np.testing.assert_array_equal(tensor.to(CPU).numpy(), [[0, 30, 2, 3], [4, 40, 6, 7]])
    np.testing.assert_array_equal(column.clone().to(CPU).numpy(), [30, 40])
    with pytest.raises(DTypeError, match="whole numbers"):
        Tensor.zeros(spec([2], "i32", device=HERE)).copy_from([0.5, 1.5])
    with pytest.raises(ShapeError, match="sizes equal or 1"):
        column.copy_from(count(3))


def test_copies_on_one_device_do_not_pass_the_host(machine: SimulatedMachine) -> None:
    tensor = Tensor.from_numpy(count(8)).to(HERE)
    machine.driver.counts.clear()
    tensor.clone().copy_from(tensor)
    Tensor.zeros(tensor.spec)
    assert not {"upload", "download"} & machine.driver.counts.keys()


def test_overlaps_are_found_by_addresses(machine: SimulatedMachine) -> None:
    tensor = Tensor.from_numpy(count(8)).to(HERE)
    even, odd = (tensor.view(spec([4], device=HERE), start, (2,)) for start in (0, 1))
    assert not even.overlaps(odd)
    assert even.overlaps(tensor)
    assert tensor.overlaps(odd)
    # The same address on another device is other memory.
    other = Tensor(TensorSpec((8,), device=THERE), tensor.storage)
    assert not tensor.overlaps(other)
    assert not tensor.is_same_memory(other)


def test_pickles_and_files_go_through_the_host(machine: SimulatedMachine, tmp_path: Path) -> None:
    tensor = Tensor.from_numpy(count(2, 3)).to(THERE)
    for twin in (pickle.loads(pickle.dumps(tensor)), copy.copy(tensor), copy.deepcopy(tensor)):
        assert twin.spec == tensor.spec
        assert twin.address != tensor.address
        np.testing.assert_array_equal(twin.to(CPU).numpy(), count(2, 3))
    save_tensors(tmp_path / "x.safetensors", {"x": tensor})
    read = load_tensors(tmp_path / "x.safetensors").tensors["x"]
    np.testing.assert_array_equal(read.numpy(), count(2, 3))
    assert checksum({"x": read}) == checksum({"x": tensor})


def test_a_pickle_needs_its_device() -> None:
    with simulated():
        content = pickle.dumps(Tensor.from_numpy(count(2)).to(HERE))
    with pytest.raises(DeviceError, match="cuda:0"):
        pickle.loads(content)


def test_bytes_of_a_device_are_copied_by_name_alone(machine: SimulatedMachine) -> None:
    tensor = Tensor.from_numpy(count(2)).to(HERE)
    for read in (tensor.numpy, lambda: np.asarray(tensor), lambda: Tensor.empty(spec([0], device=HERE)).numpy()):
        with pytest.raises(DeviceError, match=r"numpy: got f32\[.\]@cuda:0.*to\('cpu'\)"):
            read()
    assert repr(tensor) == "Tensor(f32[2]@cuda:0)\n[0. 1.]"


def test_a_pool_has_memory_of_each_device(machine: SimulatedMachine) -> None:
    pool = Pool()
    assert pool.of(CPU) is pool
    first, other = pool.of(HERE).allocate(100), pool.of(THERE).allocate(100)
    assert (first.device, other.device) == (HERE, THERE)
    assert machine.driver.used(HERE) == machine.driver.used(THERE) == 100
    del first
    assert machine.driver.used(HERE) == 0
    assert pool.lent == pool.waiting == 0


def test_a_full_device_says_so() -> None:
    with simulated(memory_bytes=1000), pytest.raises(OutOfMemoryError, match="4000 bytes; need bytes that cuda:0"):
        Tensor.empty(spec([1000], device=HERE))
    assert HERE not in DEVICES.present() or DEVICES.driver(HERE).facts(HERE).name != "simulated cuda:0"


def test_memory_of_a_circle_of_garbage_is_given_again(machine: SimulatedMachine) -> None:
    pool = Pool()
    for _ in range(3):
        circle: list[object] = [Tensor.empty(spec([8], device=HERE), pool=pool)]
        circle.append(circle)
        del circle
        gc.collect()
        tensor = Tensor.empty(spec([8], device=HERE), pool=pool)
        tensor.copy_from(np.ones(8))
        np.testing.assert_array_equal(tensor.to(CPU).numpy(), np.ones(8))
        del tensor
    assert machine.driver.used(HERE) == 0


def test_memory_outlives_its_pool(machine: SimulatedMachine) -> None:
    pool = Pool()
    tensor = Tensor.empty(spec([8], device=HERE), pool=pool)
    del pool
    gc.collect()
    tensor.copy_from(np.ones(8))
    np.testing.assert_array_equal(tensor.to(CPU).numpy(), np.ones(8))
    del tensor
    gc.collect()
    assert machine.driver.used(HERE) == 0


def test_memory_is_exchanged_by_dlpack(machine: SimulatedMachine) -> None:
    tensor = Tensor.from_numpy(count(2, 3)).to(THERE)
    assert tensor.__dlpack_device__() == (2, 1)
    twin = from_dlpack(tensor)
    assert (twin.spec, twin.address) == (tensor.spec, tensor.address)
    column = from_dlpack(tensor.view(spec([2], device=THERE), 1, (3,)))
    np.testing.assert_array_equal(column.to(CPU).numpy(), [1, 4])
    del tensor
    np.testing.assert_array_equal(twin.to(CPU).numpy(), count(2, 3))
    del twin, column
    gc.collect()
    assert machine.driver.used(THERE) == 0
    flags = Tensor.from_numpy(np.array([True, False])).to(HERE)
    np.testing.assert_array_equal(from_dlpack(flags).to(CPU).numpy(), [True, False])


def test_capsules_that_nobody_takes_let_go(machine: SimulatedMachine) -> None:
    tensor = Tensor.from_numpy(count(4)).to(HERE)
    capsule = tensor.__dlpack__(stream=-1)
    del tensor
    assert machine.driver.used(HERE) == 16
    del capsule
    assert machine.driver.used(HERE) == 0


def test_who_cannot_read_a_device_is_refused(machine: SimulatedMachine) -> None:
    tensor = Tensor.from_numpy(count(4)).to(HERE)
    with pytest.raises(BufferError, match=r"Fix: x.cpu\(\)"):
        np.from_dlpack(tensor)
    np.testing.assert_array_equal(np.from_dlpack(tensor, device="cpu"), count(4))
    with pytest.raises(BufferError, match="for device"):
        tensor.__dlpack__(stream=-1, dl_device=(2, 1))
