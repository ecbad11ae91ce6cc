"""Methods that arrays share in NumPy, JAX, MLX and PyTorch, on eager variables and traced values.

    x.sum(1), x.mean(axis=(0, 1), keepdims=True), x.argmax(-1), x.std(correction=1), x.cumsum(0), x.sort()
    x.reshape(2, -1), x.flatten(), x.transpose(1, 2), x.swapaxes(0, 1), x.squeeze(), x.expand_dims(0), x.T
    x.repeat(2); element by element: `nnc.dynamic.arrays.elementwise_methods`

Where two projects differ in what a name means, NumPy's meaning counts, which JAX and MLX share: `x.max(1)` is an array
(unpacked into two names it is PyTorch's pair: `nnc.dynamic.arrays.values_and_places`), `x.std()` divides by n (in
PyTorch's words, `x.std(dim=1)`, by n - 1) and `x.repeat(2)` repeats each element. `x.transpose(1, 2)` swaps two axes of
more, as in PyTorch: NumPy refuses it. Integers and truth values are f32 where the result is continuous, and truth
values are counted by `sum`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from operator import index
from typing import Self, overload

import numpy as np

from nnc.arguments import explained_as
from nnc.core.values.dtype import BOOL, I64, U64, AnyDType, dtype_of
from nnc.dynamic.arrays.divisors import by_words
from nnc.dynamic.arrays.lifting import LiftingOperand
from nnc.dynamic.arrays.located import located
from nnc.dynamic.arrays.promotion import continuous
from nnc.dynamic.arrays.values_and_places import ValuesAndPlaces, extreme, paired
from nnc.errors import ArgumentError, AttributeValueError, ShapeError
from nnc.ops.elementwise import pointwise
from nnc.ops.indexing.order import cumsum, sort
from nnc.ops.movement.broadcast import broadcast_to, normalize_axes, reduce_sum, reshape, tiled
from nnc.ops.movement.fill import scalar_like
from nnc.ops.movement.movement import transpose
from nnc.ops.number import INTEGERS, integers_of
from nnc.ops.reduction import derived, reduction

Axes = int | Iterable[int] | None
# Sums and products of integers are of the widest type of their kind, as in NumPy.
WIDE = {"bool": I64, "int": I64, "uint": U64}


def _is_axis(axis: int | None, rank: int) -> bool:
    """Whether x has this axis, or none is named; numbers beyond are how often PyTorch repeats the last axis."""
    return axis is None or not isinstance(axis, INTEGERS) or -rank <= axis < max(rank, 1) or axis < 0


@explained_as("")
class ArrayMethods(LiftingOperand):
    """The methods; what they are made of are `nnc.ops`, so gradients flow, and they are recorded and compiled."""

    __slots__ = ()

    @abstractmethod
    def twin(self) -> Self:
        """Another handle of the same value: what is assigned to one is not seen by the other."""

    # ---- sums, extrema and the like

    @located
    def sum(self, axis: Axes = None, *, dtype: AnyDType | None = None, keepdims: bool = False) -> Self:
        """The sum over `axis` (all when None); integers and truth values are counted in 64 bits."""
        return reduce_sum(self._wide(dtype), axis, keepdims=keepdims)

    @located
    def prod(self, axis: Axes = None, *, dtype: AnyDType | None = None, keepdims: bool = False) -> Self:
        """The product over `axis` (all when None)."""
        return derived.prod(self._wide(dtype), axis, keepdims=keepdims)

    def _wide(self, dtype: AnyDType | None) -> Self:
        own = self.spec.dtype
        return pointwise.cast(self, WIDE.get(own.kind, own) if dtype is None else dtype_of(dtype))

    @located
    def mean(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """The mean over `axis` (all when None); nan of no elements."""
        x = continuous(self)
        if 0 not in x.shape:
            return reduction.reduce_mean(x, axis, keepdims=keepdims)
        total = reduce_sum(x, axis, keepdims=keepdims)
        axes = normalize_axes("mean", axis, x.spec.rank)
        count = float(np.prod([x.shape[value] for value in axes]))
        return pointwise.divide(total, scalar_like(total, count))

    @by_words
    @located
    def var(self, axis: Axes = None, *, correction: float = 0.0, keepdims: bool = False) -> Self:
        """The sum of (x - mean)² over `axis`, divided by n - correction; with PyTorch's `dim=` by n - 1."""
        return derived.var(continuous(self), axis, correction=correction, keepdims=keepdims)

    @by_words
    @located
    def std(self, axis: Axes = None, *, correction: float = 0.0, keepdims: bool = False) -> Self:
        """The square root of `var`."""
        return derived.std(continuous(self), axis, correction=correction, keepdims=keepdims)

    @overload
    def max(self, axis: Axes = None, *, keepdims: bool = False) -> Self: ...
    @overload
    def max(self, *, dim: int, keepdim: bool = False) -> ValuesAndPlaces[Self]: ...
    @located
    @paired(extreme(largest=True))
    def max(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """The largest element over `axis` (all when None); `x.max(dim=1)` gives the elements and their places."""
        return (
            self.any(axis, keepdims=keepdims)
            if self._is_truth()
            else reduction.reduce_max(self, axis, keepdims=keepdims)
        )

    @overload
    def min(self, axis: Axes = None, *, keepdims: bool = False) -> Self: ...
    @overload
    def min(self, *, dim: int, keepdim: bool = False) -> ValuesAndPlaces[Self]: ...
    @located
    @paired(extreme(largest=False))
    def min(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """The smallest element over `axis` (all when None); `x.min(dim=1)` gives the elements and their places."""
        return (
            self.all(axis, keepdims=keepdims)
            if self._is_truth()
            else reduction.reduce_min(self, axis, keepdims=keepdims)
        )

    def _is_truth(self) -> bool:
        return self.spec.dtype is BOOL

    @located
    def all(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """Whether all elements over `axis` are not 0."""
        return reduction.reduce_all(pointwise.cast(self, BOOL), axis, keepdims=keepdims)

    @located
    def any(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """Whether any element over `axis` is not 0."""
        return reduction.reduce_any(pointwise.cast(self, BOOL), axis, keepdims=keepdims)

    @located
    def argmax(self, axis: int | None = None, *, keepdims: bool = False) -> Self:
        """The first place of the largest element along `axis`; in row-major order of all when None."""
        return self._place(largest=True, axis=axis, keepdims=keepdims)

    @located
    def argmin(self, axis: int | None = None, *, keepdims: bool = False) -> Self:
        """The first place of the smallest element along `axis`; in row-major order of all when None."""
        return self._place(largest=False, axis=axis, keepdims=keepdims)

    def _place(self, *, largest: bool, axis: int | None, keepdims: bool) -> Self:
        rule = reduction.argmax if largest else reduction.argmin
        x = pointwise.cast(self, I64) if self._is_truth() else self
        if axis is None:
            place = rule(reshape(x, (-1,)), 0)
            return reshape(place, (1,) * self.spec.rank) if keepdims else place
        return rule(x, self._axis("argmax" if largest else "argmin", axis), keepdims=keepdims)

    def _axis(self, subject: str, axis: int) -> int:
        axes = normalize_axes(subject, axis, self.spec.rank)
        if len(axes) != 1:
            raise AttributeValueError(subject, got=f"{len(axes)} axes", need="one axis")
        return axes[0]

    # ---- along an axis

    @located
    def cumsum(self, axis: int | None = None, *, dtype: AnyDType | None = None) -> Self:
        """y[k] = x[0] + … + x[k] along `axis`; of all elements in a row when None."""
        x = self._wide(dtype)
        return cumsum(reshape(x, (-1,)), 0) if axis is None else cumsum(x, self._axis("cumsum", axis))

    @located
    def cumprod(self, axis: int | None = None, *, dtype: AnyDType | None = None) -> Self:
        """y[k] = x[0] · … · x[k] along `axis`; of all elements in a row when None."""
        x = self._wide(dtype)
        return derived.cumprod(reshape(x, (-1,)), 0) if axis is None else derived.cumprod(x, axis)

    @overload
    def sort(self, axis: int | None = -1, *, descending: bool = False) -> Self: ...
    @overload
    def sort(self, *, dim: int, descending: bool = False) -> ValuesAndPlaces[Self]: ...
    @located
    @paired(lambda x, axis, keepdims, descending=False: x._sorted(axis, descending), otherwise=-1)
    def sort(self, axis: int | None = -1, *, descending: bool = False) -> Self:
        """The elements in order along `axis`; all in a row when None. A new array: x stays as it is."""
        return self._sorted(axis, descending)[0]

    @located
    def argsort(self, axis: int | None = -1, *, descending: bool = False) -> Self:
        """Where the elements in order are; equal ones keep their order."""
        return self._sorted(axis, descending)[1]

    def _sorted(self, axis: int | None, descending: bool) -> tuple[Self, Self]:
        if axis is None:
            return sort(reshape(self, (-1,)), 0, descending=descending)
        return sort(self, self._axis("sort", axis), descending=descending)

    # ---- shapes

    @located
    def reshape(self, *shape: int | Iterable[int]) -> Self:
        """The same elements under another shape, given as sizes or as one tuple; one size may be -1."""
        sizes = shape[0] if len(shape) == 1 and not isinstance(shape[0], INTEGERS) else shape
        return reshape(self, sizes)  # type: ignore[arg-type]  # integers: `reshape` says so of anything else

    @located
    def flatten(self, start: int = 0, end: int = -1) -> Self:
        """The axes from `start` to `end`, both included, as one; all when none is named."""
        rank = self.spec.rank
        if not rank:
            return reshape(self, (1,))
        first, last = self._axis("flatten", start), self._axis("flatten", end)
        if first > last:
            raise AttributeValueError("flatten", got=f"axes {start} to {end} of {self.spec}", need="start ≤ end")
        merged = int(np.prod(self.shape[first : last + 1], dtype=object))
        return reshape(self, (*self.shape[:first], merged, *self.shape[last + 1 :]))

    @located
    def ravel(self) -> Self:
        """All elements in a row."""
        return reshape(self, (-1,))

    @located
    def transpose(self, *axes: int | Iterable[int]) -> Self:
        """The axes in this order, reversed when none is named; two of more than two are swapped."""
        given = axes[0] if len(axes) == 1 and not isinstance(axes[0], INTEGERS) else axes
        if not axes or given is None:
            return transpose(self)
        order = [self._axis("transpose", operand) for operand in given]  # type: ignore[arg-type]  # as in `reshape`
        if len(order) == 2 < self.spec.rank:
            return self.swapaxes(*order)
        if sorted(order) != list(range(self.spec.rank)):
            got, need = f"axes {tuple(order)} of {self.spec}", "each axis once, or two that are swapped"
            raise AttributeValueError("transpose", got=got, need=need)
        return transpose(self, tuple(order))

    @located
    def permute(self, *axes: int | Iterable[int]) -> Self:
        """The axes in this order."""
        return self.transpose(*axes)

    @located
    def swapaxes(self, axis1: int, axis2: int) -> Self:
        """Two axes swapped."""
        order = list(range(self.spec.rank))
        first, other = self._axis("swapaxes", axis1), self._axis("swapaxes", axis2)
        order[first], order[other] = other, first
        return transpose(self, tuple(order))

    @located
    def squeeze(self, axis: Axes = None) -> Self:
        """Without these axes of size 1; without all of that size when None."""
        if axis is None:
            chosen = tuple(place for place, size in enumerate(self.shape) if size == 1)
        else:
            chosen = normalize_axes("squeeze", axis, self.spec.rank)
        if any(self.shape[value] != 1 for value in chosen):
            raise ShapeError("squeeze", got=f"{self.spec} without axes {list(chosen)}", need="axes of size 1")
        return reshape(self, tuple(size for place, size in enumerate(self.shape) if place not in chosen))

    @located
    def expand_dims(self, axis: int | Iterable[int]) -> Self:
        """New axes of size 1 at these places of the result."""
        places = integers_of(axis)
        rank = self.spec.rank + len(places)
        chosen = normalize_axes("expand_dims", places, rank)
        sizes = iter(self.shape)
        return reshape(self, tuple(1 if place in chosen else next(sizes) for place in range(rank)))

    @located
    def repeat(self, repeats: int | tuple[int, ...] | list[int], axis: int | None = None, *more: int) -> Self:
        """Each element so many times along `axis`; of all in a row when None. (`nnc.tile` repeats the whole.)

        What can only be PyTorch's call is that: three sizes and more, or two for fewer axes, repeat the whole.
        """
        if np.ndim(repeats) and not isinstance(repeats, tuple | list):
            # Of NumPy's function that is a number for each element, of PyTorch's method one for each axis.
            need, fix = "an integer, or a tuple", "nnc.repeat(x, counts, axis), or x.repeat(tuple(sizes))"
            raise ArgumentError("repeat", got="repeats=an array", need=need, fix=fix)
        sizes = tuple(repeats) if isinstance(repeats, tuple | list) else (index(repeats),)
        if more or isinstance(repeats, tuple | list) or not _is_axis(axis, self.spec.rank):
            return tiled(self, (*sizes, *(() if axis is None else (axis,)), *more), "repeat")
        x, along = (reshape(self, (-1,)), 0) if axis is None else (self, self._axis("repeat", axis))
        size = x.shape[along]
        wide = reshape(x, (*x.shape[: along + 1], 1, *x.shape[along + 1 :]))
        spread = broadcast_to(wide, (*x.shape[: along + 1], repeats, *x.shape[along + 1 :]))
        return reshape(spread, (*x.shape[:along], size * repeats, *x.shape[along + 1 :]))

    @located
    def view(self, *shape: int | Iterable[int]) -> Self:
        """As `reshape`: another shape of the same elements, in the same memory where that goes."""
        return self.reshape(*shape)
