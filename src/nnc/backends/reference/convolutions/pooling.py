"""Maximum and average over sliding windows, with their gradients: one pass per position of the window."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from nnc.backends.reference.arrays import Array, Inputs, Outputs, Rows, widen, write
from nnc.backends.reference.convolutions.window import Index, interior, pad, padded_shape, positions
from nnc.core.values.spec import Shape
from nnc.ops.convolutions import pooling as ops
from nnc.ops.convolutions.pooling import AveragePoolGradientAttrs, PoolAttrs
from nnc.ops.convolutions.window import Window


def lowest(dtype: np.dtype[Any]) -> float:
    """What no element is below: -inf, or the least integer."""
    return -math.inf if dtype.kind == "f" else int(np.iinfo(dtype).min)


def inside(sizes: Shape, window: Window) -> Array:
    """True at the data and False on its border, as [1, spatial + border…, 1]."""
    mask = np.zeros(padded_shape((1, *sizes, 1), window), np.bool_)
    mask[interior(sizes, window)] = True
    return mask


def choices(x: Array, y: Array, attrs: PoolAttrs) -> Iterator[tuple[Index, Array]]:
    """For each position of the window, where it is the first that holds the window's maximum y, or the last nan."""
    sizes = y.shape[1:-1]
    padded, real = pad(x, attrs.window, lowest(x.dtype)), inside(x.shape[1:-1], attrs.window)
    free, left = np.ones(y.shape, np.bool_), np.zeros(y.shape, np.int64)
    for index in positions(attrs.kernel, attrs.window, sizes):
        left += np.isnan(padded[index])
    for index in positions(attrs.kernel, attrs.window, sizes):
        chosen = free & real[index] & (padded[index] == y)
        free &= ~chosen
        unknown = np.isnan(padded[index])
        left -= unknown
        yield index, chosen | (unknown & (left == 0))


def counts(attrs: PoolAttrs, data: Shape, sizes: Shape) -> Array:
    """Positions of each window that an average divides by, as [1, o…, 1]."""
    if attrs.count_border:
        return np.full((1, *(1 for _ in sizes), 1), math.prod(attrs.kernel))
    mask = inside(data, attrs.window).astype(np.int64)
    count = np.zeros((1, *sizes, 1), np.int64)
    for index in positions(attrs.kernel, attrs.window, sizes):
        count += mask[index]
    return count


def max_pool(attrs: PoolAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y[n, o…, c] = max_k x[n, o·stride + k·dilation - before…, c]; nan when any is nan."""
    x = widen(inputs[0])
    padded = pad(x, attrs.window, lowest(x.dtype))
    y = np.full(outputs[0].shape, lowest(x.dtype), x.dtype)
    for index in positions(attrs.kernel, attrs.window, y.shape[1:-1]):
        np.maximum(y, padded[index], out=y)
    write(outputs[0], y)


def max_pool_gradient(attrs: PoolAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """Each g[n, o…, c] goes to the first position of its window where x equals y."""
    g, x, y = (widen(array) for array in inputs)
    spread = np.zeros(padded_shape(x.shape, attrs.window), g.dtype)
    for index, chosen in choices(x, y, attrs):
        spread[index] += np.where(chosen, g, g.dtype.type(0))
    write(outputs[0], spread[interior(x.shape[1:-1], attrs.window)])


def max_pool_gather(attrs: PoolAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y'[n, o…, c] = h at the first position of the window where x equals y."""
    h, x, y = (widen(array) for array in inputs)
    padded = pad(h, attrs.window, 0)
    result = np.zeros(y.shape, h.dtype)
    for index, chosen in choices(x, y, attrs):
        np.copyto(result, padded[index], where=chosen)
    write(outputs[0], result)


def average_pool(attrs: PoolAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y[n, o…, c] = sum_k x[n, o·stride + k·dilation - before…, c] / count."""
    x = widen(inputs[0])
    padded = pad(x, attrs.window, 0)
    total = np.zeros(outputs[0].shape, x.dtype)
    sizes = total.shape[1:-1]
    for index in positions(attrs.kernel, attrs.window, sizes):
        total += padded[index]
    write(outputs[0], total / counts(attrs, x.shape[1:-1], sizes).astype(x.dtype))


def average_pool_gradient(attrs: AveragePoolGradientAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """Each g[n, o…, c] / count goes to every position of its window."""
    g = widen(inputs[0])
    sizes, window = g.shape[1:-1], attrs.pool.window
    share = g / counts(attrs.pool, attrs.sizes, sizes).astype(g.dtype)
    spread = np.zeros(padded_shape(outputs[0].shape, window), g.dtype)
    for index in positions(attrs.pool.kernel, window, sizes):
        spread[index] += share
    write(outputs[0], spread[interior(attrs.sizes, window)])


ROWS: Rows = {
    ops.MAX_POOL: max_pool,
    ops.MAX_POOL_GRADIENT: max_pool_gradient,
    ops.MAX_POOL_GATHER: max_pool_gather,
    ops.AVERAGE_POOL: average_pool,
    ops.AVERAGE_POOL_GRADIENT: average_pool_gradient,
}
