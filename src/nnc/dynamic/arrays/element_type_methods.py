"""PyTorch's casts, one method for each of its element types: `x.float()` is `x.astype("f32")`.

They are a class of their own since their names hide Python's `float`, `int`, `bool` and `type` in its annotations.
"""

from __future__ import annotations

from typing import Self

from nnc.arguments import explained_as
from nnc.core.values.dtype import BF16, BOOL, F16, F32, F64, I8, I16, I32, I64, U8, AnyDType
from nnc.dynamic.arrays.elementwise_methods import ElementwiseMethods
from nnc.dynamic.arrays.located import located


@explained_as("")
class ElementTypeMethods(ElementwiseMethods):
    """The casts; each is another handle of x where it has that type."""

    __slots__ = ()

    @located
    def type(self, dtype: AnyDType) -> Self:
        """x.astype(dtype)"""
        return self.astype(dtype)

    def double(self) -> Self:
        """The elements as f64."""
        return self.astype(F64)

    def float(self) -> Self:
        """The elements as f32."""
        return self.astype(F32)

    def half(self) -> Self:
        """The elements as f16."""
        return self.astype(F16)

    def bfloat16(self) -> Self:
        """The elements as bf16."""
        return self.astype(BF16)

    def long(self) -> Self:
        """The elements as i64; floats are cut off at the point."""
        return self.astype(I64)

    def int(self) -> Self:
        """The elements as i32; floats are cut off at the point."""
        return self.astype(I32)

    def short(self) -> Self:
        """The elements as i16; floats are cut off at the point."""
        return self.astype(I16)

    def char(self) -> Self:
        """The elements as i8; floats are cut off at the point."""
        return self.astype(I8)

    def byte(self) -> Self:
        """The elements as u8; floats are cut off at the point."""
        return self.astype(U8)

    def bool(self) -> Self:
        """Whether elements are not 0."""
        return self.astype(BOOL)
