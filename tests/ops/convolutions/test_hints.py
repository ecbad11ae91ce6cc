"""Hints: the formula, its check, and what it refuses."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nnc.errors import ShapeError
from nnc.ops.convolutions.hints import auto_window, verify_window
from nnc.ops.convolutions.window import Window, output_sizes, window_of


@pytest.mark.parametrize(
    ("sizes", "outputs", "kernel", "strides", "padding"),
    [
        ((224,), (112,), (7,), (2,), ((3, 2),)),
        ((112,), (56,), (3,), (2,), ((1, 0),)),
        ((56,), (56,), (3,), (1,), ((1, 1),)),
        ((8, 8), (4, 8), (2, 1), (2, 1), ((0, 0), (0, 0))),
        ((7,), (1,), (7,), (7,), ((0, 0),)),
        ((5,), (7,), (3,), (1,), ((2, 2),)),
    ],
)
def test_known_hints(
    sizes: tuple[int, ...],
    outputs: tuple[int, ...],
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    padding: tuple[tuple[int, int], ...],
) -> None:
    assert auto_window(sizes, outputs, kernel) == Window(strides, padding, (1,) * len(sizes))


def test_a_dilated_window_spans_more() -> None:
    assert auto_window((9, 9), (9, 9), (3, 3), (2, 1)) == Window((1, 1), ((2, 2), (1, 1)), (2, 1))


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(size=st.integers(1, 64), wanted=st.integers(1, 64), extent=st.integers(1, 9), dilation=st.integers(1, 3))
def test_a_hint_leads_to_the_sizes_or_is_refused(size: int, wanted: int, extent: int, dilation: int) -> None:
    try:
        window = auto_window((size,), (wanted,), (extent,), (dilation,))
    except ShapeError:
        return
    before, after = window.padding[0]
    assert output_sizes("test", (size,), (extent,), window) == (wanted,)
    assert after <= before <= after + 1


def test_a_hint_that_does_not_lead_there_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"hint: got sizes \[10\] to \[4\] by strides \[3\]; need \[3\]"):
        auto_window((10,), (3,), (1,))
    with pytest.raises(ShapeError, match="hint: got .* need one entry ≥ 1 per spatial axis"):
        auto_window((10,), (0,), (1,))
    with pytest.raises(ShapeError, match="one entry"):
        auto_window((10, 10), (5,), (1,))


def test_verification() -> None:
    window = window_of(3, stride=2, padding=1)
    verify_window((8, 8), (4, 4), (3, 3), window)
    with pytest.raises(ShapeError, match=r"need \[4, 5\]"):
        verify_window((8, 8), (4, 5), (3, 3), window)
    with pytest.raises(ShapeError, match="room for a window"):
        verify_window((1, 8), (1, 4), (5, 3), window)
