"""Functions of NumPy that put arrays together and take them apart, on operators: gradients flow, and they compile."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from nnc import ops
from nnc.core.values.dtype import AnyDType, dtype_of
from nnc.errors import ArgumentError, ShapeError
from nnc.numerics.comparison import iscomplexobj
from nnc.numerics.conversion import AnyArray, Array, as_array, place_of
from nnc.numerics.creation import arange, indices, zeros
from nnc.numerics.cumulative import cumsum, diff
from nnc.numerics.elementwise import imag, isnan, remainder
from nnc.numerics.numpy_names.hosted import hosted
from nnc.numerics.order import take, take_along_axis, where
from nnc.numerics.reductions import argmax, argmin
from nnc.numerics.shapes import broadcast_arrays, concatenate, moveaxis, ravel, stack
from nnc.ops.number import INTEGERS, integers_of

__all__ = [
    "apply_along_axis", "apply_over_axes", "block", "choose", "copyto", "delete", "fill_diagonal", "fromfunction",
    "insert", "iscomplex", "modf", "nanargmax", "nanargmin", "piecewise", "place", "put", "putmask", "resize",
    "rollaxis", "unwrap", "vectorize",
]  # fmt: skip

Function = Callable[..., Any]
_INSERTED, _DELETED = hosted(np.insert), hosted(np.delete)


def insert(arr: AnyArray, obj: Any, values: AnyArray, axis: int | None = None) -> Array:  # noqa: ANN401  # places
    """`values` in front of the places `obj`, an integer, several or a slice, of an axis; of the flat array without one.

    >>> nnc.insert([1, 2, 3], 1, 9).tolist()
    [1, 9, 2, 3]
    """
    x, new = as_array(arr), as_array(values)
    if axis is None:
        x, axis = ravel(x), 0
    places = _places(obj)
    axis = place_of("insert", axis, x.ndim)
    count = x.shape[axis]
    new = new.reshape((1,) * (x.ndim - new.ndim) + new.shape) if new.ndim < x.ndim else new
    if np.ndim(places) == 0 and not isinstance(places, slice):
        new = moveaxis(new, 0, axis) if x.ndim > 1 else new
        many = new.shape[axis]
        order = _INSERTED(np.arange(count), int(places), np.arange(count, count + many))
    else:
        many = len(np.arange(count)[places]) if isinstance(places, slice) else np.size(places)
        order = _INSERTED(np.arange(count), places, np.arange(count, count + many))
    shape = (*x.shape[:axis], many, *x.shape[axis + 1 :])
    return take(concatenate([x, ops.broadcast_to(ops.cast(new, x.dtype), shape)], axis), order, axis)


def delete(arr: AnyArray, obj: Any, axis: int | None = None) -> Array:  # noqa: ANN401  # places
    """Without the places `obj`, an integer, several, a slice or a mask, of an axis; of the flat array without one.

    >>> nnc.delete([1, 2, 3], 1).tolist()
    [1, 3]
    """
    x = as_array(arr)
    if axis is None:
        x, axis = ravel(x), 0
    axis = place_of("delete", axis, x.ndim)
    return take(x, _DELETED(np.arange(x.shape[axis]), _places(obj)), axis)


def _places(value: Any) -> Any:  # noqa: ANN401  # integers, a slice or a mask
    """Places as NumPy takes them, which must be known."""
    if isinstance(value, (slice, *INTEGERS)):
        return value
    places = hosted(np.asarray)(value)
    if not isinstance(places, Array):
        raise ArgumentError("places", got=type(value).__name__, need="integers, a slice or a mask")
    return np.asarray(places.cpu().numpy())


def resize(a: AnyArray, new_shape: int | Sequence[int]) -> Array:
    """The elements in their order, again and again, in another shape.

    >>> nnc.resize([1, 2, 3], (2, 2)).tolist()
    [[1, 2], [3, 1]]
    """
    flat = ravel(as_array(a))
    shape: tuple[Any, ...] = integers_of(new_shape)
    if not flat.size and math.prod(shape):
        raise ShapeError("resize", got=str(flat.spec), need="elements to repeat")
    return take(flat, np.arange(math.prod(shape)) % max(flat.size, 1), 0).reshape(shape)


def block(arrays: Any) -> Array:  # noqa: ANN401  # nested lists of arrays
    """Nested lists of blocks as one array: the innermost along the last axis.

    >>> nnc.block([[nnc.eye(1), nnc.zeros((1, 2))]]).tolist()
    [[1.0, 0.0, 0.0]]
    """

    def depth_of(value: Any) -> int:  # noqa: ANN401  # nested lists
        if isinstance(value, list) and not value:
            raise ShapeError("block", got="a list of no blocks", need="one or more in each list")
        return 1 + max(map(depth_of, value)) if isinstance(value, list) else 0

    def joined(value: Any, axis: int, rank: int) -> Array:  # noqa: ANN401  # nested lists
        if isinstance(value, list):
            return concatenate([joined(part, axis + 1, rank) for part in value], axis)
        x = as_array(value)
        return x.reshape((1,) * (rank - x.ndim) + x.shape)

    depth = depth_of(arrays)
    rank = max(depth, _most_axes(arrays))
    return joined(arrays, rank - depth, rank)


def _most_axes(value: Any) -> int:  # noqa: ANN401  # nested lists
    return max(map(_most_axes, value)) if isinstance(value, list) else as_array(value).ndim


def choose(a: AnyArray, choices: Iterable[AnyArray]) -> Array:
    """choices[a[i]][i] for each place.

    >>> nnc.choose([1, 0], [[1, 2], [3, 4]]).tolist()
    [3, 2]
    """
    places, *arrays = broadcast_arrays(as_array(a), *map(as_array, choices))
    return take_along_axis(stack(arrays, 0), places.reshape(1, *places.shape), 0)[0]


def piecewise(x: AnyArray, condlist: Any, funclist: Sequence[Any], *args: Any, **named: Any) -> Array:  # noqa: ANN401  # conditions
    """funclist[k] of the elements where condlist[k] is the last that holds; one more is for where none does, else 0.

    Each function is applied to all of x.

    >>> nnc.piecewise([-1.0, 2.0], [nnc.array([True, False])], [0.0, lambda x: x * x]).tolist()
    [0.0, 4.0]
    """
    values = as_array(x)
    conditions = [as_array(each) for each in condlist] if isinstance(condlist, list | tuple) else [as_array(condlist)]
    if len(funclist) not in (len(conditions), len(conditions) + 1):
        got = f"{len(conditions)} conditions, {len(funclist)} functions"
        raise ArgumentError("piecewise", got=got, need="a function for each, or one more")
    made = [function(values, *args, **named) if callable(function) else function for function in funclist]
    y = made[-1] if len(made) > len(conditions) else 0
    for condition, value in zip(conditions, made, strict=False):
        y = where(condition, value, y)
    return ops.cast(ops.broadcast_to(as_array(y), values.shape), values.dtype)


def fromfunction(function: Function, shape: Sequence[int], *, dtype: AnyDType = np.float32, **named: Any) -> Any:  # noqa: ANN401  # as it gives
    """function(i, j, …) of the places of an array of this shape.

    >>> nnc.fromfunction(lambda i, j: i + j, (2, 2)).tolist()
    [[0.0, 1.0], [1.0, 2.0]]
    """
    return function(*indices(tuple(shape)).astype(dtype_of(dtype)), **named)


def apply_along_axis(func1d: Function, axis: int, arr: AnyArray, *args: Any, **named: Any) -> Array:  # noqa: ANN401  # for the function
    """`func1d` of each row along an axis; what it gives stands in that axis' place.

    >>> nnc.apply_along_axis(lambda row: row.max() - row.min(), 1, [[1.0, 3.0], [2.0, 6.0]]).tolist()
    [2.0, 4.0]
    """
    x = moveaxis(as_array(arr), axis, -1)
    rows = x.reshape(-1, x.shape[-1])
    if not rows.shape[0]:
        raise ShapeError("apply_along_axis", got=str(x.spec), need="rows")
    made = stack([as_array(func1d(rows[place], *args, **named)) for place in range(rows.shape[0])], 0)
    whole = made.reshape(*x.shape[:-1], *made.shape[1:])
    first = axis % x.ndim
    targets = tuple(range(first, first + made.ndim - 1))
    return moveaxis(whole, tuple(range(x.ndim - 1, whole.ndim)), targets) if targets else whole


def apply_over_axes(func: Function, a: AnyArray, axes: int | Sequence[int]) -> Array:
    """`func(x, axis)` for one axis after the other, each of which stays.

    >>> nnc.apply_over_axes(nnc.sum, nnc.ones((2, 3)), [0, 1]).tolist()
    [[6.0]]
    """
    x = as_array(a)
    for axis in integers_of(axes):
        y = as_array(func(x, axis))
        x = y if y.ndim == x.ndim else y.expand_dims(axis)
    return x


def unwrap(p: AnyArray, discont: float | None = None, axis: int = -1, *, period: float = 2 * math.pi) -> Array:
    """p, with whole periods added so that steps are at most half a period.

    >>> nnc.unwrap([0.0, 6.0]).round(3).tolist()
    [0.0, -0.283]
    """
    x = as_array(p)
    x = x if x.dtype.is_float else x * 1.0
    steps, half = diff(x, axis=axis), period / 2
    turned = remainder(steps + half, period) - half
    turned = where((turned == -half) & (steps > 0), half, turned)
    added = where(steps.abs() < (half if discont is None else max(discont, half)), 0.0, turned - steps)
    start = zeros(tuple(1 if place == axis % x.ndim else size for place, size in enumerate(x.shape)), x.dtype)
    return x + concatenate([start, cumsum(added, axis)], axis)


def modf(x: AnyArray) -> tuple[Array, Array]:
    """The part behind the point, and the whole part.

    >>> [part.tolist() for part in nnc.modf([1.5, -0.25])]
    [[0.5, -0.25], [1.0, -0.0]]
    """
    value = as_array(x)
    whole = ops.trunc(value)
    return value - whole, whole


def nanargmax(a: AnyArray, axis: int | None = None) -> Array:
    """The place of the greatest element that is a number.

    >>> nnc.nanargmax([1.0, nnc.nan, 3.0]).item()
    2
    """
    x = as_array(a)
    return argmax(where(isnan(x), -math.inf, x), axis)


def nanargmin(a: AnyArray, axis: int | None = None) -> Array:
    """The place of the least element that is a number.

    >>> nnc.nanargmin([1.0, nnc.nan, 3.0]).item()
    0
    """
    x = as_array(a)
    return argmin(where(isnan(x), math.inf, x), axis)


def iscomplex(x: AnyArray) -> Array:
    """Whether the imaginary part is not zero.

    >>> nnc.iscomplex([1.0 + 0.0j, 2.0j]).tolist()
    [False, True]
    """
    value = as_array(x)
    return imag(value) != 0 if iscomplexobj(value) else zeros(value.shape, np.bool_)


def rollaxis(a: AnyArray, axis: int, start: int = 0) -> Array:
    """An axis moved in front of the axis `start`.

    >>> nnc.rollaxis(nnc.ones((2, 3, 4)), 2).shape
    (4, 2, 3)
    """
    x = as_array(a)
    axis, start = axis % x.ndim, start + x.ndim if start < 0 else start
    return moveaxis(x, axis, start - 1 if axis < start else start)


def vectorize(pyfunc: Function, **options: Any) -> Function:  # noqa: ANN401  # NumPy's
    """A function of numbers for each element, one after the other in Python; `nnc.vmap` maps functions of arrays.

    >>> nnc.vectorize(lambda a, b: a if a > b else b)([1, 5], 3).tolist()
    [3, 5]
    """
    return hosted(np.vectorize(pyfunc, **options), "A function of numbers for each element.")


def fill_diagonal(a: Array, val: AnyArray) -> None:
    """Set the diagonal of a matrix, in place.

    >>> x = nnc.zeros((2, 2))
    >>> nnc.fill_diagonal(x, 3.0)
    >>> x.tolist()
    [[3.0, 0.0], [0.0, 3.0]]
    """
    if a.ndim != 2:
        raise ShapeError("fill_diagonal", got=str(a.spec), need="a matrix")
    places = arange(min(a.shape))
    a[places, places] = val


def putmask(a: Array, mask: AnyArray, values: AnyArray) -> None:
    """Set the elements where the mask holds, in place.

    >>> x = nnc.zeros(3)
    >>> nnc.putmask(x, [True, False, True], 5.0)
    >>> x.tolist()
    [5.0, 0.0, 5.0]
    """
    new = as_array(values)
    new = new if not new.ndim or new.shape == a.shape else resize(new, a.shape)
    a[...] = where(as_array(mask), new, a)


def place(arr: Array, mask: AnyArray, vals: AnyArray) -> None:
    """Set the elements where the mask holds to the values in their order, again and again, in place.

    >>> x = nnc.zeros(3)
    >>> nnc.place(x, [True, False, True], [1.0, 2.0])
    >>> x.tolist()
    [1.0, 0.0, 2.0]
    """
    holds = as_array(mask)
    order = cumsum(ravel(holds), 0).reshape(holds.shape) - 1
    values = ravel(as_array(vals))
    arr[...] = where(holds, take(values, remainder(where(holds, order, 0), values.size)), arr)


def put(a: Array, ind: AnyArray, v: AnyArray) -> None:
    """Set elements by their places in the flat array, in place.

    >>> x = nnc.zeros((2, 2))
    >>> nnc.put(x, [0, 3], [1.0, 2.0])
    >>> x.tolist()
    [[1.0, 0.0], [0.0, 2.0]]
    """
    places = ravel(as_array(ind))
    a[...] = ravel(a).at[places].set(resize(as_array(v), places.shape)).reshape(a.shape)


def copyto(dst: Array, src: AnyArray, where: AnyArray = True) -> None:
    """Set the elements of `dst` to those of `src`, where the mask holds, in place.

    >>> x = nnc.zeros(2)
    >>> nnc.copyto(x, [1.0, 2.0])
    >>> x.tolist()
    [1.0, 2.0]
    """
    new = ops.broadcast_to(ops.cast(as_array(src), dst.dtype), dst.shape)
    dst[...] = new if where is True else ops.where(ops.broadcast_to(as_array(where), dst.shape), new, dst)
