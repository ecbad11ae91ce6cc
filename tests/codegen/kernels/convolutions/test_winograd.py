"""Winograd's algorithm: its matrices in exact fractions, its kernels against sums written out in f64."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from tests.backends.llvm.harness import Array, check, random, run, scalar_of
from tests.codegen.kernels.convolutions.test_convolution_algorithms import operands, problem, sums

from nnc.codegen.frame.epilogue import Epilogue
from nnc.codegen.ir.builder import F32, F64
from nnc.codegen.ir.expression import Instruction
from nnc.codegen.kernels.convolutions.convolution_algorithms import Convolution, data_gradient, forward, weight_gradient
from nnc.codegen.kernels.convolutions.weight_gradient import WeightGradient
from nnc.codegen.kernels.convolutions.winograd import Winograd
from nnc.codegen.kernels.convolutions.winograd_algorithm import ALGORITHMS, Algorithm, Matrix
from nnc.codegen.kernels.convolutions.winograd_gradient import WinogradGradient
from nnc.codegen.kernels.convolutions.winograd_plan import Division, choose

# Whole tiles and ragged ones, images of several blocks, filters of several groups and with a rest, deep channels that
# are transformed in parts, borders of none and of two, dilations that divide the outputs and that do not.
CASES = {
    "whole tiles": problem(1, (8, 8), 16, (3, 3), 32, border=1),
    "ragged tiles, ragged filters": problem(2, (9, 14), 32, (3, 3), 50, border=1),
    "no border": problem(1, (11, 14), 16, (3, 3), 32),
    "wide border": problem(1, (14, 14), 48, (3, 3), 48, border=2),
    "many tiles": problem(3, (30, 27), 16, (3, 3), 16, border=1),
    "groups of filters": problem(1, (8, 8), 32, (3, 3), 300, border=1),
    "channels in parts": problem(1, (8, 8), 400, (3, 3), 48, border=1),
    "dilated": problem(1, (16, 16), 16, (3, 3), 32, border=2, dilation=2),
    "dilated, ragged tiles": problem(2, (23, 34), 32, (3, 3), 48, border=3, dilation=3),
    "dilated, wide border": problem(1, (22, 21), 48, (3, 3), 48, border=3, dilation=2),
    "dilated along one axis": replace(
        problem(1, (12, 15), 16, (3, 3), 32, border=1), dilations=(1, 2), before=(1, 2), outputs=(12, 15)
    ),
}


def tiled(c: Convolution, size: int, gradient: bool = False, bias: bool = False) -> Winograd:
    found = data_gradient(c).best if gradient else forward(c, bias).best
    assert isinstance(found, Winograd)
    return replace(found, size=size)


def exact(matrix: Matrix) -> list[list[Fraction]]:
    return [[Fraction(value).limit_denominator(100) for value in row] for row in matrix]


def times(matrix: list[list[Fraction]], vector: list[Fraction]) -> list[Fraction]:
    return [sum((a * x for a, x in zip(row, vector, strict=True)), Fraction(0)) for row in matrix]


@pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=lambda algorithm: f"F{algorithm.outputs}")
def test_the_matrices_are_exact(algorithm: Algorithm) -> None:
    d = [Fraction(number * number - 3 * number, 7) for number in range(algorithm.inputs)]
    g = [Fraction(2), Fraction(-5, 3), Fraction(7, 4)]
    left, right = times(exact(algorithm.kernel), g), times(exact(algorithm.image), d)
    found = times(exact(algorithm.result), [a * b for a, b in zip(left, right, strict=True)])
    assert found == [sum(d[i + k] * g[k] for k in range(3)) for i in range(algorithm.outputs)]


@pytest.mark.turns(4)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("size", ALGORITHMS)
def test_kernels(case: str, size: int) -> None:
    c = CASES[case]
    x, w, g = operands(c, np.float32)
    y, back, _ = (array.astype(np.float32) for array in sums(c, x, w, g))
    check(tiled(c, size), [x, w], [y], spread=100)
    if c.filters % 16 == 0:
        check(tiled(c, size, gradient=True), [g, w], [back], spread=100)


# Parts of whole rounds and a rest, and blocks of several widths.
GRADIENTS = {
    "whole tiles": CASES["whole tiles"],
    "no border": CASES["no border"],
    "wide border": CASES["wide border"],
    "blocks": problem(1, (9, 14), 80, (3, 3), 128, border=1),
    "parts": problem(17, (32, 29), 16, (3, 3), 16, border=1),
}


@pytest.mark.parametrize("case", GRADIENTS)
def test_weight_gradients(case: str) -> None:
    c = GRADIENTS[case]
    x, w, g = operands(c, np.float32)
    written_out = weight_gradient(replace(c, scalar=F64))
    assert isinstance(written_out, WeightGradient)
    made = WinogradGradient(replace(written_out, scalar=F32))
    assert (made.parts > 1) == (case == "parts")
    check(made, [x, g], [sums(c, x, w, g)[2].astype(np.float32)], spread=100)


def test_weight_gradients_are_computed_in_tiles_where_that_pays() -> None:
    many = problem(8, (16, 16), 64, (3, 3), 64, border=1)
    assert isinstance(weight_gradient(many), WinogradGradient)
    others = (
        replace(many, strides=(2, 2), outputs=(8, 8)),
        replace(many, dilations=(2, 2), before=(2, 2)),
        replace(many, groups=2),
        replace(many, channels=60),
        replace(many, scalar=F64),
        problem(8, (1, 1), 64, (3, 3), 64, border=1),
    )
    assert not any(isinstance(weight_gradient(other), WinogradGradient) for other in others)


def test_bias_and_epilogue() -> None:
    c = CASES["ragged tiles, ragged filters"]
    x, w, _ = operands(c, np.float32)
    bias, scale = random((c.filters,), seed=3), random((c.filters,), seed=4)
    y = sums(c, x, w, np.zeros((c.batch, *c.outputs, c.filters)))[0] + bias
    chain = (Instruction("multiply", (0, 1)), Instruction("relu", (2,)))
    made = replace(tiled(c, 4, bias=True), epilogue=Epilogue(F32, (True,), chain, 3))
    check(made, [x, w, bias, scale], [np.maximum(y * scale, 0).astype(np.float32)], spread=100)


def test_weights_may_change_between_runs() -> None:
    c = CASES["whole tiles"]
    x, w, g = operands(c, np.float32)
    made, out = tiled(c, 4), np.zeros((1, 8, 8, 32), np.float32)
    for scale in (1, -2):
        run(made, [x, w * np.float32(scale)], [out])
        np.testing.assert_allclose(out, scale * sums(c, x, w, g)[0], 1e-3, 1e-3)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_stays_in_the_tiles_that_read_it(bad: float) -> None:
    c = problem(1, (16, 16), 16, (3, 3), 16, border=1)
    x, w, _ = operands(c, np.float32)
    clean, dirty = np.zeros((1, 16, 16, 16), np.float32), np.zeros((1, 16, 16, 16), np.float32)
    run(tiled(c, 4), [x, w], [clean])
    x[0, 5, 5, 3] = bad
    run(tiled(c, 4), [x, w], [dirty])
    tile: tuple[Array, Array] = (clean[:, 4:8, 4:8].copy(), dirty[:, 4:8, 4:8].copy())
    assert not np.isfinite(tile[1][:, :3, :3]).any()
    clean[:, 4:8, 4:8] = dirty[:, 4:8, 4:8] = 0
    assert clean.tobytes() == dirty.tobytes()


@pytest.mark.parametrize(
    "case",
    [
        problem(1, (8, 8), 16, (3, 3), 32, stride=2, border=1),
        problem(1, (8, 8), 16, (3, 3), 32, border=6, dilation=6),
        problem(1, (8, 8), 32, (3, 3), 32, border=1, groups=2),
        problem(1, (8, 8), 16, (5, 5), 32, border=2),
        problem(1, (8, 8), 15, (3, 3), 32, border=1),
        replace(CASES["whole tiles"], scalar=scalar_of(random((1,), np.float64))),
    ],
    ids=["stride", "taps in the border", "groups", "kernel", "channels", "f64"],
)
def test_other_convolutions_are_written_out(case: Convolution) -> None:
    assert not isinstance(forward(case, bias=False).best, Winograd)


def test_small_images_are_written_out() -> None:
    """A tile of which most is outside saves nothing."""
    assert not isinstance(forward(problem(1, (1, 1), 64, (3, 3), 64, border=1), bias=False), Winograd)


@pytest.mark.parametrize("size", [7, 14, 28, 56, 224])
def test_there_is_work_for_several_workers(size: int) -> None:
    made = tiled(problem(1, (size, size), 256, (3, 3), 256, border=1), 4)
    division = Division.of(made.tiles, ALGORITHMS[4])
    assert division.blocks * division.groups >= 2
    assert choose(made.tiles) is not None
