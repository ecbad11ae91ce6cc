"""Other shapes, other orders, and several arrays as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from nnc import ops
from nnc.arguments import shown
from nnc.array_api.data_types import check_broadcast, lifted, meet, numpy_work
from nnc.array_api.elementwise import checked_array
from nnc.core.precautions.machine_memory import check_entries
from nnc.core.values.dtype import I64
from nnc.core.values.spec import TensorSpec, check_shape
from nnc.core.values.spec import broadcast_shapes as shape_of_all
from nnc.core.values.tensor import Tensor
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.errors import ArgumentError, AttributeValueError, ShapeError
from nnc.ops.movement.broadcast import normalize_axes, tiled
from nnc.ops.number import integers_of

Array = ArrayOperand
Axes = int | tuple[int, ...]


def place_of(subject: str, axis: int, rank: int) -> int:
    """The axis counted from the first."""
    return normalize_axes(subject, axis, rank)[0]


def broadcast_arrays(*arrays: Array) -> list[Array]:
    """All arrays in the shape that they have together."""
    shape = check_broadcast("broadcast_arrays", *arrays)
    return [ops.broadcast_to(array, shape) for array in arrays]


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that arrays of these shapes have together."""
    return shape_of_all("broadcast_shapes", *shapes)


def broadcast_to(x: Array, /, shape: tuple[int, ...]) -> Array:
    """x, repeated along axes of size 1 and along new ones in front."""
    return ops.broadcast_to(checked_array("broadcast_to", x), tuple(shape))


def concat(arrays: Sequence[Array], /, *, axis: int | None = 0) -> Array:
    """The arrays one behind another; flat where axis is None."""
    given = meet("concat", *arrays)
    if axis is None:
        return ops.concatenate([array.reshape(-1) for array in given])
    return ops.concatenate(given, place_of("concat", axis, given[0].ndim))


def expand_dims(x: Array, /, axis: int = 0) -> Array:
    """A new axis of size 1."""
    return checked_array("expand_dims", x).add_axis(place_of("expand_dims", axis, x.ndim + 1))


def flip(x: Array, /, *, axis: Axes | None = None) -> Array:
    """The elements in reverse order along the axes, all when None."""
    axes = normalize_axes("flip", axis, checked_array("flip", x).ndim)
    return ops.flip(x, axes) if axes else x.twin()


def moveaxis(x: Array, source: Axes, destination: Axes, /) -> Array:
    """The axes `source` at the places `destination`, the others in their order."""
    rank = checked_array("moveaxis", x).ndim
    moved = [place_of("moveaxis", axis, rank) for axis in integers_of(source)]
    places = [place_of("moveaxis", axis, rank) for axis in integers_of(destination)]
    if len(moved) != len(places) or len(set(moved)) != len(moved) or len(set(places)) != len(places):
        raise AttributeValueError("moveaxis", got=f"{source} to {destination}", need="as many places as axes, distinct")
    order = [axis for axis in range(rank) if axis not in moved]
    for place, axis in sorted(zip(places, moved, strict=True)):
        order.insert(place, axis)
    return ops.transpose(x, tuple(order))


def permute_dims(x: Array, /, axes: tuple[int, ...]) -> Array:
    """The axes in this order."""
    rank = checked_array("permute_dims", x).ndim
    return ops.transpose(x, tuple(place_of("permute_dims", axis, rank) for axis in axes))


def repeat(x: Array, repeats: int | Array, /, *, axis: int | None = None) -> Array:
    """Each element so many times; of x made flat where axis is None. How often is no traced value."""
    along = x.reshape(-1) if axis is None else checked_array("repeat", x)
    place = 0 if axis is None else place_of("repeat", axis, x.ndim)
    with numpy_work("repeat"):
        counts = np.asarray(repeats.cpu().numpy() if isinstance(repeats, ArrayOperand) else repeats, np.int64)
        # NumPy adds them up in 64 bits, and writes past the end where that is not enough.
        total = sum(counts.reshape(-1).tolist()) * (along.shape[place] if counts.size == 1 else 1)
        Tensor.empty(TensorSpec(check_shape((total,), "repeat"), I64))
        rows = np.repeat(np.arange(along.shape[place]), counts)
    return ops.index_select(along, lifted(x, rows), place)


def reshape(x: Array, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Array:
    """The same elements under another shape; ValueError where `copy=False` asks for a view that there is not."""
    shaped = checked_array("reshape", x).reshape(tuple(shape))
    if copy is False and getattr(shaped, "root", shaped) is not getattr(x, "root", shaped):
        raise ValueError(f"reshape: got {x.spec} with gaps and copy=False; need elements in row-major order")
    return ops.contiguous(shaped) if copy else shaped


def roll(x: Array, /, shift: Axes, *, axis: Axes | None = None) -> Array:
    """The elements further along the axes, round their ends; along all elements where axis is None."""
    if axis is None:
        return ops.roll(checked_array("roll", x).reshape(-1), _single(shift)).reshape(x.shape)
    shifts, axes = integers_of(shift), integers_of(axis)
    if len(shifts) == 1:
        shifts *= len(axes)
    if len(shifts) != len(axes):
        raise AttributeValueError("roll", got=f"shifts {shifts} along axes {axes}", need="a shift per axis")
    rolled = checked_array("roll", x).twin()
    for by, along in zip(shifts, axes, strict=True):
        rolled = ops.roll(rolled, by, along)
    return rolled


def _single(shift: Axes) -> int:
    shifts = integers_of(shift)
    if len(shifts) != 1:
        raise AttributeValueError("roll", got=f"shifts {shifts} and no axis", need="one shift, or as many axes")
    return shifts[0]


def squeeze(x: Array, /, axis: Axes) -> Array:
    """Without these axes of size 1."""
    axes = normalize_axes("squeeze", axis, checked_array("squeeze", x).ndim)
    if any(x.shape[axis] != 1 for axis in axes):
        raise ShapeError("squeeze", got=f"{x.spec} without axes {list(axes)}", need="axes of size 1")
    return x.reshape(tuple(size for place, size in enumerate(x.shape) if place not in axes))


def stack(arrays: Sequence[Array], /, *, axis: int = 0) -> Array:
    """The arrays one behind another along a new axis."""
    return ops.stack(meet("stack", *arrays), axis)


def tile(x: Array, repetitions: tuple[int, ...], /) -> Array:
    """x so many times along each axis."""
    if not isinstance(cast(object, repetitions), tuple | list):
        raise ArgumentError("tile", got=f"repetitions={shown(repetitions)}", need="a tuple of integers")
    missing = checked_array("tile", x).ndim - len(repetitions)
    return tiled(x, (*(1,) * missing, *repetitions), "tile")


def unstack(x: Array, /, *, axis: int = 0) -> tuple[Array, ...]:
    """What stands at each place along the axis."""
    place = place_of("unstack", axis, checked_array("unstack", x).ndim)
    check_entries("unstack", x.shape[place])
    front = (slice(None),) * place
    return tuple(x[(*front, row)] for row in range(x.shape[place]))
