"""Convolution and its two gradients: windows laid out as rows of a matrix, then one matrix product per group.

columns[group, (n, o…), (k…, c)] = x[n, o·stride + k·dilation - before…, group · channels + c]
filters[group, (k…, c), f]       = w[k…, c, group · filters + f]
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from nnc.backends.reference.arrays import Array, Inputs, Outputs, Rows, widen, write
from nnc.backends.reference.convolutions.window import interior, pad, padded_shape, positions, windows
from nnc.backends.reference.products.products import product
from nnc.core.values.spec import Shape
from nnc.ops.convolutions import convolutions as ops
from nnc.ops.convolutions.convolutions import ConvolutionAttrs, ConvolutionGradientAttrs
from nnc.ops.convolutions.window import Window

# Elements of `columns` made at a time: enough to fill the matrix product, few enough to stay in the cache.
BLOCK = 1 << 20


def image_blocks(batch: int, per_image: int) -> Iterator[slice]:
    """Runs of images whose columns together have about BLOCK elements."""
    count = max(1, BLOCK // max(per_image, 1))
    return (slice(start, min(start + count, batch)) for start in range(0, batch, count))


def columns_of(padded: Array, kernel: Shape, window: Window, sizes: Shape, groups: int) -> Array:
    """columns[group, (n, o…), (k…, c)] of a padded block of images."""
    view = windows(padded, kernel, window, sizes)
    channels = padded.shape[-1] // groups
    rows = padded.shape[0] * math.prod(sizes)
    split = view.reshape(rows, math.prod(kernel), groups, channels)
    return split.transpose(2, 0, 1, 3).reshape(groups, rows, math.prod(kernel) * channels)


def filters_of(w: Array, groups: int) -> Array:
    """filters[group, (k…, c), f]."""
    *kernel, channels, filters = w.shape
    split = w.reshape(math.prod(kernel), channels, groups, filters // groups)
    return split.transpose(2, 0, 1, 3).reshape(groups, math.prod(kernel) * channels, filters // groups)


def grouped(g: Array, groups: int) -> Array:
    """[group, (n, o…), f] of [n, o…, group · filters + f]."""
    return g.reshape(math.prod(g.shape[:-1]), groups, g.shape[-1] // groups).transpose(1, 0, 2)


def convolution(attrs: ConvolutionAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y[n, o…, f] = sum_{k…, c} x[n, o·stride + k·dilation - before…, c] · w[k…, c, f] + bias[f]."""
    w = widen(inputs[1])
    bias = None if inputs[2] is None else widen(inputs[2])
    padded = pad(widen(inputs[0]), attrs.window, 0)
    kernel, sizes = w.shape[:-2], outputs[0].shape[1:-1]
    filters = filters_of(w, attrs.groups)
    for images in image_blocks(len(padded), math.prod((*sizes, *w.shape[:-1])) * attrs.groups):
        y = product(columns_of(padded[images], kernel, attrs.window, sizes, attrs.groups), filters)
        flat = y.transpose(1, 0, 2).reshape(images.stop - images.start, *sizes, w.shape[-1])
        write(outputs[0][images], flat if bias is None else flat + bias)


def data_gradient(attrs: ConvolutionGradientAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """x'[n, i…, c] = sum over (o, k) with o·stride + k·dilation - before = i, and f, of g[n, o…, f] · w[k…, c, f]."""
    g, w = widen(inputs[0]), widen(inputs[1])
    kernel, sizes, window, groups = w.shape[:-2], g.shape[1:-1], attrs.window, attrs.groups
    back = filters_of(w, groups).swapaxes(-1, -2)
    for images in image_blocks(len(g), math.prod((*sizes, *w.shape[:-1])) * groups):
        count = images.stop - images.start
        columns = product(grouped(g[images], groups), back)
        parts = columns.reshape(groups, count, *sizes, math.prod(kernel), w.shape[-2])
        spread = np.zeros(padded_shape((count, *outputs[0].shape[1:]), window), g.dtype)
        for position, index in enumerate(positions(kernel, window, sizes)):
            part = np.moveaxis(parts[..., position, :], 0, -2)
            spread[index] += part.reshape(count, *sizes, groups * w.shape[-2])
        write(outputs[0][images], spread[interior(attrs.sizes, window)])


def weight_gradient(attrs: ConvolutionGradientAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """w'[k…, c, f] = sum_{n, o…} x[n, o·stride + k·dilation - before…, c] · g[n, o…, f]."""
    padded = pad(widen(inputs[0]), attrs.window, 0)
    g = widen(inputs[1])
    shape, sizes, groups = outputs[0].shape, g.shape[1:-1], attrs.groups
    kernel_size, channels, filters = math.prod(attrs.sizes), shape[-2], shape[-1]
    total = np.zeros((groups, kernel_size * channels, filters // groups), g.dtype)
    for images in image_blocks(len(padded), math.prod(sizes) * kernel_size * channels * groups):
        columns = columns_of(padded[images], attrs.sizes, attrs.window, sizes, groups)
        total += product(columns.swapaxes(-1, -2), grouped(g[images], groups))
    split = total.reshape(groups, kernel_size, channels, filters // groups)
    write(outputs[0], split.transpose(1, 2, 0, 3).reshape(shape))


ROWS: Rows = {
    ops.CONVOLUTION: convolution,
    ops.CONVOLUTION_DATA_GRADIENT: data_gradient,
    ops.CONVOLUTION_WEIGHT_GRADIENT: weight_gradient,
}
