"""Rates of a device: copies, elementwise work, products, launches; one JSON line per figure.

    python benchmarks/devices.py [--device cuda] [--seconds 1.0]

Programs are recorded once; a time is that of many runs between two waits, divided by their number, after a first run.
Bytes are those that must be read and written.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence

import numpy as np

import nnc
from nnc.core.running.devices import DEVICES
from nnc.core.running.dispatch import DISPATCHER, Call
from nnc.core.values.command import AnyCommand, Command
from nnc.core.values.device import Device, device_of
from nnc.core.values.dtype import BF16, F16, F32, U8, DType
from nnc.core.values.spec import TensorSpec
from nnc.core.values.tensor import Tensor
from nnc.ops.elementwise.pointwise import add, tanh
from nnc.ops.normalization.softmaxes import softmax
from nnc.ops.products.products import GEMM, GemmAttrs
from nnc.ops.rules import NoAttrs, infer

# Importing the package puts its backends into the dispatcher.
assert nnc.__name__ == "nnc"

FEW = 3
# Fewer than a device takes before it lets the host wait.
QUEUED = 200
SIZES = ((1024, F32), (4096, F32), (4096, F16), (4096, BF16))
MEBIBYTE = 1 << 20


def seconds_each(run: Callable[[], object], wait: Callable[[], object], seconds: float) -> float:
    """Of one run among as many as fill this time."""
    run()
    wait()
    began = time.perf_counter()
    for _ in range(FEW):
        run()
    wait()
    each = (time.perf_counter() - began) / FEW
    count = max(min(int(seconds / max(each, 1e-7)), 20_000), FEW)
    began = time.perf_counter()
    for _ in range(count):
        run()
    wait()
    return (time.perf_counter() - began) / count


def seconds_queued(run: Callable[[], object], wait: Callable[[], object], count: int) -> float:
    """Of the host, to queue one run among so many."""
    began = time.perf_counter()
    for _ in range(count):
        run()
    each = (time.perf_counter() - began) / count
    wait()
    return each


def filled(spec: TensorSpec) -> Tensor:
    """Small numbers on the device of the spec."""
    values = np.random.default_rng(0).uniform(-1, 1, spec.shape).astype(np.float32)
    return Tensor.from_numpy(values, spec.dtype).to(spec.device)


def program(
    device: Device, command: AnyCommand, inputs: Sequence[Tensor | None], times: int = 1
) -> Callable[[], object]:
    """The command so many times in one program."""
    specs = tuple(None if tensor is None else tensor.spec for tensor in inputs)
    results = tuple(spec.on(device) for spec in infer(command.op, command.attrs, specs))
    claim = DISPATCHER.claim(command, specs, results)
    outputs = tuple(Tensor.empty(spec) for spec in results)
    scratch = claim.kernel.workspace_bytes
    workspace = Tensor.empty(TensorSpec((scratch,), U8, device=device)) if scratch else None
    return claim.backend.program([Call(claim.kernel, tuple(inputs), outputs, workspace)] * times)


def copies(device: Device, nbytes: int, seconds: float) -> list[tuple[str, float, int]]:
    """To the device, from it, and inside: seconds, and bytes that are read or written there."""
    driver, host = DEVICES.driver(device), np.zeros(nbytes, np.uint8)
    memory, other = (driver.allocate(device, nbytes) for _ in range(2))
    place, source, target = int(host.ctypes.data), memory.address, other.address

    def wait() -> None:
        driver.synchronize(device)

    runs: dict[str, tuple[Callable[[], None], int]] = {
        "upload": (lambda: driver.upload(device, source, place, nbytes), nbytes),
        "download": (lambda: driver.download(device, place, source, nbytes), nbytes),
        "copy": (lambda: driver.copy(device, target, source, nbytes), 2 * nbytes),
    }
    return [(f"{name} {nbytes}", seconds_each(run, wait, seconds), moved) for name, (run, moved) in runs.items()]


def figures(device: Device, seconds: float) -> None:
    """Print them all."""
    driver, none = DEVICES.driver(device), NoAttrs()

    def wait() -> None:
        driver.synchronize(device)

    def report(what: str, each: float, **rates: float) -> None:
        row = {"what": what, "us": round(each * 1e6, 2), **{name: round(rate, 3) for name, rate in rates.items()}}
        print(json.dumps(row), flush=True)

    for nbytes in (4096, 64 * MEBIBYTE):
        for what, each, moved in copies(device, nbytes, seconds):
            report(what, each, gb_per_s=moved / each / 1e9)
    small = filled(TensorSpec((16,), F32, device=device))
    for times in (1, 100):
        each = seconds_each(program(device, Command(add, none), (small, small), times), wait, seconds)
        report(f"program of {times} small adds", each, us_per_add=each * 1e6 / times)
    for times in (1, 100):
        run = program(device, Command(add, none), (small, small), times)
        run()
        wait()
        report(f"host time of a run of {times}", seconds_queued(run, wait, QUEUED))
    claim, result = DISPATCHER.claim(Command(add, none), (small.spec,) * 2, (small.spec,)), Tensor.empty(small.spec)
    each = seconds_each(lambda: claim.kernel.run((small, small), (result,), None), wait, seconds)
    report("a command alone", each)
    x = filled(TensorSpec((4096, 4096), F32, device=device))
    for name, command, inputs in (
        ("add", Command(add, none), (x, x)),
        ("tanh", Command(tanh, none), (x,)),
        ("softmax of rows", Command(softmax, none), (x,)),
    ):
        each = seconds_each(program(device, command, inputs), wait, seconds)
        nbytes = (len(inputs) + 1) * x.spec.nbytes
        report(f"{name} of 4096x4096 f32", each, gb_per_s=nbytes / each / 1e9)
    for size, dtype in SIZES:
        product(device, size, dtype, wait, seconds, report)


def product(
    device: Device, size: int, dtype: DType, wait: Callable[[], None], seconds: float, report: Callable[..., None]
) -> None:
    """A square product."""
    left, right = (filled(TensorSpec((size, size), dtype, device=device)) for _ in range(2))
    run = program(device, Command(GEMM, GemmAttrs()), (left, right, None))
    each = seconds_each(run, wait, seconds)
    report(f"product of {size} {dtype}", each, tflops=2 * size**3 / each / 1e12)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=1.0)
    options = parser.parse_args()
    device = device_of(options.device)
    print(json.dumps({"device": str(device), "name": DEVICES.driver(device).facts(device).name}), flush=True)
    figures(device, options.seconds)


if __name__ == "__main__":
    main()
