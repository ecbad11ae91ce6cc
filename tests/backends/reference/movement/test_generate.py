"""arange, and conversion of layouts."""

from __future__ import annotations

import numpy as np
import pytest
from tests.ops.eager import Eager

from nnc.core.values.command import Command
from nnc.core.values.dtype import F16, I8, I64
from nnc.core.values.spec import Layout, spec
from nnc.errors import AttributeValueError, DTypeError, LayoutError, ShapeError
from nnc.ops.movement.generate import ARANGE, ArangeAttrs, arange_like
from nnc.ops.movement.layout import convert_layout

X = Eager(np.zeros(2))


def test_values_are_rounded_once() -> None:
    np.testing.assert_array_equal(arange_like(X, 5, 1.0, -0.5).array, 1 - 0.5 * np.arange(5))
    tenths = arange_like(X, 100, 0.0, 0.1, F16).array
    np.testing.assert_array_equal(tenths, (np.arange(100) * 0.1).astype(np.float16))
    assert arange_like(X, 0).shape == (0,)


def test_integers_are_exact_or_refused() -> None:
    big = arange_like(X, 3, 2.0**52, 3.0, I64).array
    assert big.tolist() == [2**52, 2**52 + 3, 2**52 + 6]
    assert arange_like(X, 2, -(2.0**63), 2.0**63, I64).array.tolist() == [-(2**63), 0]
    assert arange_like(X, 1, 5.0, 1e30, I64).array.tolist() == [5]
    assert arange_like(X, 3, 127.0, -127.0, I8).array.tolist() == [127, 0, -127]
    for start, step in ((126.0, 1.0), (0.5, 1.0), (0.0, 0.5), (-129.0, 1.0)):
        with pytest.raises(AttributeValueError, match="arange: got values that i8 cannot hold; need integers"):
            arange_like(X, 3, start, step, I8)


def test_misuse_is_refused() -> None:
    with pytest.raises(ShapeError, match="arange: got f32\\[2, 2\\]; need one dimension"):
        X.apply(Command(ARANGE, ArangeAttrs(spec((2, 2)))), ())
    with pytest.raises(DTypeError, match="arange: "):
        X.apply(Command(ARANGE, ArangeAttrs(spec((2,), "bool"))), ())
    with pytest.raises(ShapeError):
        arange_like(X, -1)


def test_layouts_convert_there_and_back() -> None:
    x = Eager(np.arange(120.0).reshape(2, 3, 4, 5))
    first = convert_layout(x, Layout.NCHW)
    assert first.spec.layout is Layout.NCHW
    np.testing.assert_array_equal(first.array, x.array.transpose(0, 3, 1, 2))
    back = convert_layout(first, Layout.NHWC)
    assert back.spec == x.spec
    np.testing.assert_array_equal(back.array, x.array)
    assert convert_layout(x, Layout.NHWC) is x
    with pytest.raises(LayoutError, match="convert_layout: got f64\\[2\\] to NCHW"):
        convert_layout(X, Layout.NCHW)
