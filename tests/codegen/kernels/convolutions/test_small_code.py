"""Convolutions where code is small: taps are loops, nothing is done in tiles of Winograd's, results are the same."""

from __future__ import annotations

import numpy as np
import pytest
from tests.backends.llvm.harness import Array, random, run
from tests.codegen.kernels.convolutions.test_convolution_algorithms import CASES, operands, problem

from nnc.backends.llvm.run.host import host_target
from nnc.codegen.frame.kernel import Generator, suited
from nnc.codegen.ir.builder import Module
from nnc.codegen.ir.native_kernel import aligned
from nnc.codegen.ir.targets import small
from nnc.codegen.kernels.convolutions.convolution_algorithms import data_gradient, forward, weight_gradient
from nnc.codegen.kernels.convolutions.correlation import Correlation
from nnc.codegen.kernels.convolutions.correlation_plan import CorrelationPlan
from nnc.codegen.kernels.convolutions.depthwise import Depthwise
from nnc.codegen.kernels.convolutions.winograd import Winograd
from nnc.codegen.kernels.convolutions.winograd_gradient import WinogradGradient

SMALL = small(host_target())


def both(generator: Generator, inputs: list[Array], shape: tuple[int, ...]) -> tuple[Array, Array]:
    """What the generator makes, and what it makes where code is small."""
    results = [np.full(shape, 7, np.float32) for _ in range(2)]
    run(generator, inputs, results[:1])
    run(suited(generator, SMALL), inputs, results[1:], small_code=True)
    return results[0], results[1]


def lines(generator: Generator, *, code_is_small: bool) -> int:
    module = Module(SMALL if code_is_small else host_target())
    generator.emit(module, "kernel")
    return str(module).count("\n")


@pytest.mark.parametrize("case", [name for name in CASES if name.startswith("depthwise")])
def test_taps_in_a_loop_give_the_same_bits(case: str) -> None:
    c = CASES[case]
    x, w, g = operands(c, np.float32)
    made = forward(c, bias=False).best
    assert isinstance(made, Depthwise)
    written_out, looped = both(made, [x, w], (c.batch, *c.outputs, c.filters))
    assert written_out.tobytes() == looped.tobytes()
    written_out, looped = both(data_gradient(c).best, [g, w], x.shape)
    np.testing.assert_allclose(written_out, looped, 1e-5, 1e-5)  # its taps are summed from the last to the first
    assert made.scratch(SMALL) == 0
    if c.kernel > (2, 2):
        assert 2 * lines(made, code_is_small=True) < lines(made, code_is_small=False)


def test_nothing_is_done_in_tiles_of_inputs() -> None:
    c = CASES["same size"]
    x, w, g = operands(c, np.float32)
    made, slopes = forward(c, bias=True).best, weight_gradient(c)
    assert isinstance(made, Winograd)
    assert isinstance(slopes, WinogradGradient)
    assert isinstance(suited(made, SMALL), Correlation)
    assert suited(made, host_target()) is made
    bias = random((c.filters,), np.float32, 3)
    in_tiles, sums = both(made, [x, w, bias], g.shape)
    np.testing.assert_allclose(in_tiles, sums, 1e-4, 1e-4)
    in_tiles, sums = both(slopes, [x, g], w.shape)
    np.testing.assert_allclose(in_tiles, sums, 1e-3, 1e-3)


def bits(generator: Generator, inputs: list[Array], shape: tuple[int, ...]) -> bool:
    """Whether sums over strips with a border, and over images that have none, have the same bits."""
    assert isinstance(generator, Correlation)
    plan = CorrelationPlan.of(generator.problem, SMALL)
    assert plan.skips_border
    assert generator.scratch(SMALL) == aligned(4 * generator.problem.group_channels) + plan.piece_bytes
    over_strips, tested = both(generator, inputs, shape)
    return over_strips.tobytes() == tested.tobytes()


@pytest.mark.parametrize("case", ["same size", "wide border", "groups of 8", "many rows"])
def test_borders_that_are_tested_for_have_the_bits_of_borders_in_memory(case: str) -> None:
    c = CASES[case]
    x, w, g = operands(c, np.float32)
    assert bits(suited(forward(c, bias=False).best, SMALL), [x, w], g.shape)


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_borders_of_slopes_are_tested_for(stride: int) -> None:
    c = problem(2, (9, 7), 5, (3, 3), 16, stride=stride, border=1)
    x, w, g = operands(c, np.float32)
    assert bits(suited(data_gradient(c).best, SMALL), [g, w], x.shape)


def test_pixels_of_few_channels_have_a_border_in_memory() -> None:
    made = forward(CASES["first layer"], bias=False).best
    assert isinstance(made, Correlation)
    assert not CorrelationPlan.of(made.problem, SMALL).skips_border
