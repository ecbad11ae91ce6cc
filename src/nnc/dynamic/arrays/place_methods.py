"""Methods of PyTorch for shapes and places: each is `nnc.NAME(x, …)`, in PyTorch's words.

x.index_select(0, rows)        counts.scatter_add(0, index, ones)        x.narrow(1, 0, 3)
"""

# A row has no body.
# mypy: disable-error-code="empty-body"
from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

from nnc.arguments import explained_as, shown
from nnc.core.running.namespace import array_functions
from nnc.core.values.dtype import BOOL
from nnc.dynamic.arrays.function_methods import FunctionMethods
from nnc.dynamic.arrays.located import located
from nnc.dynamic.arrays.method_rows import Value, functions
from nnc.errors import ArgumentError, UsageError
from nnc.ops.elementwise.pointwise import cast
from nnc.ops.movement.broadcast import normalize_axes

Places = int | tuple[int, ...]
Sizes = int | Iterable[int]


@explained_as("")
@functions
class PlaceMethods(FunctionMethods):
    """The methods; what is looked at in them is eager alone."""

    __slots__ = ()

    def narrow(self, dim: int, start: int, length: int) -> Self: ...
    def unflatten(self, dim: int, sizes: Iterable[int]) -> Self: ...
    def movedim(self, source: Places, destination: Places) -> Self:
        """nnc.moveaxis(x, source, destination)"""

    def moveaxis(self, source: Places, destination: Places) -> Self: ...
    def swapdims(self, dim0: int, dim1: int) -> Self:
        """x.swapaxes(dim0, dim1)"""

    def tile(self, *dims: Sizes) -> Self: ...
    def broadcast_to(self, *size: Sizes) -> Self: ...
    def flip(self, *dims: Sizes) -> Self: ...
    def fliplr(self) -> Self: ...
    def flipud(self) -> Self: ...
    def roll(self, shifts: Places, dims: Places | None = None) -> Self: ...
    def rot90(self, k: int = 1, dims: tuple[int, int] = (0, 1)) -> Self: ...
    def diff(self, n: int = 1, dim: int = -1) -> Self: ...
    def tril(self, diagonal: int = 0) -> Self: ...
    def triu(self, diagonal: int = 0) -> Self: ...
    def diag(self, diagonal: int = 0) -> Self: ...
    def diagonal(self, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Self: ...
    def diag_embed(self, offset: int = 0) -> Self: ...
    def unfold(self, dimension: int, size: int, step: int) -> Self:
        """windows along an axis, on a new last one: nnc.unfold(x, dimension, size, step)"""

    def tensor_split(self, indices_or_sections: int | list[int], dim: int = 0) -> Value: ...
    def index_select(self, dim: int, index: Value) -> Self: ...
    def take_along_dim(self, indices: Value, dim: int | None = None) -> Self: ...
    def masked_select(self, mask: Value) -> Self:
        """x[mask]"""

    def masked_scatter(self, mask: Value, source: Value) -> Self: ...
    def scatter(self, dim: int, index: Value, src: Value, *, reduce: str | None = None) -> Self: ...
    def scatter_add(self, dim: int, index: Value, src: Value) -> Self: ...
    def scatter_reduce(self, dim: int, index: Value, src: Value, reduce: str, *, include_self: bool = True) -> Self: ...
    def index_add(self, dim: int, index: Value, source: Value, *, alpha: float = 1) -> Self: ...
    def index_copy(self, dim: int, index: Value, source: Value) -> Self: ...
    def index_fill(self, dim: int, index: Value, value: float) -> Self: ...

    @located
    def nonzero(self, *, as_tuple: bool | None = None) -> Any:  # noqa: ANN401  # one array, or one per axis
        """Where elements are not 0: as a row each (False), or as an array per axis (True), which NumPy does unasked."""
        if as_tuple is None:
            fix = "as_tuple=False for PyTorch's rows, as_tuple=True or nnc.nonzero(x) for NumPy's array per axis"
            raise UsageError("nonzero", got="no as_tuple=", need="it, because projects differ", fix=fix)
        return self._by_function("nonzero" if as_tuple else "argwhere")

    @located
    def select(self, dim: int, index: int) -> Self:
        """x[…, index, …] at `dim`"""
        this: Any = self
        (place,) = normalize_axes("select", dim, this.ndim)
        result: Self = this[(*[slice(None)] * place, index)]
        return result

    @located
    def where(self, condition: Any, other: Any) -> Self:  # noqa: ANN401  # as above
        """nnc.where(condition, x, other)"""
        this: Any = self
        chosen = this.lift(condition)
        if chosen is None:
            raise ArgumentError("where", got=f"condition={shown(condition)}", need="an array of truth values")
        result: Self = array_functions().where(cast(chosen, BOOL), self, other)
        return result
