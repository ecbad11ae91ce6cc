"""Row and column norms against NumPy in f64; one and three workers give the same bits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.backends.llvm.harness import Array, check, random, scalar_of

from nnc.codegen.kernels.normalization.normalization import ColumnNormalization, RowNorm, RowNormalization
from nnc.codegen.kernels.normalization.normalization_groups import GroupNormalization

EPSILON = 1e-3


def moments(x: Array, axis: int | tuple[int, ...]) -> tuple[Array, Array]:
    wide = x.astype(np.float64)
    return wide.mean(axis, keepdims=True), 1 / np.sqrt(wide.var(axis, keepdims=True) + EPSILON)


def slope(g: Array, x: Array, saved: list[Array], scale: Array, axis: int | tuple[int, ...]) -> Array:
    mean, inverse = saved
    u, unit = g.astype(np.float64) * scale, (x - mean.astype(np.float64)) * inverse
    rest = u - u.mean(axis, keepdims=True) - unit * (u * unit).mean(axis, keepdims=True)
    return np.asarray((inverse * rest).astype(x.dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("columns", [1, 16, 67, 384])
def test_layer_norm_and_its_gradient(columns: int, dtype: type[np.generic]) -> None:
    x, g = random((33, columns), dtype), random((33, columns), dtype, 1)
    scale, bias = random((columns,), dtype, 2), random((columns,), dtype, 3)
    mean, inverse = moments(x, 1)
    wanted = [(x - mean) * inverse * scale + bias, mean, inverse]
    kind, rest = scalar_of(x), (33, columns, EPSILON, True)
    forward = RowNormalization(RowNorm.LAYER, kind, *rest, bias=True)
    check(forward, [x, scale, bias], [want.astype(dtype) for want in wanted], spread=20.0)
    saved = [mean.astype(dtype), inverse.astype(dtype)]
    want = slope(g, x, saved, scale, 1)
    check(RowNormalization(RowNorm.LAYER_GRADIENT, kind, *rest), [g, x, *saved, scale], [want], spread=20.0)


@pytest.mark.parametrize("shape", [(5, 3), (1024, 16), (3000, 67), (2, 300), (1, 8)])
def test_batch_norm_and_its_gradient(shape: tuple[int, int]) -> None:
    rows, columns = shape
    x, g = random(shape) + np.float32(100), random(shape, seed=1)
    scale, bias, old, wide = (random((columns,), seed=seed) for seed in (2, 3, 4, 5))
    mean, inverse = moments(x, 0)
    variance = x.astype(np.float64).var(0)
    results = [(x - mean) * inverse * scale + bias, 0.75 * old + 0.25 * mean[0], 0.75 * wide + 0.25 * variance]
    wanted = [want.astype(np.float32) for want in (*results, mean[0], inverse[0])]
    forward = ColumnNormalization(False, scalar_of(x), rows, columns, EPSILON, 0.75)
    check(forward, [x, scale, bias, old, wide], wanted, spread=200.0)
    saved = [mean[0].astype(np.float32), inverse[0].astype(np.float32)]
    want = slope(g, x, saved, scale, 0)
    backward = ColumnNormalization(True, scalar_of(x), rows, columns, EPSILON)
    check(backward, [g, x, *saved, scale], [want], spread=200.0)
    sums = ((g * (x.astype(np.float64) - saved[0]) * saved[1]).sum(0), g.astype(np.float64).sum(0))
    wanted = [want, *(one.astype(np.float32) for one in sums)]
    check(replace(backward, sums=True), [g, x, *saved, scale], wanted, spread=200.0)


# Outer indices, rows, groups, width: bundles of several groups, of one that is wide, ragged ones, and rows in parts.
GROUPS = [
    (3, 50, 4, 8),
    (2, 9, 70, 1),
    (1, 700, 7, 3),
    (2, 40, 2, 99),
    (9, 300, 33, 2),
    (1, 1, 3, 40),
    (1, 5000, 1, 16),
]


@pytest.mark.turns(2)
@pytest.mark.parametrize(("shape", "dtype"), [*((shape, np.float32) for shape in GROUPS), (GROUPS[0], np.float64)])
def test_group_norm_and_its_gradient(shape: tuple[int, int, int, int], dtype: type[np.generic]) -> None:
    x, g = random(shape, dtype) + dtype(100), random(shape, dtype, 1)
    scale, bias = random(shape[2:], dtype, 2), random(shape[2:], dtype, 3)
    mean, inverse = moments(x, (1, 3))
    wanted = [((x - mean) * inverse * scale + bias).astype(dtype), mean.astype(dtype), inverse.astype(dtype)]
    kind, rest = scalar_of(x), (*shape, EPSILON, True)
    forward = GroupNormalization(False, True, kind, *rest, bias=True, along=(shape[3], 1))
    check(forward, [x, scale, bias], wanted, spread=200.0)
    saved = wanted[1:]
    want = slope(g, x, saved, scale, (1, 3))
    check(GroupNormalization(True, True, kind, *rest, along=(shape[3], 1)), [g, x, *saved, scale], [want], spread=200.0)
