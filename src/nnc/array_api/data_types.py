"""Element types: their names in the standard, what two of them make together, and their limits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import reduce

import ml_dtypes
import numpy as np

from nnc.classes import dataclass
from nnc.core.values.dtype import BOOL, C64, C128, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64, DType
from nnc.core.values.spec import broadcast_shapes
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.arrays.promotion import wider
from nnc.errors import ArgumentError, DTypeError
from nnc.ops.elementwise.pointwise import cast
from nnc.ops.elementwise.rows import real_dtype

SIGNED = {"int8": I8, "int16": I16, "int32": I32, "int64": I64}
UNSIGNED = {"uint8": U8, "uint16": U16, "uint32": U32, "uint64": U64}
REAL = {"float32": F32, "float64": F64}
COMPLEX = {"complex64": C64, "complex128": C128}
KINDS = {
    "bool": {"bool": BOOL},
    "signed integer": SIGNED,
    "unsigned integer": UNSIGNED,
    "integral": SIGNED | UNSIGNED,
    "real floating": REAL,
    "complex floating": COMPLEX,
    "numeric": SIGNED | UNSIGNED | REAL | COMPLEX,
}
EVERY = KINDS["bool"] | KINDS["numeric"]
# What Python's numbers become beside nothing else.
OF_NUMBERS = {bool: BOOL, int: I64, float: F32, complex: C64}
# Which kinds of arrays a Python number goes along with.
BESIDE = {
    bool: ("bool", "int", "uint", "float", "complex"),
    int: ("int", "uint", "float", "complex"),
    float: ("float", "complex"),
    complex: ("float", "complex"),
}

Number = bool | int | float | complex


@dataclass(frozen=True, slots=True)
class FloatLimits:
    """What a floating-point type can hold."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


@dataclass(frozen=True, slots=True)
class IntegerLimits:
    """What an integer type can hold."""

    bits: int
    max: int
    min: int
    dtype: DType


def _dtype(of: DType | ArrayOperand) -> DType:
    return of.dtype if isinstance(of, ArrayOperand) else of


def finfo(type: DType | ArrayOperand, /) -> FloatLimits:
    """Limits of a floating-point type; of the parts for a complex one."""
    dtype = _dtype(type)
    own = real_dtype(dtype) if dtype.kind == "complex" else dtype
    if not own.is_float:
        raise DTypeError("finfo", got=str(dtype), need="a floating-point type", fix="iinfo() is for integers")
    # NumPy's own knows no bfloat16.
    info = ml_dtypes.finfo(own.numpy)  # type: ignore[no-untyped-call]  # ml_dtypes ships no stubs
    numbers = (float(info.eps), float(info.max), float(info.min), float(info.smallest_normal))
    return FloatLimits(int(info.bits), *numbers, own)


def iinfo(type: DType | ArrayOperand, /) -> IntegerLimits:
    """Limits of an integer type."""
    dtype = _dtype(type)
    if dtype.kind not in ("int", "uint"):
        raise DTypeError("iinfo", got=str(dtype), need="an integer type", fix="finfo() is for floats")
    info = np.iinfo(dtype.numpy.name)
    return IntegerLimits(8 * dtype.itemsize, int(info.max), int(info.min), dtype)


def isdtype(dtype: DType, kind: DType | str | tuple[DType | str, ...]) -> bool:
    """Whether the type is this one, or of this kind, or of one of several."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, name) for name in kind)
    if isinstance(kind, str):
        if kind not in KINDS:
            raise DTypeError("isdtype", got=repr(kind), need=" or ".join(map(repr, KINDS)))
        return dtype in KINDS[kind].values()
    return dtype is kind


def can_cast(from_: DType | ArrayOperand, to: DType, /) -> bool:
    """Whether promotion takes the first type to the second."""
    return wider(_dtype(from_), to) is to


def result_type(*arrays_and_dtypes: DType | ArrayOperand | Number) -> DType:
    """The type of what is computed of all of them."""
    numbers = [value for value in arrays_and_dtypes if not isinstance(value, DType | ArrayOperand)]
    types = [_dtype(value) for value in arrays_and_dtypes if isinstance(value, DType | ArrayOperand)]
    if not types:
        raise DTypeError("result_type", got=f"{len(numbers)} numbers", need="an array or an element type among them")
    return reduce(_beside, numbers, reduce(_both, types))


def _both(first: DType, other: DType) -> DType:
    common = wider(first, other)
    if common is None:
        got, fix = f"{first} and {other}", "astype() one of them"
        raise DTypeError("result_type", got=got, need="element types that promote to one", fix=fix)
    return common


def _beside(dtype: DType, number: object) -> DType:
    kinds = next((BESIDE[scalar] for scalar in (bool, int, float, complex) if isinstance(number, scalar)), ())
    if dtype.kind not in kinds:
        raise DTypeError(
            "result_type", got=f"{dtype} and a {type(number).__name__}", need="numbers of the array's kind"
        )
    if isinstance(number, complex) and dtype.is_float:
        return C128 if dtype is F64 else C64
    return dtype


@contextmanager
def numpy_work(subject: str) -> Iterator[None]:
    """What NumPy refuses to make as an ArgumentError; numbers that a narrow float does not hold are infinite in it."""
    try:
        with np.errstate(over="ignore", invalid="raise", divide="raise"):
            yield
    # TypeError: of bf16, for integers beyond f64.
    except (ValueError, ArithmeticError, LookupError, MemoryError, TypeError) as error:
        need = "sizes of 0 or more that fit in memory, and numbers that the element type holds"
        raise ArgumentError(subject, got=str(error).rstrip("."), need=need) from None


def check_real(subject: str, *numbers: object) -> None:
    """DTypeError for complex numbers, of which NumPy takes the real part behind a warning."""
    if any(isinstance(number, complex | np.complexfloating) for number in numbers):
        raise DTypeError(subject, got="a complex number", need="real numbers", fix="take its .real")


def real_values(subject: str, values: np.ndarray, dtype: DType) -> np.ndarray:
    """NumPy's values in an element type; complex ones in a complex type alone, for others would lose half of them."""
    if np.iscomplexobj(values) and not np.issubdtype(dtype.numpy, np.complexfloating):
        raise DTypeError(subject, got=f"complex numbers for {dtype}", need="a complex element type", fix="take real()")
    return values.astype(dtype.numpy, copy=False)


def meet(subject: str, *values: ArrayOperand | Number) -> tuple[ArrayOperand, ...]:
    """Arrays and numbers as arrays of one element type; at least one is an array."""
    home = next((value for value in values if isinstance(value, ArrayOperand)), None)
    if home is None or not all(isinstance(value, ArrayOperand | int | float | complex) for value in values):
        got = ", ".join(type(value).__name__ for value in values)
        raise DTypeError(subject, got=got, need="arrays of this namespace", fix="asarray() them")
    dtype = result_type(*values)
    with numpy_work(subject):
        arrays = [value if isinstance(value, ArrayOperand) else np.asarray(value, dtype.numpy) for value in values]
    return tuple(cast(array, dtype) if isinstance(array, ArrayOperand) else lifted(home, array) for array in arrays)


def lifted(home: ArrayOperand, value: object) -> ArrayOperand:
    """An array of NumPy in the world of this operand."""
    array: ArrayOperand | None = home.lift(value)
    assert array is not None
    return array


def check_broadcast(subject: str, *arrays: ArrayOperand) -> tuple[int, ...]:
    """The shape that all have together."""
    return broadcast_shapes(subject, *(array.shape for array in arrays))
