"""Functions of `keras.ops` that nnc says otherwise: slices, scattering, windows of images, the largest elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnc import numerics as n
from nnc.arguments import Count, Size, checked
from nnc.core.precautions.machine_memory import check_entries
from nnc.core.precautions.origin import caller_origin
from nnc.core.values.dtype import I32
from nnc.dynamic.eager import as_operand
from nnc.errors import ArgumentError, ShapeError
from nnc.keras.layers.image_layers import Interpolation, batched, resized
from nnc.keras.layers.spatial import Sizes, per_axis, window_over
from nnc.keras.metric_states import plain
from nnc.ops import average_pool as averaged
from nnc.ops import convolution
from nnc.ops import max_pool as largest


@checked
def top_k(x: Any, k: Count, sorted: bool = True) -> tuple[Any, Any]:
    """The k largest elements of the last axis, and where they are."""
    values, places = n.topk(as_operand(x), k)
    return values, places.astype(I32)


@checked
def in_top_k(targets: Any, predictions: Any, k: Count) -> Any:
    """Whether the output at the target is among the k largest of its row."""
    y = as_operand(predictions)
    own = n.take_along_axis(y, n.expand_dims(as_operand(targets).astype(I32), -1), axis=-1)
    return n.sum((y > own).astype(I32), axis=-1) < k


@checked
def unstack(x: Any, num: Count | None = None, axis: int = 0) -> list[Any]:
    """The parts of x along the axis."""
    return list(n.unstack(as_operand(x), axis=axis))


def _whole(subject: str, name: str, value: Any, ndim: int) -> NDArray[Any]:
    """Whole numbers that are known already, of so many axes."""
    values = plain(value)
    if (values.dtype.kind not in "iu" and values.size) or values.ndim != ndim:
        got, need = f"{name} {values.dtype}{list(values.shape)}", f"whole numbers of {ndim} axes"
        raise ArgumentError(subject, got=got, need=need, origin=caller_origin())
    return values.astype(np.int64)


def _places(subject: str, starts: Any, shape: Sequence[int]) -> tuple[slice, ...]:
    first = _whole(subject, "start_indices", starts, 1).tolist()
    if len(first) != len(shape):
        got, need = f"{len(first)} starts", f"one for each of {len(shape)} axes"
        raise ShapeError(subject, got=got, need=need, origin=caller_origin())
    return tuple(slice(start, start + size) for start, size in zip(first, shape, strict=True))


@checked
def slice_of(x: Any, start_indices: Any, shape: Sequence[Size]) -> Any:
    """x[start : start + size] on each axis"""
    return as_operand(x)[_places("slice", start_indices, shape)]


def slice_update(x: Any, start_indices: Any, updates: Any) -> Any:
    """x with `updates` from `start_indices` on."""
    new = as_operand(updates)
    return as_operand(x).at[_places("slice_update", start_indices, new.shape)].set(new)


def _rows(indices: Any) -> tuple[Any, ...]:
    places = as_operand(indices).astype(I32)
    if not places.ndim:
        raise ShapeError("scatter", got="one index", need="indices [updates, axes]", origin=caller_origin())
    return tuple(places[..., axis] for axis in range(places.shape[-1]))


@checked
def scatter(indices: Any, values: Any, shape: Sequence[Size]) -> Any:
    """Zeros of the shape, to which values[i] are added at indices[i]."""
    new = as_operand(values)
    return n.zeros(tuple(shape), dtype=new.dtype, device=new.device).at[_rows(indices)].add(new)


def scatter_update(inputs: Any, indices: Any, updates: Any) -> Any:
    """inputs, in which updates[i] stand at indices[i]."""
    return as_operand(inputs).at[_rows(indices)].set(updates)


@checked
def segment_sum(data: Any, segment_ids: Any, num_segments: Count | None = None, sorted: bool = False) -> Any:
    """y[s] = Σ data[i] over the i whose segment is s"""
    x = as_operand(data)
    places = as_operand(segment_ids).astype(I32)
    if num_segments is None:
        num_segments = int(_whole("segment_sum", "segment_ids", segment_ids, 1).max(initial=-1)) + 1
    count = max(int(num_segments), 0)
    return n.zeros((count, *x.shape[1:]), dtype=x.dtype, device=x.device).at[places].add(x)


def fori_loop(lower: int, upper: int, body_fun: Callable[[Any, Any], Any], init_val: Any) -> Any:
    """body(i, value) for i = lower … upper - 1"""
    value = init_val
    first, end = (int(_whole("fori_loop", "bounds", bound, 0)) for bound in (lower, upper))
    for turn in range(first, end):
        value = body_fun(turn, value)
    return as_operand(value)


def _window(x: Any, sizes: Sequence[int], strides: Any, padding: str, dilations: Any = 1) -> Any:
    rank = x.ndim - 2
    if rank < 1 or rank != len(sizes):
        raise ShapeError("window", got=f"inputs {x.shape}", need="[batch, …, channels]", origin=caller_origin())
    steps = per_axis("window", "strides", strides, rank)
    return window_over(
        x.shape[1:-1], sizes, steps, padding.lower(), per_axis("window", "dilation_rate", dilations, rank)
    )


@checked
def conv(
    inputs: Any, kernel: Any, strides: Sizes = 1, padding: str = "valid", data_format: str | None = None,
    dilation_rate: Sizes = 1,
) -> Any:  # fmt: skip
    """Σ inputs[batch, i · stride + k, c] · kernel[k, c, f]"""
    x, weights = as_operand(inputs), as_operand(kernel)
    window = _window(x, weights.shape[:-2], strides, padding, dilation_rate)
    if not weights.shape[-2]:
        raise ShapeError("conv", got=f"kernel {weights.shape}", need="one channel or more", origin=caller_origin())
    return convolution(x, weights, None, window=window, groups=x.shape[-1] // weights.shape[-2])


def _pool(way: Callable[..., Any], inputs: Any, pool_size: Sizes, strides: Sizes | None, padding: str) -> Any:
    x = as_operand(inputs)
    extents = per_axis("pool", "pool_size", pool_size, max(x.ndim - 2, 1))
    return way(x, extents, _window(x, extents, extents if strides is None else strides, padding))


@checked
def max_pool(inputs: Any, pool_size: Sizes, strides: Sizes | None = None, padding: str = "valid") -> Any:
    """The largest element of each window."""
    return _pool(largest, inputs, pool_size, strides, padding)


@checked
def average_pool(inputs: Any, pool_size: Sizes, strides: Sizes | None = None, padding: str = "valid") -> Any:
    """The mean of each window."""
    return _pool(averaged, inputs, pool_size, strides, padding)


@checked
def resize(images: Any, size: Sequence[Count], interpolation: Interpolation = "bilinear", **unused: Any) -> Any:
    """Images of another height and width."""
    if len(size) != 2:
        raise ArgumentError("resize", got=f"{len(size)} sizes", need="(height, width)", origin=caller_origin())
    return batched(as_operand(images), lambda x: resized(x, size, interpolation))


@checked
def extract_patches(images: Any, size: Sizes, strides: Sizes | None = None, padding: str = "valid") -> Any:
    """Patches of `size` one behind the other: [batch, rows, columns, height · width · channels]."""
    sides = per_axis("extract_patches", "size", size, 2)
    steps = sides if strides is None else per_axis("extract_patches", "strides", strides, 2)

    def patches(x: Any) -> Any:
        window = window_over(x.shape[1:3], sides, steps, padding)
        x = n.pad(x, ((0, 0), *window.padding, (0, 0)))
        counts = [(x.shape[1 + axis] - sides[axis]) // steps[axis] + 1 for axis in range(2)]
        check_entries("extract_patches", max(max(count, 1) * side for count, side in zip(counts, sides, strict=True)))
        rows, columns = (
            np.arange(count)[:, None] * step + np.arange(side)
            for count, step, side in zip(counts, steps, sides, strict=True)
        )
        y = n.take(n.take(x, rows, axis=1), columns, axis=3)
        y = n.transpose(y, (0, 1, 3, 2, 4, 5))
        return n.reshape(y, (*y.shape[:3], -1))

    return batched(as_operand(images), patches)


def rgb_to_grayscale(images: Any, data_format: str | None = None) -> Any:
    """0.2989 · red + 0.587 · green + 0.114 · blue"""
    x = as_operand(images)
    return n.sum(x * np.array([0.2989, 0.587, 0.114], np.float32), axis=-1, keepdims=True)


class ImageFunctions:
    """`keras.ops.image`"""

    resize = staticmethod(resize)
    extract_patches = staticmethod(extract_patches)
    rgb_to_grayscale = staticmethod(rgb_to_grayscale)


OF_ARRAYS: dict[str, Callable[..., Any]] = {
    **{
        function.__name__: function
        for function in (
            top_k, in_top_k, unstack, slice_update, scatter, scatter_update, segment_sum, fori_loop, conv, max_pool,
            average_pool,
        )
    },
    "slice": slice_of,
}  # fmt: skip
