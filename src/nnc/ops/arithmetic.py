"""Python's operators on operands: `a + b`, `2 * a`, `a @ b`, `a[:, 1:3]`."""

from __future__ import annotations

from typing import Self

from nnc.errors import AttributeValueError
from nnc.ops.fill import scalar_like
from nnc.ops.gemm import gemm
from nnc.ops.movement import slice_axis
from nnc.ops.operand import Operand
from nnc.ops.pointwise import add, affine, divide, multiply, power, reciprocal, square, subtract


class ArithmeticOperand(Operand):
    """An operand with Python's arithmetic; numbers become attributes, not tensors."""

    __slots__ = ()

    def __add__(self, other: Self | float) -> Self:
        return add(self, other) if isinstance(other, Operand) else affine(self, 1.0, other)

    def __radd__(self, other: float) -> Self:
        return affine(self, 1.0, other)

    def __sub__(self, other: Self | float) -> Self:
        return subtract(self, other) if isinstance(other, Operand) else affine(self, 1.0, -other)

    def __rsub__(self, other: float) -> Self:
        return affine(self, -1.0, other)

    def __mul__(self, other: Self | float) -> Self:
        return multiply(self, other) if isinstance(other, Operand) else affine(self, other)

    def __rmul__(self, other: float) -> Self:
        return affine(self, other)

    def __truediv__(self, other: Self | float) -> Self:
        return divide(self, other) if isinstance(other, Operand) else affine(self, 1.0 / other)

    def __rtruediv__(self, other: float) -> Self:
        return affine(reciprocal(self), other)

    def __pow__(self, other: Self | float) -> Self:
        if isinstance(other, Operand):
            return power(self, other)
        return square(self) if other == 2 else power(self, scalar_like(self, other))

    def __neg__(self) -> Self:
        return affine(self, -1.0)

    def __matmul__(self, other: Self) -> Self:
        return gemm(self, other)

    def __getitem__(self, index: int | slice | tuple[int | slice, ...]) -> Self:
        """Basic indexing with integers and slices of step 1: a view, no copy."""
        parts = index if isinstance(index, tuple) else (index,)
        result, axis = self, 0
        for part in parts:
            if isinstance(part, int):
                position = part + result.shape[axis] if part < 0 else part
                result = slice_axis(result, axis, position, position + 1).drop_axis(axis)
                continue
            start, stop, step = part.indices(result.shape[axis])
            if step != 1:
                raise AttributeValueError("slice", got=f"step {step}", need="step 1")
            result = slice_axis(result, axis, start, max(start, stop))
            axis += 1
        return result

    def drop_axis(self, axis: int) -> Self:
        """The same elements without an axis of size 1: a view, no copy."""
        spec = type(self.spec)(
            (*self.shape[:axis], *self.shape[axis + 1 :]), self.spec.dtype, self.spec.layout, self.spec.device
        )
        return self.alias(spec, self.offset, (*self.strides[:axis], *self.strides[axis + 1 :]))
