"""Other shapes, other orders, and several arrays as one.

reshape(x, (2, -1)), transpose(x), stack([x, y], 1), concatenate([x, y]), split(x, 3), pad(x, 1), tile(x, 2) …
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Literal

import numpy as np

from nnc import ops
from nnc.arguments import shown
from nnc.array_api import manipulation as standard
from nnc.array_api.data_types import lifted
from nnc.core.precautions.machine_memory import check_entries
from nnc.core.values.spec import broadcast_shapes as shape_of_all
from nnc.errors import AttributeValueError, ShapeError
from nnc.numerics.conversion import AnyArray, Array, Axes, Sizes, arrays, as_array, met, place_of, sizes_of
from nnc.ops.number import INTEGERS, integers_of

__all__ = [
    "append", "array_split", "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays", "broadcast_shapes",
    "broadcast_to", "cat", "chunk", "column_stack", "concat", "concatenate", "dsplit", "dstack", "expand_dims",
    "flatten", "flip", "fliplr", "flipud", "hsplit", "hstack", "matrix_transpose", "moveaxis", "movedim", "pad",
    "permute", "permute_dims", "ravel", "repeat", "repeat_interleave", "reshape", "roll", "rot90", "row_stack",
    "split", "squeeze", "stack", "swapaxes", "swapdims", "tile", "transpose", "unbind", "unflatten", "unsqueeze",
    "unstack", "vsplit", "vstack",
]  # fmt: skip

Places = int | Sequence[int]


def reshape(x: AnyArray, *shape: int | Iterable[int]) -> Array:
    """The same elements under another shape; one size may be -1.

    >>> nnc.reshape([1, 2, 3, 4], (2, 2))
    Variable(i64[2, 2], constant)
    [[1 2]
     [3 4]]
    """
    return as_array(x).reshape(*shape)


def ravel(x: AnyArray) -> Array:
    """All elements in a row.

    >>> nnc.ravel([[1.0, 2.0], [3.0, 4.0]])
    Variable(f32[4], constant)
    [1. 2. 3. 4.]
    """
    return as_array(x).ravel()


def flatten(x: AnyArray, start: int = 0, end: int = -1) -> Array:
    """The axes from `start` to `end`, both included, as one.

    >>> nnc.flatten([[1.0, 2.0], [3.0, 4.0]])
    Variable(f32[4], constant)
    [1. 2. 3. 4.]
    """
    return as_array(x).flatten(start, end)


def unflatten(x: AnyArray, axis: int, shape: Sequence[int]) -> Array:
    """One axis as several of these sizes."""
    array = as_array(x)
    place = place_of("unflatten", axis, array.ndim)
    return array.reshape((*array.shape[:place], *shape, *array.shape[place + 1 :]))


def transpose(x: AnyArray, *axes: int | Iterable[int]) -> Array:
    """The axes in this order, reversed when none is named; two of more than two are swapped.

    >>> nnc.transpose([[1.0, 2.0], [3.0, 4.0]])
    Variable(f32[2, 2], constant)
    [[1. 3.]
     [2. 4.]]
    """
    return as_array(x).transpose(*axes)


def permute_dims(x: AnyArray, axes: Sequence[int]) -> Array:
    """The axes in this order.

    >>> nnc.permute_dims(nnc.ones((2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)
    """
    return as_array(x).transpose(tuple(axes))


def matrix_transpose(x: AnyArray) -> Array:
    """The last two axes swapped."""
    return as_array(x).mT


def swapaxes(x: AnyArray, axis1: int, axis2: int) -> Array:
    """Two axes swapped.

    >>> nnc.swapaxes(nnc.ones((2, 3, 4)), 0, 2).shape
    (4, 3, 2)
    """
    return as_array(x).swapaxes(axis1, axis2)


def moveaxis(x: AnyArray, source: Places, destination: Places) -> Array:
    """The axes `source` at the places `destination`, the others in their order.

    >>> nnc.moveaxis(nnc.ones((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    return standard.moveaxis(as_array(x), integers_of(source), integers_of(destination))


def squeeze(x: AnyArray, axis: Axes = None) -> Array:
    """Without these axes of size 1; without all of that size when None.

    >>> nnc.squeeze(nnc.ones((1, 3, 1)), 0).shape
    (3, 1)
    """
    return as_array(x).squeeze(axis)


def expand_dims(x: AnyArray, axis: Places) -> Array:
    """New axes of size 1 at these places of the result.

    >>> nnc.expand_dims(nnc.ones((3,)), 0).shape
    (1, 3)
    """
    return as_array(x).expand_dims(axis)


def atleast_1d(*values: AnyArray) -> Array | list[Array]:
    """Each with at least one axis."""
    return _each([array if array.ndim else array.reshape((1,)) for array in arrays(values)])


def atleast_2d(*values: AnyArray) -> Array | list[Array]:
    """Each with at least two axes, new ones in front."""
    return _each([_with_two(array) for array in arrays(values)])


def _with_two(x: Array) -> Array:
    return x if x.ndim >= 2 else x.reshape((1, -1))


def atleast_3d(*values: AnyArray) -> Array | list[Array]:
    """Each with at least three axes; of a matrix the new one is the last."""
    return _each([_with_three(array) for array in arrays(values)])


def _with_three(x: Array) -> Array:
    return x if x.ndim >= 3 else x.reshape((*x.shape, 1)) if x.ndim == 2 else x.reshape((1, -1, 1))


def _each(result: list[Array]) -> Array | list[Array]:
    return result[0] if len(result) == 1 else result


def broadcast_to(x: AnyArray, shape: Sizes) -> Array:
    """x, repeated along axes of size 1 and along new ones in front.

    >>> nnc.broadcast_to([1, 2], (2, 2))
    Variable(i64[2, 2], constant)
    [[1 2]
     [1 2]]
    """
    return ops.broadcast_to(as_array(x), sizes_of(shape))


def broadcast_arrays(*values: AnyArray) -> list[Array]:
    """All in the shape that they have together."""
    given = arrays(values)
    shape = shape_of_all("broadcast_arrays", *(array.shape for array in given))
    return [ops.broadcast_to(array, shape) for array in given]


def broadcast_shapes(*shapes: Sizes) -> tuple[int, ...]:
    """The shape that arrays of these shapes have together."""
    return shape_of_all("broadcast_shapes", *map(sizes_of, shapes))


# ---- several as one


def concatenate(values: Sequence[AnyArray], axis: int | None = 0) -> Array:
    """The arrays one behind another; flat where axis is None.

    >>> nnc.concatenate([[1, 2], [3]])
    Variable(i64[3], constant)
    [1 2 3]
    """
    given = met(values)
    if axis is None:
        return ops.concatenate([array.reshape(-1) for array in given])
    return ops.concatenate(given, place_of("concatenate", axis, given[0].ndim))


def stack(values: Sequence[AnyArray], axis: int = 0) -> Array:
    """The arrays one behind another along a new axis.

    >>> nnc.stack([[1, 2], [3, 4]], axis=1)
    Variable(i64[2, 2], constant)
    [[1 3]
     [2 4]]
    """
    return ops.stack(met(values), axis)


def vstack(values: Sequence[AnyArray]) -> Array:
    """The arrays below one another; vectors are rows.

    >>> nnc.vstack([[1, 2], [3, 4]])
    Variable(i64[2, 2], constant)
    [[1 2]
     [3 4]]
    """
    return concatenate([_with_two(array) for array in arrays(values)])


def hstack(values: Sequence[AnyArray]) -> Array:
    """The arrays beside one another.

    >>> nnc.hstack([[1, 2], [3]])
    Variable(i64[3], constant)
    [1 2 3]
    """
    given = [array if array.ndim else array.reshape((1,)) for array in arrays(values)]
    return concatenate(given, 0 if given and given[0].ndim == 1 else 1)


def dstack(values: Sequence[AnyArray]) -> Array:
    """The arrays behind one another along the third axis."""
    return concatenate([_with_three(array) for array in arrays(values)], 2)


def column_stack(values: Sequence[AnyArray]) -> Array:
    """Vectors as columns, and matrices, beside one another."""
    return concatenate([array if array.ndim >= 2 else array.reshape((-1, 1)) for array in arrays(values)], 1)


def append(x: AnyArray, values: AnyArray, axis: int | None = None) -> Array:
    """x and the values behind it; flat where axis is None.

    >>> nnc.append([1, 2], [3])
    Variable(i64[3], constant)
    [1 2 3]
    """
    return concatenate([x, values], axis)


def unstack(x: AnyArray, axis: int = 0) -> tuple[Array, ...]:
    """What stands at each place along the axis.

    >>> [row.tolist() for row in nnc.unstack([[1, 2], [3, 4]])]
    [[1, 2], [3, 4]]
    """
    return standard.unstack(as_array(x), axis=axis)


def split(x: AnyArray, parts: int | Sequence[int], axis: int = 0, *, dim: int | None = None) -> list[Array]:
    """So many equal parts along the axis, or parts that begin at these places. With PyTorch's `dim=`: `x.split(size)`.

    >>> [part.tolist() for part in nnc.split([1, 2, 3, 4], 2)]
    [[1, 2], [3, 4]]
    """
    array = as_array(x)
    if dim is not None:
        return list(array.split(parts, dim))
    place = place_of("split", axis, array.ndim)
    if isinstance(parts, INTEGERS) and (parts < 1 or array.shape[place] % parts):
        got = f"{array.spec} along axis {place} in {parts} parts"
        fix = "array_split() makes parts of two sizes"
        raise ShapeError("split", got=got, need="parts that divide the size", fix=fix)
    return array_split(array, parts, place)


def array_split(x: AnyArray, parts: int | Sequence[int], axis: int = 0) -> list[Array]:
    """As `split`, where the first parts are longer by one if need be.

    >>> [part.tolist() for part in nnc.array_split([1, 2, 3], 2)]
    [[1, 2], [3]]
    """
    array = as_array(x)
    place = place_of("array_split", axis, array.ndim)
    size = array.shape[place]
    if isinstance(parts, INTEGERS):
        if parts < 1:
            raise AttributeValueError("array_split", got=f"parts={shown(parts)}", need="at least one")
        spare = max(parts - max(size, 1), 0)
        check_entries("array_split", parts)
        lengths = [size // parts + (number < size % parts) for number in range(parts - spare)]
        ends = np.cumsum([0, *lengths]).tolist()
    else:
        spare, starts = 0, [slice(None, int(end)).indices(size)[1] for end in parts]
        ends = [0, *starts, size]
    made = [ops.slice_axis(array, place, start, max(start, end)) for start, end in pairwise(ends)]
    # Parts behind the last element are one empty one: a million of them are eight megabytes.
    return [*made, *[ops.slice_axis(array, place, size, size)] * spare] if spare else made


def chunk(x: AnyArray, chunks: int, axis: int = 0) -> list[Array]:
    """At most so many parts along the axis, all but the last of one length, as PyTorch has it.

    >>> [part.tolist() for part in nnc.chunk([1, 2, 3, 4, 5], 2)]
    [[1, 2, 3], [4, 5]]
    """
    return list(as_array(x).chunk(chunks, axis))


def hsplit(x: AnyArray, parts: int | Sequence[int]) -> list[Array]:
    """`split` along the second axis; of a vector along its one."""
    array = as_array(x)
    return split(array, parts, 0 if array.ndim == 1 else 1)


def vsplit(x: AnyArray, parts: int | Sequence[int]) -> list[Array]:
    """`split` along the first axis of two or more."""
    return split(x, parts, 0)


def dsplit(x: AnyArray, parts: int | Sequence[int]) -> list[Array]:
    """`split` along the third axis."""
    return split(x, parts, 2)


# ---- other orders, and repetition


def flip(x: AnyArray, axis: Axes = None) -> Array:
    """The elements in reverse order along the axes, all when None.

    >>> nnc.flip([1, 2, 3])
    Variable(i64[3], constant)
    [3 2 1]
    """
    return standard.flip(as_array(x), axis=None if axis is None else integers_of(axis))


def fliplr(x: AnyArray) -> Array:
    """Reversed along the second axis."""
    return flip(x, 1)


def flipud(x: AnyArray) -> Array:
    """Reversed along the first axis."""
    return flip(x, 0)


def rot90(x: AnyArray, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Array:
    """Turned by k quarters, from the first of the two axes towards the second.

    >>> nnc.rot90([[1, 2], [3, 4]])
    Variable(i64[2, 2], constant)
    [[2 4]
     [1 3]]
    """
    array = as_array(x)
    first, second = (place_of("rot90", each, array.ndim) for each in axes)
    if first == second:
        raise AttributeValueError("rot90", got=f"axes {axes}", need="two axes")
    turns = k % 4
    if turns == 2:
        return flip(array, (first, second))
    if turns == 1:
        return flip(array, second).swapaxes(first, second)
    return flip(array.swapaxes(first, second), second) if turns else array.twin()


def roll(x: AnyArray, shift: Places, axis: Places | None = None) -> Array:
    """The elements further along the axes, round their ends; along all elements where axis is None.

    >>> nnc.roll([1, 2, 3], 1)
    Variable(i64[3], constant)
    [3 1 2]
    """
    return standard.roll(as_array(x), integers_of(shift), axis=None if axis is None else integers_of(axis))


def tile(x: AnyArray, repetitions: Places) -> Array:
    """x so many times along each axis.

    >>> nnc.tile([1, 2], 2)
    Variable(i64[4], constant)
    [1 2 1 2]
    """
    return standard.tile(as_array(x), integers_of(repetitions))


def repeat(x: AnyArray, repeats: int | AnyArray, axis: int | None = None) -> Array:
    """Each element so many times; of all in a row where axis is None.

    >>> nnc.repeat([1, 2], 2)
    Variable(i64[4], constant)
    [1 1 2 2]
    """
    array = as_array(x)
    if isinstance(repeats, INTEGERS):
        return array.repeat(int(repeats), axis)
    return standard.repeat(array, as_array(repeats), axis=axis)


def pad(
    x: AnyArray,
    width: int | Sequence[int] | Sequence[Sequence[int]],
    mode: Literal["constant", "edge", "reflect", "symmetric", "wrap"] = "constant",
    constant_values: float = 0,
) -> Array:
    """x with a border: one width, (before, after) for all axes, or for each axis; of a number, or of what is inside.

    >>> nnc.pad([1, 2], 1)
    Variable(i64[4], constant)
    [0 1 2 0]
    """
    array = as_array(x)
    before, after = np.broadcast_to(np.asarray(width, np.int64), (array.ndim, 2)).T.tolist() if array.ndim else ([], [])
    if min((*before, *after), default=0) < 0:
        raise AttributeValueError("pad", got=f"width {width}", need="0 or more")
    if mode == "constant":
        return _bordered(array, before, after, constant_values)
    for axis, (left, right) in enumerate(zip(before, after, strict=True)):
        if left or right:
            places = np.pad(np.arange(array.shape[axis]), (left, right), mode)
            array = ops.index_select(array, lifted(array, places), axis)
    return array


def _bordered(x: Array, before: Sequence[int], after: Sequence[int], value: float) -> Array:
    for axis, (left, right) in enumerate(zip(before, after, strict=True)):
        parts = [x]
        for count, place in ((left, 0), (right, len(parts))):
            if count:
                shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
                border = ops.broadcast_to(ops.scalar_like(x, value), shape)
                parts.insert(place if place == 0 else len(parts), border)
        x = ops.concatenate(parts, axis) if len(parts) > 1 else x
    return x


concat = cat = concatenate
permute = permute_dims
unsqueeze, unbind, repeat_interleave = expand_dims, unstack, repeat
row_stack = vstack
movedim, swapdims = moveaxis, swapaxes
