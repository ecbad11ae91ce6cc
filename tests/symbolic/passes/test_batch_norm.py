"""Batch-norm folding: factors and shifts per channel vanish into weights, where that is allowed and pays."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from tests.symbolic.passes.equality import check, check_program
from tests.symbolic.programs import Program, programs

from nnc import ops
from nnc.core.values.spec import spec
from nnc.symbolic import Symbol, SymbolicGraph, backward
from nnc.symbolic.passes import Pass

EXAMPLES = settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


def normalized(graph: SymbolicGraph, x: Symbol) -> tuple[Symbol, list[Symbol]]:
    """Batch normalization with fixed statistics behind `x`."""
    channels = spec((x.shape[-1],))
    parameters = [graph.input(channels, name) for name in ("scale", "bias", "mean", "variance")]
    scale, bias, mean, variance = parameters
    return ops.batch_norm_inference(x, scale, bias, mean, variance), parameters


@pytest.mark.parametrize("with_bias", [False, True])
def test_a_normalized_convolution_is_a_convolution(with_bias: bool) -> None:
    graph = SymbolicGraph()
    x, w, b = graph.input(spec((2, 6, 6, 3))), graph.input(spec((3, 3, 3, 4))), graph.input(spec((4,)))
    y = ops.convolution(x, w, b if with_bias else None, window=ops.window_of(3, padding="same"))
    y, parameters = normalized(graph, y)
    (report,) = check(graph, [y], [x, w, b, *parameters], [Pass.BATCH_NORM])
    assert report.fired == {"factor per channel": 1, "shift per channel": 1}
    (writer,) = graph.writers(y.key)
    assert graph.execs[writer].command.op.name == "convolution"


@pytest.mark.parametrize(("one", "fired"), [(Pass.BATCH_NORM, {}), (Pass.FROZEN_BATCH_NORM, {"factor per channel": 1})])
def test_only_frozen_weights_are_scaled_whatever_their_size(one: Pass, fired: dict[str, int]) -> None:
    graph = SymbolicGraph()
    x, w, f = graph.input(spec((1, 3))), graph.input(spec((3, 4))), graph.input(spec((4,)))
    (report,) = check(graph, [ops.gemm(x, w) * f], [x, w, f], [one])
    assert report.fired == fired


def test_activations_of_one_row_scale_no_frozen_weights() -> None:
    graph = SymbolicGraph()
    x, w, v, o = (graph.input(spec(shape)) for shape in ((1, 3), (3, 4), (3, 4), (4, 5)))
    y = ops.gemm(ops.gemm(x, w) * ops.sigmoid(ops.gemm(x, v)), o)
    (report,) = check(graph, [y], [x, w, v, o], [Pass.FROZEN_BATCH_NORM])
    assert report.fired == {}


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("position", [0, 1])
def test_a_scaled_product_is_a_product(position: int, transposed: bool) -> None:
    graph = SymbolicGraph()
    x, w, f = graph.input(spec((9, 3))), graph.input(spec((4, 3) if transposed else (3, 4))), graph.input(spec((1, 4)))
    y = ops.gemm(x, w, transpose_b=transposed)
    y = y * f if position == 0 else f * y
    (report,) = check(graph, [y], [x, w, f], [Pass.BATCH_NORM])
    assert report.fired == {"factor per channel": 1}
    assert graph.execs[graph.writers(y.key)[0]].command.op.name == "gemm"


@pytest.mark.parametrize("transposed", [False, True])
def test_a_product_of_what_is_scaled_is_a_product(transposed: bool) -> None:
    graph = SymbolicGraph()
    x, w, f = graph.input(spec((9, 3))), graph.input(spec((4, 3) if transposed else (3, 4))), graph.input(spec((3,)))
    y = ops.gemm(f * x, w, transpose_b=transposed)
    (report,) = check(graph, [y], [x, w, f], [Pass.BATCH_NORM])
    assert report.fired == {"factor in front of gemm": 1}


def test_a_convolution_of_what_is_scaled_is_a_convolution() -> None:
    graph = SymbolicGraph()
    x, f = graph.input(spec((2, 8, 8, 4))), graph.input(spec((4,)))
    w, grouped = graph.input(spec((3, 3, 4, 2))), graph.input(spec((3, 3, 2, 2)))
    window = ops.window_of(3, padding="same")
    outputs = [ops.convolution(x * f, w, window=window), ops.convolution(x * f, grouped, window=window, groups=2)]
    (report,) = check(graph, outputs, [x, w, grouped, f], [Pass.BATCH_NORM])
    assert report.fired == {"factor in front of convolution": 1}


def test_what_does_not_pay_or_is_read_elsewhere_stays() -> None:
    graph = SymbolicGraph()
    few, x, w, f = (graph.input(spec(shape)) for shape in ((2, 3), (9, 3), (3, 4), (4,)))
    product = ops.gemm(x, w)
    rows = graph.input(spec((9, 1)))
    scaled = x * w[:, 0]
    outputs = [
        ops.gemm(few, w) * f,
        product * f,
        product + product,
        ops.gemm(scaled, scaled, transpose_b=True),
        ops.gemm(x * rows, w),
        ops.gemm(x, w) * rows,
    ]
    (report,) = check(graph, outputs, [few, x, w, f, rows], [Pass.BATCH_NORM])
    assert report.fired == {}


def test_gradients_through_the_norm_are_kept() -> None:
    graph = SymbolicGraph()
    x, w = graph.input(spec((2, 6, 6, 3))), graph.input(spec((3, 3, 3, 4)))
    y, parameters = normalized(graph, ops.convolution(x, w, window=ops.window_of(3, padding="same")))
    gradients = backward(graph, [ops.reduce_sum(ops.square(y))], [w, *parameters])
    check(graph, [y, *gradients], [x, w, *parameters], [Pass.BATCH_NORM])


@EXAMPLES
@given(programs())
def test_random_programs(program: Program) -> None:
    check_program(program, [Pass.BATCH_NORM, Pass.CONSTANTS, Pass.ALGEBRA, Pass.GROUPS])
