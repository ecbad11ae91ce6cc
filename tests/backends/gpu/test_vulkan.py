"""Devices that Vulkan reaches, on one that is there: Mesa's lavapipe is one of any machine's."""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial

import numpy as np
import pytest
from tests.backends.gpu.on_device import check_a_forked_child, check_bounds, check_two_threads, on, served
from tests.backends.gpu.on_device import program as program_on

from nnc.backends.gpu.driver import GpuDriver
from nnc.backends.gpu.vulkan.driver import VulkanDevices
from nnc.backends.gpu.vulkan.engine import STAGING_BYTES, VulkanEngine
from nnc.backends.gpu.vulkan.library import LOST
from nnc.backends.gpu.vulkan.physical import PhysicalDevice
from nnc.codegen.device.launch import device_kernel
from nnc.codegen.device.spirv.module import spirv_module
from nnc.codegen.program.assembling import CommandKernel
from nnc.codegen.program.claims import TableClaims
from nnc.core.running.dispatch import DISPATCHER, Call, Relocatable
from nnc.core.settings import SETTINGS
from nnc.core.values.command import Command
from nnc.core.values.device import CPU, Device
from nnc.core.values.dtype import F32, I32
from nnc.core.values.spec import TensorSpec
from nnc.core.values.tensor import Tensor
from nnc.errors import DeviceError, IndexRangeError, OutOfMemoryError
from nnc.ops.elementwise.pointwise import add, exp, relu
from nnc.ops.indexing.indexing import INDEX_SELECT, AxisAttrs
from nnc.ops.rules import NoAttrs

ABSENCE = VulkanDevices().absence
pytestmark = pytest.mark.skipif(bool(ABSENCE), reason=f"no Vulkan device: {ABSENCE}")
DEVICE = Device("vulkan")
RNG = np.random.default_rng(0)


@pytest.fixture(params=["unified", "apart"])
def driver(request, monkeypatch: pytest.MonkeyPatch, tmp_path) -> Iterator[GpuDriver]:
    """A driver of its own; memory that the host does not see goes through a buffer that it sees."""
    if request.param == "apart":
        monkeypatch.setattr(PhysicalDevice, "shares_memory", False)
    monkeypatch.setattr(SETTINGS, "cache_folder", tmp_path)
    with served(GpuDriver("vulkan", VulkanDevices())) as made:
        yield made
        made.synchronize(DEVICE)


on_vulkan, program = partial(on, DEVICE), partial(program_on, DEVICE)


def engine_of(driver: GpuDriver) -> VulkanEngine:
    engine = driver.opened(DEVICE).engine
    assert isinstance(engine, VulkanEngine)
    return engine


def test_bytes_go_there_and_back_in_order(driver: GpuDriver) -> None:
    for nbytes in (1, 63, 4096, 40_001, STAGING_BYTES + 5):
        source, back = RNG.integers(0, 255, nbytes, np.uint8), np.zeros(nbytes, np.uint8)
        memory, other = driver.allocate(DEVICE, nbytes), driver.allocate(DEVICE, nbytes)
        driver.upload(DEVICE, memory.address, source.ctypes.data, nbytes)
        driver.fill(DEVICE, other.address, nbytes, 7)
        driver.copy(DEVICE, other.address, memory.address, nbytes // 2)
        driver.download(DEVICE, back.ctypes.data, other.address, nbytes)
        np.testing.assert_array_equal(back, np.where(np.arange(nbytes) < nbytes // 2, source, 7))


def test_fills_reach_no_byte_beside_them(driver: GpuDriver) -> None:
    memory, back = driver.allocate(DEVICE, 64), np.zeros(64, np.uint8)
    for begin in range(5):
        for nbytes in (1, 2, 3, 7, 12):
            driver.fill(DEVICE, memory.address, 64, 1)
            driver.fill(DEVICE, memory.address + begin, nbytes, 9)
            driver.download(DEVICE, back.ctypes.data, memory.address, 64)
            place = np.arange(64)
            np.testing.assert_array_equal(back, np.where((place >= begin) & (place < begin + nbytes), 9, 1))


@pytest.mark.nightly("programs of many launches are compared in every run")
def test_launches_of_a_program_wait_for_each_other(driver: GpuDriver) -> None:
    total, one = on_vulkan(np.zeros(10_000)), on_vulkan(np.ones(10_000))
    claim = DISPATCHER.claim(Command(add, NoAttrs()), (total.spec,) * 2, (total.spec,))
    run = claim.backend.program([Call(claim.kernel, (total, one), (total,), None)] * 100)
    for _ in range(100):
        run()
    np.testing.assert_array_equal(total.to(CPU).numpy(), np.full(10_000, 10_000))


def test_a_command_runs_alone(driver: GpuDriver) -> None:
    x = on_vulkan(RNG.random((3, 4)))
    claim = DISPATCHER.claim(Command(exp, NoAttrs()), (x.spec,), (x.spec,))
    assert str(claim) == "vulkan"
    y = Tensor.empty(x.spec)
    for _ in range(200):
        claim.kernel.run((x,), (y,), None)
    np.testing.assert_allclose(y.to(CPU).numpy(), np.exp(x.to(CPU).numpy()), rtol=1e-5)


def test_operands_of_a_program_may_move(driver: GpuDriver) -> None:
    x, other = on_vulkan(np.arange(5)), on_vulkan(np.arange(5) + 10)
    run, y = program(Command(exp, NoAttrs()), [x])
    assert isinstance(run, Relocatable)
    run.relocation([(x.address, x.address + 20)])([other.address])
    run()
    np.testing.assert_allclose(y.to(CPU).numpy(), np.exp(np.arange(5) + 10), rtol=1e-5)


def test_an_index_outside_is_an_error_of_its_run_alone(driver: GpuDriver) -> None:
    table, wrong, right = on_vulkan(RNG.random((4, 3))), on_vulkan([1, 9], I32), on_vulkan([1, 3], I32)
    command = Command(INDEX_SELECT, AxisAttrs(0))
    for _ in range(2):
        run, _ = program(command, [table, wrong])
        with pytest.raises(IndexRangeError, match="index_select"):
            run()
        run, y = program(command, [table, right])
        run()
        np.testing.assert_array_equal(y.to(CPU).numpy(), table.to(CPU).numpy()[[1, 3]])


def test_more_memory_than_there_is(driver: GpuDriver) -> None:
    x = on_vulkan(np.ones(4))
    facts = driver.facts(DEVICE)
    with pytest.raises(OutOfMemoryError, match="memory that vulkan:0 has"):
        driver.allocate(DEVICE, facts.memory_bytes + 1)
    np.testing.assert_array_equal(x.to(CPU).numpy(), np.ones(4))


def test_memory_goes_back(driver: GpuDriver) -> None:
    opened, x = driver.opened(DEVICE), on_vulkan(np.ones(4))
    for nbytes in (10 << 20, 20 << 20, 30 << 20):
        driver.fill(DEVICE, driver.allocate(DEVICE, nbytes).address, nbytes, 1)
    gc.collect()
    held = opened.reserved_bytes
    with opened.entered():
        opened._pool.release_waiting()
    assert opened.reserved_bytes <= held - (60 << 20)
    np.testing.assert_array_equal(x.to(CPU).numpy(), np.ones(4))


def test_programs_that_are_dropped_leave_nothing(driver: GpuDriver) -> None:
    x, engine = on_vulkan(np.ones(4)), engine_of(driver)
    held = driver.opened(DEVICE).bytes_in_use
    for _ in range(1000):
        run, _ = program(Command(exp, NoAttrs()), [x])
        run()
        del run, _
    driver.synchronize(DEVICE)
    driver.synchronize(DEVICE)
    assert driver.opened(DEVICE).bytes_in_use <= held + (1 << 16)
    assert len(engine.dropped) + len(engine._doomed) <= 1


def test_two_threads_take_turns(driver: GpuDriver) -> None:
    check_two_threads(DEVICE)


def test_a_forked_child_is_refused(driver: GpuDriver) -> None:
    check_a_forked_child(driver, DEVICE)


def test_a_device_that_is_lost_says_so(driver: GpuDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    x, engine = on_vulkan(np.ones(4)), engine_of(driver)
    run, _ = program(Command(exp, NoAttrs()), [x])
    real = engine.vk.result

    def result(name: str, *arguments: object) -> int:
        return LOST if name == "vkQueueSubmit" else real(name, *arguments)

    monkeypatch.setattr(engine.vk, "result", result)
    with pytest.raises(DeviceError, match=r"vkQueueSubmit.*device lost.*keep what the host has"):
        run()
    monkeypatch.undo()


def test_fresh_memory_is_poison_in_debugging(driver: GpuDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SETTINGS, "debug", True)
    assert np.isnan(Tensor.empty(TensorSpec((1000,), F32, device=DEVICE)).to(CPU).numpy()).all()


ENDLESS = """
import numpy as np
import nnc
from nnc.core.values.device import Device
from nnc.core.values.tensor import Tensor
x = np.arange(1000, dtype=np.float32)
print("begun", flush=True)
while True:
    assert (Tensor.from_numpy(x).to(Device("vulkan")).to(Device()).numpy() == x).all()
"""


def test_a_process_that_is_killed_leaves_the_device_to_others(driver: GpuDriver) -> None:
    process = subprocess.Popen([sys.executable, "-c", ENDLESS], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    run, y = program(Command(exp, NoAttrs()), [on_vulkan(np.zeros(4))])
    run()
    np.testing.assert_array_equal(y.to(CPU).numpy(), np.ones(4))


def test_what_a_driver_has_made_is_kept_on_disk(driver: GpuDriver) -> None:
    program(Command(exp, NoAttrs()), [on_vulkan(np.ones(4))])
    engine_of(driver).pipelines.keep()
    assert SETTINGS.cache_folder is not None
    (kept,) = (SETTINGS.cache_folder / "pipelines").iterdir()
    again = GpuDriver("vulkan", VulkanDevices())
    again.synchronize(DEVICE)
    kept.write_bytes(b"damaged")
    with pytest.warns(RuntimeWarning, match="pipeline cache"):
        GpuDriver("vulkan", VulkanDevices()).synchronize(DEVICE)


def test_modules_ask_for_signs_of_zeros_and_nan_where_a_device_can_keep_them(driver: GpuDriver) -> None:
    target, x = driver.opened(DEVICE).target, TensorSpec((10,), F32)
    kernel = TableClaims(target, CommandKernel).kernel(Command(relu, NoAttrs()), (x,), (x,))
    made = device_kernel(kernel.generator, target, "kernel")
    plain, kept = (spirv_module(made, widths).code for widths in ((), (16, 32, 64)))
    # A capability of two words, and a mode of four for the one type that it computes with.
    assert len(kept) - len(plain) == 4 * (2 + 4)
    y = Tensor.empty(x.on(DEVICE))
    given = np.array([-0.0, np.nan, -np.inf, np.inf, -1, 0, 1, 2, np.nan, -0.0])
    claim = DISPATCHER.claim(Command(exp, NoAttrs()), (y.spec,), (y.spec,))
    claim.kernel.run((on_vulkan(given),), (y,), None)
    np.testing.assert_allclose(y.to(CPU).numpy(), np.exp(given), rtol=1e-5)


def test_kernels_that_leave_an_operand_are_named_in_debugging(
    driver: GpuDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_bounds(DEVICE, monkeypatch)


def test_a_device_is_closed_when_nobody_holds_it_or_its_memory(
    driver: GpuDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed, close = [], VulkanEngine.close
    monkeypatch.setattr(VulkanEngine, "close", lambda engine: closed.append(close(engine)))
    for number in range(3):
        with served(GpuDriver("vulkan", VulkanDevices())):
            x = on_vulkan(np.ones(4))
            run, y = program(Command(exp, NoAttrs()), [x])
            run()
        del run, x
        gc.collect()
        assert len(closed) == number, "what is held of its memory holds it"
        del y
        gc.collect()
        assert len(closed) == number + 1
