"""Kernels of a device beside torch's on the same device: times, ratio, error; one JSON line per case.

    python benchmarks/device_peers.py [--device cuda] [--seconds 0.5] [--only TEXT]

Both run many times between two waits, ours as a program that was recorded once, torch's as calls; operands stay where
they are. `ratio` is torch's time / ours. `error` is the largest difference from torch's result, as a part of its
largest number. `tflops` and `gb_per_s` count what must be computed, read and written. TF32 is
off: f32 is f32 on both sides.
"""

from __future__ import annotations

import argparse
import importlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from types import ModuleType
from typing import Any, Protocol

import numpy as np
from devices import seconds_each

import nnc
from nnc.core.running.devices import DEVICES
from nnc.core.running.dispatch import DISPATCHER, Call
from nnc.core.values.command import AnyCommand, Command
from nnc.core.values.device import Device, device_of
from nnc.core.values.dtype import BF16, F16, F32, I32, U8, DType
from nnc.core.values.spec import TensorSpec, spec
from nnc.core.values.tensor import Tensor
from nnc.errors import NncError
from nnc.ops.convolutions.convolutions import CONVOLUTION, ConvolutionAttrs
from nnc.ops.convolutions.window import Window
from nnc.ops.elementwise.pointwise import add, gelu, tanh
from nnc.ops.movement.broadcast import REDUCE_SUM, ReduceAttrs
from nnc.ops.movement.movement import TRANSPOSE, TransposeAttrs
from nnc.ops.normalization.normalization import LAYER_NORM, NormalizationAttrs
from nnc.ops.normalization.softmaxes import softmax
from nnc.ops.products.products import GEMM, GemmAttrs
from nnc.ops.rules import NoAttrs, infer
from nnc.ops.sequence.attention import ATTENTION, AttentionAttrs
from nnc.ops.sequence.cached_attention import CACHED_ATTENTION, CachedAttentionAttrs

# Importing the package puts its backends into the dispatcher.
assert nnc.__name__ == "nnc"
# `Any`: torch and its tensors, which a checker may not know.
Peer = Callable[..., Any]


class Array(Protocol):
    """What is called of torch's tensors here."""

    def permute(self, *axes: int) -> object:
        """Axes in another order."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A case: its command, its operands, torch's call, operations, and bytes that must move."""

    name: str
    command: AnyCommand
    operands: Sequence[TensorSpec | None]
    peer: Peer
    flops: float = 0.0
    nbytes: float = 0.0
    # What integers are: positions of attention.
    integer: int = 0


def products(torch: ModuleType) -> Iterator[Measured]:
    """Square products, those of transformers, and batches."""
    for dtype, sizes in ((F32, (1024, 4096)), (F16, (4096,)), (BF16, (1024, 4096, 8192))):
        for size in sizes:
            square = spec((size, size), dtype)
            yield Measured(
                f"{size}³ {dtype}", Command(GEMM, GemmAttrs()), (square, square, None), torch.matmul, 2 * size**3
            )
    for dtype in (F32, BF16):
        uneven = spec((1001, 1003), dtype), spec((1003, 1005), dtype), None
        yield Measured(
            f"1001x1003x1005 {dtype}", Command(GEMM, GemmAttrs()), uneven, torch.matmul, 2 * 1001 * 1003 * 1005
        )
        square = spec((4096, 4096), dtype)
        yield Measured(
            f"4096³ transposed {dtype}", Command(GEMM, GemmAttrs(transpose_b=True)), (square, square, None),
            lambda a, b: torch.matmul(a, b.t()), 2 * 4096**3,
        )  # fmt: skip
        a, b = spec((512, 768), dtype), spec((768, 3072), dtype)
        yield Measured(
            f"512x768x3072 {dtype}", Command(GEMM, GemmAttrs()), (a, b, None), torch.matmul, 2 * 512 * 768 * 3072
        )
        a, b = spec((96, 512, 64), dtype), spec((96, 512, 64), dtype)
        transposed = Command(GEMM, GemmAttrs(transpose_b=True))

        yield Measured(
            f"96 of 512x64x512 transposed {dtype}",
            transposed,
            (a, b, None),
            lambda a, b: torch.matmul(a, b.transpose(-1, -2)),
            2 * 96 * 512 * 512 * 64,
        )


def rows(torch: ModuleType) -> Iterator[Measured]:
    """What memory limits."""
    functional, none = torch.nn.functional, NoAttrs()
    for dtype in (F32, BF16):
        x = spec((4096, 4096), dtype)
        size = x.nbytes
        yield Measured(f"add {dtype}", Command(add, none), (x, x), torch.add, nbytes=3 * size)
        yield Measured(f"tanh {dtype}", Command(tanh, none), (x,), torch.tanh, nbytes=2 * size)
        yield Measured(f"gelu {dtype}", Command(gelu, none), (x,), functional.gelu, nbytes=2 * size)
        yield Measured(
            f"softmax {dtype}", Command(softmax, none), (x,), lambda t: torch.softmax(t, -1), nbytes=2 * size
        )
        yield Measured(
            f"layer_norm {dtype}", Command(LAYER_NORM, NormalizationAttrs((1,), (1,))), (x, None, None),
            lambda t: functional.layer_norm(t, t.shape[-1:]), nbytes=2 * size,
        )  # fmt: skip
        for axes in ((1,), (0,), (0, 1)):
            yield Measured(
                f"sum over {axes} {dtype}", Command(REDUCE_SUM, ReduceAttrs(axes)), (x,),
                lambda t, axes=axes: t.sum(axes, keepdim=True), nbytes=size,
            )  # fmt: skip
        yield Measured(
            f"transpose {dtype}", Command(TRANSPOSE, TransposeAttrs((1, 0))), (x,),
            lambda t: t.t().contiguous(), nbytes=2 * size,
        )  # fmt: skip
    for shape in ((1024, 16_384), (64, 262_144)):
        x = spec(shape)
        yield Measured(
            f"softmax {shape[0]}x{shape[1]} {F32}", Command(softmax, none), (x,),
            lambda t: torch.softmax(t, -1), nbytes=2 * x.nbytes,
        )  # fmt: skip
        yield Measured(
            f"layer_norm {shape[0]}x{shape[1]} {F32}", Command(LAYER_NORM, NormalizationAttrs((1,), (1,))),
            (x, None, None), lambda t: functional.layer_norm(t, t.shape[-1:]), nbytes=2 * x.nbytes,
        )  # fmt: skip
    x = spec((32, 512, 12, 64))
    yield Measured(
        f"middle axes of 32x512x12x64 swapped {F32}", Command(TRANSPOSE, TransposeAttrs((0, 2, 1, 3))), (x,),
        lambda t: t.transpose(1, 2).contiguous(), nbytes=2 * x.nbytes,
    )  # fmt: skip


def convolve(torch: ModuleType, x: Array, w: Array, *, stride: int, border: int) -> object:
    """torch's convolution of images whose channels are last."""
    result = torch.nn.functional.conv2d(x.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1), None, stride, border)
    return result.permute(0, 2, 3, 1)


def convolutions(torch: ModuleType) -> Iterator[Measured]:
    """Of a residual network: batch, side, channels, filters, window, stride."""
    for dtype, (batch, side, channels, filters, window, stride) in product(
        (F32, BF16),
        ((32, 56, 64, 64, 3, 1), (32, 28, 128, 128, 3, 1), (32, 14, 256, 256, 3, 1), (32, 56, 256, 64, 1, 1),
         (32, 224, 3, 64, 7, 2)),
    ):  # fmt: skip
        border = window // 2
        attrs = ConvolutionAttrs(Window((stride, stride), ((border, border), (border, border)), (1, 1)))
        x, w = spec((batch, side, side, channels), dtype), spec((window, window, channels, filters), dtype)

        call = partial(convolve, torch, stride=stride, border=border)
        flops = 2.0 * batch * (side // stride) ** 2 * window**2 * channels * filters
        name = f"convolution {batch}x{side}x{side}x{channels} {window}x{window} to {filters} {dtype}"
        yield Measured(name, Command(CONVOLUTION, attrs), (x, w, None), call, flops)


def attend(torch: ModuleType, q: Array, k: Array, v: Array, *others: Array, **options: bool) -> object:
    """torch's attention of [batch, rows, heads, features]."""
    heads = (x.permute(0, 2, 1, 3) for x in (q, k, v))
    return torch.nn.functional.scaled_dot_product_attention(*heads, **options).permute(0, 2, 1, 3)


def attentions(torch: ModuleType) -> Iterator[Measured]:
    """Of all tokens at once, and of one token over 4,096 that are kept."""
    small, large = (1, 1024, 12), (4, 2048, 16)
    for (batch, tokens, heads), dtype, causal in (
        *product((small,), (F32, BF16), (False, True)), (large, BF16, True),
    ):  # fmt: skip
        x = spec((batch, tokens, heads, 64), dtype)
        flops = 4.0 * batch * heads * tokens**2 * 64 / (1 + causal)
        yield Measured(
            f"attention {batch}x{tokens}x{heads}x64{' causal' if causal else ''} {dtype}",
            Command(ATTENTION, AttentionAttrs(1 / 8, causal)), (x, x, x, None),
            partial(attend, torch, is_causal=causal), flops,
        )  # fmt: skip
    for heads, groups in ((12, 12), (32, 8)):
        q, k = spec((1, 1, heads, 64)), spec((1, 4096, groups, 64))
        yield Measured(
            f"cached attention, 1 of 4096x{heads}x64 over {groups} {F32}",
            Command(CACHED_ATTENTION, CachedAttentionAttrs(1 / 8)), (q, k, k, spec((1, 1), I32), None, None),
            partial(attend, torch, enable_gqa=True), nbytes=2 * k.nbytes, integer=4095,
        )  # fmt: skip


def ours(device: Device, case: Measured, inputs: Sequence[Tensor | None]) -> tuple[Callable[[], object], Tensor]:
    """The program of a case, and its first result."""
    specs = tuple(None if tensor is None else tensor.spec for tensor in inputs)
    results = tuple(each.on(device) for each in infer(case.command.op, case.command.attrs, specs))
    claim = DISPATCHER.claim(case.command, specs, results)
    outputs = tuple(Tensor.empty(each) for each in results)
    nbytes = claim.kernel.workspace_bytes
    workspace = Tensor.empty(TensorSpec((nbytes,), U8, device=device)) if nbytes else None
    return claim.backend.program([Call(claim.kernel, tuple(inputs), outputs, workspace)]), outputs[0]


def measure(torch: ModuleType, device: Device, case: Measured, seconds: float) -> dict[str, object]:
    """The line of a case."""
    rng, driver = np.random.default_rng(0), DEVICES.driver(device)
    values = [
        None if each is None
        else rng.standard_normal(each.shape, dtype=np.float32) if each.dtype.is_float
        else np.full(each.shape, case.integer, np.int32)
        for each in case.operands
    ]  # fmt: skip
    inputs = [
        None if each is None or value is None else Tensor.from_numpy(value, each.dtype).to(device)
        for each, value in zip(case.operands, values, strict=True)
    ]
    run, result = ours(device, case, inputs)
    mine = seconds_each(run, lambda: driver.synchronize(device), seconds)
    kinds: dict[DType, Any] = {
        F32: torch.float32, F16: torch.float16, BF16: torch.bfloat16, I32: torch.int32,
    }  # fmt: skip
    place = "cuda" if torch.cuda.is_available() else "cpu"
    theirs = [
        torch.from_numpy(value).to(kinds[each.dtype]).to(place)
        for each, value in zip(case.operands, values, strict=True)
        if each is not None and value is not None
    ]
    wait = torch.cuda.synchronize if place == "cuda" else lambda: None
    peer = seconds_each(lambda: case.peer(*theirs), wait, seconds)
    want = case.peer(*theirs).float().cpu().numpy()
    got = result.to(Device("cpu")).numpy().astype(np.float32)
    error = float(np.abs(got.reshape(want.shape) - want).max() / max(np.abs(want).max(), 1e-30))
    line = {
        "case": case.name,
        "us": round(mine * 1e6, 1),
        "torch_us": round(peer * 1e6, 1),
        "ratio": round(peer / mine, 3),
    }
    if case.flops:
        line["tflops"] = round(case.flops / mine / 1e12, 2)
    if case.nbytes:
        line["gb_per_s"] = round(case.nbytes / mine / 1e9)
    return {**line, "error": float(f"{error:.2g}")}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    torch, device = importlib.import_module("torch"), device_of(options.device)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    with torch.no_grad():
        for family in (products, attentions, convolutions, rows):
            for case in family(torch):
                if options.only in case.name:
                    try:
                        print(json.dumps(measure(torch, device, case, options.seconds)), flush=True)
                    except NncError as error:
                        print(json.dumps({"case": case.name, "refused": str(error)}), flush=True)


if __name__ == "__main__":
    main()
