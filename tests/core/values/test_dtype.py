"""Element types and their names."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from nnc.core.values.dtype import (
    BF16,
    BOOL,
    DTYPES,
    F16,
    F32,
    F64,
    I32,
    I64,
    REFERENCE_DTYPES,
    TOLERANCE,
    U8,
    DType,
    dtype_of,
)
from nnc.errors import DTypeError


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_each_type_is_found_by_its_names(dtype: DType) -> None:
    assert dtype_of(dtype) is dtype
    assert dtype_of(dtype.name) is dtype
    assert dtype_of(dtype.numpy) is dtype
    assert dtype_of(dtype.numpy.name) is dtype
    assert dtype_of(dtype.numpy.type) is dtype
    assert dtype.itemsize == dtype.numpy.itemsize
    assert repr(dtype) == dtype.name


def test_kinds() -> None:
    assert [dtype for dtype in DTYPES if dtype.is_float] == [F64, F32, F16, BF16]
    assert {dtype.kind for dtype in DTYPES} == {"float", "int", "uint", "bool"}
    assert (U8.kind, BOOL.kind, I64.kind) == ("uint", "bool", "int")


def test_bf16_is_that_of_ml_dtypes() -> None:
    assert BF16.numpy == np.dtype(ml_dtypes.bfloat16)
    assert BF16.itemsize == 2


@pytest.mark.parametrize(
    "value", ["float33", "", "F32", 3, None, 2.5, object(), np.dtype(np.clongdouble), np.dtype("U1")]
)
def test_what_is_no_element_type(value: object) -> None:
    with pytest.raises(DTypeError, match="need one of f64 f32 f16 bf16 i64 i32 i16 i8 u8 bool"):
        dtype_of(value)  # type: ignore[arg-type]  # callers without a type checker


@pytest.mark.parametrize("value", ["x", [[1], [1, 2]], 10**30, None, 1j])
def test_what_is_no_number_has_no_value_in_a_type(value: object) -> None:
    with pytest.raises(DTypeError, match="need a number, or an array of numbers of one shape"):
        I32(value)


def test_every_type_has_a_tolerance() -> None:
    assert set(TOLERANCE) == {*DTYPES, *REFERENCE_DTYPES}
    for dtype, row in TOLERANCE.items():
        assert (row.relative > 0 and row.absolute > 0) == dtype.is_continuous
