"""What a process does with a device for long: many runs, threads, a fork, other libraries' memory; prints a line each.

python -m tests.conformance.device_habits cuda
"""

from __future__ import annotations

import gc
import importlib
import multiprocessing
import os
import resource
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import nnc
from nnc.backends.gpu.driver import GpuDriver
from nnc.core.running.devices import DEVICES
from nnc.core.values.device import Device
from nnc.errors import DeviceError

RUNS, MODELS, DEVICE_TIMES = 10_000, 1_000, 1_000


def held(device: Device) -> int:
    """Bytes that somebody holds of a device."""
    driver = DEVICES.driver(device)
    assert isinstance(driver, GpuDriver)
    gc.collect()
    return driver.opened(device).bytes_in_use


def many_runs(device: Device) -> str:
    """A compiled step, 10^4 times: the same bits, and no memory more."""
    step = nnc.compile(lambda a, b: nnc.softmax(nnc.tanh(a @ b)), device=device)
    a, b = (nnc.tensor(np.random.default_rng(0).random((16, 16), np.float32)).to(device) for _ in range(2))
    first = step(a, b).cpu().numpy()
    before, began = held(device), time.perf_counter()
    for _ in range(RUNS):
        last = step(a, b)
    assert (last.cpu().numpy() == first).all()
    del last
    assert held(device) <= before, (held(device), before)
    return f"{(time.perf_counter() - began) / RUNS * 1e6:.1f} us each"


def many_programs(device: Device) -> str:
    """Programs that are made and dropped a thousand times leave nothing behind."""
    x, sizes = nnc.tensor(np.ones((4, 4), np.float32)).to(device), list[int]()
    for number in range(MODELS):
        made = nnc.compile(lambda a: a * 2.0 + 1.0, device=device)
        assert made(x).tolist()[0][0] == 3.0
        del made
        if number % (MODELS // 10) == MODELS // 10 - 1:
            sizes.append(held(device))
    assert sizes[-1] <= sizes[0] + 1024, sizes
    return f"{sizes[-1]} bytes held"


def threads(device: Device) -> str:
    """Two threads, each with values of its own."""
    wrong = list[str]()

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(200):
            values = rng.random((8, 8), np.float32)
            if not np.allclose((nnc.tensor(values).to(device) * 2.0).sum().cpu().numpy(), 2 * values.sum()):
                wrong.append(str(seed))

    crew = [threading.Thread(target=work, args=(seed,)) for seed in range(2)]
    for each in crew:
        each.start()
    for each in crew:
        each.join()
    assert not wrong
    return "agree"


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def many_devices(device: Device) -> str:
    """A device that is opened and closed a thousand times, with a value and a kernel each time."""
    sizes, files = list[int](), list[int]()
    for number in range(DEVICE_TIMES):
        driver = DEVICES._makers[device.kind]()
        assert isinstance(driver, GpuDriver)
        memory, back = driver.allocate(device, 64), np.zeros(64, np.uint8)
        driver.fill(device, memory.address, 64, 7)
        driver.download(device, back.ctypes.data, memory.address, 64)
        assert (back == 7).all()
        del driver, memory
        gc.collect()
        if number % (DEVICE_TIMES // 10) == DEVICE_TIMES // 10 - 1:
            sizes.append(resident())
            files.append(len(os.listdir("/proc/self/fd")))
    assert files[-1] == files[0], files
    assert sizes[-1] <= sizes[0] + (1 << 20), sizes
    return f"{sizes[-1] - sizes[0]} bytes more after the first hundred"


def _in_child(device: str, told: multiprocessing.queues.Queue[str]) -> None:
    try:
        (nnc.ones((2,)).to(device) + 1.0).tolist()
        told.put("ran")
    except DeviceError as error:
        told.put(str(error))


def fork(device: Device) -> str:
    """A forked child is refused, its parent goes on."""
    context = multiprocessing.get_context("fork")
    told: multiprocessing.queues.Queue[str] = context.Queue()
    child = context.Process(target=_in_child, args=(str(device), told))
    child.start()
    text = told.get(timeout=20)
    child.join()
    assert "forked" in text, text
    assert (nnc.ones((2,)).to(device) + 1.0).tolist() == [2.0, 2.0]
    return text[:60]


def other_library(device: Device) -> str:
    """torch reads our memory and we read torch's, without a copy."""
    torch = importlib.import_module("torch")
    ours = nnc.tensor(np.arange(6, dtype=np.float32)).to(device)
    theirs = torch.from_dlpack(ours)
    theirs += 1
    torch.cuda.synchronize()
    assert ours.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    back = nnc.from_dlpack(torch.ones(3, device="cuda") * 4)
    assert back.device == device
    assert (back + 1.0).tolist() == [5.0, 5.0, 5.0]
    return "shared"


def main(kind: str) -> int:
    """Each part by itself; the status is 0 where all went well."""
    device, failed = Device(kind), 0
    parts: list[Callable[[Device], str]] = [many_runs, many_programs, many_devices, threads, fork]
    for part in [*parts, *([other_library] if kind == "cuda" else [])]:
        began = time.perf_counter()
        try:
            text = part(device)
        except Exception as error:
            failed, text = 1, f"FAILED: {type(error).__name__}: {error}"
        print(f"{part.__name__}: {text} ({time.perf_counter() - began:.1f} s)", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
