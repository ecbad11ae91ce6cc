"""Arrays drawn by hypothesis' strategies of the array API standard, which data-apis' suite is written with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.array_api import make_strategies_namespace
from tests.array_api.comparison import compare
from tests.array_api.random_checks import random_checks

from nnc import array_api as xp

xps = make_strategies_namespace(xp, api_version="2024.12")
SHAPES = xps.array_shapes(min_dims=0, min_side=0, max_side=4)
slow = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], max_examples=25
)


def test_random_calls_give_what_numpy_gives() -> None:
    # NumPy's own namespace lacks a few options, such as descending orders; scripts/array-api asks array-api-strict.
    with np.errstate(all="ignore"):
        report = compare(random_checks(7, 300), np)
    assert report.differed == {}
    assert sum(report.unasked.values()) < 30


@slow
@given(xps.scalar_dtypes().flatmap(lambda dtype: st.tuples(st.just(dtype), xps.arrays(dtype, SHAPES))))
def test_elements_of_all_types_are_what_they_were_made_of(drawn: tuple[Any, Any]) -> None:
    # The strategy itself compares each element that it sets with what it drew.
    dtype, array = drawn
    assert array.dtype is dtype


@slow
@given(xps.arrays(xps.scalar_dtypes(), SHAPES), st.data())
def test_masks_choose_by_numpys_rules(array: Any, data: Any) -> None:
    mask = data.draw(xps.arrays(xp.bool, SHAPES))
    sizes = zip(array.shape, mask.shape, strict=False)
    if mask.ndim > array.ndim or not all(one in (size, 0) for size, one in sizes):
        with pytest.raises(IndexError):
            array[mask]
    else:
        chosen = int(xp.count_nonzero(mask))
        assert array[mask].shape == (chosen, *array.shape[mask.ndim :])


@slow
@given(xps.arrays(xps.scalar_dtypes(), xps.array_shapes(max_side=4)), st.data())
def test_an_element_that_is_assigned_is_read_again(array: Any, data: Any) -> None:
    key = data.draw(xps.indices(array.shape, max_dims=0))
    value = data.draw(xps.from_dtype(array.dtype) | xps.arrays(array.dtype, ()))
    copy = xp.asarray(array, copy=True)
    copy[key] = value
    assert (copy.dtype, copy.shape) == (array.dtype, array.shape)
    assert bool(copy[key] == value) or bool(copy[key] != copy[key])


@slow
@given(
    xps.array_shapes(min_side=0, max_side=4).flatmap(
        lambda s: st.tuples(st.just(s), xps.indices(s, allow_newaxis=True))
    )
)
def test_an_index_gives_numpys_shape(drawn: tuple[Any, Any]) -> None:
    shape, key = drawn
    assert xp.ones(shape)[key].shape == np.ones(shape)[key].shape


def test_integers_beyond_i64_are_exact_beside_small_ones() -> None:
    most = (1 << 64) - 1
    assert xp.asarray([0, most], dtype=xp.uint64).tolist() == [0, most]
    assert xp.asarray([0, most]).dtype is xp.uint64
    assert (xp.zeros(1, dtype=xp.uint64) + most).tolist() == [most]


def test_numbers_go_into_f64_without_a_stop_in_f32() -> None:
    assert float(xp.asarray(16777217.0, dtype=xp.float64)) == 16777217.0
    assert complex(xp.asarray([1j / 3], dtype=xp.complex128)[0]) == 1j / 3


def test_a_real_number_times_a_complex_one_goes_part_by_part() -> None:
    z = -xp.asarray([complex(np.inf, 1.0), complex(1.0, 0.0)], dtype=xp.complex128)
    assert z.numpy()[0] == complex(-np.inf, -1.0)
    assert np.signbit(z.numpy()[1].imag)


def test_indices_outside_are_pythons_index_error() -> None:
    x = xp.ones((2, 3))
    for key in (2, -3, (0, 3), (0, 0, 0), xp.ones(3, dtype=xp.bool)):
        with pytest.raises(IndexError, match="index: got"):
            x[key]
