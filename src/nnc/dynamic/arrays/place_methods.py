"""Methods of PyTorch for shapes and places: each is `nnc.NAME(x, …)`, in PyTorch's words.

x.index_select(0, rows)        counts.scatter_add(0, index, ones)        x.narrow(1, 0, 3)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

from nnc.arguments import explained, shown
from nnc.core.running.namespace import array_functions
from nnc.core.values.dtype import BOOL
from nnc.dynamic.arrays.function_methods import FunctionMethods
from nnc.dynamic.arrays.located import located
from nnc.errors import ArgumentError, UsageError
from nnc.ops.elementwise.pointwise import cast

Places = int | tuple[int, ...]
Sizes = int | Iterable[int]


def _given(sizes: tuple[Sizes, ...]) -> Any:  # noqa: ANN401  # what the function says of it
    """Sizes that are given one by one or as one tuple."""
    return sizes[0] if len(sizes) == 1 else sizes


@explained
class PlaceMethods(FunctionMethods):
    """The methods; what is looked at in them is eager alone."""

    __slots__ = ()

    @located
    def nonzero(self, *, as_tuple: bool | None = None) -> Any:  # noqa: ANN401  # one array, or one per axis
        """Where elements are not 0: as a row each (False), or as an array per axis (True), which NumPy does unasked."""
        if as_tuple is None:
            fix = "as_tuple=False for PyTorch's rows, as_tuple=True or nnc.nonzero(x) for NumPy's array per axis"
            raise UsageError("nonzero", got="no as_tuple=", need="it, because projects differ", fix=fix)
        return self._by_function("nonzero" if as_tuple else "argwhere")

    @located
    def narrow(self, dim: int, start: int, length: int) -> Self:
        """nnc.narrow(x, dim, start, length)"""
        return self._by_function("narrow", dim, start, length)

    @located
    def select(self, dim: int, index: int) -> Self:
        """x[…, index, …] at `dim`"""
        this: Any = self
        result: Self = this[(*[slice(None)] * (dim % this.ndim), index)]
        return result

    @located
    def unflatten(self, dim: int, sizes: Iterable[int]) -> Self:
        """nnc.unflatten(x, dim, sizes)"""
        return self._by_function("unflatten", dim, sizes)

    @located
    def movedim(self, source: Places, destination: Places) -> Self:
        """nnc.moveaxis(x, source, destination)"""
        return self._by_function("movedim", source, destination)

    @located
    def moveaxis(self, source: Places, destination: Places) -> Self:
        """nnc.moveaxis(x, source, destination)"""
        return self._by_function("moveaxis", source, destination)

    @located
    def swapdims(self, dim0: int, dim1: int) -> Self:
        """x.swapaxes(dim0, dim1)"""
        return self._by_function("swapaxes", dim0, dim1)

    @located
    def tile(self, *dims: Sizes) -> Self:
        """nnc.tile(x, dims)"""
        return self._by_function("tile", _given(dims))

    @located
    def broadcast_to(self, *size: Sizes) -> Self:
        """nnc.broadcast_to(x, size)"""
        return self._by_function("broadcast_to", _given(size))

    @located
    def flip(self, *dims: Sizes) -> Self:
        """nnc.flip(x, dims)"""
        return self._by_function("flip", _given(dims))

    @located
    def fliplr(self) -> Self:
        """nnc.fliplr(x)"""
        return self._by_function("fliplr")

    @located
    def flipud(self) -> Self:
        """nnc.flipud(x)"""
        return self._by_function("flipud")

    @located
    def roll(self, shifts: Places, dims: Places | None = None) -> Self:
        """nnc.roll(x, shifts, dims)"""
        return self._by_function("roll", shifts, dims)

    @located
    def rot90(self, k: int = 1, dims: tuple[int, int] = (0, 1)) -> Self:
        """nnc.rot90(x, k, dims)"""
        return self._by_function("rot90", k, dims)

    @located
    def diff(self, n: int = 1, dim: int = -1) -> Self:
        """nnc.diff(x, n, dim)"""
        return self._by_function("diff", n, dim)

    @located
    def tril(self, diagonal: int = 0) -> Self:
        """nnc.tril(x, diagonal)"""
        return self._by_function("tril", diagonal)

    @located
    def triu(self, diagonal: int = 0) -> Self:
        """nnc.triu(x, diagonal)"""
        return self._by_function("triu", diagonal)

    @located
    def diag(self, diagonal: int = 0) -> Self:
        """nnc.diag(x, diagonal)"""
        return self._by_function("diag", diagonal)

    @located
    def diagonal(self, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Self:
        """nnc.diagonal(x, offset, dim1, dim2)"""
        return self._by_function("diagonal", offset, dim1, dim2)

    @located
    def diag_embed(self, offset: int = 0) -> Self:
        """nnc.diag_embed(x, offset)"""
        return self._by_function("diag_embed", offset)

    @located
    def unfold(self, dimension: int, size: int, step: int) -> Self:
        """windows along an axis, on a new last one: nnc.unfold(x, dimension, size, step)"""
        return self._by_function("unfold", dimension, size, step)

    @located
    def tensor_split(self, indices_or_sections: int | list[int], dim: int = 0) -> Any:  # noqa: ANN401  # as above
        """nnc.tensor_split(x, indices_or_sections, dim)"""
        return self._by_function("tensor_split", indices_or_sections, dim)

    @located
    def index_select(self, dim: int, index: Any) -> Self:  # noqa: ANN401  # as above
        """nnc.index_select(x, dim, index)"""
        return self._by_function("index_select", dim, index)

    @located
    def take_along_dim(self, indices: Any, dim: int | None = None) -> Self:  # noqa: ANN401  # as above
        """nnc.take_along_dim(x, indices, dim)"""
        return self._by_function("take_along_dim", indices, dim)

    @located
    def masked_select(self, mask: Any) -> Self:  # noqa: ANN401  # as above
        """x[mask]"""
        return self._by_function("masked_select", mask)

    @located
    def masked_scatter(self, mask: Any, source: Any) -> Self:  # noqa: ANN401  # as above
        """nnc.masked_scatter(x, mask, source)"""
        return self._by_function("masked_scatter", mask, source)

    @located
    def where(self, condition: Any, other: Any) -> Self:  # noqa: ANN401  # as above
        """nnc.where(condition, x, other)"""
        this: Any = self
        chosen = this.lift(condition)
        if chosen is None:
            raise ArgumentError("where", got=f"condition={shown(condition)}", need="an array of truth values")
        result: Self = array_functions().where(cast(chosen, BOOL), self, other)
        return result

    @located
    def scatter(self, dim: int, index: Any, src: Any, *, reduce: str | None = None) -> Self:  # noqa: ANN401  # as above
        """nnc.scatter(x, dim, index, src)"""
        return self._by_function("scatter", dim, index, src, reduce=reduce)

    @located
    def scatter_add(self, dim: int, index: Any, src: Any) -> Self:  # noqa: ANN401  # as above
        """nnc.scatter_add(x, dim, index, src)"""
        return self._by_function("scatter_add", dim, index, src)

    @located
    def scatter_reduce(self, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True) -> Self:  # noqa: ANN401  # as above
        """nnc.scatter_reduce(x, dim, index, src, reduce)"""
        return self._by_function("scatter_reduce", dim, index, src, reduce, include_self=include_self)

    @located
    def index_add(self, dim: int, index: Any, source: Any, *, alpha: float = 1) -> Self:  # noqa: ANN401  # as above
        """nnc.index_add(x, dim, index, source)"""
        return self._by_function("index_add", dim, index, source, alpha=alpha)

    @located
    def index_copy(self, dim: int, index: Any, source: Any) -> Self:  # noqa: ANN401  # as above
        """nnc.index_copy(x, dim, index, source)"""
        return self._by_function("index_copy", dim, index, source)

    @located
    def index_fill(self, dim: int, index: Any, value: float) -> Self:  # noqa: ANN401  # as above
        """nnc.index_fill(x, dim, index, value)"""
        return self._by_function("index_fill", dim, index, value)
