"""Where elements are, in what order, and how often: sorting, searching, choosing and counting.

    where(x > 0, x, 0.0), sort(x, axis=0), argsort(x), take(x, [0, 2], axis=1), unique(x), histogram(x, 10)

What looks at values to find its shape (`nonzero`, `unique`, `bincount` without a length) works eagerly alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import numpy as np

from nnc import ops
from nnc.array_api import searching as standard
from nnc.array_api.creation import arange
from nnc.array_api.data_types import lifted
from nnc.core.values.dtype import BOOL, I64
from nnc.core.values.spec import MAX_DIMENSIONS
from nnc.dynamic.arrays.promotion import continuous
from nnc.dynamic.arrays.values_and_places import ValuesAndPlaces, paired
from nnc.errors import AttributeValueError, ShapeError
from nnc.numerics.conversion import AnyArray, Array, Sizes, as_array, pair, place_of, sizes_of
from nnc.ops.number import INTEGERS

__all__ = [
    "argpartition", "argsort", "argwhere", "bincount", "compress", "diag_indices", "digitize", "extract",
    "flatnonzero", "histogram", "histogram_bin_edges", "intersect1d", "isin", "nonzero", "partition",
    "put_along_axis", "searchsorted", "select", "setdiff1d", "sort", "take", "take_along_axis", "topk", "union1d",
    "unique", "unravel_index", "where",
]  # fmt: skip


@overload
def where(condition: AnyArray) -> tuple[Array, ...]: ...
@overload
def where(condition: AnyArray, x1: AnyArray, x2: AnyArray) -> Array: ...
def where(condition: AnyArray, x1: AnyArray | None = None, x2: AnyArray | None = None) -> Array | tuple[Array, ...]:
    """x1 where the condition holds, else x2; without the two where it does, as `nonzero`.

    >>> nnc.where([True, False], 1.0, 2.0)
    Variable(f32[2], constant)
    [1. 2.]
    """
    asked = as_array(condition)
    if x1 is None or x2 is None:
        return nonzero(asked)
    a, b = pair(x1, x2)
    return ops.where(ops.cast(asked, BOOL), a, b)


def select(conditions: Sequence[AnyArray], choices: Sequence[AnyArray], default: AnyArray = 0) -> Array:
    """The choice of the first condition that holds, else the default."""
    if len(conditions) != len(choices) or not conditions:
        got = f"{len(conditions)} conditions, {len(choices)} choices"
        raise AttributeValueError("select", got=got, need="one choice for each condition")
    result = pair(choices[0], default)[1]
    for condition, choice in reversed(list(zip(conditions, choices, strict=True))):
        result = ops.where(ops.cast(as_array(condition), BOOL), *pair(choice, result))
    return result


@overload
def sort(x: AnyArray, axis: int | None = -1, *, descending: bool = False) -> Array: ...
@overload
def sort(x: AnyArray, *, dim: int, descending: bool = False) -> ValuesAndPlaces[Array]: ...
@paired(lambda x, axis, keepdims, **options: as_array(x).sort(dim=axis, **options), otherwise=-1)
def sort(x: AnyArray, axis: int | None = -1, *, descending: bool = False) -> Array:
    """The elements in order along the axis; all in a row when None.

    >>> nnc.sort([3, 1, 2])
    Variable(i64[3], constant)
    [1 2 3]
    """
    return as_array(x).sort(axis, descending=descending)


def argsort(x: AnyArray, axis: int | None = -1, *, descending: bool = False) -> Array:
    """Where the elements in order are; equal ones keep their order.

    >>> nnc.argsort([3, 1, 2])
    Variable(i64[3], constant)
    [1 2 0]
    """
    return as_array(x).argsort(axis, descending=descending)


def partition(x: AnyArray, kth: int, axis: int | None = -1) -> Array:
    """The elements so that the kth is where it is in order: in order.

    >>> nnc.partition([3, 1, 2], 0)[0].item()
    1
    """
    return _partitioned("partition", x, kth, axis).sort(axis)


def argpartition(x: AnyArray, kth: int, axis: int | None = -1) -> Array:
    """Where the elements of `partition` are."""
    return _partitioned("argpartition", x, kth, axis).argsort(axis)


def _partitioned(subject: str, x: AnyArray, kth: int, axis: int | None) -> Array:
    array = as_array(x)
    size = array.size if axis is None else array.shape[place_of(subject, axis, array.ndim)]
    if not -size <= kth < size:
        raise AttributeValueError(subject, got=f"kth={kth} of {size}", need=f"-{size} ≤ kth < {size}")
    return array


def searchsorted(
    x: AnyArray, values: AnyArray, side: str = "left", sorter: AnyArray | None = None, *, right: bool = False
) -> Array:
    """Where the values belong in x, which is in order.

    >>> nnc.searchsorted([1, 3, 5], [0, 4])
    Variable(i64[2], constant)
    [0 2]
    """
    row, given = pair(x, values)
    return standard.searchsorted(
        row, given, side="right" if right else side, sorter=None if sorter is None else as_array(sorter)
    )


def topk(x: AnyArray, k: int, axis: int = -1, largest: bool = True) -> tuple[Array, Array]:
    """The k largest or smallest elements along the axis, the first one first, and their places, as PyTorch has it.

    >>> [part.tolist() for part in nnc.topk([3, 1, 2], 2)]
    [[3, 2], [0, 2]]
    """
    return as_array(x).topk(k, axis, largest)


def digitize(x: AnyArray, bins: AnyArray, right: bool = False) -> Array:
    """Which bin each element is in, of those that ascending edges bound; 0 is below the first.

    >>> nnc.digitize([0.5, 2.5], [1.0, 2.0])
    Variable(i64[2], constant)
    [0 2]
    """
    return searchsorted(bins, x, "left" if right else "right")


# ---- by places


def take(x: AnyArray, indices: AnyArray, axis: int | None = None) -> Array:
    """The elements at these places along the axis; of all in a row where it is None.

    >>> nnc.take([10, 20, 30], [2, 0])
    Variable(i64[2], constant)
    [30 10]
    """
    array = as_array(x)
    if axis is None:
        return array.ravel()[_places(indices)]
    return array[(*(slice(None),) * place_of("take", axis, array.ndim), _places(indices))]


def _places(indices: AnyArray) -> object:
    return indices if isinstance(indices, INTEGERS) else as_array(indices)


def take_along_axis(x: AnyArray, indices: AnyArray, axis: int | None = -1) -> Array:
    """The elements at these places along the axis, for each place along the others.

    >>> nnc.take_along_axis([[1, 2], [3, 4]], [[1], [0]], 1)
    Variable(i64[2, 1], constant)
    [[2]
     [3]]
    """
    array, places = as_array(x), as_array(indices)
    return standard.take_along_axis(array.ravel() if axis is None else array, places, axis=0 if axis is None else axis)


def put_along_axis(x: AnyArray, indices: AnyArray, values: AnyArray, axis: int) -> Array:
    """A new array with the values at these places along the axis.

    >>> nnc.put_along_axis([[1, 2], [3, 4]], [[1], [0]], 9, 1)
    Variable(i64[2, 2], constant)
    [[1 9]
     [9 4]]
    """
    array, places = as_array(x), as_array(indices)
    place = place_of("put_along_axis", axis, array.ndim)
    size = array.shape[place]
    counted = ops.where(places < 0, places + size, places)
    given = ops.broadcast_to(ops.cast(pair(array, values)[1], array.dtype), places.shape)
    if array.ndim != places.ndim or any(
        p != q for axis, (p, q) in enumerate(zip(array.shape, places.shape, strict=True)) if axis != place
    ):
        raise ShapeError("put_along_axis", got=f"{array.spec}, {places.spec}", need=f"one shape but along axis {place}")
    ones = ops.fill_like(given, 1) if given.dtype is not BOOL else given
    marks = ops.scatter_along(ops.cast(ones, I64) * 0 + 1, counted, place, size)
    total = ops.scatter_along(given, counted, place, size)
    return ops.where(marks > 0, total, array)


def nonzero(x: AnyArray) -> tuple[Array, ...]:
    """Where the elements that are not 0 are, an array per axis.

    >>> [places.tolist() for places in nnc.nonzero([0, 5, 7])]
    [[1, 2]]
    """
    return standard.nonzero(as_array(x))


def flatnonzero(x: AnyArray) -> Array:
    """Where they are among all elements in a row.

    >>> nnc.flatnonzero([0, 5, 7])
    Variable(i64[2], constant)
    [1 2]
    """
    return standard.nonzero(as_array(x).ravel())[0]


def argwhere(x: AnyArray) -> Array:
    """The index of each element that is not 0, one in each row.

    >>> nnc.argwhere([0, 5, 7])
    Variable(i64[2, 1], constant)
    [[1]
     [2]]
    """
    array = as_array(x)
    return lifted(array, np.argwhere(array.cpu().numpy()))


def compress(condition: AnyArray, x: AnyArray, axis: int | None = None) -> Array:
    """What stands where the condition holds along the axis; of all in a row where it is None.

    >>> nnc.compress([True, False], [1, 2])
    Variable(i64[1], constant)
    [1]
    """
    return take(x, flatnonzero(condition), axis)


def extract(condition: AnyArray, x: AnyArray) -> Array:
    """The elements where the condition holds.

    >>> nnc.extract([True, False], [1, 2])
    Variable(i64[1], constant)
    [1]
    """
    return compress(as_array(condition).ravel(), x)


def unravel_index(indices: AnyArray, shape: Sizes) -> tuple[Array, ...]:
    """The index along each axis of places in row-major order.

    >>> [place.item() for place in nnc.unravel_index(5, (2, 3))]
    [1, 2]
    """
    rest, result = as_array(indices), list[Array]()
    for size in reversed(sizes_of(shape)):
        result.insert(0, rest % size)
        rest = rest // size
    return tuple(result)


def diag_indices(n: int, ndim: int = 2) -> tuple[Array, ...]:
    """The index of the diagonal of an array of `ndim` axes of size n.

    >>> [places.tolist() for places in nnc.diag_indices(2)]
    [[0, 1], [0, 1]]
    """
    if not 1 <= ndim <= MAX_DIMENSIONS:
        raise AttributeValueError("diag_indices", got=f"ndim={ndim}", need=f"1 to {MAX_DIMENSIONS} axes")
    return (arange(n),) * ndim


# ---- sets and counts


def unique(
    x: AnyArray, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False
) -> Array | tuple[Array, ...]:
    """The elements of x, each once and in order, and as asked where each is first, which one each is, and how often.

    >>> nnc.unique([2, 1, 2])
    Variable(i64[2], constant)
    [1 2]
    """
    array = as_array(x).ravel()
    _, first, inverse, counts = np.unique(array.cpu().numpy(), True, True, True)
    asked = ((return_index, first), (return_inverse, inverse.reshape(as_array(x).shape)), (return_counts, counts))
    values = ops.index_select(array, lifted(array, first.astype(np.int64)))
    rest = [lifted(array, result.astype(np.int64)) for wanted, result in asked if wanted]
    return (values, *rest) if rest else values


def isin(x: AnyArray, values: AnyArray, *, invert: bool = False) -> Array:
    """Which elements of x are among the values; with `invert` which are not.

    >>> nnc.isin([1, 2], [2, 3])
    Variable(bool[2], constant)
    [False  True]
    """
    return standard.isin(*pair(x, values), invert=invert)


def union1d(x1: AnyArray, x2: AnyArray) -> Array:
    """What is in one of the two, each once and in order.

    >>> nnc.union1d([1, 2], [2, 3])
    Variable(i64[3], constant)
    [1 2 3]
    """
    array, other = (each.ravel() for each in pair(x1, x2))
    result = unique(ops.concatenate([array, other]))
    assert isinstance(result, Array)
    return result


def intersect1d(x1: AnyArray, x2: AnyArray) -> Array:
    """What is in both, each once and in order.

    >>> nnc.intersect1d([1, 2], [2, 3])
    Variable(i64[1], constant)
    [2]
    """
    result = unique(x1)
    assert isinstance(result, Array)
    return compress(isin(result, x2), result)


def setdiff1d(x1: AnyArray, x2: AnyArray) -> Array:
    """What is in the first alone, each once and in order.

    >>> nnc.setdiff1d([1, 2], [2, 3])
    Variable(i64[1], constant)
    [1]
    """
    result = unique(x1)
    assert isinstance(result, Array)
    return compress(isin(result, x2, invert=True), result)


def bincount(x: AnyArray, weights: AnyArray | None = None, minlength: int = 0, length: int | None = None) -> Array:
    """How often each integer from 0 on is in x, or the sum of its weights; those below `length` where that is known.

    >>> nnc.bincount([0, 1, 1])
    Variable(i64[2], constant)
    [1 2]
    """
    array = as_array(x).ravel()
    if array.dtype.kind not in ("int", "uint", "bool"):
        raise AttributeValueError("bincount", got=str(array.spec), need="integers of 0 or more")
    places = ops.cast(array, I64)
    if length is None:
        known = places.cpu().numpy()
        if known.size and known.min() < 0:
            raise AttributeValueError("bincount", got="a negative integer", need="integers of 0 or more")
        length = max(int(known.max()) + 1 if known.size else 0, minlength)
    counted = ops.fill_like(places, 1) if weights is None else continuous(as_array(weights).ravel())
    inside = (places >= 0) & (places < length)
    none = ops.scalar_like(counted, 0)
    return ops.scatter_along(ops.where(inside, counted, none), ops.where(inside, places, places * 0), 0, length)


def histogram(
    x: AnyArray,
    bins: int | Sequence[float] | AnyArray = 10,
    range: tuple[float, float] | None = None,
    weights: AnyArray | None = None,
    density: bool = False,
) -> tuple[Array, Array]:
    """How many elements are in each bin, or their weights, and the edges; the last bin has its upper edge too.

    >>> counts, edges = nnc.histogram([1.0, 2.0, 2.5], 2)
    >>> counts.tolist(), edges.tolist()
    ([1, 2], [1.0, 1.75, 2.5])
    """
    array = continuous(as_array(x).ravel())
    edges = histogram_bin_edges(array, bins, range)
    count = edges.shape[0] - 1
    above = ops.searchsorted(edges, array, right=True)
    last = ops.equal(array, edges[count])
    places = ops.where(last, ops.fill_like(above, count), above) - 1
    inside = (array >= edges[0]) & (array <= edges[count])
    given = ops.fill_like(places, 1) if weights is None else continuous(as_array(weights).ravel())
    safe = ops.where(inside, places, ops.scalar_like(places, 0))
    result = ops.scatter_along(ops.where(inside, given, ops.scalar_like(given, 0)), safe, 0, count)
    if density:
        shares = ops.cast(result, edges.dtype)
        result = shares / shares.sum() / (edges[1:] - edges[:-1])
    return result, edges


def histogram_bin_edges(
    x: AnyArray, bins: int | Sequence[float] | AnyArray = 10, range: tuple[float, float] | None = None
) -> Array:
    """The edges of the bins: those given, or of so many equal ones from the smallest to the largest element."""
    array = continuous(as_array(x).ravel())
    if not isinstance(bins, INTEGERS):
        return ops.cast(as_array(bins), array.dtype)
    if bins < 1:
        raise AttributeValueError("histogram", got=f"{bins} bins", need="at least one")
    if range is not None:
        low, high = (ops.scalar_like(array, float(end)) for end in range)
    elif array.size:
        low, high = array.min(), array.max()
    else:
        low, high = ops.scalar_like(array, 0.0), ops.scalar_like(array, 1.0)
    flat = ops.equal(low, high)
    low, high = ops.where(flat, low - 0.5, low), ops.where(flat, high + 0.5, high)
    steps = lifted(array, np.arange(bins + 1).astype(array.dtype.numpy))
    inner = low + (high - low) / bins * steps
    return ops.concatenate([inner[:bins], high.reshape((1,))], 0)
