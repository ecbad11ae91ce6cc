"""Padding, flipping, upsampling and regions of interest, against NumPy, plain loops and known grids."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.ops.eager import Array, Eager

from nnc.core.values.spec import Layout, TensorSpec
from nnc.errors import AttributeValueError, DTypeError, IndexRangeError, LayoutError, ShapeError
from nnc.ops.convolutions.resize import PAD_GRADIENT, UPSAMPLE, PadAttrs, UpsampleAttrs, flip, pad, roi_align, upsample
from nnc.ops.operand import apply
from nnc.ops.rules import infer

examples = settings(max_examples=50, deadline=None, derandomize=True, database=None)
sizes = st.integers(1, 5)


@examples
@given(data=st.data(), shape=st.lists(sizes, max_size=3), mode=st.sampled_from(["constant", "edge", "reflect"]))
def test_borders_are_numpys(data: st.DataObject, shape: list[int], mode: str) -> None:
    x = np.random.default_rng(0).standard_normal(shape)
    most = [size - 1 if mode == "reflect" else 6 for size in shape]
    before, after = (tuple(data.draw(st.integers(0, limit)) for limit in most) for _ in range(2))
    rest = {"constant_values": -2.0} if mode == "constant" else {}
    wanted = np.pad(x, list(zip(before, after, strict=True)), mode, **rest) if shape else x
    np.testing.assert_array_equal(pad(Eager(x), before, after, mode, -2.0).array, wanted)


def test_flips_are_numpys() -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    for axes in (0, -1, (0, 2), ()):
        np.testing.assert_array_equal(flip(Eager(x), axes).array, np.flip(x, axes))


def sampled(x: Array, row: float, column: float) -> Array:
    """x[row, column] between its four neighbours, which are never outside."""
    top, left = math.floor(row), math.floor(column)
    total = np.zeros(x.shape[-1])
    for i in (top, top + 1):
        for j in (left, left + 1):
            weight = max(0.0, 1 - abs(row - i)) * max(0.0, 1 - abs(column - j))
            if weight:
                total += weight * x[i, j]
    return total


@examples
@given(source=st.tuples(sizes, sizes), target=st.tuples(sizes, sizes), corners=st.booleans())
def test_bilinear_grids(source: tuple[int, int], target: tuple[int, int], corners: bool) -> None:
    x = np.random.default_rng(0).standard_normal((2, *source, 2))
    y = upsample(Eager(x), target, "bilinear", align_corners=corners).array

    def position(i: int, old: int, new: int) -> float:
        if corners:
            return i * (old - 1) / (new - 1) if new > 1 else 0.0
        return min(max((i + 0.5) * old / new - 0.5, 0.0), old - 1.0)

    for i, j in np.ndindex(*target):
        row, column = position(i, source[0], target[0]), position(j, source[1], target[1])
        wanted = np.stack([sampled(image, row, column) for image in x])
        np.testing.assert_allclose(y[:, i, j], wanted, rtol=1e-9, atol=1e-12)


def test_nearest_grids() -> None:
    x = Eager(np.arange(4.0).reshape(1, 1, 4, 1))
    for target, wanted in ((8, [0, 0, 1, 1, 2, 2, 3, 3]), (6, [0, 0, 1, 2, 2, 3]), (3, [0, 1, 2]), (1, [0])):
        assert upsample(x, (1, target)).array.reshape(-1).tolist() == wanted
    for target, wanted in ((7, [0, 1, 1, 2, 2, 3, 3]), (2, [0, 3]), (1, [0])):
        assert upsample(x, (1, target), align_corners=True).array.reshape(-1).tolist() == wanted


def test_the_middle_of_an_upsampled_ramp_is_a_ramp() -> None:
    x = Eager(np.arange(4.0).reshape(1, 1, 4, 1))
    y = upsample(x, (1, 8), "bilinear").array.reshape(-1)
    np.testing.assert_allclose(y, [0, 0.25, 0.75, 1.25, 1.75, 2.25, 2.75, 3])
    y = upsample(x, (1, 7), "bilinear", align_corners=True).array.reshape(-1)
    np.testing.assert_allclose(y, np.arange(7) / 2)


def test_regions_of_a_ramp_are_their_middles() -> None:
    """x[i, j] = 10 i + j is linear, so that a cell's mean is the value at its middle, half a pixel off the edges."""
    x = Eager((10 * np.arange(8.0)[:, None] + np.arange(9.0)).reshape(1, 8, 9, 1))
    boxes = Eager(np.array([[0, 1.0, 2.0, 5.0, 6.0], [0, 2.5, 2.5, 3.5, 7.0]]))
    y = roi_align(x, boxes, (2, 2), samples=3).array[..., 0]
    for r, (_, top, left, bottom, right) in enumerate(boxes.array):
        for i, j in np.ndindex(2, 2):
            row, column = top + (bottom - top) * (i + 0.5) / 2, left + (right - left) * (j + 0.5) / 2
            assert y[r, i, j] == pytest.approx(10 * (row - 0.5) + column - 0.5)


def test_samples_outside_the_image_count_as_zero() -> None:
    x = Eager(np.ones((1, 4, 4, 1)))
    boxes = Eager(np.array([[0, -9.0, 0.0, -5.0, 4.0], [0, -2.0, 1.0, 2.0, 3.0], [0, 4.0, 4.0, 4.6, 4.6]]))
    y = roi_align(x, boxes, (1, 1), samples=4).array.reshape(-1)
    # Rows of the second box lie at -2, -1, 0, 1 among the centres, those of the third at 3.575 … 4.025: one is outside.
    np.testing.assert_allclose(y, [0.0, 0.75, 0.75**2])


def test_a_box_of_no_image_is_an_error() -> None:
    x = Eager(np.ones((2, 4, 4, 1)))
    for image in (-1.0, 2.0, math.nan):
        with pytest.raises(IndexRangeError, match="roi_align: got a box of an image outside x; need 0 ≤"):
            roi_align(x, Eager(np.array([[image, 0, 0, 1, 1]])), (1, 1))


def test_misuse_is_refused() -> None:
    x = Eager(np.ones((1, 3, 3, 2)))
    with pytest.raises(AttributeValueError, match="pad: got before"):
        pad(x, (1,), (1,))
    with pytest.raises(AttributeValueError, match="pad: got mode 'wrap'"):
        pad(x, (0,) * 4, (1,) * 4, "wrap")
    with pytest.raises(ShapeError, match="pad: got 3 positions beside 3 \\(reflect\\)"):
        pad(x, (0, 3, 0, 0), (0,) * 4, "reflect")
    with pytest.raises(AttributeValueError, match="pad: got a value that i8 cannot hold"):
        pad(Eager(np.ones(3, np.int8)), (1,), (1,), value=128.0)
    with pytest.raises(AttributeValueError, match="pad_gradient: got before"):
        apply(PAD_GRADIENT, PadAttrs((1,), (1,)), x)
    with pytest.raises(AttributeValueError, match="flip: got axes"):
        flip(x, (0, 0))
    with pytest.raises(AttributeValueError, match="upsample: got mode 'cubic'"):
        upsample(x, (2, 2), "cubic")
    with pytest.raises(ShapeError, match="upsample: "):
        upsample(x, (0, 2))
    with pytest.raises(DTypeError, match="upsample: "):
        upsample(Eager(np.ones((1, 3, 3, 2), np.int32)), (2, 2), "bilinear")
    with pytest.raises(AttributeValueError, match="roi_align: got cells"):
        roi_align(x, Eager(np.zeros((1, 5))), (0, 1))
    channels_first = TensorSpec((1, 3, 3, 2), layout=Layout.NCHW)
    with pytest.raises(LayoutError, match="upsample: "):
        infer(UPSAMPLE, UpsampleAttrs((3, 3), (2, 2)), (channels_first,))
