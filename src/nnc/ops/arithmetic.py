"""Python's operators on operands: `a + b`, `2 * a`, `a @ b`, `a < b`, `a[:, 1:8:3]`."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from types import EllipsisType
from typing import Self, SupportsIndex

from nnc.arguments import explained_as
from nnc.core.values.spec import TensorSpec
from nnc.errors import AttributeValueError, IndexRangeError
from nnc.ops.convolutions.resize import flip
from nnc.ops.elementwise.integers import (  # fmt: skip
    INTEGERS,
    bitwise_and,
    bitwise_not,
    bitwise_or,
    bitwise_xor,
    floor_divide,
    remainder,
    shift_left,
    shift_right,
)
from nnc.ops.elementwise.pointwise import (
    abs,
    add,
    affine,
    divide,
    greater,
    greater_equal,
    less,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    multiply,
    power,
    reciprocal,
    square,
    subtract,
)
from nnc.ops.movement.fill import scalar_like
from nnc.ops.movement.movement import slice_axis
from nnc.ops.number import Number, exact, exact_reciprocal
from nnc.ops.operand import Operand, T
from nnc.ops.products.products import matmul

Index = SupportsIndex | slice | EllipsisType | None


@explained_as("")
class ArithmeticOperand(Operand):
    """An operand with Python's arithmetic; numbers become attributes, not tensors."""

    __slots__ = ()

    def __add__(self, other: Self | Number) -> Self:
        return add(self, other) if isinstance(other, Operand) else affine(self, 1.0, other)

    def __radd__(self, other: Number) -> Self:
        return affine(self, 1.0, other)

    def __sub__(self, other: Self | Number) -> Self:
        return subtract(self, other) if isinstance(other, Operand) else affine(self, 1.0, -exact(other))

    def __rsub__(self, other: Number) -> Self:
        return affine(self, -1.0, other)

    def __mul__(self, other: Self | Number) -> Self:
        return multiply(self, other) if isinstance(other, Operand) else affine(self, other)

    def __rmul__(self, other: Number) -> Self:
        return affine(self, other)

    def __truediv__(self, other: Self | Number) -> Self:
        if isinstance(other, Operand):
            return divide(self, other)
        inverse = exact_reciprocal(self.spec.dtype, other)
        return divide(self, scalar_like(self, other)) if inverse is None else affine(self, inverse)

    def __rtruediv__(self, other: Number) -> Self:
        return reciprocal(self) if other == 1 else divide(scalar_like(self, other), self)

    def __floordiv__(self, other: Self | Number) -> Self:
        return floor_divide(self, other)

    def __rfloordiv__(self, other: Number) -> Self:
        return floor_divide(other, self)

    def __mod__(self, other: Self | Number) -> Self:
        return remainder(self, other)

    def __rmod__(self, other: Number) -> Self:
        return remainder(other, self)

    def __lshift__(self, other: Self | Number) -> Self:
        return shift_left(self, other)

    def __rlshift__(self, other: Number) -> Self:
        return shift_left(other, self)

    def __rshift__(self, other: Self | Number) -> Self:
        return shift_right(self, other)

    def __rrshift__(self, other: Number) -> Self:
        return shift_right(other, self)

    def __and__(self, other: Self | Number) -> Self:
        return _bits(bitwise_and, logical_and, self, other)

    def __or__(self, other: Self | Number) -> Self:
        return _bits(bitwise_or, logical_or, self, other)

    def __xor__(self, other: Self | Number) -> Self:
        return _bits(bitwise_xor, logical_xor, self, other)

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def __invert__(self) -> Self:
        return bitwise_not(self) if self.spec.dtype.kind in INTEGERS else logical_not(self)

    def __pow__(self, other: Self | Number) -> Self:
        if isinstance(other, Operand):
            return power(self, other)
        return square(self) if other == 2 else power(self, scalar_like(self, other))

    def __rpow__(self, other: Number) -> Self:
        return power(scalar_like(self, other), self)

    def __neg__(self) -> Self:
        return affine(self, -1.0)

    def __abs__(self) -> Self:
        return abs(self)

    def __lt__(self, other: Self | Number) -> Self:
        return less(self, _operand(other, self))

    def __le__(self, other: Self | Number) -> Self:
        return less_equal(self, _operand(other, self))

    def __gt__(self, other: Self | Number) -> Self:
        return greater(self, _operand(other, self))

    def __ge__(self, other: Self | Number) -> Self:
        return greater_equal(self, _operand(other, self))

    def __matmul__(self, other: Self) -> Self:
        return matmul(self, other)

    def __getitem__(self, index: Index | tuple[Index, ...]) -> Self:
        """NumPy's basic indexing: integers, slices, `...` and None (a new axis of size 1).

        The result is a view without a copy, except that a negative step copies.
        """
        result, axis = self, 0
        for part in _expanded(index, self.spec):
            if part is None:
                result = result.add_axis(axis)
            elif isinstance(part, slice):
                result = _sliced(result, axis, part)
            else:
                size = result.shape[axis]
                if not -size <= part < size:
                    got, need = f"{part} on axis {axis} of {result.spec}", f"-{size} ≤ index < {size}"
                    raise IndexRangeError("index", got=got, need=need)
                position = part + size if part < 0 else part
                result = slice_axis(result, axis, position, position + 1).drop_axis(axis)
                continue
            axis += 1
        return result

    def add_axis(self, axis: int) -> Self:
        """The same elements with a new axis of size 1 before `axis`: a view, no copy."""
        spec = replace(self.spec, shape=(*self.shape[:axis], 1, *self.shape[axis:]))
        return self.alias(spec, self.offset, (*self.strides[:axis], 1, *self.strides[axis:]))

    def drop_axis(self, axis: int) -> Self:
        """The same elements without an axis of size 1: a view, no copy."""
        spec = replace(self.spec, shape=(*self.shape[:axis], *self.shape[axis + 1 :]))
        return self.alias(spec, self.offset, (*self.strides[:axis], *self.strides[axis + 1 :]))


def _bits(integral: Callable[[T, T], T], logical: Callable[[T, T], T], a: T, b: T | Number) -> T:
    """Bit by bit, of integers; of truth values the logical operator."""
    return (integral if a.spec.dtype.kind in INTEGERS else logical)(a, _operand(b, a))


def _operand(value: T | Number, like: T) -> T:
    return value if isinstance(value, Operand) else scalar_like(like, value)


def _expanded(index: Index | tuple[Index, ...], spec: TensorSpec) -> list[int | slice | None]:
    """One entry per axis of `spec` that is named, `...` written out; IndexRangeError for more than there are."""
    parts = index if isinstance(index, tuple) else (index,)
    named = sum(part is not None and part is not Ellipsis for part in parts)
    dots = sum(part is Ellipsis for part in parts)
    if dots > 1 or named > spec.rank:
        raise IndexRangeError(
            "index", got=f"{named} positions and {dots} ... of {spec}", need=f"at most {spec.rank} and one ..."
        )
    result: list[int | slice | None] = []
    for part in parts:
        if part is Ellipsis:
            result.extend([slice(None)] * (spec.rank - named))
        elif part is None or isinstance(part, slice):
            result.append(part)
        else:
            result.append(_whole(part))
    return result


def _whole(value: object) -> int:
    """An integer, also one of NumPy's; AttributeValueError for truth values and all others."""
    if isinstance(value, SupportsIndex) and not isinstance(value, bool | Operand):
        return operator.index(value)
    raise AttributeValueError(
        "index",
        got=f"a {type(value).__name__}",
        need="integers, slices, ... and None",
        fix="use index_select() or where()",
    )


def _ends(part: slice, size: int) -> tuple[int, int, int]:
    """`part.indices(size)`, whose ends keep what they follow from."""
    step = 1 if part.step is None else operator.index(part.step)
    least, most = (0, size) if step > 0 else (-1, size - 1)

    def end(given: int | None, default: int) -> int:
        if given is None:
            return default
        place = given if isinstance(given, int) else operator.index(given)
        return min(max(place + size if place < 0 else place, least), most)

    return end(part.start, least if step > 0 else most), end(part.stop, most if step > 0 else least), step


def _sliced(x: T, axis: int, part: slice) -> T:
    """x[start:stop:step] along `axis`: a view when the step is positive, else the view of the flipped axis."""
    if any(end is not None and not isinstance(end, SupportsIndex) for end in (part.start, part.stop, part.step)):
        raise AttributeValueError("slice", got="ends that are no integers", need="integers or nothing")
    if part.step == 0:
        raise AttributeValueError("slice", got="step 0", need="a step in some direction")
    start, stop, step = _ends(part, x.shape[axis])
    if step > 0:
        return slice_axis(x, axis, start, max(start, stop), step)
    places = range(start, stop, step)
    if not places:
        return slice_axis(x, axis, 0, 0)
    return flip(slice_axis(x, axis, places[-1], start + 1, -step), axis)
