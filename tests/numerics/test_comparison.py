"""Whether arrays are equal or near, and what they are."""

from __future__ import annotations

import numpy as np
import pytest
from tests.numerics.agreement import Call, agree, agree_compiled

import nnc
from nnc.core.values.dtype import F16, F32, F64, I32, I64, U8
from nnc.errors import DTypeError

A = np.array([1.0, np.nan, np.inf, -np.inf, 0.0, 1.0])
B = np.array([1.0 + 1e-7, np.nan, np.inf, np.inf, 1e-9, 1.1])
CALLS: list[Call] = [
    lambda xp, a, b: xp.isclose(a, b),
    lambda xp, a, b: xp.isclose(a, b, equal_nan=True),
    lambda xp, a, b: xp.isclose(a, b, rtol=0.2, atol=0.0),
    lambda xp, a, b: xp.allclose(a, b),
    lambda xp, a, b: xp.allclose(a[:1], b[:1]),
    lambda xp, a, b: xp.array_equal(a, b),
    lambda xp, a, b: xp.array_equal(a, a, equal_nan=True),
    lambda xp, a, b: xp.array_equal(a[:1], a[:1]),
    lambda xp, a, b: xp.array_equal(a, b[:2]),
]


def test_near_and_equal() -> None:
    agree(CALLS, A, B)
    agree_compiled(CALLS, A, B)
    assert nnc.allclose([1, 2], [1.0, 2.0])
    assert not nnc.array_equal([1, 2], [1, 3])


def test_what_waits_is_computed() -> None:
    with nnc.lazy() as report:
        x = nnc.ones(3) + 1
        nnc.eval({"x": [x, 2]})
        assert report.runs == 1
    assert x.block_until_ready().tolist() == [2.0, 2.0, 2.0]


def test_what_arrays_are() -> None:
    assert (nnc.shape([[1, 2]]), nnc.ndim([[1, 2]]), nnc.size([[1, 2]]), nnc.size([[1, 2]], 1)) == ((1, 2), 2, 2, 2)
    assert (nnc.isscalar(1.0), nnc.isscalar([1.0]), nnc.iscomplexobj([1j]), nnc.isrealobj([1.0])) == (
        True,
        False,
        True,
        True,
    )
    assert (nnc.finfo("f32").bits, nnc.finfo(nnc.zeros(1)).eps, nnc.iinfo(np.int8).max) == (32, 2.0**-23, 127)


def test_element_types_together() -> None:
    assert (nnc.result_type(F32, I64), nnc.result_type(nnc.zeros(1), F64), nnc.promote_types("u8", np.int32)) == (
        F32,
        F64,
        I32,
    )
    assert (nnc.result_type([1], [0.5]), nnc.result_type(F16, F32)) == (F32, F32)
    assert nnc.can_cast(U8, "i32")
    assert nnc.can_cast(I64, "f32")
    assert not nnc.can_cast(F64, F32)
    assert nnc.isdtype("f32", "real floating")
    assert nnc.isdtype(nnc.int8, (nnc.int8, "bool"))
    assert not nnc.isdtype(nnc.int8, "i16")
    for refused in (lambda: nnc.result_type(), lambda: nnc.result_type("u64", "i8")):
        with pytest.raises(DTypeError):
            refused()


def test_the_size_along_an_axis_that_is_not_there() -> None:
    assert nnc.size(nnc.ones((2, 3)), axis=-1) == 3
    with pytest.raises(nnc.errors.AttributeValueError, match="size: got axes \\[2\\]"):
        nnc.size(nnc.ones((2, 3)), axis=2)


def test_bfloat16_has_limits() -> None:
    assert nnc.finfo(nnc.bf16).eps == 2**-7
    assert nnc.nan_to_num(nnc.tensor([nnc.nan, 1.0], dtype=nnc.bf16)).tolist() == [0.0, 1.0]
