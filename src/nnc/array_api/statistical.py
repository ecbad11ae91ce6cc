"""Sums, products, extrema and the like along axes, and truth of all or any elements."""

from __future__ import annotations

import math

import numpy as np

from nnc import ops
from nnc.array_api.data_types import lifted, numpy_work
from nnc.array_api.elementwise import checked_array
from nnc.array_api.manipulation import concat, place_of
from nnc.core.values.dtype import BOOL, I64, U64, DType
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.errors import AttributeValueError
from nnc.ops.movement.broadcast import normalize_axes
from nnc.ops.rules import ARITHMETIC, CONTINUOUS, FLOATS, NUMBERS

Array = ArrayOperand
Axes = int | tuple[int, ...] | None
WIDE = {"int": I64, "uint": U64}


def _summed(name: str, x: Array, dtype: DType | None) -> Array:
    """x in the type that sums and products have: integers in the widest unless another is given."""
    chosen = dtype or WIDE.get(checked_array(name, x, ARITHMETIC).dtype.kind, x.dtype)
    return ops.cast(x, chosen)


def cumulative_prod(
    x: Array, /, *, axis: int | None = None, dtype: DType | None = None, include_initial: bool = False
) -> Array:
    """y[k] = x[0] · … · x[k] along the axis, which may be left out where there is one."""
    along = _along("cumulative_prod", x, axis)
    return _with_initial(ops.cumprod(_summed("cumulative_prod", x, dtype), along), along, 1, include_initial)


def cumulative_sum(
    x: Array, /, *, axis: int | None = None, dtype: DType | None = None, include_initial: bool = False
) -> Array:
    """y[k] = x[0] + … + x[k] along the axis, which may be left out where there is one."""
    along = _along("cumulative_sum", x, axis)
    return _with_initial(ops.cumsum(_summed("cumulative_sum", x, dtype), along), along, 0, include_initial)


def _along(name: str, x: Array, axis: int | None) -> int:
    if axis is None and checked_array(name, x).ndim != 1:
        raise AttributeValueError(name, got=f"no axis for {x.spec}", need="an axis")
    return place_of(name, axis or 0, x.ndim)


def _with_initial(y: Array, axis: int, value: int, wanted: bool) -> Array:
    if not wanted:
        return y
    first = np.full((*y.shape[:axis], 1, *y.shape[axis + 1 :]), value, y.dtype.numpy)
    return concat([lifted(y, first), y], axis=axis)


def max(x: Array, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
    """The largest element over the axes; nan wins."""
    return ops.reduce_max(checked_array("max", x, NUMBERS), axis, keepdims=keepdims)


def mean(x: Array, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
    """The mean over the axes; nan of no elements."""
    return _divided(checked_array("mean", x, CONTINUOUS), axis, 0.0, keepdims)


def min(x: Array, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
    """The smallest element over the axes; nan wins."""
    return ops.reduce_min(checked_array("min", x, NUMBERS), axis, keepdims=keepdims)


def prod(x: Array, /, *, axis: Axes = None, dtype: DType | None = None, keepdims: bool = False) -> Array:
    """The product over the axes."""
    return ops.prod(_summed("prod", x, dtype), axis, keepdims=keepdims)


def std(x: Array, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False) -> Array:
    """The square root of the variance."""
    return ops.sqrt(var(x, axis=axis, correction=correction, keepdims=keepdims))


def sum(x: Array, /, *, axis: Axes = None, dtype: DType | None = None, keepdims: bool = False) -> Array:
    """The sum over the axes."""
    return ops.reduce_sum(_summed("sum", x, dtype), axis, keepdims=keepdims)


def var(x: Array, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False) -> Array:
    """The sum of (x - mean)² over the axes, divided by the number of elements less `correction`."""
    deviations = checked_array("var", x, FLOATS) - _divided(x, axis, 0.0, True)
    return _divided(ops.square(deviations), axis, correction, keepdims)


def _divided(x: Array, axis: Axes, correction: float, keepdims: bool) -> Array:
    """The sum divided by the count less the correction: nan where that is 0 of nothing."""
    total = ops.reduce_sum(x, axis, keepdims=keepdims)
    axes = normalize_axes("mean", axis, x.ndim)
    count = math.prod(x.shape[place] for place in axes) - correction
    with numpy_work("mean"):
        divisor = np.asarray(count if count > 0 else 0, x.dtype.numpy)
    return ops.divide(total, lifted(x, divisor))


def all(x: Array, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
    """Whether all elements are not 0."""
    return ops.reduce_all(ops.cast(checked_array("all", x), BOOL), axis, keepdims=keepdims)


def any(x: Array, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
    """Whether any element is not 0."""
    return ops.reduce_any(ops.cast(checked_array("any", x), BOOL), axis, keepdims=keepdims)


def diff(
    x: Array, /, *, axis: int = -1, n: int = 1, prepend: Array | None = None, append: Array | None = None
) -> Array:
    """Differences of neighbours along the axis, n times."""
    place = place_of("diff", axis, checked_array("diff", x, ARITHMETIC).ndim)
    parts = [part for part in (prepend, x, append) if part is not None]
    differences = concat(parts, axis=place) if len(parts) > 1 else x.twin()
    for _ in range(n):
        size = differences.shape[place]
        if not size:
            break
        differences = ops.subtract(
            ops.slice_axis(differences, place, 1, size), ops.slice_axis(differences, place, 0, size - 1)
        )
    return differences
