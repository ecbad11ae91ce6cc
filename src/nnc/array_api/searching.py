"""Where elements are: positions, order, and what is there more than once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nnc import ops
from nnc.array_api.data_types import Number, lifted, meet, numpy_work, result_type
from nnc.array_api.elementwise import ANYTHING, checked_array
from nnc.array_api.manipulation import place_of
from nnc.core.values.dtype import I64
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.errors import AttributeValueError, ShapeError
from nnc.ops.rules import NUMBERS

Array = ArrayOperand


class UniqueElements(NamedTuple):
    """Elements, where each is first, which one each element of x is, and how often each is there."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class CountedElements(NamedTuple):
    """Elements, and how often each is there."""

    values: Array
    counts: Array


class IndexedElements(NamedTuple):
    """Elements, and which one each element of x is."""

    values: Array
    inverse_indices: Array


def argmax(x: Array, /, *, axis: int | None = None, keepdims: bool = False) -> Array:
    """The first place of the largest element along the axis; of all elements in order where it is None."""
    return _position("argmax", x, axis, keepdims)


def argmin(x: Array, /, *, axis: int | None = None, keepdims: bool = False) -> Array:
    """The first place of the smallest element along the axis; of all elements in order where it is None."""
    return _position("argmin", x, axis, keepdims)


def _position(name: str, x: Array, axis: int | None, keepdims: bool) -> Array:
    rule = ops.argmax if name == "argmax" else ops.argmin
    if axis is not None:
        return rule(checked_array(name, x, NUMBERS), place_of(name, axis, x.ndim), keepdims=keepdims)
    place = rule(checked_array(name, x, NUMBERS).reshape(-1), 0)
    return place.reshape((1,) * x.ndim) if keepdims else place


def count_nonzero(x: Array, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Array:
    """How many elements are not 0."""
    return ops.reduce_sum(ops.cast(_nonzero(checked_array("count_nonzero", x)), I64), axis, keepdims=keepdims)


def _nonzero(x: Array) -> Array:
    return x if x.dtype.kind == "bool" else ops.not_equal(x, lifted(x, np.zeros((), x.dtype.numpy)))


def isin(x1: Array | Number, x2: Array | Number, /, *, invert: bool = False) -> Array:
    """Which elements of x1 are among those of x2; with `invert` which are not."""
    a, b = meet("isin", x1, x2)
    members = ops.reduce_any(ops.equal(a.reshape((*a.shape, 1)), b.reshape(-1)), -1)
    return ops.logical_not(members) if invert else members


def nonzero(x: Array, /) -> tuple[Array, ...]:
    """Where the elements that are not 0 are, an array per axis. Values are looked at, so x is no traced value."""
    if not checked_array("nonzero", x).ndim:
        raise AttributeValueError("nonzero", got=str(x.spec), need="an axis or more")
    return tuple(lifted(x, place) for place in np.nonzero(x.cpu().numpy()))


def searchsorted(x1: Array, x2: Array | Number, /, *, side: str = "left", sorter: Array | None = None) -> Array:
    """Where the elements of x2 belong in x1, which is in order, or is when taken by `sorter`."""
    if side not in ("left", "right"):
        raise AttributeValueError("searchsorted", got=f"side={side!r}", need='"left" or "right"')
    row, values = meet("searchsorted", checked_array("searchsorted", x1, NUMBERS), x2)
    in_order = row if sorter is None else ops.index_select(row, sorter)
    return ops.searchsorted(in_order, values, right=side == "right")


def where(condition: Array, x1: Array | Number, x2: Array | Number, /) -> Array:
    """x1 where the condition holds, else x2."""
    both = (x1, x2) if any(isinstance(value, ArrayOperand) for value in (x1, x2)) else _numbers(condition, x1, x2)
    return ops.where(checked_array("where", condition, ("bool",)), *meet("where", *both))


def _numbers(home: Array, *values: Array | Number) -> list[Array]:
    """Numbers beside no array, in the default types."""
    dtype = result_type(home, *values)
    with numpy_work("where"):
        return [lifted(home, np.asarray(value, dtype.numpy)) for value in values]


def argsort(x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """Where the elements in order are; equal ones keep their order."""
    return ops.sort(checked_array("argsort", x, ANYTHING), axis, descending=descending)[1]


def sort(x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """The elements in order along the axis."""
    return ops.sort(checked_array("sort", x, ANYTHING), axis, descending=descending)[0]


def take(x: Array, indices: Array, /, *, axis: int | None = None) -> Array:
    """The elements at these places along the axis, which may be left out where there is one."""
    if axis is None and checked_array("take", x).ndim != 1:
        raise AttributeValueError("take", got=f"no axis for {x.spec}", need="an axis")
    return x[(*(slice(None),) * place_of("take", axis or 0, x.ndim), indices)]


def take_along_axis(x: Array, indices: Array, /, *, axis: int = -1) -> Array:
    """The elements at these places along the axis, for each place along the others."""
    place = place_of("take_along_axis", axis, checked_array("take_along_axis", x).ndim)
    checked_array("take_along_axis", indices)
    rests = [(*array.shape[:place], 1, *array.shape[place + 1 :]) for array in (x, indices)]
    if x.ndim != indices.ndim or any(p != q and 1 not in (p, q) for p, q in zip(*rests, strict=True)):
        need = f"indices of {x.ndim} axes, of the sizes of x or 1 but along axis {place}"
        raise ShapeError("take_along_axis", got=f"{x.spec}, {indices.spec}", need=need)
    rest = np.broadcast_shapes(*rests)
    first, other = (
        ops.broadcast_to(each, (*rest[:place], each.shape[place], *rest[place + 1 :])) for each in (x, indices)
    )
    size = first.shape[place]
    counted = ops.where(other < 0, other + size, other)
    return ops.gather(first, counted, place)


def unique_all(x: Array, /) -> UniqueElements:
    """The elements of x, each once, with places and counts. Values are looked at, so x is no traced value."""
    _, indices, inverse, counts = _unique(x)
    places = lifted(x, indices)
    return UniqueElements(_taken(x, indices), places, lifted(x, inverse.reshape(x.shape)), lifted(x, counts))


def unique_counts(x: Array, /) -> CountedElements:
    """The elements of x, each once, and how often they are there."""
    _, indices, _, counts = _unique(x)
    return CountedElements(_taken(x, indices), lifted(x, counts))


def unique_inverse(x: Array, /) -> IndexedElements:
    """The elements of x, each once, and which of them each element of x is."""
    _, indices, inverse, _ = _unique(x)
    return IndexedElements(_taken(x, indices), lifted(x, inverse.reshape(x.shape)))


def unique_values(x: Array, /) -> Array:
    """The elements of x, each once; each nan is one."""
    return _taken(x, _unique(x)[1])


def _unique(x: Array) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    unique = np.unique(checked_array("unique", x).cpu().numpy(), True, True, True, equal_nan=False)
    values, indices, inverse, counts = unique
    return values, indices.astype(np.int64), inverse.astype(np.int64), counts.astype(np.int64)


def _taken(x: Array, indices: np.ndarray) -> Array:
    """Elements by their places, through which gradients flow."""
    return ops.index_select(x.reshape(-1), lifted(x, indices))
