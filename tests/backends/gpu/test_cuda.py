"""Devices of NVIDIA's: the driver's logic on a double of its library, and all of it on a device that is there."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tests.backends.gpu.fake_cuda import ATTRIBUTES, COMPUTE_MAJOR, ILLEGAL_ADDRESS, OUT_OF_MEMORY, FakeCuda
from tests.backends.gpu.on_device import check_a_forked_child, check_bounds, check_two_threads, on, program, served
from tests.conformance.cases import CASES
from tests.conformance.on_devices import check_row
from tests.conformance.runs import REFERENCE

from nnc.backends.gpu.cuda.assembler import ptx_of
from nnc.backends.gpu.cuda.driver import CudaDevices
from nnc.backends.gpu.driver import GpuDriver
from nnc.cli import device_rates
from nnc.codegen.device.device_targets import cuda_target
from nnc.codegen.device.launch import device_kernel
from nnc.codegen.program.assembling import CommandKernel
from nnc.codegen.program.claims import TableClaims
from nnc.core.running.devices import DEVICES
from nnc.core.running.dispatch import DISPATCHER, Call, Relocatable
from nnc.core.settings import SETTINGS
from nnc.core.values.command import Command
from nnc.core.values.device import CPU, Device
from nnc.core.values.dtype import F32, I32
from nnc.core.values.spec import TensorSpec
from nnc.core.values.tensor import Tensor
from nnc.errors import DeviceError, IndexRangeError, OutOfMemoryError
from nnc.ops.elementwise.pointwise import add, exp, log, sin, sqrt, tanh
from nnc.ops.indexing.indexing import INDEX_SELECT, AxisAttrs
from nnc.ops.rules import NoAttrs

RNG = np.random.default_rng(0)
pytestmark = pytest.mark.skipif(bool(DISPATCHER.backends["llvm"].absence()), reason="LLVM is absent")


def test_bytes_go_there_and_back_in_order(driver: GpuDriver, device: Device) -> None:
    for nbytes in (1, 63, 4096, 4097, (1 << 23) + 5):
        source, back = RNG.integers(0, 255, nbytes, np.uint8), np.zeros(nbytes, np.uint8)
        memory, other = driver.allocate(device, nbytes), driver.allocate(device, nbytes)
        driver.upload(device, memory.address, source.ctypes.data, nbytes)
        driver.fill(device, other.address, nbytes, 7)
        driver.copy(device, other.address, memory.address, nbytes // 2)
        driver.download(device, back.ctypes.data, other.address, nbytes)
        np.testing.assert_array_equal(back, np.where(np.arange(nbytes) < nbytes // 2, source, 7))


@pytest.mark.turns(4)
@pytest.mark.parametrize("case", CASES[::83], ids=str)
def test_kernels_agree_with_the_reference(case, device: Device) -> None:
    _, _, failed = check_row(case, device)
    assert failed == []


def test_a_run_of_a_program_is_one_launch(double: FakeCuda, device: Device) -> None:
    x = on(device, np.ones(5))
    run, y = program(device, Command(add, NoAttrs()), [x, x], times=3)
    double.calls.clear()
    run()
    assert "cuLaunchKernel" not in double.calls
    assert double.calls.count("cuGraphLaunch") == 1
    assert not {"cuStreamSynchronize", "cuMemAlloc_v2"} & set(double.calls)
    np.testing.assert_array_equal(y.to(CPU).numpy(), np.full(5, 2))


def test_operands_of_a_program_may_move(device: Device) -> None:
    x, other = on(device, np.arange(5)), on(device, np.arange(5) + 10)
    run, y = program(device, Command(exp, NoAttrs()), [x])
    assert isinstance(run, Relocatable)
    run.relocation([(x.address, x.address + 20)])([other.address])
    run()
    np.testing.assert_allclose(y.to(CPU).numpy(), np.exp(np.arange(5) + 10), rtol=1e-5)


def test_an_index_outside_is_an_error_of_its_run_alone(device: Device) -> None:
    table, wrong, right = on(device, RNG.random((4, 3))), on(device, [1, 9], I32), on(device, [1, 3], I32)
    for indices, fails in ((wrong, True), (right, False), (wrong, True)):
        run, y = program(device, Command(INDEX_SELECT, AxisAttrs(0)), [table, indices])
        if fails:
            for _ in range(2):
                with pytest.raises(IndexRangeError, match="index_select"):
                    run()
        else:
            run()
            np.testing.assert_array_equal(y.to(CPU).numpy(), table.to(CPU).numpy()[[1, 3]])


def test_memory_that_is_given_back_serves_again(double: FakeCuda, driver: GpuDriver, device: Device) -> None:
    opened = driver.opened(device)
    half = double.memory_bytes // 2
    first = driver.allocate(device, half)
    with pytest.raises(OutOfMemoryError, match=f"{half} bytes beside"):
        driver.allocate(device, half)
    place = first.address
    del first
    assert driver.allocate(device, half - 1000).address == place
    # Nothing that waits fits this one: it goes back to the device first.
    assert driver.allocate(device, half + (1 << 24)).nbytes > half
    gc.collect()
    assert opened.bytes_in_use == 0
    assert driver.allocate(device, 0).nbytes == 0


def test_a_launch_that_fails_loses_nothing_of_the_host(double: FakeCuda, device: Device) -> None:
    x = on(device, np.ones(4))
    claim = DISPATCHER.claim(Command(exp, NoAttrs()), (x.spec,), (x.spec,))
    double.failing["cuLaunchKernel"] = ILLEGAL_ADDRESS
    with pytest.raises(DeviceError, match="ILLEGAL_ADDRESS.*lost to this process"):
        claim.kernel.run((x,), (Tensor.empty(x.spec),), None)
    run, y = program(device, Command(exp, NoAttrs()), [x])
    double.failing["cuGraphLaunch"] = ILLEGAL_ADDRESS
    with pytest.raises(DeviceError, match="ILLEGAL_ADDRESS"):
        run()
    run()
    np.testing.assert_allclose(y.to(CPU).numpy(), np.full(4, np.e), rtol=1e-6)


def test_a_capture_that_fails_leaves_the_stream_usable(double: FakeCuda, device: Device) -> None:
    x = on(device, np.ones(4))
    program(device, Command(exp, NoAttrs()), [x], 3)
    double.failing["cuLaunchKernel"] = 1
    with pytest.raises(DeviceError, match="cuLaunchKernel"):
        program(device, Command(exp, NoAttrs()), [x], 3)
    np.testing.assert_array_equal(x.to(CPU).numpy(), np.ones(4))


def test_what_the_driver_refuses_says_why(double: FakeCuda, device: Device) -> None:
    double.failing["cuLinkAddData_v2"] = 218
    x = on(device, np.ones(4))
    with pytest.raises(DeviceError, match="cuLinkAddData_v2.*218"):
        program(device, Command(exp, NoAttrs()), [x])
    program(device, Command(exp, NoAttrs()), [x])[0]()


def test_code_is_kept_on_disk(double: FakeCuda, device: Device) -> None:
    x = on(device, np.ones(4))
    program(device, Command(exp, NoAttrs()), [x])
    assert double.calls.count("cuLinkCreate_v2") == 1
    again = FakeCuda()
    DEVICES.add("cuda", lambda: GpuDriver("cuda", CudaDevices(again)))
    DISPATCHER._claims.clear()
    run, y = program(device, Command(exp, NoAttrs()), [on(device, np.ones(4))])
    run()
    assert "cuLinkCreate_v2" not in again.calls
    np.testing.assert_allclose(y.to(CPU).numpy(), np.full(4, np.e), rtol=1e-6)


def test_a_forked_child_is_refused(driver: GpuDriver, device: Device) -> None:
    check_a_forked_child(driver, device)


def test_two_threads_take_turns(device: Device) -> None:
    check_two_threads(device)


def test_programs_that_are_dropped_leave_nothing(double: FakeCuda, driver: GpuDriver, device: Device) -> None:
    x = on(device, np.ones(4))
    held = driver.opened(device).bytes_in_use
    for _ in range(1000):
        run, _ = program(device, Command(exp, NoAttrs()), [x], 3)
        run()
        del run, _
    driver.synchronize(device)
    assert driver.opened(device).bytes_in_use <= held + (1 << 16)
    assert len(double.programs) <= 1
    assert not double.graphs
    DISPATCHER._claims.clear()
    gc.collect()
    driver.synchronize(device)
    assert not double.modules


def test_ten_thousand_runs(device: Device) -> None:
    total = on(device, np.zeros(3))
    one = on(device, np.ones(3))
    claim = DISPATCHER.claim(Command(add, NoAttrs()), (total.spec,) * 2, (total.spec,))
    run = claim.backend.program([Call(claim.kernel, (total, one), (total,), None)])
    for _ in range(10_000):
        run()
    np.testing.assert_array_equal(total.to(CPU).numpy(), np.full(3, 10_000))


def test_fresh_memory_is_poison_in_debugging(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SETTINGS, "debug", True)
    assert np.isnan(Tensor.empty(TensorSpec((1000,), F32, device=device)).to(CPU).numpy()).all()


def test_a_command_runs_alone(double: FakeCuda, device: Device) -> None:
    x = on(device, RNG.random((3, 4)))
    claim = DISPATCHER.claim(Command(exp, NoAttrs()), (x.spec,), (x.spec,))
    y = Tensor.empty(x.spec)
    double.calls.clear()
    claim.kernel.run((x,), (y,), None)
    assert "cuStreamSynchronize" not in double.calls
    np.testing.assert_allclose(y.to(CPU).numpy(), np.exp(x.to(CPU).numpy()), rtol=1e-5)
    assert str(claim) == "cuda"


def test_tensors_of_the_host_are_not_claimed(driver: GpuDriver) -> None:
    backend, spec = DISPATCHER.backend("cuda"), TensorSpec((3,), F32)
    assert "outside" in backend.refusal(Command(exp, NoAttrs()), (spec,), (spec,))
    there = spec.on(Device("cuda"))
    assert "outside" in backend.refusal(Command(add, NoAttrs()), (spec, there), (there,))
    assert REFERENCE.refusal(Command(exp, NoAttrs()), (there,), (there,))


def test_why_there_is_no_device() -> None:
    assert CudaDevices(FakeCuda(devices=0)).absence == "the driver has no device"
    assert "CUDA_ERROR_OUT_OF_MEMORY" in CudaDevices(FakeCuda(failing={"cuInit": OUT_OF_MEMORY})).absence


def test_a_device_that_is_too_old_is_refused(monkeypatch: pytest.MonkeyPatch, device: Device) -> None:
    monkeypatch.setitem(ATTRIBUTES, COMPUTE_MAJOR, 5)
    with pytest.raises(DeviceError, match="compute capability"):
        CudaDevices(FakeCuda()).open(0)


@pytest.mark.gpu
def test_kernels_of_a_real_device_agree_with_the_reference() -> None:
    device = Device("cuda")
    try:
        DEVICES.driver(device)
    except DeviceError as error:
        pytest.skip(f"no CUDA device: {error.fix}")
    failed = {str(case): reasons for case in CASES[::40] if (reasons := check_row(case, device)[2])}
    assert failed == {}


def test_doctor_tells_what_a_device_is(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_rates, "SIZE", 32)
    monkeypatch.setattr(device_rates, "COPIED", 1 << 20)
    found = {report.device: report for report in device_rates.device_reports(measured=True)}
    assert found["cuda:0"].name == "double of a device"
    assert found["cuda:0"].memory_bytes == 1 << 28
    assert "sm_75" in found["cuda:0"].features
    rates = found["cuda:0"].rates
    assert rates is not None
    assert min(rates.upload, rates.download, rates.copy, rates.gigaflops) > 0


def test_new_kernels_of_a_program_are_made_together(
    double: FakeCuda, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SETTINGS, "threads", 4)
    x, calls = on(device, np.linspace(0.1, 1, 7)), list[Call]()
    for operation in (exp, log, sin, sqrt, tanh, exp):
        claim = DISPATCHER.claim(Command(operation, NoAttrs()), (x.spec,), (x.spec,))
        calls.append(Call(claim.kernel, (x,), (Tensor.empty(x.spec),), None))
    claim.backend.program(calls)()
    assert double.calls.count("cuLinkCreate_v2") == 5
    for call, function in zip(calls, (np.exp, np.log, np.sin, np.sqrt, np.tanh, np.exp), strict=True):
        assert call.outputs[0] is not None
        np.testing.assert_allclose(call.outputs[0].to(CPU).numpy(), function(x.to(CPU).numpy()), rtol=1e-5, atol=1e-6)


def test_texts_become_ptx_on_several_threads() -> None:
    target = cuda_target(9, 0)
    assert target is not None
    x, claims = TensorSpec((100,), F32), TableClaims(target, CommandKernel)
    texts = [
        device_kernel(claims.kernel(Command(op, NoAttrs()), (x,), (x,)).generator, target, "kernel").text
        for op in (exp, log, sin, tanh)
    ]
    with ThreadPoolExecutor(4) as crew:
        written = list(crew.map(ptx_of, texts, [target] * 4))
    assert written == [ptx_of(text, target) for text in texts]
    assert all(".visible .entry kernel_entry" in text and ".target sm_90" in text for text in written)
    with pytest.raises(DeviceError, match="text that LLVM reads"):
        ptx_of("define nonsense", target)


def test_kernels_that_leave_an_operand_are_named_in_debugging(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    check_bounds(device, monkeypatch)


def test_a_device_that_nobody_holds_gives_all_back(driver: GpuDriver, device: Device) -> None:
    other = FakeCuda()
    with served(GpuDriver("cuda", CudaDevices(other))):
        x = on(device, np.ones(4))
        run, y = program(device, Command(exp, NoAttrs()), [x])
        run()
    del run, x
    gc.collect()
    assert (other.contexts, len(other.memory)) == (1, 1), "what is held of its memory holds it"
    del y
    gc.collect()
    assert (other.contexts, other.memory, other.modules, other.programs, other.pinned) == (0, {}, {}, {}, {})
