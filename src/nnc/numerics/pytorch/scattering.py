"""Elements that go to places along an axis, as PyTorch says it.

scatter(x, 1, index, src): y[i, index[i, j]] = src[i, j]        index_add(x, 0, rows, src): y[rows[i]] += src[i]
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from nnc import ops
from nnc.arguments import shown
from nnc.array_api.data_types import lifted
from nnc.core.values.dtype import BOOL, F32, I64
from nnc.dynamic.arrays.indexing import IndexedPlaces
from nnc.errors import AttributeValueError, ShapeError
from nnc.numerics.comparison import iinfo
from nnc.numerics.conversion import AnyArray, Array, as_array, place_of
from nnc.numerics.order import where

__all__ = ["index_add", "index_copy", "index_fill", "masked_scatter", "scatter", "scatter_add", "scatter_reduce"]

Reduce = Literal["sum", "prod", "mean", "amax", "amin"]
# What changes nothing where numbers are reduced so.
_NEUTRAL = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "amax": -np.inf, "amin": np.inf}


def _places(subject: str, x: Array, dim: int, index: AnyArray) -> tuple[IndexedPlaces[Array], Array]:
    """x at the places that `index` names along the axis, and the index."""
    places = as_array(index)
    axis = place_of(subject, dim, x.ndim)
    if places.ndim != x.ndim:
        fix = f"{subject.replace('scatter', 'index')}, or index.expand_as(src)"
        raise ShapeError(subject, got=f"x={x.spec}, index={places.spec}", need="an index with the axes of x", fix=fix)
    grid = [
        lifted(x, np.arange(size, dtype=np.int64).reshape((-1,) + (1,) * (x.ndim - 1 - place)))
        for place, size in enumerate(places.shape)
    ]
    grid[axis] = places
    return x.at[tuple(grid)], places


def _source(x: Array, src: AnyArray, places: Array) -> Array:
    """As many elements of the source as the index has places, in the type of x; a number for all of them."""
    given = as_array(src)
    if given.ndim:
        given = given[tuple(slice(size) for size in places.shape)]
    return ops.broadcast_to(ops.cast(given, x.dtype), places.shape)


def scatter(x: AnyArray, dim: int, index: AnyArray, src: AnyArray, *, reduce: str | None = None) -> Array:
    """A new array with y[…, index[…, k, …], …] = src[…, k, …] along `dim`; `reduce` "add" or "multiply" combines.

    >>> nnc.scatter(nnc.zeros((2, 3)), 1, [[2], [0]], 1.0)
    Variable(f32[2, 3], constant)
    [[0. 0. 1.]
     [1. 0. 0.]]
    """
    array = as_array(x)
    at, places = _places("scatter", array, dim, index)
    given = _source(array, src, places)
    if reduce not in (None, "add", "multiply"):
        raise AttributeValueError("scatter", got=f"reduce={shown(reduce)}", need="'add', 'multiply' or None")
    return at.add(given) if reduce == "add" else at.multiply(given) if reduce == "multiply" else at.set(given)


def scatter_add(x: AnyArray, dim: int, index: AnyArray, src: AnyArray) -> Array:
    """A new array with y[…, index[…, k, …], …] += src[…, k, …] along `dim`; places may repeat.

    >>> nnc.scatter_add(nnc.zeros(2), 0, [0, 1, 1], nnc.tensor([1.0, 2.0, 3.0]))
    Variable(f32[2], constant)
    [1. 5.]
    """
    array = as_array(x)
    at, places = _places("scatter_add", array, dim, index)
    return at.add(_source(array, src, places))


def scatter_reduce(
    x: AnyArray, dim: int, index: AnyArray, src: AnyArray, reduce: Reduce, *, include_self: bool = True
) -> Array:
    """`scatter_add` by another rule; what x has at these places counts unless `include_self` is False.

    >>> nnc.scatter_reduce(nnc.zeros(2), 0, [0, 1, 1], nnc.tensor([1.0, 2.0, 4.0]), "mean", include_self=False)
    Variable(f32[2], constant)
    [1. 3.]
    """
    array = as_array(x)
    if reduce not in _NEUTRAL:
        raise AttributeValueError("scatter_reduce", got=f"reduce={shown(reduce)}", need=", ".join(_NEUTRAL))
    at, places = _places("scatter_reduce", array, dim, index)
    given = _source(array, src, places)
    ones = ops.cast(ops.fill_like(given, 1), I64)
    count = _places("scatter_reduce", ops.fill_like(ops.cast(array, I64), 0), dim, places)[0].add(ones)
    start = array if include_self else where(count > 0, _neutral(array, reduce), array)
    at = _places("scatter_reduce", start, dim, places)[0]
    if reduce == "mean":
        total = at.add(given)
        sizes = count + 1 if include_self else where(count > 0, count, 1)
        mean = total / ops.cast(sizes, F32 if not array.dtype.is_float else array.dtype)
        return ops.cast(mean, array.dtype)
    combine = {"sum": at.add, "prod": at.multiply, "amax": at.max, "amin": at.min}[reduce]
    return combine(given)


def _neutral(x: Array, reduce: str) -> Array:
    value = _NEUTRAL[reduce]
    if not x.dtype.is_float and np.isinf(value):
        limits = iinfo(x.dtype)
        value = limits.max if value > 0 else limits.min
    return ops.fill_like(x, value)


def _rows(subject: str, x: Array, dim: int, index: AnyArray) -> IndexedPlaces[Array]:
    """x at the rows that `index` names along the axis."""
    places = as_array(index)
    if places.ndim > 1:
        raise ShapeError(subject, got=f"index={places.spec}", need="one axis", fix=subject.replace("index", "scatter"))
    return x.at[(*[slice(None)] * place_of(subject, dim, x.ndim), places)]


def index_add(x: AnyArray, dim: int, index: AnyArray, source: AnyArray, *, alpha: float = 1) -> Array:
    """A new array with y[…, index[k], …] += alpha · source[…, k, …] along `dim`; places may repeat.

    >>> nnc.index_add(nnc.zeros(2), 0, nnc.tensor([0, 1, 1]), nnc.tensor([1.0, 2.0, 3.0]))
    Variable(f32[2], constant)
    [1. 5.]
    """
    array, given = as_array(x), as_array(source)
    return _rows("index_add", array, dim, index).add(given if alpha == 1 else given * alpha)


def index_copy(x: AnyArray, dim: int, index: AnyArray, source: AnyArray) -> Array:
    """A new array with y[…, index[k], …] = source[…, k, …] along `dim`.

    >>> nnc.index_copy(nnc.zeros(3), 0, nnc.tensor([2]), nnc.tensor([5.0]))
    Variable(f32[3], constant)
    [0. 0. 5.]
    """
    return _rows("index_copy", as_array(x), dim, index).set(as_array(source))


def index_fill(x: AnyArray, dim: int, index: AnyArray, value: float) -> Array:
    """A new array with y[…, index[k], …] = value along `dim`.

    >>> nnc.index_fill(nnc.zeros(3), 0, nnc.tensor([0, 2]), 7.0)
    Variable(f32[3], constant)
    [7. 0. 7.]
    """
    return _rows("index_fill", as_array(x), dim, index).set(value)


def masked_scatter(x: AnyArray, mask: AnyArray, source: AnyArray) -> Array:
    """A new array with the first elements of `source` where the mask is true, in row-major order.

    >>> nnc.masked_scatter(nnc.zeros(3), nnc.tensor([True, False, True]), nnc.tensor([1.0, 2.0]))
    Variable(f32[3], constant)
    [1. 0. 2.]
    """
    array, given = as_array(x), as_array(source).ravel()
    chosen = ops.broadcast_to(ops.cast(as_array(mask), BOOL), array.shape).ravel()
    order = ops.maximum(ops.cast(chosen, I64).cumsum(0) - 1, ops.cast(ops.fill_like(chosen, 0), I64))
    values = ops.cast(given[ops.minimum(order, ops.fill_like(order, max(given.shape[0] - 1, 0)))], array.dtype)
    return where(chosen, values, array.ravel()).reshape(array.shape)
