"""Sorted rows, the largest elements and places in a row, against NumPy's stable order."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from tests.backends.llvm.harness import Array, check, random, scalar_of

from nnc.codegen.kernels.indexing.order import INSERTED, RankedRows, SearchedRow

# By insertion, by bytes, and more than a register holds.
LENGTHS = (1, 2, INSERTED, INSERTED + 1, 300)
TYPES = (np.float64, np.float32, np.float16, np.int64, np.int32, np.uint8, np.bool_)


def ranking(x: Array, *, descending: bool) -> Array:
    """Where the k-th element along axis 1 is."""
    if not descending:
        return np.argsort(x, 1, kind="stable")
    backward: Array = x.shape[1] - 1 - np.flip(np.argsort(np.flip(x, 1), 1, kind="stable"), 1)
    return backward


def check_rows(x: Array, count: int, *, descending: bool) -> None:
    """The first `count` along axis 1 of x[outer, size, inner]."""
    outer, size, inner = x.shape
    index = ranking(x, descending=descending)[:, :count]
    wanted = [np.take_along_axis(x, index, 1), index]
    check(RankedRows(scalar_of(x), outer, size, inner, count, descending), [x], wanted)


@pytest.mark.parametrize("dtype", TYPES)
def test_rows_are_in_order_and_equal_elements_stay_so(dtype: type[np.generic]) -> None:
    for size, inner, descending in product(LENGTHS, (1, 3), (False, True)):
        x = np.abs(random((2, size, inner)) * 9).astype(dtype)
        check_rows(x, size, descending=descending)


def test_nan_is_the_largest_and_zeros_of_both_signs_are_equal() -> None:
    values = np.array([np.nan, -np.nan, 0.0, -0.0, np.inf, -np.inf, 1e-45, -1e-45, 1.0, -1.0], np.float32)
    for size, descending in product(LENGTHS, (False, True)):
        x = np.random.default_rng(size).choice(values, (2, size, 1))
        check_rows(x, size, descending=descending)
        check_rows(x.astype(np.float64), size, descending=descending)


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.uint8])
def test_few_of_many_are_kept_whatever_their_order(dtype: type[np.generic]) -> None:
    for descending, count in product((False, True), (0, 1, 7, 64, 65)):
        for x in (random((2, 301, 1)) * 9, np.arange(602.0).reshape(2, 301, 1) / 4, np.zeros((2, 301, 1))):
            check_rows(np.abs(x).astype(dtype), count, descending=descending)


def test_whole_ranges_of_integers_are_in_order() -> None:
    for dtype in (np.int64, np.int32, np.uint8):
        ends = np.iinfo(dtype)
        check_rows(np.random.default_rng(0).integers(ends.min, ends.max, (1, 99, 2), dtype), 99, descending=False)


@pytest.mark.parametrize("right", [False, True])
def test_places_in_a_row_are_those_of_numpy(right: bool) -> None:
    side = "right" if right else "left"
    for size in (0, 1, 2, 1000):
        x = np.sort(np.append(np.round(random((size,)), 1), [np.nan] * (size > 1))).astype(np.float32)
        values = np.append(np.round(random((300,), seed=1), 1), [np.nan, np.inf, -np.inf]).astype(np.float32)
        wanted = np.searchsorted(x, values, side)
        check(SearchedRow(scalar_of(x), x.size, values.size, right), [x, values], [wanted])


@pytest.mark.parametrize("right", [False, True])
def test_rows_are_searched_by_the_values_of_their_places(right: bool) -> None:
    x, values = np.sort(random((3, 9)), -1), random((3, 200), seed=1)
    wanted = np.stack([np.searchsorted(*pair, "right" if right else "left") for pair in zip(x, values, strict=True)])
    check(SearchedRow(scalar_of(x), 9, values.size, right, 200), [x, values], [wanted])
