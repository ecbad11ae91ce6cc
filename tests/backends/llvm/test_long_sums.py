"""Long sums of f32 are as near as torch's: at 10^7 numbers of one sign within 7e-6, ten times torch's error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import nnc
from nnc import ops
from nnc.core.values.spec import Shape
from nnc.dynamic import DynamicGraph

# Importing the package puts its backends into the dispatcher.
assert nnc.__name__ == "nnc"

MOST = 7e-6
# `Any`: elements of f32 and f64.
Array = NDArray[Any]
GRAPH = DynamicGraph("llvm")
# Equal numbers are the worst: each addition rounds the same way. One output, columns, sweeps, rows, axes apart.
SHAPES: tuple[tuple[Shape, tuple[int, ...]], ...] = (
    ((10**7,), (0,)),
    ((10**6, 10), (0,)),
    ((40_000, 250), (0,)),
    ((20, 500_000), (1,)),
    ((20, 50_000, 10), (0, 2)),
    ((20, 500_000), (0,)),
)


def error(got: Array, want: Array) -> float:
    """The largest relative error."""
    return float(np.max(np.abs(got.astype(np.float64) - want) / np.abs(want)))


@pytest.mark.parametrize(("shape", "axes"), SHAPES, ids=str)
def test_sums_and_means(shape: Shape, axes: tuple[int, ...]) -> None:
    x = np.full(shape, 0.1, np.float32)
    want = x.sum(axis=axes, dtype=np.float64)
    assert error(ops.reduce_sum(GRAPH.constant(x), axes).numpy(), want) < MOST
    count = np.prod([shape[axis] for axis in axes])
    assert error(ops.reduce_mean(GRAPH.constant(x), axes).numpy(), want / count) < MOST
    assert error(ops.reduce_norm(GRAPH.constant(x), axes).numpy(), np.sqrt(x[0].flat[0] ** 2.0 * count)) < MOST


def test_the_gradient_of_a_bias_of_a_convolution_is_a_sum_of_306_terms_that_loses_no_digit() -> None:
    generator, worst = np.random.default_rng(0), 0.0
    for _ in range(50):
        g = generator.standard_normal((2, 9, 17, 96)).astype(np.float32)
        got = ops.reduce_sum(GRAPH.constant(g), (0, 1, 2)).numpy()
        off = np.abs(got - g.sum(axis=(0, 1, 2), dtype=np.float64)) / np.abs(g).sum(axis=(0, 1, 2), dtype=np.float64)
        worst = max(worst, float(off.max()))
    assert worst < 3e-8


def test_normalizers_and_moments() -> None:
    x = np.random.default_rng(0).exponential(size=(1, 10**6)).astype(np.float32)
    exact, v = x.astype(np.float64), GRAPH.constant(x)
    powers = np.exp(exact - exact.max())
    assert error(ops.softmax(v).numpy(), powers / powers.sum()) < MOST
    assert error(ops.rms_norm(v, epsilon=0.0).numpy(), exact / np.sqrt(np.square(exact).mean())) < MOST
    rows = np.full((10**6, 3), 0.1, np.float32) + np.array([0, 1, 2], np.float32)
    statistics = [GRAPH.constant(np.ones(3, np.float32)) for _ in range(4)]
    _, mean, variance = ops.batch_norm(GRAPH.constant(rows), *statistics, momentum=0.0)
    assert error(mean.numpy(), rows.mean(axis=0, dtype=np.float64)) < MOST
    assert float(np.abs(variance.numpy()).max()) < 1e-9
