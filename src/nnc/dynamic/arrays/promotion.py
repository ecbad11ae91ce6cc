"""Element types that meet: one of two operands, or of an operand and a number.

    f32 + f64 = f64        i32 + i64 = i64        u8 + i8 = i16        f32 + c64 = c64     as in the standard
    bool + i64 = i64       i64 + f32 = f32        bool + f16 = f16                     as PyTorch and JAX
    f16 + bf16 = f32       bool + bool = bool (or)   bool * bool = bool (and)   as PyTorch
    i64 + 1 = i64          i64 + 0.5 = f32        i64 / 2 = i64 / i64 = f32            a float beside integers

`nnc.array_api` refuses what the array API standard leaves open: the second row and the third. Where
`SETTINGS.strict_types` is set, two element types never meet; numbers do.
"""

from __future__ import annotations

from typing import Any

from nnc.core.settings import SETTINGS
from nnc.core.values.dtype import BF16, BOOL, C64, C128, F16, F32, F64, I16, I32, I64, DType
from nnc.errors import DTypeError
from nnc.ops.elementwise.pointwise import add, cast, logical_and, logical_or, multiply
from nnc.ops.operand import T

# What is by 2 · n bytes wide, for signed beside unsigned integers of n bytes.
SIGNED = {2: I16, 4: I32, 8: I64}
# Of two kinds the one that holds more.
ORDER = {"bool": 0, "int": 1, "uint": 1, "float": 2, "complex": 2}


def promoted(a: T, b: T) -> tuple[T, T]:
    """Both in the element type that holds both; DTypeError where there is none, such as for u64 beside i8."""
    first, other = a.spec.dtype, b.spec.dtype
    if first is other:
        return a, b
    dtype = None if SETTINGS.strict_types else joined(first, other)
    if dtype is None:
        need = "one element type" if SETTINGS.strict_types else "element types of which one holds the other"
        raise DTypeError("operands", got=f"{a.spec}, {b.spec}", need=need, fix="astype() one of them")
    return cast(a, dtype), cast(b, dtype)


def joined(first: DType, other: DType) -> DType | None:
    """As `wider`, f32 of f16 and bf16; of two kinds the type of the later one of truth values, integers and floats.

    >>> joined(I64, F16), joined(BOOL, I32), joined(F32, F64), joined(F16, BF16)
    (f16, i32, f64, f32)
    """
    if {first, other} == {F16, BF16}:
        return F32
    ranks = ORDER[first.kind], ORDER[other.kind]
    return wider(first, other) if ranks[0] == ranks[1] else (first if ranks[0] > ranks[1] else other)


def wider(first: DType, other: DType) -> DType | None:
    """The element type that holds both, by the rules of the array API standard; None for two kinds, and where none is.

    >>> from nnc.core.values.dtype import F32, I8, U8, U64
    >>> wider(U8, I8), wider(F32, C128), wider(U64, I8)
    (i16, c128, None)
    """
    if first is other:
        return first
    small, large = sorted((first, other), key=lambda dtype: dtype.itemsize)
    kinds = {first.kind: first, other.kind: other}
    if kinds.keys() == {"int", "uint"}:
        return SIGNED.get(max(kinds["int"].itemsize, 2 * kinds["uint"].itemsize))
    if kinds.keys() == {"float", "complex"}:
        return C128 if F64 in (first, other) else kinds["complex"]
    return large if first.kind == other.kind and small.itemsize < large.itemsize else None


def sum_of(a: T, b: T) -> T:
    """a + b, of truth values a ∨ b."""
    return logical_or(a, b) if a.spec.dtype is b.spec.dtype is BOOL else add(a, b)


def product_of(a: T, b: T) -> T:
    """a · b, of truth values a ∧ b."""
    return logical_and(a, b) if a.spec.dtype is b.spec.dtype is BOOL else multiply(a, b)


def beside_number(x: T, number: Any) -> T:  # noqa: ANN401  # Python's and NumPy's numbers
    """x in a type that takes the number: f32 for integers beside a float, i64 for truth values beside an integer."""
    if isinstance(number, bool) or ORDER[x.spec.dtype.kind] >= ORDER["float"]:
        return x
    if isinstance(number, complex):
        return cast(x, C64)
    if hasattr(number, "__index__"):
        return cast(x, I64) if x.spec.dtype.kind == "bool" else x
    return cast(x, F32)


def continuous(x: T) -> T:
    """x, integers and truth values as f32."""
    return x if x.spec.dtype.is_continuous else cast(x, F32)
