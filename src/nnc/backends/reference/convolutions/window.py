"""Sliding windows over the spatial axes of [batch, spatial…, channels]."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from nnc.backends.reference.arrays import Array
from nnc.core.values.spec import Shape
from nnc.ops.convolutions.window import Window

Index = tuple[slice, ...]


def interior(sizes: Shape, window: Window) -> Index:
    """Where the data lies inside its border."""
    edges = zip(sizes, window.padding, strict=True)
    return (slice(None), *(slice(before, before + size) for size, (before, _) in edges), slice(None))


def padded_shape(shape: Shape, window: Window) -> Shape:
    """[batch, spatial + border…, channels]."""
    edges = zip(shape[1:-1], window.padding, strict=True)
    return (shape[0], *(size + before + after for size, (before, after) in edges), shape[-1])


def pad(x: Array, window: Window, value: float) -> Array:
    """A copy of `x` with a border of `value`."""
    padded = np.full(padded_shape(x.shape, window), value, x.dtype)
    padded[interior(x.shape[1:-1], window)] = x
    return padded


def positions(kernel: Shape, window: Window, sizes: Shape) -> Iterator[Index]:
    """For each position k of the window in row-major order, the index of padded[n, o · stride + k · dilation, c]."""
    for position in np.ndindex(*kernel):
        steps = zip(position, window.strides, window.dilations, sizes, strict=True)
        spatial = (
            slice(k * dilation, k * dilation + (size - 1) * stride + 1, stride) for k, stride, dilation, size in steps
        )
        yield (slice(None), *spatial, slice(None))


def _steps(strides: Sequence[int], factors: Sequence[int], sizes: Shape) -> list[int]:
    """Bytes from place to place; along an axis of one place there is no step, however far it would be."""
    return [0 if size < 2 else step * factor for step, factor, size in zip(strides, factors, sizes, strict=True)]


def windows(padded: Array, kernel: Shape, window: Window, sizes: Shape) -> Array:
    """The view [n, o…, k…, c] of padded[n, o · stride + k · dilation, c]; read only, for its elements repeat."""
    batch, *spatial, channel = padded.strides
    moves, spreads = _steps(spatial, window.strides, sizes), _steps(spatial, window.dilations, kernel)
    shape = (padded.shape[0], *sizes, *kernel, padded.shape[-1])
    return np.lib.stride_tricks.as_strided(padded, shape, (batch, *moves, *spreads, channel), writeable=False)
