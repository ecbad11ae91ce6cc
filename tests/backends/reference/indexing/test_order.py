"""Sorting, the largest elements and running sums, against Python's sort and loops."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.ops.eager import Eager

from nnc.errors import AttributeValueError
from nnc.ops.indexing.order import cumsum, sort, top_k

examples = settings(max_examples=60, deadline=None, derandomize=True, database=None)
elements = st.lists(st.sampled_from([-2.0, -1.0, -0.0, 0.0, 1.0, 3.0, math.inf, -math.inf, math.nan]), max_size=9)


@examples
@given(values=elements, descending=st.booleans(), count=st.integers(0, 9))
def test_order_is_stable_and_nan_the_largest(values: list[float], descending: bool, count: int) -> None:
    x = Eager(np.array(values, np.float32))

    def key(place: int) -> tuple[bool, float]:
        value = values[place]
        return (math.isnan(value), 0.0 if math.isnan(value) else value)

    places = sorted(range(len(values)), key=key, reverse=descending)
    if descending:
        # Python's reversed sort keeps equal elements in order, as ours must.
        assert all(a < b for a, b in pairwise(places) if key(a) == key(b))
    ordered, index = sort(x, 0, descending=descending)
    np.testing.assert_array_equal(index.array, np.array(places, np.int64))
    np.testing.assert_array_equal(ordered.array, x.array[places])
    kept, where = top_k(x, min(count, len(values)), 0, largest=descending)
    np.testing.assert_array_equal(where.array, index.array[:count])
    np.testing.assert_array_equal(kept.array, ordered.array[:count])


@pytest.mark.parametrize("dtype", ["i8", "u8", "bool"])
def test_the_ends_of_integer_types(dtype: str) -> None:
    twin = {"i8": np.int8, "u8": np.uint8, "bool": np.bool_}[dtype]
    x = np.array([1, 0, 1]).astype(twin) if dtype == "bool" else np.array([5, np.iinfo(twin).min, 127], twin)
    np.testing.assert_array_equal(sort(Eager(x), descending=True)[0].array, np.sort(x)[::-1])


@examples
@given(shape=st.lists(st.integers(0, 3), min_size=1, max_size=3), exclusive=st.booleans(), reverse=st.booleans())
def test_running_sums(shape: list[int], exclusive: bool, reverse: bool) -> None:
    x = np.random.default_rng(0).integers(-4, 5, shape).astype(np.float64)
    for axis in range(len(shape)):
        y = cumsum(Eager(x), axis, exclusive=exclusive, reverse=reverse).array
        for k in range(shape[axis]):
            near = k + (exclusive if reverse else not exclusive)
            part = range(near, shape[axis]) if reverse else range(near)
            wanted = np.take(x, list(part), axis).sum(axis)
            np.testing.assert_array_equal(np.take(y, k, axis), wanted)


def test_an_exclusive_sum_is_not_spoilt_by_an_infinity_behind() -> None:
    y = cumsum(Eager(np.array([1.0, np.inf, 2.0])), 0, exclusive=True)
    np.testing.assert_array_equal(y.array, [0, 1, np.inf])


def test_narrow_integers_wrap() -> None:
    y = cumsum(Eager(np.array([100, 100, 100], np.int8)))
    np.testing.assert_array_equal(y.array, np.array([100, -56, 44], np.int8))


def test_misuse_is_refused() -> None:
    x = Eager(np.zeros((2, 3)))
    with pytest.raises(AttributeValueError, match="top_k: got count 4; need 0 ≤ count ≤ 3"):
        top_k(x, 4)
    with pytest.raises(AttributeValueError, match="sort: got axis 2"):
        sort(x, 2)
    with pytest.raises(AttributeValueError, match="cumulative_sum: got axis -1"):
        cumsum(x, -3)
