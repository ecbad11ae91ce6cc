"""Forward, data gradient and weight gradient against sums written out in NumPy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.backends.llvm.harness import Array, check, random, scalar_of

from nnc.backends.llvm.run.host import host_target
from nnc.codegen.frame.epilogue import Epilogue
from nnc.codegen.ir.builder import F16, F32, F64
from nnc.codegen.ir.expression import Instruction
from nnc.codegen.kernels.convolutions.convolution_algorithms import Convolution, data_gradient, forward, weight_gradient
from nnc.codegen.kernels.convolutions.correlation import Correlation
from nnc.codegen.kernels.convolutions.depthwise import Depthwise


def problem(
    batch: int, sizes: tuple[int, int], channels: int, kernel: tuple[int, int], filters: int, stride: int = 1,
    border: int = 0, dilation: int = 1, groups: int = 1,
) -> Convolution:  # fmt: skip
    outputs = [
        (size + 2 * border - dilation * (extent - 1) - 1) // stride + 1
        for size, extent in zip(sizes, kernel, strict=True)
    ]
    return Convolution(
        F32, batch, sizes, channels, kernel, filters, (outputs[0], outputs[1]), (stride, stride), (border, border),
        (dilation, dilation), groups,
    )  # fmt: skip


CASES = {
    "first layer": problem(3, (8, 8), 1, (3, 3), 16, border=1),
    "same size": problem(2, (8, 8), 16, (3, 3), 32, border=1),
    "no border": problem(2, (7, 5), 4, (3, 2), 5),
    "stride": problem(2, (9, 9), 3, (3, 3), 7, stride=2, border=1),
    "stride 3, dilated, groups": problem(1, (11, 10), 6, (3, 3), 4, stride=3, border=2, dilation=2, groups=2),
    "product": problem(2, (6, 6), 8, (1, 1), 12),
    "strided product": problem(2, (6, 6), 8, (1, 1), 12, stride=2),
    "wide border": problem(1, (5, 5), 8, (5, 5), 8, border=4),
    "depthwise": problem(2, (8, 8), 8, (3, 3), 8, border=1, groups=8),
    "depthwise, ragged channels, stride": problem(2, (9, 7), 37, (3, 3), 37, stride=2, border=1, groups=37),
    "depthwise, dilated, many rows": problem(1, (70, 40), 48, (3, 5), 48, border=2, dilation=2, groups=48),
    "depthwise, kernel below stride": problem(1, (9, 9), 20, (2, 2), 20, stride=3, groups=20),
    "groups of 4, ragged channels": problem(2, (9, 10), 36, (3, 3), 36, border=1, groups=9),
    "groups of 2, stride": problem(1, (8, 9), 20, (3, 3), 20, stride=2, border=1, groups=10),
    "groups of 4, dilated, wide border": problem(1, (7, 6), 20, (3, 3), 20, border=3, dilation=3, groups=5),
    "groups of 8": problem(1, (6, 6), 16, (3, 3), 16, border=1, groups=2),
    "depthwise, wide border": problem(1, (2, 2), 20, (5, 5), 20, border=4, groups=20),
    "patches": problem(2, (4, 4), 32, (2, 2), 48, stride=2),
    "kernel below stride": problem(2, (9, 9), 3, (2, 2), 7, stride=3),
    "many rows": problem(1, (40, 30), 40, (3, 3), 33, border=1),
    "taps in the border": problem(2, (9, 10), 6, (3, 3), 37, border=7, dilation=7),
    "taps in the border, stride, groups": problem(1, (12, 11), 6, (3, 3), 4, stride=2, border=6, dilation=6, groups=2),
    "taps in the border, a whole window too": problem(1, (3, 4), 5, (2, 2), 6, border=6, dilation=6),
    "taps in the border, one axis": replace(
        problem(1, (1, 24), 5, (1, 3), 6, dilation=8), outputs=(1, 24), before=(0, 16)
    ),
    "weights in pieces, taps in the border": problem(1, (6, 5), 160, (3, 3), 150, border=4, dilation=4),
    "weights in pieces": problem(2, (5, 4), 160, (3, 3), 150, border=1),
    "weights in pieces, stride": problem(1, (5, 5), 160, (3, 3), 150, stride=2, border=1),
    "weights in pieces, kernel below stride": problem(1, (5, 5), 260, (2, 2), 240, stride=3),
    "weights in pieces, groups, many rows": problem(1, (60, 3), 512, (1, 7), 512, border=3, groups=2),
}


def operands(c: Convolution, dtype: type[np.generic]) -> tuple[Array, Array, Array]:
    x = random((c.batch, *c.sizes, c.channels), dtype)
    w = random((*c.kernel, c.group_channels, c.filters), dtype, 1)
    g = random((c.batch, *c.outputs, c.filters), dtype, 2)
    return x, w, g


def sums(c: Convolution, x: Array, w: Array, g: Array) -> tuple[Array, Array, Array]:
    """The three results in f64, one window position after the other."""
    x, w, g = (array.astype(np.float64) for array in (x, w, g))
    edge = [c.before[axis] + c.dilations[axis] * c.kernel[axis] + c.strides[axis] for axis in (0, 1)]
    padded = np.pad(x, ((0, 0), (c.before[0], edge[0]), (c.before[1], edge[1]), (0, 0)))
    y, back, weights = np.zeros(g.shape), np.zeros(padded.shape), np.zeros(w.shape)
    for row, column in np.ndindex(*c.kernel):
        starts = (row * c.dilations[0], column * c.dilations[1])
        rows, columns = (
            slice(start, start + (size - 1) * stride + 1, stride)
            for start, size, stride in zip(starts, c.outputs, c.strides, strict=True)
        )
        for group in range(c.groups):
            channel = slice(group * c.group_channels, (group + 1) * c.group_channels)
            filters = slice(group * c.group_filters, (group + 1) * c.group_filters)
            y[..., filters] += padded[:, rows, columns, channel] @ w[row, column, :, filters]
            back[:, rows, columns, channel] += g[..., filters] @ w[row, column, :, filters].T
            weights[row, column, :, filters] = np.einsum(
                "nhwc,nhwf->cf", padded[:, rows, columns, channel], g[..., filters]
            )
    inside = back[:, c.before[0] : c.before[0] + c.sizes[0], c.before[1] : c.before[1] + c.sizes[1]]
    return y, inside, weights


@pytest.mark.turns(4)
@pytest.mark.parametrize("case", CASES)
def test_f32(case: str) -> None:
    c = CASES[case]
    x, w, g = operands(c, np.float32)
    y, back, weights = (array.astype(np.float32) for array in sums(c, x, w, g))
    check(forward(c, bias=False).best, [x, w], [y], spread=30)
    check(data_gradient(c).best, [g, w], [back], spread=30)
    check(weight_gradient(c), [x, g], [weights], spread=100)


@pytest.mark.parametrize(
    "case",
    [
        "stride",
        "depthwise",
        "depthwise, ragged channels, stride",
        "groups of 4, ragged channels",
        "weights in pieces, stride",
        "weights in pieces, taps in the border",
        "taps in the border, a whole window too",
    ],
)
def test_epilogues(case: str) -> None:
    c = CASES[case]
    x, w, g = operands(c, np.float32)
    bias, scale, shift = random((c.filters,), seed=3), random((c.filters,), seed=4), random((1,), seed=5)
    chain = (Instruction("multiply", (0, 2)), Instruction("add", (3, 1)), Instruction("relu", (4,)))
    made = forward(c, bias=True).best
    assert isinstance(made, Correlation | Depthwise)
    made = replace(made, epilogue=Epilogue(F32, (True, False), chain, 5))
    want = np.maximum((sums(c, x, w, g)[0] + bias) * scale + shift, 0)
    check(made, [x, w, bias, scale, shift], [want.astype(np.float32)], spread=100)


@pytest.mark.parametrize("case", ["stride", "same size", "weights in pieces", "depthwise"])
def test_f64_with_bias(case: str) -> None:
    c = replace(CASES[case], scalar=F64)
    x, w, g = operands(c, np.float64)
    bias = random((c.filters,), np.float64, 3)
    assert scalar_of(x) == F64
    y, back, weights = sums(c, x, w, g)
    check(forward(c, bias=True).best, [x, w, bias], [y + bias], spread=100)
    check(data_gradient(c).best, [g, w], [back], spread=100)
    check(weight_gradient(c), [x, g], [weights], spread=100)


@pytest.mark.parametrize(
    "case", ["same size", "stride", "no border", "depthwise", "weights in pieces", "taps in the border"]
)
def test_f16_is_rounded_once(case: str) -> None:
    c = replace(CASES[case], scalar=F16)
    x, w, g = operands(c, np.float16)
    bias = random((c.filters,), np.float16, 3)
    y, back, _ = sums(c, x, w, g)
    check(forward(c, bias=True).best, [x, w, bias], [(y + bias).astype(np.float16)], spread=1)
    check(data_gradient(c).best, [g, w], [back.astype(np.float16)], spread=1)


@pytest.mark.parametrize("case", [case for case in CASES if case.startswith("weights in pieces")])
def test_weights_in_pieces_take_no_workspace(case: str) -> None:
    c, target = CASES[case], host_target()
    assert forward(c, bias=False).best.workspace(target) == 0
    assert data_gradient(c).best.workspace(target) == 0


@pytest.mark.parametrize(("dilation", "share"), [(12, 0.52), (24, 0.19), (36, 0.12)])
def test_taps_that_lie_in_the_border_are_not_summed_and_need_no_border(dilation: int, share: float) -> None:
    c = problem(1, (28, 28), 2048, (3, 3), 256, border=dilation, dilation=dilation)
    made = forward(c, bias=False).written_out
    assert made.problem.products < share * 28 * 28 * 9 * 2048 * 256
    assert made.scratch(host_target()) == 0


@pytest.mark.parametrize(
    "case", ["stride 3, dilated, groups", "stride", *(case for case in CASES if "taps in the border" in case)]
)
def test_a_border_is_left_out_where_most_taps_lie_in_it(case: str) -> None:
    c = CASES[case]
    assert forward(c, bias=False).problem.has_no_border == ("taps in the border" in case)


@pytest.mark.parametrize(("size", "channels"), [(56, 64), (28, 128), (14, 256), (7, 512)])
def test_packed_weights_are_small_against_the_images(size: int, channels: int) -> None:
    c = problem(1, (size, size), channels, (3, 3), channels, border=1)
    assert forward(c, bias=False).best.workspace(host_target()) < 4 * 2 * 4 * size * size * channels


@pytest.mark.parametrize(("case", "kernel"), [("groups of 2, stride", Depthwise), ("groups of 8", Correlation)])
def test_groups_that_fill_a_part_of_a_vector_share_it(case: str, kernel: type[Depthwise | Correlation]) -> None:
    assert isinstance(forward(CASES[case], bias=False).best, kernel)
