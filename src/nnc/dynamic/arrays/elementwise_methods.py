"""Methods that arrays share, element by element: `x.exp()`, `x.clip(0, 1)`, `x.astype("f32")`, `x.copy()`, `x.dot(y)`.

Functions that are continuous take integers and truth values as f32.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Self

from nnc.arguments import explained_as, shown
from nnc.core.precautions.origin import caller_origin
from nnc.core.values.device import CPU, KINDS, AnyDevice, Device
from nnc.core.values.dtype import AnyDType, dtype_of
from nnc.dynamic.arrays.located import located
from nnc.dynamic.arrays.methods import ArrayMethods
from nnc.dynamic.arrays.promotion import continuous, promoted
from nnc.errors import ArgumentError, AttributeValueError, ShapeError
from nnc.ops.elementwise import complex_numbers, elementary, pointwise
from nnc.ops.movement.copy import contiguous
from nnc.ops.movement.transfer import to_device
from nnc.ops.products.products import matmul

# Ten to the power of more is no number of 64 bits.
MOST_DECIMALS = 300


def _asked_of_to(target: object) -> tuple[AnyDevice | None, AnyDType | None]:
    """The device and the element type that the first argument of `to` names."""
    if isinstance(target, ElementwiseMethods):
        return target.spec.device, target.spec.dtype
    if isinstance(target, Device) or (isinstance(target, str) and target.partition(":")[0] in KINDS):
        return target, None
    return None, target  # type: ignore[return-value]  # `dtype_of` says what is none


@explained_as("")
class ElementwiseMethods(ArrayMethods):
    """The methods; what they are made of are `nnc.ops`."""

    __slots__ = ()

    @located
    def astype(self, dtype: AnyDType) -> Self:
        """The elements in another type."""
        chosen = dtype_of(dtype)
        return self.twin() if chosen is self.spec.dtype else pointwise.cast(self, chosen)

    @located
    def to(
        self,
        target: AnyDevice | AnyDType | ElementwiseMethods | None = None,
        dtype: AnyDType | None = None,
        *,
        device: AnyDevice | None = None,
    ) -> Self:
        """The elements on a device, in another type, or as another array has them: `x.to("cuda", "f16")`, `x.to(y)`.

        Another handle of x where nothing changes. Gradients go the way back.
        """
        place, kind = _asked_of_to(target)
        result = self if (chosen := dtype if dtype is not None else kind) is None else self.astype(chosen)
        place = device if device is not None else place
        result = result if place is None else to_device(result, place)
        return self.twin() if result is self else result

    @located
    def cpu(self) -> Self:
        """The elements in host memory: x itself where they are there."""
        return self.to(CPU)

    @located
    def cuda(self, device: AnyDevice | int = 0) -> Self:
        """The elements on a CUDA device, the first where none is named."""
        return self.to(Device("cuda", device) if isinstance(device, int) else device)

    @located
    def copy(self) -> Self:
        """The same elements in memory of their own; gradients flow."""
        return contiguous(self)

    @located
    def clone(self) -> Self:
        """As `copy`."""
        return contiguous(self)

    @located
    def clip(self, min: float | None = None, max: float | None = None) -> Self:
        """Elements below `min` and above `max` are those."""
        return pointwise.clamp(self, min, max)

    @located
    def dot(self, other: Self) -> Self:
        """sum_k x[…, k] · y[k, …] of vectors and matrices; of a number the product."""
        operand = self.lift(other)
        if operand is None or max(self.spec.rank, operand.spec.rank) > 2:
            got = f"{self.spec} and {'no array' if operand is None else operand.spec}"
            raise ShapeError("dot", got=got, need="vectors and matrices", fix="use @, nnc.dot() or nnc.tensordot()")
        first, second = promoted(self, operand)
        return matmul(first, second) if first.spec.rank and second.spec.rank else pointwise.multiply(first, second)

    @located
    def abs(self) -> Self:
        """|x|"""
        kind = self.spec.dtype.kind
        if kind == "complex":
            return complex_numbers.magnitude(self)
        return self.twin() if kind == "uint" else pointwise.abs(self)

    @located
    def conj(self) -> Self:
        """The conjugate of complex numbers; others as they are."""
        return complex_numbers.conjugate(self) if self.spec.dtype.kind == "complex" else self.twin()

    @property
    def real(self) -> Self:
        """The real part."""
        return pointwise.real(self)

    @located
    def round(self, decimals: int = 0) -> Self:
        """The nearest number of so many decimals, halves to even."""
        if not self.spec.dtype.is_float:
            return self.twin()
        if not decimals:
            return pointwise.round(self)
        if abs(decimals) > MOST_DECIMALS:
            raise AttributeValueError(
                "round", got=f"{decimals} decimals", need=f"at most {MOST_DECIMALS} on either side"
            )
        scale = 10.0**decimals
        return pointwise.affine(pointwise.round(pointwise.affine(self, scale)), 1.0 / scale)

    @located
    def exp(self) -> Self:
        """e^x"""
        return pointwise.exp(continuous(self))

    @located
    def log(self) -> Self:
        """ln x"""
        return pointwise.log(continuous(self))

    @located
    def log2(self) -> Self:
        """log₂ x"""
        return elementary.log2(continuous(self))

    @located
    def log10(self) -> Self:
        """log₁₀ x"""
        return elementary.log10(continuous(self))

    @located
    def log1p(self) -> Self:
        """ln(1 + x)"""
        return pointwise.log1p(continuous(self))

    @located
    def sqrt(self) -> Self:
        """√x"""
        return pointwise.sqrt(continuous(self))

    @located
    def rsqrt(self) -> Self:
        """1 / √x"""
        return elementary.rsqrt(continuous(self))

    @located
    def reciprocal(self) -> Self:
        """1 / x"""
        return pointwise.reciprocal(continuous(self))

    @located
    def sin(self) -> Self:
        """sin x"""
        return pointwise.sin(continuous(self))

    @located
    def cos(self) -> Self:
        """cos x"""
        return pointwise.cos(continuous(self))

    @located
    def tan(self) -> Self:
        """sin x / cos x"""
        return elementary.tan(continuous(self))

    @located
    def tanh(self) -> Self:
        """tanh x"""
        return pointwise.tanh(continuous(self))

    @located
    def sigmoid(self) -> Self:
        """1 / (1 + e^-x)"""
        return pointwise.sigmoid(continuous(self))

    @located
    def square(self) -> Self:
        """x²"""
        return pointwise.square(self)

    # ---- operators as methods

    def _by_operator(self, subject: str, operation: Callable[[Any, Any], Any], other: object) -> Self:
        try:
            result: Self | bool = operation(self, other)
        except TypeError:
            result = False
        # Where neither side knows the other, Python compares identities.
        if isinstance(result, bool):
            need = "an array, a number or nested lists of numbers"
            raise ArgumentError(subject, got=f"other={shown(other)}", need=need, origin=caller_origin())
        return result

    @located
    def add(self, other: object) -> Self:
        """x + other"""
        return self._by_operator("add", operator.add, other)

    @located
    def sub(self, other: object) -> Self:
        """x - other"""
        return self._by_operator("sub", operator.sub, other)

    @located
    def mul(self, other: object) -> Self:
        """x · other"""
        return self._by_operator("mul", operator.mul, other)

    @located
    def div(self, other: object, *, rounding_mode: str | None = None) -> Self:
        """x / other; with `rounding_mode` "floor" x // other, with "trunc" cut off at the point."""
        if rounding_mode not in (None, "floor", "trunc"):
            raise AttributeValueError(
                "div", got=f"rounding_mode={shown(rounding_mode)}", need="'floor', 'trunc' or None"
            )
        if rounding_mode == "floor":
            return self._by_operator("div", operator.floordiv, other)
        quotient = self._by_operator("div", operator.truediv, other)
        if rounding_mode is None:
            return quotient
        cut = elementary.trunc(quotient)
        return cut if self.spec.dtype.is_float else cut.astype(self.spec.dtype)

    @located
    def pow(self, other: object) -> Self:
        """x^other"""
        return self._by_operator("pow", operator.pow, other)

    @located
    def matmul(self, other: object) -> Self:
        """x @ other"""
        return self._by_operator("matmul", operator.matmul, other)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.spec.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.spec.elements * self.spec.dtype.itemsize
