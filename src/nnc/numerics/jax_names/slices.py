"""Parts of arrays and zeros around them, as `jax.lax` has them: sizes and places are numbers."""

from __future__ import annotations

from collections.abc import Sequence

from nnc.arguments import Count, checked
from nnc.core.precautions.origin import caller_origin
from nnc.core.values.dtype import AnyDType
from nnc.errors import ArgumentError, ShapeError
from nnc.numerics.conversion import AnyArray, Array, as_array, pair, place_of
from nnc.numerics.shapes import broadcast_to, concatenate, flip

__all__ = ["broadcast_in_dim", "convert_element_type", "pad", "rev", "slice", "slice_in_dim"]

cut = slice


@checked
def slice(
    operand: AnyArray,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[Count] | None = None,
) -> Array:
    """x[start : limit : stride] on each axis.

    >>> nnc.lax.slice(nnc.arange(10), (2,), (8,), (3,)).tolist()
    [2, 5]
    """
    x = as_array(operand)
    steps = (1,) * x.ndim if strides is None else tuple(strides)
    rows = list(zip(start_indices, limit_indices, steps, x.shape, strict=False))
    fit = len(rows) == len(start_indices) == len(limit_indices) == len(steps) == x.ndim
    if not fit or any(not 0 <= start <= limit <= size for start, limit, _, size in rows):
        got = f"{tuple(start_indices)} to {tuple(limit_indices)} by {steps} of {x.spec}"
        raise ShapeError("slice", got=got, need="0 ≤ start ≤ limit ≤ size on each axis", origin=caller_origin())
    return x[tuple(cut(start, limit, step) for start, limit, step, _ in rows)]


@checked
def slice_in_dim(
    operand: AnyArray, start_index: int | None, limit_index: int | None, stride: Count = 1, axis: int = 0
) -> Array:
    """x[start : limit : stride] on one axis.

    >>> nnc.lax.slice_in_dim(nnc.arange(10), 2, 4).tolist()
    [2, 3]
    """
    x = as_array(operand)
    place = place_of("slice_in_dim", axis, x.ndim)
    return x[(*[cut(None)] * place, cut(start_index, limit_index, stride))]


@checked
def rev(operand: AnyArray, dimensions: Sequence[int]) -> Array:
    """Axes the other way round.

    >>> nnc.lax.rev(nnc.arange(3), (0,)).tolist()
    [2, 1, 0]
    """
    return flip(operand, tuple(dimensions)) if dimensions else as_array(operand)


def convert_element_type(operand: AnyArray, new_dtype: AnyDType) -> Array:
    """x in another element type.

    >>> nnc.lax.convert_element_type([1.5], nnc.int32).tolist()
    [1]
    """
    return as_array(operand).astype(new_dtype)


@checked
def broadcast_in_dim(operand: AnyArray, shape: Sequence[int], broadcast_dimensions: Sequence[int]) -> Array:
    """x whose axes are these ones of the shape, repeated along the others.

    >>> nnc.lax.broadcast_in_dim(nnc.arange(2), (2, 3), (0,)).tolist()
    [[0, 0, 0], [1, 1, 1]]
    """
    x = as_array(operand)
    places = list(broadcast_dimensions)
    if len(places) != x.ndim or sorted(set(places)) != places or any(not 0 <= at < len(shape) for at in places):
        got = f"axes {tuple(places)} of {tuple(shape)} for {x.spec}"
        raise ShapeError("broadcast_in_dim", got=got, need="one for each axis, in order", origin=caller_origin())
    sizes = [1] * len(shape)
    for place, size in zip(places, x.shape, strict=True):
        sizes[place] = size
    return broadcast_to(x.reshape(*sizes) if sizes else x, tuple(shape))


@checked
def pad(operand: AnyArray, padding_value: AnyArray, padding_config: Sequence[Sequence[int]]) -> Array:
    """x with so many values (before, behind, between its rows) on each axis; fewer than none cuts rows off.

    >>> nnc.lax.pad(nnc.ones(2), 0.0, [(1, 0, 2)]).tolist()
    [0.0, 1.0, 0.0, 0.0, 1.0]
    """
    x, value = pair(operand, padding_value)
    rows = [tuple(row) for row in padding_config]
    if len(rows) != x.ndim or any(len(row) != 3 or row[2] < 0 for row in rows) or value.ndim:
        got = f"{rows} of {x.spec}"
        raise ArgumentError("pad", got=got, need="(before, behind, between ≥ 0) for each axis", origin=caller_origin())
    for axis, (before, after, between) in enumerate(rows):
        x = _padded(x, value, axis, (before, after, between))
    return x


def _padded(x: Array, value: Array, axis: int, counts: tuple[int, int, int]) -> Array:
    before, after, between = counts
    if between and x.shape[axis] > 1:
        sizes = (*x.shape[: axis + 1], between, *x.shape[axis + 1 :])
        rows = x.reshape(*sizes[: axis + 1], 1, *sizes[axis + 2 :])
        apart = concatenate([rows, broadcast_to(value, sizes)], axis + 1)
        whole = x.shape[axis] * (between + 1)
        x = apart.reshape(*x.shape[:axis], whole, *x.shape[axis + 1 :])
        x = x[(*[cut(None)] * axis, cut(0, whole - between))]
    size = x.shape[axis]
    if size + before + after < 0:
        got = f"{-before - after} rows less of {size}"
        raise ShapeError("pad", got=got, need="as many as there are", origin=caller_origin())
    if before < 0 or after < 0:
        x = x[(*[cut(None)] * axis, cut(max(-before, 0), size + min(after, 0)))]
    edges = [broadcast_to(value, (*x.shape[:axis], max(count, 0), *x.shape[axis + 1 :])) for count in (before, after)]
    return x if before <= 0 and after <= 0 else concatenate([edges[0], x, edges[1]], axis)
