"""NumPy's further names of element types and of kinds of them, and `issubdtype`."""

from __future__ import annotations

import numpy as np
from numpy import complexfloating as complexfloating
from numpy import floating as floating
from numpy import generic as generic
from numpy import inexact as inexact
from numpy import integer as integer
from numpy import number as number
from numpy import signedinteger as signedinteger
from numpy import unsignedinteger as unsignedinteger

from nnc.core.values.dtype import C64, C128, F32, I8, I32, I64, U8, U16, U32, U64, AnyDType, DType
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.numerics.conversion import AnyArray, as_array

__all__ = [
    "asanyarray", "ascontiguousarray", "asfortranarray", "byte", "cdouble", "complexfloating", "csingle", "floating",
    "generic", "inexact", "int_", "intc", "integer", "intp", "issubdtype", "longlong", "number", "signedinteger",
    "single", "ubyte", "uint", "uintc", "uintp", "ulonglong", "unsignedinteger", "ushort",
]  # fmt: skip

single, csingle, cdouble = F32, C64, C128
byte, intc, int_, intp, longlong = I8, I32, I64, I64, I64
ubyte, ushort, uintc, uint, uintp, ulonglong = U8, U16, U32, U64, U64, U64
# Kinds of element types that files of numbers have not, beside those of NumPy.
BESIDE = {"bf16": np.floating}


def issubdtype(arg1: AnyDType | type, arg2: AnyDType | type) -> bool:
    """Whether an element type is of a kind, or the same.

    >>> nnc.issubdtype(nnc.float32, nnc.floating), nnc.issubdtype(nnc.ones(2).dtype, nnc.integer)
    (True, False)
    """
    first, second = (value.numpy if isinstance(value, DType) else value for value in (arg1, arg2))
    if isinstance(arg1, DType) and str(arg1) in BESIDE:
        return arg1 is arg2 or np.issubdtype(BESIDE[str(arg1)], second)
    return bool(np.issubdtype(first, second))


def asanyarray(a: AnyArray) -> ArrayOperand:
    """An array as it is, a constant of anything else.

    >>> nnc.asanyarray([1, 2]).tolist()
    [1, 2]
    """
    return as_array(a)


def ascontiguousarray(a: AnyArray) -> ArrayOperand:
    """As `asanyarray`, of one axis at least: values are in row-major order here.

    >>> nnc.ascontiguousarray(1.0).shape
    (1,)
    """
    x = as_array(a)
    return x if x.ndim else x.reshape(1)


def asfortranarray(a: AnyArray) -> ArrayOperand:
    """As `asanyarray`: the order of memory is not the user's matter here.

    >>> nnc.asfortranarray([1]).shape
    (1,)
    """
    return as_array(a)
