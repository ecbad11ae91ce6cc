"""`x.size`, a number in NumPy, JAX and MLX, and a method in PyTorch."""

from __future__ import annotations

from typing import overload

from nnc.core.values.spec import TensorSpec


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

    def __call__(self, dim: int | None = None) -> tuple[int, ...] | int:
        """The shape, or the size on an axis; IndexError where there is no such axis."""
        return self._shape if dim is None else self._shape[dim]
