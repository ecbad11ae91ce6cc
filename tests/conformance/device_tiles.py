"""Tiles of products and convolutions, measured on a device: what the model of times chooses, and what is fastest.

    python -m tests.conformance.device_tiles cuda

A line for each case: microseconds of each tile, in a row of its own runs, the one that is usual first.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence

import numpy as np

from nnc.core.running.devices import DEVICES
from nnc.core.running.dispatch import DISPATCHER, Call, Claim
from nnc.core.values.command import AnyCommand, Command
from nnc.core.values.device import Device, device_of
from nnc.core.values.dtype import BF16, F32, U8
from nnc.core.values.spec import TensorSpec, spec
from nnc.core.values.tensor import Tensor
from nnc.ops.convolutions.convolutions import CONVOLUTION, ConvolutionAttrs
from nnc.ops.convolutions.window import Window
from nnc.ops.products.products import GEMM, GemmAttrs
from nnc.ops.rules import infer

RUNS, TIMES = 5, 10
PADDED = ConvolutionAttrs(Window((1, 1), ((1, 1), (1, 1)), (1, 1)))
LARGE: tuple[tuple[str, AnyCommand, tuple[TensorSpec | None, ...]], ...] = (
    ("4096³ f32", Command(GEMM, GemmAttrs()), (spec((4096, 4096)), spec((4096, 4096)), None)),
    ("1001x1003x1005 f32", Command(GEMM, GemmAttrs()), (spec((1001, 1003)), spec((1003, 1005)), None)),
    ("1001x1003x1005 bf16", Command(GEMM, GemmAttrs()), (spec((1001, 1003), BF16), spec((1003, 1005), BF16), None)),
    ("convolution 32x28x28x128", Command(CONVOLUTION, PADDED), (spec((32, 28, 28, 128)), spec((3, 3, 128, 128)), None)),
)
SMALL: tuple[tuple[str, AnyCommand, tuple[TensorSpec | None, ...]], ...] = (
    ("128x64x96 f32", Command(GEMM, GemmAttrs()), (spec((128, 64)), spec((64, 96)), None)),
)


def filled(each: TensorSpec | None, device: Device) -> Tensor | None:
    """Small numbers."""
    if each is None:
        return None
    values = np.random.default_rng(0).uniform(-1, 1, each.shape).astype(np.float32)
    return Tensor.from_numpy(values, each.dtype).to(device)


def microseconds(claim: Claim, inputs: Sequence[Tensor | None], outputs: Sequence[Tensor], device: Device) -> float:
    """Of one run in a program of some, the least of a few."""
    need, driver = claim.kernel.workspace_bytes, DEVICES.driver(device)
    room = Tensor.empty(TensorSpec((need,), U8, device=device)) if need else None
    program = claim.backend.program([Call(claim.kernel, tuple(inputs), tuple(outputs), room)] * TIMES)
    program()
    driver.synchronize(device)
    seconds = list[float]()
    for _ in range(RUNS):
        began = time.perf_counter()
        program()
        driver.synchronize(device)
        seconds.append(time.perf_counter() - began)
    return min(seconds) / TIMES * 1e6


def main(name: str) -> int:
    """A line for each case; the status is 1 where tiles disagree."""
    device, failed = device_of(name), 0
    for case, command, operands in LARGE if device.kind == "cuda" else SMALL:
        inputs = [filled(each, device) for each in operands]
        specs = tuple(None if tensor is None else tensor.spec for tensor in inputs)
        results = tuple(each.on(device) for each in infer(command.op, command.attrs, specs))
        times, wanted = dict[str, float](), None
        for claim in DISPATCHER.claims(command, specs, results, ""):
            outputs = [Tensor.empty(each) for each in results]
            times[str(claim)] = round(microseconds(claim, inputs, outputs, device), 1)
            got = outputs[0].to(device_of("cpu")).numpy().astype(np.float32)
            wanted = got if wanted is None else wanted
            bound = 1e-4 if specs[0] is not None and specs[0].dtype is F32 else 3e-2
            failed += not np.allclose(got, wanted, rtol=bound, atol=bound * float(np.abs(wanted).max()))
        print(json.dumps({"case": case, "us": times, "best": min(times, key=times.__getitem__)}), flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
