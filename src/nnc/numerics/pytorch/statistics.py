"""Statistics, norms and questions that PyTorch has a name for.

var_mean(x, dim=1), aminmax(x), kthvalue(x, 2), histc(x, bins=3), bucketize(x, edges), norm(x, p=1), is_tensor(x)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nnc import ops
from nnc.array_api.data_types import lifted, numpy_work
from nnc.core.values.dtype import F32, DType
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.arrays.values_and_places import ValuesAndPlaces
from nnc.errors import AttributeValueError, ShapeError
from nnc.numerics.conversion import AnyArray, Array, Axes, as_array, place_of, real_numbers
from nnc.numerics.draws import uniform
from nnc.numerics.order import searchsorted

__all__ = [
    "addcdiv", "addcmul", "aminmax", "bernoulli", "bucketize", "get_default_dtype", "histc", "is_complex",
    "is_floating_point", "is_tensor", "kthvalue", "mode", "norm", "std_mean", "unique_consecutive", "var_mean",
]  # fmt: skip


class Extremes(NamedTuple):
    """The smallest and the largest elements."""

    min: Array
    max: Array


def var_mean(
    x: AnyArray, dim: Axes = None, *, unbiased: bool = True, correction: float = 1.0, keepdim: bool = False
) -> tuple[Array, Array]:
    """The variance, divided by n - 1 unless told otherwise, and the mean.

    >>> [part.item() for part in nnc.var_mean([1.0, 3.0])]
    [2.0, 2.0]
    """
    array = as_array(x)
    divisor = correction if unbiased else 0.0
    return array.var(dim, correction=divisor, keepdims=keepdim), array.mean(dim, keepdims=keepdim)


def std_mean(
    x: AnyArray, dim: Axes = None, *, unbiased: bool = True, correction: float = 1.0, keepdim: bool = False
) -> tuple[Array, Array]:
    """The square root of the variance, and the mean.

    >>> [part.item() for part in nnc.std_mean([1.0, 3.0], correction=0)]
    [1.0, 2.0]
    """
    spread, mean = var_mean(x, dim, unbiased=unbiased, correction=correction, keepdim=keepdim)
    return ops.sqrt(spread), mean


def aminmax(x: AnyArray, *, dim: int | None = None, keepdim: bool = False) -> Extremes:
    """The smallest and the largest elements, of all or along the axis.

    >>> nnc.aminmax([3, 1, 2]).max.item()
    3
    """
    array = as_array(x)
    return Extremes(array.min(axis=dim, keepdims=keepdim), array.max(axis=dim, keepdims=keepdim))


def kthvalue(x: AnyArray, k: int, dim: int = -1, keepdim: bool = False) -> ValuesAndPlaces[Array]:
    """The k-th smallest element along the axis, counted from 1, and its place.

    >>> nnc.kthvalue([3, 1, 2], 2).values.item()
    2
    """
    array = as_array(x)
    axis = place_of("kthvalue", dim, array.ndim)
    if not 1 <= k <= array.shape[axis]:
        raise AttributeValueError("kthvalue", got=f"k={k}", need=f"1 ≤ k ≤ {array.shape[axis]}")
    parts = (ops.slice_axis(part, axis, k - 1, k) for part in ops.sort(array, axis))
    return ValuesAndPlaces(*(part if keepdim else part.squeeze(axis) for part in parts))


def mode(x: AnyArray, dim: int = -1, keepdim: bool = False) -> ValuesAndPlaces[Array]:
    """The most frequent element along the axis, the smallest of those, and its last place. Values are looked at.

    >>> nnc.mode([1, 2, 2, 3]).values.item()
    2
    """
    array = as_array(x)
    axis = place_of("mode", dim, array.ndim)
    values = np.moveaxis(array.cpu().numpy(), axis, -1)
    if not values.shape[-1]:
        raise ShapeError("mode", got=str(array.spec), need=f"an element along axis {dim}")
    counts = (values[..., None, :] == values[..., :, None]).sum(-1)
    smallest = np.where(counts == counts.max(-1, keepdims=True), values, values.max(-1, keepdims=True))
    chosen = smallest.min(-1, keepdims=True)
    place = values.shape[-1] - 1 - (values == chosen)[..., ::-1].argmax(-1, keepdims=True)
    places = lifted(array, np.moveaxis(place, -1, axis).astype(np.int64))
    taken = ops.gather(array, places, axis)
    return ValuesAndPlaces(*((taken, places) if keepdim else (taken.squeeze(axis), places.squeeze(axis))))


def histc(x: AnyArray, bins: int = 100, min: float = 0, max: float = 0) -> Array:
    """How many elements lie in each of `bins` equal parts of min..max, of all elements when both are 0.

    >>> nnc.histc([1.0, 2.0, 1.0], bins=2).tolist()
    [2.0, 1.0]
    """
    array = as_array(x)
    # NumPy's numbers of fewer bits would be compared in these.
    least, most = float(min), float(max)
    if bins < 1 or not least <= most:
        raise AttributeValueError("histc", got=f"{bins} parts of {min}..{max}", need="one or more, min ≤ max")
    values = real_numbers("histc", array).ravel()
    low, high = (least, most) if least or most else (values.min(initial=np.inf), values.max(initial=-np.inf))
    low, high = (low - 1, high + 1) if low == high else (low, high)
    kept = values[(values >= low) & (values <= high)]
    with numpy_work("histc"):
        counts = np.histogram(kept, bins, (low, high))[0] if kept.size else np.zeros(bins)
    return lifted(array, counts.astype(array.dtype.numpy))


def bucketize(x: AnyArray, boundaries: AnyArray, *, right: bool = False) -> Array:
    """The place of the first boundary that is not below each element; with `right` of the first one above it.

    >>> nnc.bucketize([2, 6], [1, 3, 5]).tolist()
    [1, 3]
    """
    return searchsorted(boundaries, x, "right" if right else "left")


def unique_consecutive(
    x: AnyArray, return_inverse: bool = False, return_counts: bool = False
) -> Array | tuple[Array, ...]:
    """The elements in a row without those that equal the one before, and as asked which each is, and how many.

    >>> nnc.unique_consecutive([1, 1, 2, 1]).tolist()
    [1, 2, 1]
    """
    array = as_array(x)
    values = array.cpu().numpy().ravel()
    starts = np.flatnonzero(np.r_[True, values[1:] != values[:-1]][: values.size]).astype(np.int64)
    inverse = np.cumsum(np.isin(np.arange(values.size), starts)) - 1
    counts = np.diff(np.r_[starts, values.size])
    asked = ((return_inverse, inverse.reshape(array.shape)), (return_counts, counts))
    kept = ops.index_select(array.ravel(), lifted(array, starts))
    rest = [lifted(array, result.astype(np.int64)) for wanted, result in asked if wanted]
    return (kept, *rest) if rest else kept


def norm(
    x: AnyArray, p: float | str | None = "fro", dim: int | tuple[int, ...] | None = None, keepdim: bool = False
) -> Array:
    """(Σ |x|^p)^(1/p) over the axes, all when None: that of all elements in a row.

    >>> nnc.norm([3.0, 4.0]).item()
    5.0
    """
    return as_array(x).norm("fro" if p is None else p, dim, keepdim)


def addcmul(x: AnyArray, tensor1: AnyArray, tensor2: AnyArray, *, value: float = 1) -> Array:
    """x + value · tensor1 · tensor2

    >>> nnc.addcmul([1.0], [2.0], [3.0], value=0.5).tolist()
    [4.0]
    """
    return as_array(x) + as_array(tensor1) * as_array(tensor2) * value


def addcdiv(x: AnyArray, tensor1: AnyArray, tensor2: AnyArray, *, value: float = 1) -> Array:
    """x + value · tensor1 / tensor2

    >>> nnc.addcdiv([1.0], [6.0], [3.0], value=0.5).tolist()
    [2.0]
    """
    return as_array(x) + as_array(tensor1) / as_array(tensor2) * value


def bernoulli(p: AnyArray, *, key: Array | None = None) -> Array:
    """1 with this probability for each element, else 0, in the type of p.

    >>> nnc.bernoulli([0.0, 1.0]).tolist()
    [0.0, 1.0]
    """
    chances = as_array(p)
    with chances.device:
        return ops.cast(uniform(chances.shape, key=key) < ops.cast(chances, F32), chances.dtype)


def is_tensor(x: object) -> bool:
    """Whether x is an array of ours.

    >>> nnc.is_tensor(nnc.ones(2)), nnc.is_tensor([1, 1])
    (True, False)
    """
    return isinstance(x, ArrayOperand)


def is_floating_point(x: AnyArray) -> bool:
    """Whether the elements are floats.

    >>> nnc.is_floating_point(nnc.ones(2))
    True
    """
    return as_array(x).dtype.is_float


def is_complex(x: AnyArray) -> bool:
    """Whether the elements are complex numbers.

    >>> nnc.is_complex(nnc.ones(2))
    False
    """
    return as_array(x).dtype.kind == "complex"


def get_default_dtype() -> DType:
    """What Python's floats are here: f32.

    >>> nnc.get_default_dtype()
    f32
    """
    return F32
