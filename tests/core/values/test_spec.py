"""Shapes, layouts and specs without memory."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nnc.core.values.device import CPU, Device
from nnc.core.values.dtype import BF16, F32, F64
from nnc.core.values.spec import (
    AnyLayout,
    Blocked,
    Layout,
    TensorSpec,
    broadcast_shapes,
    check_shape,
    contiguous_strides,
    layout_of,
    spec,
)
from nnc.errors import ArgumentError, DeviceError, FormatError, LayoutError, ShapeError

examples = settings(max_examples=100, deadline=None, derandomize=True, database=None)
shapes = st.lists(st.integers(0, 4), max_size=5).map(tuple)


def test_specs_print_as_their_type_and_shape() -> None:
    assert str(spec((4, 3))) == "f32[4, 3]"
    assert str(spec((), "bf16")) == "bf16[]"
    assert str(TensorSpec((1, 2, 3, 4), F64, Layout.NCHW, Device("cuda", 1))) == "f64[1, 2, 3, 4]:NCHW@cuda:1"


@pytest.mark.parametrize(
    ("layout", "text", "shape"),
    [
        (Blocked((5, 7), 1, 4), "5x7/4", (2, 5, 4)),
        (Blocked((5, 7), 0, 4), "5/4x7", (2, 7, 4)),
        (Blocked((3, 3, 5, 8), 3, 3, 2, 2), "3x3x5x8/3k2g2", (4, 23, 3, 2)),
        (Blocked((0, 7), 1, 8), "0x7/8", (1, 0, 8)),
    ],
)
def test_blocks_are_values_with_a_text(layout: Blocked, text: str, shape: tuple[int, ...]) -> None:
    made = TensorSpec(shape, BF16, layout)
    assert (str(layout), str(made)) == (text, f"bf16{list(shape)}:{text}")
    assert AnyLayout.from_json(text) == layout == pickle.loads(pickle.dumps(layout))
    assert made.plain == spec(layout.sizes, BF16)
    assert made.nbytes == 2 * made.elements
    assert made != spec(shape, BF16) == spec(shape, BF16).plain


@pytest.mark.parametrize("text", ["", "nhwc", "5x7", "5x7/", "5/4x7/4", "x5/4", "5/4k", 3, None])
def test_what_is_no_layout(text: object) -> None:
    with pytest.raises(FormatError, match="need NHWC, NCHW, or blocks"):
        AnyLayout.from_json(text)  # type: ignore[arg-type]  # callers without a type checker


@pytest.mark.parametrize(
    "values", [((5, 7), 2, 4), ((5, 7), -1, 4), ((5, 7), 1, 0), ((5, 7), 1, 4, 0), ((5, 7), 1, 4, 1, 2)]
)
def test_what_are_no_blocks(values: tuple[tuple[int, int], int, int]) -> None:
    with pytest.raises(LayoutError, match="blocked layout"):
        Blocked(*values)
    with pytest.raises(ArgumentError, match="layout_of: got text="):
        layout_of(np.float32(1.0))  # type: ignore[arg-type]  # callers without a type checker
    with pytest.raises(ArgumentError, match="Blocked: got parts=None"):
        Blocked((1,), 0, 1, parts=None)  # type: ignore[arg-type]  # callers without a type checker


def test_blocks_say_their_shape() -> None:
    with pytest.raises(LayoutError, match=r"shape \[5, 7\], layout 5x7/4; need shape \[2, 5, 4\]"):
        TensorSpec((5, 7), layout=Blocked((5, 7), 1, 4))


def test_specs_are_values() -> None:
    assert spec(np.array([4, 3])) == TensorSpec((4, 3), F32, Layout.NHWC, CPU)
    assert len({spec((2,)), spec((2,)), spec((2,), "f64"), TensorSpec((2,), layout=Layout.NCHW)}) == 3
    assert type(spec(np.array([3], np.int32)).shape[0]) is int


def test_counts() -> None:
    tall = spec((3, 4, 5), BF16)
    assert (tall.elements, tall.nbytes, tall.rank) == (60, 120, 3)
    assert (spec(()).elements, spec(()).nbytes, spec(()).rank) == (1, 4, 0)
    assert spec((3, 0, 5)).nbytes == 0


def test_sizes_beyond_32_and_64_bits() -> None:
    huge = spec((2**20, 2**20, 3), "u8")
    assert huge.elements == 3 * 2**40
    assert contiguous_strides(huge.shape) == (3 * 2**20, 3, 1)
    assert spec((2**60,), F32).nbytes == 2**62
    with pytest.raises(ShapeError, match=r"tensor: got f32\[2305843009213693952\]; need at most 2\^62 bytes"):
        spec((2**61,))
    with pytest.raises(ShapeError, match="at most 2"):
        spec((2**40, 2**40, 2**40))


def test_at_most_eight_dimensions() -> None:
    assert spec((1,) * 8).rank == 8
    with pytest.raises(ShapeError, match="got 9 dimensions; need at most 8"):
        spec((1,) * 9)


@pytest.mark.parametrize("shape", [(-1,), (3, -2), (2.5,), ("3",), (None,), 5, None, (1, (2,))])
def test_what_is_no_shape(shape: object) -> None:
    with pytest.raises(ShapeError, match="shape: got"):
        check_shape(shape)  # type: ignore[arg-type]  # callers without a type checker
    with pytest.raises(ShapeError):
        TensorSpec(shape)  # type: ignore[arg-type]  # callers without a type checker


@examples
@given(shapes)
def test_contiguous_strides_are_numpys(shape: tuple[int, ...]) -> None:
    array = np.empty(tuple(max(size, 1) for size in shape), np.int8)
    assert contiguous_strides(shape) == array.strides


@examples
@given(st.lists(shapes, max_size=3))
def test_broadcasting_is_numpys(operands: list[tuple[int, ...]]) -> None:
    try:
        want = np.broadcast_shapes(*operands)
    except ValueError:
        with pytest.raises(ShapeError, match="add: got .*; need sizes equal or 1 on axis -"):
            broadcast_shapes("add", *operands)
    else:
        assert broadcast_shapes("add", *operands) == want


@pytest.mark.parametrize(("kind", "index"), [("gpu", 0), ("", 0), ("cpu", -1)])
def test_what_is_no_device(kind: str, index: int) -> None:
    with pytest.raises(DeviceError, match="need one of cpu cuda vulkan with index ≥ 0"):
        Device(kind, index)
