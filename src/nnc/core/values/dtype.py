"""Element types: one record each, with its NumPy twin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from nnc.classes import dataclass
from nnc.errors import DTypeError


@dataclass(frozen=True, slots=True)
class DType:
    """An element type: `name` as printed (`f32`), `itemsize` in bytes, `kind`, and the NumPy twin."""

    name: str
    itemsize: int
    kind: str
    numpy: np.dtype[np.generic] = field(compare=False)

    @property
    def is_float(self) -> bool:
        """True for the real numbers."""
        return self.kind == "float"

    @property
    def is_continuous(self) -> bool:
        """True where gradients may exist: real and complex numbers."""
        return self.kind in ("float", "complex")

    # `Any`: an operand of any kind gives one of its own kind.
    def __call__(self, value: Any) -> Any:  # noqa: ANN401
        """The value in this element type, `jnp.float32(x)`: an operand, or else an array of NumPy's.

        >>> int(nnc.int32(2.7))
        2
        """
        if hasattr(value, "astype") and not isinstance(value, np.ndarray | np.generic):
            return value.astype(self)
        try:
            return np.asarray(value, self.numpy)[()]
        except (TypeError, ValueError, OverflowError):
            got = f"{type(value).__name__} {value!r:.40}"
            raise DTypeError(self.name, got=got, need="a number, or an array of numbers of one shape") from None

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Callable[[str], DType], tuple[str]]:
        # Copied or pickled, an element type is the same object: kernels and rules compare with `is`.
        return dtype_of, (self.name,)


def _row(name: str, kind: str, numpy: object) -> DType:
    twin: np.dtype[np.generic] = np.dtype(numpy)  # type: ignore[call-overload]  # ml_dtypes ships no stubs
    return DType(name, twin.itemsize, kind, twin)


F64 = _row("f64", "float", np.float64)
F32 = _row("f32", "float", np.float32)
F16 = _row("f16", "float", np.float16)
BF16 = _row("bf16", "float", ml_dtypes.bfloat16)
I64 = _row("i64", "int", np.int64)
I32 = _row("i32", "int", np.int32)
I16 = _row("i16", "int", np.int16)
I8 = _row("i8", "int", np.int8)
U8 = _row("u8", "uint", np.uint8)
BOOL = _row("bool", "bool", np.bool_)
U64 = _row("u64", "uint", np.uint64)
U32 = _row("u32", "uint", np.uint32)
U16 = _row("u16", "uint", np.uint16)
C128 = _row("c128", "complex", np.complex128)
C64 = _row("c64", "complex", np.complex64)

# What every part of the stack has, and what the reference backend alone computes with.
DTYPES: tuple[DType, ...] = (F64, F32, F16, BF16, I64, I32, I16, I8, U8, BOOL)
REFERENCE_DTYPES: tuple[DType, ...] = (U64, U32, U16, C128, C64)
_BY_NAME = {dtype.name: dtype for dtype in (*DTYPES, *REFERENCE_DTYPES)}
_BY_LONG_NAME = {dtype.numpy.name: dtype for dtype in (*DTYPES, *REFERENCE_DTYPES)}
_BY_NUMPY = {dtype.numpy: dtype for dtype in (*DTYPES, *REFERENCE_DTYPES)}


@dataclass(frozen=True, slots=True)
class Tolerance:
    """|got − want| ≤ absolute + relative · |want|."""

    relative: float
    absolute: float

    def of_program(self, want: NDArray[np.generic]) -> Tolerance:
        """That of a whole program's output: sums that cancel were rounded at the size of the largest elements.

        absolute · max(1, max |want|), over what is finite
        """
        size = np.abs(want[np.isfinite(want)]).max(initial=1) if self.absolute else 1
        return Tolerance(self.relative, self.absolute * float(size))


# The one tolerance table of the project: a backend, an optimization or a gradient agrees with the
# reference when every element is inside its row.
TOLERANCE: dict[DType, Tolerance] = {
    F64: Tolerance(1e-10, 1e-12),
    F32: Tolerance(1e-4, 1e-5),
    F16: Tolerance(1e-2, 1e-3),
    BF16: Tolerance(2e-2, 1e-2),
    C128: Tolerance(1e-10, 1e-12),
    C64: Tolerance(1e-4, 1e-5),
    **{dtype: Tolerance(0.0, 0.0) for dtype in (I64, I32, I16, I8, U64, U32, U16, U8, BOOL)},
}


# What names an element type: ours, its name, NumPy's, and Python's classes of numbers.
AnyDType = DType | str | np.dtype[np.generic] | type[np.generic] | type[bool] | type[int] | type[float] | type[complex]


def dtype_of(value: AnyDType) -> DType:
    """The element type named by `value`: a DType, "f32" or "float32", or a NumPy dtype. DTypeError for others.

    There is one object for each: results may be compared with `is`.

    >>> dtype_of("f32"), dtype_of(np.dtype(np.int64))
    (f32, i64)
    """
    if isinstance(value, DType):
        value = value.name
    if isinstance(value, str):
        dtype = _BY_NAME.get(value) or _BY_LONG_NAME.get(value)
    else:
        dtype = _BY_NUMPY.get(np.dtype(value)) if isinstance(value, np.dtype | type) else None
    if dtype is None:
        raise DTypeError("dtype", got=str(value), need="one of " + " ".join(_BY_NAME))
    return dtype
