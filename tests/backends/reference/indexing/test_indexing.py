"""Reading and adding at named positions, against loops; indices outside their axis."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.ops.eager import Array, Eager

from nnc.core.values.dtype import F32, I32
from nnc.errors import AttributeValueError, DTypeError, IndexRangeError, ShapeError
from nnc.ops.indexing.indexing import gather, index_select, one_hot, scatter_add, scatter_along

sizes = st.integers(1, 4)
examples = settings(max_examples=40, deadline=None, derandomize=True, database=None)
X = Eager(np.arange(12.0).reshape(3, 4))


def drawn(data: st.DataObject, shape: tuple[int, ...], limit: int) -> Array:
    count = int(np.prod(shape))
    values = data.draw(st.lists(st.integers(0, limit - 1), min_size=count, max_size=count))
    return np.array(values, np.int64).reshape(shape)


@examples
@given(data=st.data(), shape=st.lists(sizes, min_size=1, max_size=3), named=st.lists(sizes, max_size=2))
def test_selection_and_its_sum(data: st.DataObject, shape: list[int], named: list[int]) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    x = np.random.default_rng(0).standard_normal(shape)
    index = drawn(data, tuple(named), shape[axis])
    y = index_select(Eager(x), Eager(index), axis).array
    wanted = np.zeros(shape)
    for place in np.ndindex(*named):
        where = (slice(None),) * axis + place
        source = (slice(None),) * axis + (index[place],)
        np.testing.assert_array_equal(y[where], x[source])
        wanted[source] += y[where]
    total = scatter_add(Eager(y), Eager(index), axis, shape[axis]).array
    np.testing.assert_allclose(total, wanted, rtol=1e-12)


@examples
@given(data=st.data(), shape=st.lists(sizes, min_size=1, max_size=3), count=st.integers(0, 5))
def test_gathering_and_its_sum(data: st.DataObject, shape: list[int], count: int) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    x = np.random.default_rng(0).standard_normal(shape)
    index = drawn(data, (*shape[:axis], count, *shape[axis + 1 :]), shape[axis])
    y = gather(Eager(x), Eager(index), axis).array
    np.testing.assert_array_equal(y, np.take_along_axis(x, index, axis))
    wanted = np.zeros(shape)
    for place in np.ndindex(*index.shape):
        wanted[(*place[:axis], index[place], *place[axis + 1 :])] += y[place]
    total = scatter_along(Eager(y), Eager(index), axis, shape[axis]).array
    np.testing.assert_allclose(total, wanted, rtol=1e-12)


def test_one_hot_rows() -> None:
    y = one_hot(Eager(np.array([2, 0, -1, 3])), 3, I32)
    assert y.spec.dtype is I32
    np.testing.assert_array_equal(y.array, [[0, 0, 1], [1, 0, 0], [0, 0, 0], [0, 0, 0]])


@pytest.mark.parametrize("outside", [-1, 3, 2**40])
def test_an_index_outside_its_axis_names_the_operator(outside: int) -> None:
    index = Eager(np.array([0, outside]))
    with pytest.raises(IndexRangeError, match="index_select: got an index outside its axis; need 0 ≤ index < 3"):
        index_select(X, index)
    with pytest.raises(IndexRangeError, match="scatter_add: got .*; need 0 ≤ index < 3"):
        scatter_add(X[:2], index, 0, 3)
    along = Eager(np.full((1, 4), outside))
    with pytest.raises(IndexRangeError, match="gather: .* need 0 ≤ index < 3"):
        gather(X, along, 0)
    with pytest.raises(IndexRangeError, match="scatter_along: .* need 0 ≤ index < 3"):
        scatter_along(X[:1], along, 0, 3)


def test_a_repeated_index_adds_in_wide_precision() -> None:
    x = Eager(np.full(4096, 1 / 3, np.float16))
    index = Eager(np.zeros(4096, np.int32))
    assert float(scatter_add(x, index, 0, 1).array[0]) == pytest.approx(4096 * float(np.float16(1 / 3)), rel=1e-3)


def test_negative_axes_count_from_the_end() -> None:
    index = Eager(np.array([1, 1]))
    np.testing.assert_array_equal(index_select(X, index, -1).array, X.array[:, [1, 1]])
    np.testing.assert_array_equal(scatter_add(X[:, :2], index, -1, 3).array[:, 1], X.array[:, :2].sum(1))


def test_misuse_is_refused() -> None:
    with pytest.raises(DTypeError, match="index_select: got index f64"):
        index_select(X, X)
    with pytest.raises(AttributeValueError, match="index_select: got axis 2 of 2"):
        index_select(X, Eager(np.array(0)), 2)
    with pytest.raises(ShapeError, match="gather: .* need equal sizes except on axis 0"):
        gather(X, Eager(np.zeros((2, 3), np.int64)), 0)
    with pytest.raises(ShapeError, match="scatter_add: .* need x's axes from 1 on as the index"):
        scatter_add(X, Eager(np.zeros(3, np.int64)), 1, 2)
    with pytest.raises(DTypeError, match="scatter_add: "):
        scatter_add(Eager(np.ones(2, np.bool_)), Eager(np.zeros(2, np.int64)), 0, 2)
    with pytest.raises(AttributeValueError, match="one_hot: got 0 classes"):
        one_hot(Eager(np.zeros(2, np.int64)), 0, F32)
    with pytest.raises(ShapeError, match="at most 8"):
        index_select(Eager(np.zeros((1,) * 8)), Eager(np.zeros((1, 1), np.int64)))
