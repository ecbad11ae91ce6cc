"""Methods that PyTorch alone has and whose meaning is plain: a name, PyTorch's arguments, and our form of it.

    x.unsqueeze(0).expand(4, -1, -1).masked_fill(mask, -1e9).softmax(dim=-1).type_as(y)

Which names are here is a rule (`docs/design/0038-methods-of-pytorch.md`): code writes them, no other project means
another thing by them, and one expression of ours equals them in every argument. Code of the package uses our form.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from itertools import accumulate, pairwise
from typing import Any, Self

import numpy as np

from nnc.arguments import explained_as, shown
from nnc.core.running.namespace import array_functions
from nnc.core.values.dtype import BOOL, AnyDType, dtype_of
from nnc.core.values.spec import contiguous_strides
from nnc.core.values.tensor import as_array
from nnc.dynamic.arrays.element_type_methods import ElementTypeMethods
from nnc.dynamic.arrays.located import located
from nnc.dynamic.arrays.promotion import continuous
from nnc.dynamic.arrays.values_and_places import ValuesAndPlaces
from nnc.errors import ArgumentError, AttributeValueError, ShapeError
from nnc.ops.composed import compose
from nnc.ops.elementwise import pointwise
from nnc.ops.elementwise.complex_numbers import magnitude
from nnc.ops.indexing.indexing import gather
from nnc.ops.indexing.order import top_k
from nnc.ops.movement.broadcast import broadcast_to
from nnc.ops.movement.copy import contiguous
from nnc.ops.movement.fill import scalar_like
from nnc.ops.movement.movement import slice_axis
from nnc.ops.normalization import softmaxes
from nnc.ops.number import INTEGERS

Sizes = int | Iterable[int]


def _sizes(given: tuple[Sizes, ...]) -> tuple[int, ...]:
    """Sizes that are given one by one or as one tuple."""
    if len(given) == 1 and not isinstance(given[0], INTEGERS):
        return tuple(given[0])
    return given  # type: ignore[return-value]  # integers: operators say so of anything else


@explained_as("")
class PyTorchMethods(ElementTypeMethods):
    """The methods; what they are made of are our methods and `nnc.ops`."""

    __slots__ = ()

    # ---- shapes

    @located
    def unsqueeze(self, dim: int) -> Self:
        """x.expand_dims(dim): a new axis of size 1 at this place of the result."""
        return self.expand_dims(dim)

    @located
    def expand(self, *sizes: Sizes) -> Self:
        """x repeated along axes of size 1 and along new ones in front; -1 keeps the size of an axis."""
        wanted = _sizes(sizes)
        front = len(wanted) - self.spec.rank
        if front < 0 or -1 in wanted[:front]:
            need = f"{self.spec.rank} sizes or more, -1 only for axes of x"
            raise ShapeError("expand", got=f"{self.spec} to {list(wanted)}", need=need)
        kept = zip(wanted[front:], self.shape, strict=True)
        return broadcast_to(self, (*wanted[:front], *(own if size == -1 else size for size, own in kept)))

    @located
    def expand_as(self, other: PyTorchMethods) -> Self:
        """x repeated up to the shape of `other`."""
        return broadcast_to(self, other.shape)

    @located
    def view_as(self, other: PyTorchMethods) -> Self:
        """x.reshape(other.shape)"""
        return self.reshape(other.shape)

    @located
    def reshape_as(self, other: PyTorchMethods) -> Self:
        """x.reshape(other.shape)"""
        return self.reshape(other.shape)

    @located
    def t(self) -> Self:
        """x.T, of at most two axes."""
        if self.spec.rank > 2:
            raise ShapeError("t", got=str(self.spec), need="at most two axes", fix="x.T, x.mT or x.swapaxes(0, 1)")
        return self.transpose()

    def dim(self) -> int:
        """x.ndim, the number of axes."""
        return self.spec.rank

    @located
    def contiguous(self) -> Self:
        """x where its elements lie in row-major order, else a copy in which they do."""
        return self.twin() if self.strides == contiguous_strides(self.shape) else contiguous(self)

    @located
    def chunk(self, chunks: int, dim: int = 0) -> tuple[Self, ...]:
        """At most so many parts along the axis, all but the last of one length."""
        axis = self._axis("chunk", dim)
        size = self.shape[axis]
        if chunks < 1:
            raise AttributeValueError("chunk", got=f"{chunks} parts", need="at least one")
        length = max(-(-size // chunks), 1)
        ends = pairwise((*range(0, size, length), size)) if size else [(0, 0)]
        return tuple(slice_axis(self, axis, start, end) for start, end in ends)

    @located
    def split(self, split_size: int | Iterable[int], dim: int = 0, *, axis: int | None = None) -> tuple[Self, ...]:
        """Parts of one size along the axis, the last one of the rest, or parts of these sizes.

        With `axis=`, MLX's word, so many equal parts, or parts that begin at these places, as `nnc.split`.

        >>> [part.tolist() for part in nnc.arange(5).split(2)]
        [[0, 1], [2, 3], [4]]
        """
        place = self._axis("split", dim if axis is None else axis)
        split_size = int(split_size) if isinstance(split_size, np.integer) else split_size
        size, lengths = self.shape[place], [split_size] if isinstance(split_size, int) else list(split_size)
        if isinstance(split_size, int) and axis is not None:
            lengths = [size // split_size] * split_size if split_size > 0 and not size % split_size else [-1]
        elif isinstance(split_size, int):
            full = range(split_size, size + 1, split_size) if split_size > 0 else ()
            lengths = [split_size for _ in full] + ([size % split_size] if full and size % split_size else [])
        elif axis is not None:
            lengths = [end - start for start, end in pairwise((0, *lengths, size))]
        if any(length < 0 for length in lengths) or sum(lengths) != size:
            need = f"sizes that add up to {size}" if axis is None else f"parts that fit {size}"
            raise ShapeError("split", got=f"{shown(split_size)} of {self.spec} along axis {place}", need=need)
        ends = pairwise((0, *accumulate(lengths)))
        return tuple(slice_axis(self, place, start, end) for start, end in ends)

    @located
    def norm(self, p: float | str = 2, dim: int | tuple[int, ...] | None = None, keepdim: bool = False) -> Self:
        """(Σ |x|^p)^(1/p) over the axes, all when None; p = inf and -inf are the largest and smallest |x|.

        Where all are 0 its derivative is 0 for p ≥ 1, the least steep slope, as in PyTorch.
        """
        if p != "fro" and not isinstance(p, int | float):
            raise ArgumentError("norm", got=f"p={shown(p)}", need="a number, inf, -inf or 'fro'")
        x: Any = continuous(self)
        size: Any = magnitude(x) if x.dtype.kind == "complex" else pointwise.abs(x)
        result: Self = compose.norm(size, dim, order=2.0 if p == "fro" else float(p), keepdims=keepdim)
        return result

    @located
    def unbind(self, dim: int = 0) -> tuple[Self, ...]:
        """What stands at each place along the axis."""
        axis = self._axis("unbind", dim)
        return tuple(slice_axis(self, axis, place, place + 1).drop_axis(axis) for place in range(self.shape[axis]))

    @located
    def repeat_interleave(self, repeats: int | PyTorchMethods, dim: int | None = None) -> Self:
        """x.repeat(repeats, dim): each element so many times, or as often as an array says for each."""
        if isinstance(repeats, PyTorchMethods):
            spread: Self = array_functions().repeat(self, repeats, dim)
            return spread
        return self.repeat(repeats, dim)

    # ---- elements

    @located
    def gather(self, dim: int, index: Self) -> Self:
        """y[…, k, …] = x[…, index[…, k, …], …] along `dim`; along other axes `index` may be shorter than x."""
        axis, x, places = self._axis("gather", dim), self, self.lift(index)
        if places is None or places.spec.rank != x.spec.rank:
            got = f"index={index!r}" if places is None else f"x={x.spec}, index={places.spec}"
            raise ShapeError("gather", got=got, need="an index with the axes of x", fix="index.expand_dims(dim)")
        for other, size in enumerate(places.shape):
            if other != axis and size < x.shape[other]:
                x = slice_axis(x, other, 0, size)
        return gather(x, places, axis)

    @located
    def topk(self, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> ValuesAndPlaces[Self]:
        """The k largest or smallest elements along the axis, the first one first, and their places."""
        return ValuesAndPlaces(*top_k(self, k, self._axis("topk", dim), largest=largest))

    @located
    def masked_fill(self, mask: Self, value: float) -> Self:
        """nnc.where(mask, value, x), of the shape and type of x."""
        chosen = self.lift(mask)
        if chosen is None:
            raise ArgumentError("masked_fill", got=f"mask={type(mask).__name__}", need="an array of truth values")
        return compose.masked_fill(self, broadcast_to(pointwise.cast(chosen, BOOL), self.shape), value)

    @located
    def clamp(self, min: float | None = None, max: float | None = None) -> Self:
        """x.clip(min, max)"""
        return self.clip(min, max)

    @located
    def softmax(self, dim: int) -> Self:
        """e^x / sum of e^x along the axis."""
        return softmaxes.softmax(continuous(self).swapaxes(dim, -1)).swapaxes(dim, -1)

    @located
    def log_softmax(self, dim: int) -> Self:
        """The logarithm of `softmax`."""
        return softmaxes.log_softmax(continuous(self).swapaxes(dim, -1)).swapaxes(dim, -1)

    @located
    def type_as(self, other: PyTorchMethods) -> Self:
        """x.astype(other.dtype)"""
        return self.astype(other.spec.dtype)

    # ---- operators as methods

    @located
    def eq(self, other: object) -> Self:
        """x == other"""
        return self._by_operator("eq", operator.eq, other)

    @located
    def ne(self, other: object) -> Self:
        """x != other"""
        return self._by_operator("ne", operator.ne, other)

    @located
    def lt(self, other: object) -> Self:
        """x < other"""
        return self._by_operator("lt", operator.lt, other)

    @located
    def le(self, other: object) -> Self:
        """x <= other"""
        return self._by_operator("le", operator.le, other)

    @located
    def gt(self, other: object) -> Self:
        """x > other"""
        return self._by_operator("gt", operator.gt, other)

    @located
    def ge(self, other: object) -> Self:
        """x >= other"""
        return self._by_operator("ge", operator.ge, other)

    @located
    def equal(self, other: object) -> bool:
        """Whether shapes and all elements are equal, as one of Python's truth values."""
        same = self.lift(other if hasattr(other, "spec") else np.asarray(other))
        if same is None:
            raise ArgumentError("equal", got=shown(other), need="an array")
        return same.shape == self.shape and bool(self.eq(same).all())

    @located
    def mm(self, mat2: Self) -> Self:
        """x @ mat2"""
        return self @ mat2

    bmm = mv = mm

    # ---- new values, of the type of x and on its device

    @located
    def new_zeros(self, *sizes: Sizes, dtype: AnyDType | None = None) -> Self:
        """An array of zeros."""
        return self.new_full(_sizes(sizes), 0, dtype=dtype)

    @located
    def new_ones(self, *sizes: Sizes, dtype: AnyDType | None = None) -> Self:
        """An array of ones."""
        return self.new_full(_sizes(sizes), 1, dtype=dtype)

    @located
    def new_full(self, size: Iterable[int], fill_value: float, *, dtype: AnyDType | None = None) -> Self:
        """An array of one value."""
        scalar = scalar_like(self, fill_value)
        kind = scalar if dtype is None else pointwise.cast(scalar, dtype_of(dtype))
        return broadcast_to(kind, tuple(size))

    @located
    def new_tensor(self, data: object, *, dtype: AnyDType | None = None) -> Self:
        """An array of these numbers."""
        kind = self.spec.dtype if dtype is None else dtype_of(dtype)
        given: Any = data
        values = as_array(given.numpy() if hasattr(given, "numpy") else given)
        made = None if values.dtype.kind in "OUSMm" else self.lift(values)
        if made is None:
            raise ArgumentError("new_tensor", got=shown(data), need="numbers")
        return pointwise.cast(made, kind)

    @located
    def new_empty(self, *sizes: Sizes, dtype: AnyDType | None = None) -> Self:
        """An array of zeros: memory that nobody wrote is not handed out."""
        return self.new_full(_sizes(sizes), 0, dtype=dtype)

    @located
    def new(self, *sizes: Any) -> Self:  # noqa: ANN401  # sizes, or numbers in a list
        """Zeros of these sizes, or an array of these numbers: `x.new(2, 3)`, `x.new([1.0, 2.0])`."""
        if len(sizes) == 1 and not isinstance(sizes[0], int | tuple):
            return self.new_tensor(sizes[0])
        return self.new_empty(*sizes)

    # ---- questions

    def nelement(self) -> int:
        """x.numel()"""
        return self.spec.elements

    def element_size(self) -> int:
        """Bytes of an element."""
        return self.spec.dtype.itemsize

    def is_floating_point(self) -> bool:
        """x.dtype.is_float"""
        return self.spec.dtype.is_float

    def is_complex(self) -> bool:
        """x.dtype.kind == "complex\""""
        return self.spec.dtype.kind == "complex"

    def is_contiguous(self) -> bool:
        """Whether its elements lie in row-major order."""
        return self.strides == contiguous_strides(self.shape)

    @located
    def stride(self, dim: int | None = None) -> tuple[int, ...] | int:
        """Elements between neighbours along each axis, or along one."""
        return self.strides if dim is None else self.strides[self._axis("stride", dim)]

    @property
    def is_cuda(self) -> bool:
        """Whether its elements are on a CUDA device."""
        return self.spec.device.kind == "cuda"
