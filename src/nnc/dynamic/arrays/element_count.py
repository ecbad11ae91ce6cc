"""`x.size`, a number in NumPy, JAX and MLX, and a method in PyTorch."""

from __future__ import annotations

from typing import overload

from nnc.arguments import explained
from nnc.core.precautions.origin import caller_origin
from nnc.core.values.spec import TensorSpec
from nnc.errors import IndexRangeError


class ElementCount(int):
    """Number of elements of a value; called, its shape, or its size on an axis.

    >>> x = nnc.zeros((2, 3))
    >>> x.size, x.size(0), x.size(-1), x.size()
    (6, 2, 3, (2, 3))
    """

    _shape: tuple[int, ...]

    @classmethod
    def of(cls, spec: TensorSpec) -> ElementCount:
        """That of a spec; a size that remembers where it comes from stays what it is."""
        elements = spec.elements
        if type(elements) is not int:
            return elements  # type: ignore[return-value]  # an open size, in a trace alone
        count = cls(elements)
        count._shape = spec.shape
        return count

    @overload
    def __call__(self, dim: None = None) -> tuple[int, ...]: ...

    @overload
    def __call__(self, dim: int) -> int: ...

    @explained
    def __call__(self, dim: int | None = None) -> tuple[int, ...] | int:
        """The shape, or the size on an axis; IndexRangeError where there is no such axis."""
        rank = len(self._shape)
        if dim is not None and not -rank <= dim < rank:
            got, need = f"axis {dim} of {rank}", f"one of {-rank}..{rank - 1}"
            raise IndexRangeError("size", got=got, need=need, origin=caller_origin())
        return self._shape if dim is None else self._shape[dim]
