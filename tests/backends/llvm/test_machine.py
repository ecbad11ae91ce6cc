"""Blocks and costs follow the machine; bits do not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from tests.backends.llvm import harness
from tests.backends.llvm.harness import Array, random

from nnc.backends.llvm.run.host import host_target
from nnc.backends.llvm.run.jit import Jit
from nnc.codegen.frame.row import view_of
from nnc.codegen.ir.builder import Module
from nnc.codegen.ir.target import Machine
from nnc.codegen.kernels.table import ROWS
from nnc.core.precautions.disk_cache import DiskCache
from nnc.core.values.command import AnyCommand, Command
from nnc.core.values.tensor import Tensor
from nnc.ops.convolutions.convolutions import (
    CONVOLUTION,
    CONVOLUTION_WEIGHT_GRADIENT,
    ConvolutionAttrs,
    ConvolutionGradientAttrs,
)
from nnc.ops.convolutions.window import window_of
from nnc.ops.normalization.normalization import LAYER_NORM, NormalizationAttrs
from nnc.ops.normalization.softmaxes import softmax
from nnc.ops.products.products import GEMM, GemmAttrs
from nnc.ops.rules import NoAttrs, infer
from nnc.ops.sequence.attention import ATTENTION, AttentionAttrs
from nnc.ops.sequence.recurrent import LSTM, RecurrentAttrs

MACHINES = (
    Machine(),
    Machine(
        level_one_bytes=8 << 10, level_one_ways=2, level_two_bytes=64 << 10, line_bytes=128, clock=1.0, meeting=1.0
    ),
    Machine(level_one_bytes=128 << 10, level_two_bytes=12 << 20, line_bytes=128, multiply_adds=4.0, clock=3.2),
    Machine(level_one_bytes=1 << 20, level_one_ways=64, level_two_bytes=64 << 20, line_bytes=32, near_byte=1.0),
)
WINDOW = window_of(3, padding=1)
GRADIENT = ConvolutionGradientAttrs(WINDOW, 1, (3, 3))
CASES: tuple[tuple[AnyCommand, tuple[tuple[int, ...], ...]], ...] = (
    (Command(GEMM, GemmAttrs()), ((200, 500), (500, 300))),
    (Command(GEMM, GemmAttrs(transpose_a=True)), ((450, 128), (450, 130))),
    (Command(GEMM, GemmAttrs(transpose_b=True)), ((64, 1024), (96, 1024))),
    (Command(GEMM, GemmAttrs()), ((1, 300), (300, 700))),
    (Command(CONVOLUTION, ConvolutionAttrs(WINDOW, 1)), ((1, 14, 14, 64), (3, 3, 64, 64))),
    (Command(CONVOLUTION, ConvolutionAttrs(WINDOW, 1)), ((1, 7, 7, 192), (3, 3, 192, 200))),
    (Command(CONVOLUTION, ConvolutionAttrs(WINDOW, 48)), ((2, 40, 20, 48), (3, 3, 1, 48))),
    (Command(CONVOLUTION, ConvolutionAttrs(window_of(5, stride=2, padding=2), 1)), ((1, 30, 30, 3), (5, 5, 3, 24))),
    (Command(CONVOLUTION_WEIGHT_GRADIENT, GRADIENT), ((2, 30, 20, 32), (2, 30, 20, 24))),
    (Command(softmax, NoAttrs()), ((30, 3000),)),
    (Command(LAYER_NORM, NormalizationAttrs((1,), (1,))), ((30, 3000), (3000,), (3000,))),
    (Command(ATTENTION, AttentionAttrs(0.2)), ((1, 70, 4, 32), (1, 90, 4, 32), (1, 90, 4, 32))),
    (Command(LSTM, RecurrentAttrs()), ((3, 10, 160), (40, 160), (10, 40), (10, 40))),
)


def at(
    command: AnyCommand, arrays: list[Array], machine: Machine, use: Callable[[Jit], None]
) -> tuple[str, list[bytes]]:
    """The source of the kernel on a machine, and the bits of its results."""
    other = Jit(replace(host_target(), machine=machine), DiskCache(None))
    use(other)
    inputs = tuple(Tensor.from_numpy(array).spec for array in arrays)
    row = ROWS[command.op]
    optional = (None,) if command.op in (GEMM, CONVOLUTION, ATTENTION) else ()
    specs = infer(command.op, command.attrs, (*inputs, *optional))
    generator = row.generate(command.attrs, [view_of(spec) for spec in inputs], [view_of(spec) for spec in specs])
    results = [np.zeros(spec.shape, np.float32) for spec in specs]
    harness.run(generator, arrays, results)
    module = Module(other.target)
    generator.emit(module, "kernel")
    return str(module), [result.tobytes() for result in results]


@pytest.mark.turns(4)
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0].op.name} {case[1]}")
def test_another_machine_gives_the_same_bits(
    case: tuple[AnyCommand, tuple[tuple[int, ...], ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    command, shapes = case
    arrays = [random(shape, seed=number) for number, shape in enumerate(shapes)]
    found = [
        at(command, arrays, machine, lambda jit: monkeypatch.setattr(harness, "jit", lambda: jit))
        for machine in MACHINES
    ]
    assert all(bits == found[0][1] for _, bits in found)


def test_blocks_of_a_product_follow_the_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    command, shapes = CASES[0]
    arrays = [random(shape) for shape in shapes]
    texts = [
        at(command, arrays, machine, lambda jit: monkeypatch.setattr(harness, "jit", lambda: jit))[0]
        for machine in MACHINES
    ]
    assert len(set(texts)) > 1


def test_costs_follow_the_clock_and_the_meeting() -> None:
    command = Command(GEMM, GemmAttrs())
    spec = Tensor.from_numpy(random((64, 64))).spec
    generator = ROWS[GEMM].generate(command.attrs, [view_of(spec)] * 2, [view_of(spec)])
    costs = []
    for machine in (Machine(), Machine(clock=6.0), Machine(meeting=2000.0), Machine(multiply_adds=1.0)):
        (phase,) = Jit(replace(host_target(), machine=machine), DiskCache(None)).kernel(generator).phases
        costs.append(phase.cost)
    usual = costs[0]
    assert costs == [usual, usual / 2, usual / 2, usual * 2]
