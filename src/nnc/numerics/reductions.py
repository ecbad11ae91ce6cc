"""Sums, means, extrema, order statistics and truth along axes, as the methods of arrays have them.

sum(x, axis=1), mean(x, (0, 1), keepdims=True), median(x), quantile(x, [0.1, 0.9], axis=0), nanmean(x), cov(x)
"""

from __future__ import annotations

from typing import Literal, overload

import numpy as np

from nnc import ops
from nnc.array_api.data_types import lifted
from nnc.core.values.dtype import BOOL, F64, I64, AnyDType
from nnc.dynamic.arrays.divisors import by_words
from nnc.dynamic.arrays.promotion import continuous
from nnc.dynamic.arrays.values_and_places import ValuesAndPlaces, extreme, paired
from nnc.errors import AttributeValueError, ShapeError
from nnc.numerics.conversion import AnyArray, Array, Axes, as_array, pair, place_of, real_numbers
from nnc.ops.movement.broadcast import normalize_axes

__all__ = [
    "all", "amax", "amin", "any", "argmax", "argmin", "average", "corrcoef", "count_nonzero", "cov",
    "logsumexp", "max", "mean", "median", "min", "nanmax", "nanmean", "nanmedian", "nanmin", "nanpercentile",
    "nanprod", "nanquantile", "nanstd", "nansum", "nanvar", "percentile", "prod", "ptp", "quantile",
    "std", "sum", "var",
]  # fmt: skip

Method = Literal["linear", "lower", "higher", "nearest", "midpoint"]


def sum(x: AnyArray, axis: Axes = None, dtype: AnyDType | None = None, *, keepdims: bool = False) -> Array:
    """The sum over the axes; integers and truth values are counted in 64 bits.

    >>> nnc.sum([[1.0, 2.0], [3.0, 4.0]], axis=1)
    Variable(f32[2], constant)
    [3. 7.]
    """
    return as_array(x).sum(axis, dtype=dtype, keepdims=keepdims)


def prod(x: AnyArray, axis: Axes = None, dtype: AnyDType | None = None, *, keepdims: bool = False) -> Array:
    """The product over the axes.

    >>> nnc.prod([2, 3, 4])
    Variable(i64[], constant)
    24
    """
    return as_array(x).prod(axis, dtype=dtype, keepdims=keepdims)


def mean(x: AnyArray, axis: Axes = None, dtype: AnyDType | None = None, *, keepdims: bool = False) -> Array:
    """The mean over the axes; nan of no elements.

    >>> nnc.mean([[1.0, 2.0], [3.0, 4.0]], axis=0)
    Variable(f32[2], constant)
    [2. 3.]
    """
    array = as_array(x)
    return (array if dtype is None else array.astype(dtype)).mean(axis, keepdims=keepdims)


@by_words
def var(x: AnyArray, axis: Axes = None, *, correction: float = 0.0, keepdims: bool = False) -> Array:
    """The sum of (x - mean)² over the axes, divided by n - correction.

    >>> nnc.var([1.0, 2.0, 3.0], correction=1)
    Variable(f32[], constant)
    1.0
    """
    return as_array(x).var(axis, correction=correction, keepdims=keepdims)


@by_words
def std(x: AnyArray, axis: Axes = None, *, correction: float = 0.0, keepdims: bool = False) -> Array:
    """The square root of the variance.

    >>> nnc.std([1.0, 3.0])
    Variable(f32[], constant)
    1.0
    """
    return as_array(x).std(axis, correction=correction, keepdims=keepdims)


@overload
def max(x: AnyArray, axis: Axes | Array = None, keepdims: bool = False) -> Array: ...
@overload
def max(x: AnyArray, *, dim: int, keepdim: bool = False) -> ValuesAndPlaces[Array]: ...
@paired(lambda x, *rest: extreme(largest=True)(as_array(x), *rest))
def max(x: AnyArray, axis: Axes | Array = None, keepdims: bool = False) -> Array:
    """The largest element over the axes; nan wins. With `dim=`, PyTorch's word, elements and their places.

    >>> nnc.max([[1.0, 2.0], [3.0, 4.0]], axis=1)
    Variable(f32[2], constant)
    [2. 4.]
    """
    return ops.maximum(*pair(x, axis)) if isinstance(axis, Array) else as_array(x).max(axis, keepdims=keepdims)


@overload
def min(x: AnyArray, axis: Axes | Array = None, keepdims: bool = False) -> Array: ...
@overload
def min(x: AnyArray, *, dim: int, keepdim: bool = False) -> ValuesAndPlaces[Array]: ...
@paired(lambda x, *rest: extreme(largest=False)(as_array(x), *rest))
def min(x: AnyArray, axis: Axes | Array = None, keepdims: bool = False) -> Array:
    """The smallest element over the axes; nan wins. With `dim=`, PyTorch's word, elements and their places.

    >>> nnc.min([3, 1, 2])
    Variable(i64[], constant)
    1
    """
    return ops.minimum(*pair(x, axis)) if isinstance(axis, Array) else as_array(x).min(axis, keepdims=keepdims)


def ptp(x: AnyArray, axis: Axes = None, keepdims: bool = False) -> Array:
    """The largest element less the smallest.

    >>> nnc.ptp([1, 5, 3])
    Variable(i64[], constant)
    4
    """
    return max(x, axis, keepdims) - min(x, axis, keepdims)


def all(x: AnyArray, axis: Axes = None, keepdims: bool = False) -> Array:
    """Whether all elements are not 0.

    >>> nnc.all([True, False])
    Variable(bool[], constant)
    False
    """
    return as_array(x).all(axis, keepdims=keepdims)


def any(x: AnyArray, axis: Axes = None, keepdims: bool = False) -> Array:
    """Whether any element is not 0.

    >>> nnc.any([True, False])
    Variable(bool[], constant)
    True
    """
    return as_array(x).any(axis, keepdims=keepdims)


def argmax(x: AnyArray, axis: int | None = None, keepdims: bool = False) -> Array:
    """The first place of the largest element along the axis; in row-major order of all when None.

    >>> nnc.argmax([[1.0, 2.0], [3.0, 4.0]], axis=1)
    Variable(i64[2], constant)
    [1 1]
    """
    return as_array(x).argmax(axis, keepdims=keepdims)


def argmin(x: AnyArray, axis: int | None = None, keepdims: bool = False) -> Array:
    """The first place of the smallest element along the axis; in row-major order of all when None.

    >>> nnc.argmin([3, 1, 2])
    Variable(i64[], constant)
    1
    """
    return as_array(x).argmin(axis, keepdims=keepdims)


def count_nonzero(x: AnyArray, axis: Axes = None, keepdims: bool = False) -> Array:
    """How many elements are not 0.

    >>> nnc.count_nonzero([0, 1, 2])
    Variable(i64[], constant)
    2
    """
    return ops.cast(as_array(x), BOOL).sum(axis, keepdims=keepdims)


def logsumexp(x: AnyArray, axis: Axes = None, keepdims: bool = False) -> Array:
    """ln of the sum of e^x over the axes.

    >>> nnc.logsumexp([0.0, 0.0])
    Variable(f32[], constant)
    0.6931471824645996
    """
    return ops.logsumexp(continuous(as_array(x)), axis, keepdims=keepdims)


def average(x: AnyArray, axis: Axes = None, weights: AnyArray | None = None, keepdims: bool = False) -> Array:
    """The mean with weights of the shape of x, or of its one axis.

    >>> nnc.average([1.0, 2.0], weights=[3.0, 1.0])
    Variable(f32[], constant)
    1.25
    """
    array = as_array(x)
    if weights is None:
        return array.mean(axis, keepdims=keepdims)
    given = continuous(as_array(weights))
    if given.shape != array.shape:
        if not isinstance(axis, int) or given.ndim != 1:
            got = f"{array.spec}, weights {given.spec}"
            raise ShapeError("average", got=got, need="weights of the shape of x, or one for each place of one axis")
        place = place_of("average", axis, array.ndim)
        given = given.reshape((*(1,) * place, -1, *(1,) * (array.ndim - place - 1)))
    total = ops.broadcast_to(given, array.shape).sum(axis, keepdims=keepdims)
    return (array * given).sum(axis, keepdims=keepdims) / total


# ---- order statistics


def median(x: AnyArray, axis: Axes = None, keepdims: bool = False) -> Array:
    """The middle element along the axes, or the mean of the two; nan where there is one.

    >>> nnc.median([3.0, 1.0, 2.0])
    Variable(f32[], constant)
    2.0
    """
    return quantile(x, 0.5, axis, keepdims=keepdims)


def percentile(x: AnyArray, q: AnyArray, axis: Axes = None, method: Method = "linear", keepdims: bool = False) -> Array:
    """`quantile` at q / 100.

    >>> nnc.percentile([1.0, 2.0, 3.0], 50)
    Variable(f32[], constant)
    2.0
    """
    return quantile(x, real_numbers("quantile", q) / 100.0, axis, method, keepdims)


def quantile(x: AnyArray, q: AnyArray, axis: Axes = None, method: Method = "linear", keepdims: bool = False) -> Array:
    """The element below which the share q of the others is, between two of them by `method`. q is no traced value.

    Several q come first in the shape. nan where there is one. Gradients flow to the elements that it lies between.

    >>> nnc.quantile([1.0, 2.0, 3.0], [0.0, 0.5])
    Variable(f32[2], constant)
    [1. 2.]
    """
    rows, kept = _rows(x, axis)
    size = rows.shape[-1]
    if not size:
        raise ShapeError("quantile", got=str(as_array(x).spec), need="at least one element along the axes")
    shares = _shares(q)
    ordered = ops.sort(rows, -1)[0]
    places = shares.reshape(-1) * (size - 1)
    low, share = _between(places, method)
    high = np.minimum(low + 1, size - 1)
    first, second = (ops.index_select(ordered, lifted(rows, value), rows.ndim - 1) for value in (low, high))
    weight = lifted(rows, share.astype(rows.dtype.numpy))
    result = _mixed(first, second, weight)
    last = ops.slice_axis(ordered, rows.ndim - 1, size - 1, size)
    result = ops.where(ops.is_nan(last), last, result)
    return _fronted(result, shares.shape, kept if keepdims else None)


def _mixed(first: Array, second: Array, weight: Array) -> Array:
    """Between the two; an infinite one that is not asked is not multiplied."""
    still = ops.equal(weight, ops.scalar_like(weight, 0.0))
    other = ops.where(still, first, second)
    equal = ops.equal(first, other)
    return first + ops.where(equal, ops.fill_like(first, 0.0), other - first) * weight


def _between(places: np.ndarray, method: Method) -> tuple[np.ndarray, np.ndarray]:
    """The element below, and how far on."""
    low = np.floor(places)
    share = places - low
    if method == "lower":
        share = np.zeros_like(share)
    elif method == "higher":
        share = np.ceil(share)
    elif method == "nearest":
        share = np.round(places) - low
    elif method == "midpoint":
        share = np.where(share > 0, 0.5, 0.0)
    elif method != "linear":
        raise AttributeValueError(
            "quantile", got=f"method={method!r}", need='"linear", "lower", "higher", "nearest" or "midpoint"'
        )
    return low.astype(np.int64), share


def _shares(q: AnyArray) -> np.ndarray:
    shares = real_numbers("quantile", q)
    if not ((shares >= 0) & (shares <= 1)).all():
        raise AttributeValueError("quantile", got="a share outside its range", need="0 ≤ q ≤ 1")
    return shares


def _rows(x: AnyArray, axis: Axes) -> tuple[Array, tuple[int, ...]]:
    """The axes as the last one, and the shape with ones in their place."""
    array = continuous(as_array(x))
    axes = normalize_axes("quantile", axis, array.ndim)
    rest = [place for place in range(array.ndim) if place not in axes]
    turned = ops.transpose(array, (*rest, *axes)) if array.ndim else array
    count = int(np.prod([array.shape[place] for place in axes], dtype=np.int64))
    kept = tuple(1 if place in axes else size for place, size in enumerate(array.shape))
    return turned.reshape((*(array.shape[place] for place in rest), count)), kept


def _fronted(result: Array, shares: tuple[int, ...], kept: tuple[int, ...] | None) -> Array:
    """The last axis first, in the shape of the shares."""
    rest = result.shape[:-1]
    turned = ops.transpose(result, (result.ndim - 1, *range(result.ndim - 1)))
    return turned.reshape((*shares, *(rest if kept is None else kept)))


# ---- without nan


def _present(x: AnyArray) -> tuple[Array, Array]:
    array = continuous(as_array(x))
    return array, ops.logical_not(ops.is_nan(array))


def _without_nan(x: AnyArray, instead: float) -> Array:
    array, present = _present(x)
    return ops.where(present, array, ops.scalar_like(array, instead))


def nansum(x: AnyArray, axis: Axes = None, keepdims: bool = False) -> Array:
    """The sum of what is not nan.

    >>> nnc.nansum([1.0, nnc.nan])
    Variable(f32[], constant)
    1.0
    """
    return _without_nan(x, 0.0).sum(axis, keepdims=keepdims)


def nanprod(x: AnyArray, axis: Axes = None, keepdims: bool = False) -> Array:
    """The product of what is not nan."""
    return _without_nan(x, 1.0).prod(axis, keepdims=keepdims)


def nanmean(x: AnyArray, axis: Axes = None, keepdims: bool = False) -> Array:
    """The mean of what is not nan.

    >>> nnc.nanmean([1.0, nnc.nan])
    Variable(f32[], constant)
    1.0
    """
    return nansum(x, axis, keepdims) / _present(x)[1].sum(axis, keepdims=keepdims)


def nanvar(x: AnyArray, axis: Axes = None, *, correction: float = 0.0, keepdims: bool = False) -> Array:
    """The variance of what is not nan."""
    array, present = _present(x)
    deviations = ops.where(present, array - nanmean(x, axis, True), ops.scalar_like(array, 0.0))
    return ops.square(deviations).sum(axis, keepdims=keepdims) / (present.sum(axis, keepdims=keepdims) - correction)


def nanstd(x: AnyArray, axis: Axes = None, *, correction: float = 0.0, keepdims: bool = False) -> Array:
    """The square root of `nanvar`."""
    return ops.sqrt(nanvar(x, axis, correction=correction, keepdims=keepdims))


def nanmax(x: AnyArray, axis: Axes = None, keepdims: bool = False) -> Array:
    """The largest of what is not nan."""
    return _known(_without_nan(x, -np.inf).max(axis, keepdims=keepdims), x, axis, keepdims)


def nanmin(x: AnyArray, axis: Axes = None, keepdims: bool = False) -> Array:
    """The smallest of what is not nan."""
    return _known(_without_nan(x, np.inf).min(axis, keepdims=keepdims), x, axis, keepdims)


def _known(result: Array, x: AnyArray, axis: Axes, keepdims: bool) -> Array:
    """nan where all were."""
    return ops.where(_present(x)[1].any(axis, keepdims=keepdims), result, ops.fill_like(result, np.nan))


def nanmedian(x: AnyArray, axis: Axes = None, keepdims: bool = False) -> Array:
    """The median of what is not nan."""
    return nanquantile(x, 0.5, axis, keepdims)


def nanquantile(x: AnyArray, q: float, axis: Axes = None, keepdims: bool = False) -> Array:
    """The quantile of what is not nan, of one share; linear between two elements."""
    rows, kept = _rows(x, axis)
    (share,) = _shares(q).reshape(-1)
    ordered = ops.sort(rows, -1)[0]
    count = _present(rows)[1].sum(-1, keepdims=True)
    last = ops.maximum(count - 1, ops.scalar_like(count, 0))
    place = ops.cast(last, F64) * float(share)
    low = ops.cast(ops.floor(place), I64)
    high = ops.minimum(low + 1, last)
    first, second = (ops.gather(ordered, value, rows.ndim - 1) for value in (low, high))
    weight = ops.cast(place - ops.floor(place), rows.dtype)
    return _fronted(_mixed(first, second, weight), (), kept if keepdims else None)


def nanpercentile(x: AnyArray, q: float, axis: Axes = None, keepdims: bool = False) -> Array:
    """`nanquantile` at q / 100."""
    return nanquantile(x, q / 100.0, axis, keepdims)


# ---- covariance


def cov(x: AnyArray, y: AnyArray | None = None, rows: bool = True, *, correction: float = 1.0) -> Array:
    """The covariances of variables, which are rows (columns without `rows`) of observations.

    >>> nnc.cov([[1.0, 2.0], [3.0, 5.0]])
    Variable(f32[2, 2], constant)
    [[0.5 1. ]
     [1.  2. ]]
    """
    array = _variables(x, rows)
    if y is not None:
        array = ops.concatenate([array, _variables(y, rows)], 0)
    deviations = array - array.mean(1, keepdims=True)
    result = ops.matmul(deviations, ops.conjugate(deviations.T)) / (array.shape[1] - correction)
    return result.reshape(()) if result.shape == (1, 1) else result


def _variables(x: AnyArray, rows: bool) -> Array:
    array = continuous(as_array(x))
    if array.ndim > 2:
        raise ShapeError("cov", got=str(array.spec), need="a vector or a matrix")
    table = array.reshape((1, -1)) if array.ndim < 2 else array
    return table if rows or array.ndim < 2 else table.T


def corrcoef(x: AnyArray, y: AnyArray | None = None, rows: bool = True) -> Array:
    """Covariances divided by both deviations."""
    result = cov(x, y, rows)
    if not result.ndim:
        return result / result
    deviations = ops.sqrt(ops.real(ops.einsum("ii->i", result)))
    return result / (deviations.expand_dims(1) * deviations)


amax, amin = max, min
