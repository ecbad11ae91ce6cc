"""What runs along an axis: sums, products, extrema, differences, integrals, shares, and what lies between points.

cumsum(x, axis=0), cummax(x, -1), diff(x), gradient(x), trapezoid(y, x), interp(x, points, values), convolve(a, b)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from nnc import ops
from nnc.array_api import statistical
from nnc.array_api.data_types import lifted
from nnc.core.values.dtype import BOOL, I64, AnyDType
from nnc.dynamic.arrays.promotion import continuous
from nnc.errors import AttributeValueError, ShapeError
from nnc.numerics.conversion import AnyArray, Array, as_array, met, pair, place_of
from nnc.numerics.reductions import _without_nan
from nnc.ops.number import integers_of

__all__ = [
    "convolve", "correlate", "cummax", "cummin", "cumprod", "cumsum", "cumulative_prod", "cumulative_sum", "diff",
    "ediff1d", "gradient", "interp", "log_softmax", "logcumsumexp", "nancumprod", "nancumsum", "softmax",
    "trapezoid", "trapz",
]  # fmt: skip


def cumsum(x: AnyArray, axis: int | None = None, dtype: AnyDType | None = None) -> Array:
    """y[k] = x[0] + … + x[k] along the axis; of all elements in a row when None.

    >>> nnc.cumsum([1, 2, 3])
    Variable(i64[3], constant)
    [1 3 6]
    """
    return as_array(x).cumsum(axis, dtype=dtype)


def cumprod(x: AnyArray, axis: int | None = None, dtype: AnyDType | None = None) -> Array:
    """y[k] = x[0] · … · x[k] along the axis; of all elements in a row when None.

    >>> nnc.cumprod([1, 2, 3])
    Variable(i64[3], constant)
    [1 2 6]
    """
    return as_array(x).cumprod(axis, dtype=dtype)


def cumulative_sum(
    x: AnyArray, *, axis: int | None = None, dtype: AnyDType | None = None, include_initial: bool = False
) -> Array:
    """The standard's `cumsum`, with a 0 in front where `include_initial`.

    >>> nnc.cumulative_sum([1, 2, 3])
    Variable(i64[3], constant)
    [1 3 6]
    """
    array = as_array(x) if dtype is None else as_array(x).astype(dtype)
    return statistical.cumulative_sum(_counted(array), axis=axis, include_initial=include_initial)


def cumulative_prod(
    x: AnyArray, *, axis: int | None = None, dtype: AnyDType | None = None, include_initial: bool = False
) -> Array:
    """The standard's `cumprod`, with a 1 in front where `include_initial`.

    >>> nnc.cumulative_prod([1, 2, 3])
    Variable(i64[3], constant)
    [1 2 6]
    """
    array = as_array(x) if dtype is None else as_array(x).astype(dtype)
    return statistical.cumulative_prod(_counted(array), axis=axis, include_initial=include_initial)


def _counted(x: Array) -> Array:
    return ops.cast(x, I64) if x.dtype is BOOL else x


def nancumsum(x: AnyArray, axis: int | None = None) -> Array:
    """`cumsum` with 0 for nan.

    >>> nnc.nancumsum([1.0, nnc.nan, 2.0])
    Variable(f32[3], constant)
    [1. 1. 3.]
    """
    return _without_nan(x, 0.0).cumsum(axis)


def nancumprod(x: AnyArray, axis: int | None = None) -> Array:
    """`cumprod` with 1 for nan."""
    return _without_nan(x, 1.0).cumprod(axis)


def cummax(x: AnyArray, axis: int = -1) -> Array:
    """y[k] = the largest of x[0] … x[k] along the axis.

    >>> nnc.cummax([1, 3, 2])
    Variable(i64[3], constant)
    [1 3 3]
    """
    return _running(ops.maximum, as_array(x), axis)


def cummin(x: AnyArray, axis: int = -1) -> Array:
    """y[k] = the smallest of x[0] … x[k] along the axis.

    >>> nnc.cummin([3, 1, 2])
    Variable(i64[3], constant)
    [3 1 1]
    """
    return _running(ops.minimum, as_array(x), axis)


def logcumsumexp(x: AnyArray, axis: int = -1) -> Array:
    """y[k] = ln(e^x[0] + … + e^x[k]) along the axis.

    >>> nnc.logcumsumexp([0.0, 0.0])
    Variable(f32[2], constant)
    [0.     0.6931]
    """
    return _running(ops.logaddexp, continuous(as_array(x)), axis)


def _running(rule: Callable[[Array, Array], Array], x: Array, axis: int) -> Array:
    """In about log2(n) passes, each of which joins what lies twice as far apart."""
    along = place_of("running", axis, x.ndim)
    size, step = x.shape[along], 1
    while step < size:
        later = rule(ops.slice_axis(x, along, step, size), ops.slice_axis(x, along, 0, size - step))
        x = ops.concatenate((ops.slice_axis(x, along, 0, step), later), along)
        step *= 2
    return x


def diff(
    x: AnyArray, n: int = 1, axis: int = -1, prepend: AnyArray | None = None, append: AnyArray | None = None
) -> Array:
    """Differences of neighbours along the axis, n times; of truth values whether they differ.

    >>> nnc.diff([1, 3, 6])
    Variable(i64[2], constant)
    [2 3]
    """
    array = as_array(x)
    if n < 0:
        raise AttributeValueError("diff", got=f"n={n}", need="n ≥ 0")
    place = place_of("diff", axis, array.ndim)
    parts = [_edge(prepend, array, place), array, _edge(append, array, place)]
    given = met([part for part in parts if part is not None])
    result = ops.concatenate(given, place) if len(given) > 1 else given[0]
    for _ in range(n):
        size = result.shape[place]
        if not size:
            break
        later, earlier = ops.slice_axis(result, place, 1, size), ops.slice_axis(result, place, 0, size - 1)
        result = ops.not_equal(later, earlier) if result.dtype is BOOL else ops.subtract(later, earlier)
    return result.twin() if result is x else result


def _edge(value: AnyArray | None, x: Array, place: int) -> Array | None:
    """A number as one element along the axis."""
    if value is None:
        return None
    array = as_array(value)
    return array if array.ndim else ops.broadcast_to(array, (*x.shape[:place], 1, *x.shape[place + 1 :]))


def ediff1d(x: AnyArray) -> Array:
    """Differences of neighbours of all elements in a row.

    >>> nnc.ediff1d([1, 3, 6])
    Variable(i64[2], constant)
    [2 3]
    """
    return diff(as_array(x).ravel())


def gradient(x: AnyArray, spacing: float = 1.0, axis: int | tuple[int, ...] | None = None) -> Array | list[Array]:
    """(x[k + 1] - x[k - 1]) / 2 / spacing along each axis, one-sided at the ends; one array for one axis.

    >>> nnc.gradient([1.0, 2.0, 4.0])
    Variable(f32[3], constant)
    [1.  1.5 2. ]
    """
    array = continuous(as_array(x))
    axes = range(array.ndim) if axis is None else integers_of(axis)
    result = [_slope(array, spacing, place_of("gradient", each, array.ndim)) for each in axes]
    return result[0] if len(result) == 1 else result


def _slope(x: Array, spacing: float, axis: int) -> Array:
    size = x.shape[axis]
    if size < 2:
        raise ShapeError("gradient", got=f"{x.spec} along axis {axis}", need="at least two elements")

    def part(start: int, stop: int) -> Array:
        return ops.slice_axis(x, axis, start, stop)

    middle = [(part(2, size) - part(0, size - 2)) * 0.5] if size > 2 else []
    ends = part(1, 2) - part(0, 1), part(size - 1, size) - part(size - 2, size - 1)
    return ops.concatenate([ends[0], *middle, ends[1]], axis) / spacing


def trapezoid(y: AnyArray, x: AnyArray | None = None, dx: float = 1.0, axis: int = -1) -> Array:
    """The integral of y along the axis by trapezoids, at the points x or at the distance dx.

    >>> nnc.trapezoid([1.0, 2.0, 3.0])
    Variable(f32[], constant)
    4.0
    """
    array = continuous(as_array(y))
    place = place_of("trapezoid", axis, array.ndim)
    size = array.shape[place]
    means = (ops.slice_axis(array, place, 1, size) + ops.slice_axis(array, place, 0, size - 1)) * 0.5
    if x is None:
        return (means * dx).sum(place)
    points = continuous(as_array(x))
    if points.ndim == 1:
        return (means * diff(points).reshape((-1, *(1,) * (array.ndim - place - 1)))).sum(place)
    return (means * diff(points, axis=axis)).sum(place)


def interp(
    x: AnyArray, points: AnyArray, values: AnyArray, left: float | None = None, right: float | None = None
) -> Array:
    """The line through (points[k], values[k]) at x, of ascending points; outside `left`, `right` or the ends.

    >>> nnc.interp([0.5], [0.0, 1.0], [10.0, 20.0])
    Variable(f32[1], constant)
    [15.]
    """
    at, knots = (continuous(entry) for entry in pair(x, points))
    heights = continuous(as_array(values))
    size = knots.shape[0]
    if knots.ndim != 1 or heights.shape != knots.shape or not size:
        got = f"points {knots.spec}, values {heights.spec}"
        raise ShapeError("interp", got=got, need="vectors of one size, of at least one element")
    above = ops.searchsorted(knots, at.reshape(-1), right=True)
    low = ops.minimum(ops.maximum(above - 1, ops.scalar_like(above, 0)), ops.scalar_like(above, max(size - 2, 0)))
    high = ops.minimum(low + 1, ops.scalar_like(low, size - 1))
    (x0, x1), (y0, y1) = ([ops.index_select(entry, place) for place in (low, high)] for entry in (knots, heights))
    flat = at.reshape(-1)
    width = x1 - x0
    safe = ops.where(ops.equal(width, ops.scalar_like(width, 0.0)), ops.fill_like(width, 1.0), width)
    result = y0 + (y1 - y0) * ((flat - x0) / safe)
    ends = (heights[0] if left is None else left), (heights[size - 1] if right is None else right)
    result = ops.where(flat < knots[0], _spread(ends[0], result), result)
    result = ops.where(flat > knots[size - 1], _spread(ends[1], result), result)
    exact = ops.where(ops.equal(flat, knots[size - 1]), _spread(heights[size - 1], result), result)
    return exact.reshape(at.shape)


def _spread(value: Array | float, like: Array) -> Array:
    array = as_array(value) if isinstance(value, float | int) else value
    return ops.broadcast_to(ops.cast(array, like.dtype), like.shape)


def convolve(a: AnyArray, v: AnyArray, mode: Literal["full", "same", "valid"] = "full") -> Array:
    """y[n] = sum over m of a[m] · v[n - m], of two vectors.

    >>> nnc.convolve([1, 2], [1, 1])
    Variable(i64[3], constant)
    [1 3 2]
    """
    array, other = pair(a, v)
    if array.ndim != 1 or other.ndim != 1 or not (array.shape[0] and other.shape[0]):
        raise ShapeError("convolve", got=f"{array.spec}, {other.spec}", need="vectors of at least one element")
    if array.shape[0] < other.shape[0]:
        array, other = other, array
    n, m = array.shape[0], other.shape[0]
    first, count = {"full": (0, n + m - 1), "same": ((m - 1) // 2, n), "valid": (m - 1, n - m + 1)}.get(mode, (0, 0))
    if not count:
        raise AttributeValueError("convolve", got=f"mode={mode!r}", need='"full", "same" or "valid"')
    border = ops.fill_like(ops.broadcast_to(array[:1], (m,)), 0)[: m - 1]
    padded = ops.concatenate([border, array, border], 0)
    windows = np.arange(first, first + count)[:, None] + np.arange(m)
    rows = ops.index_select(padded, lifted(array, windows), 0)
    return ops.multiply(rows, ops.flip(other, 0)).sum(1)


def correlate(a: AnyArray, v: AnyArray, mode: Literal["full", "same", "valid"] = "valid") -> Array:
    """y[k] = sum over n of a[n + k] · v[n], conjugated.

    >>> nnc.correlate([1.0, 2.0], [1.0])
    Variable(f32[2], constant)
    [1. 2.]
    """
    other = as_array(v)
    turned = ops.flip(ops.conjugate(other) if other.dtype.kind == "complex" else other, 0)
    return convolve(a, turned, mode)


trapz = trapezoid


def softmax(x: AnyArray, axis: int = -1) -> Array:
    """e^x / sum of e^x along the axis.

    >>> nnc.softmax([1.0, 1.0])
    Variable(f32[2], constant)
    [0.5 0.5]
    """
    return as_array(x).softmax(axis)


def log_softmax(x: AnyArray, axis: int = -1) -> Array:
    """x - logsumexp(x) along the axis.

    >>> nnc.log_softmax([1.0, 1.0])
    Variable(f32[2], constant)
    [-0.6931 -0.6931]
    """
    return as_array(x).log_softmax(axis)
