"""The functions that apply operators: what they leave out, what they turn into views, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest
from tests.ops.eager import Eager

from nnc.core.values.dtype import F32, F64
from nnc.errors import AttributeValueError, IndexRangeError, ShapeError
from nnc.ops.arithmetic import Index
from nnc.ops.elementwise.pointwise import cast
from nnc.ops.movement.broadcast import broadcast_to, reduce_sum, reshape, sum_to
from nnc.ops.movement.movement import concatenate, slice_axis, transpose

X = Eager(np.arange(24.0).reshape(2, 3, 4))


def test_functions_that_change_nothing_append_nothing() -> None:
    assert reshape(X, (2, 3, 4)) is X
    assert reshape(X, (2, -1, 4)) is X
    assert broadcast_to(X, (2, 3, 4)) is X
    assert transpose(X, (0, 1, 2)) is X
    assert cast(X, F64) is X
    assert concatenate([X]) is X
    assert sum_to(X, (2, 3, 4)) is X


def test_a_reshape_of_contiguous_elements_is_a_view() -> None:
    flat = reshape(X, (-1,))
    assert np.shares_memory(flat.array, X.array)
    assert flat.shape == (24,)
    assert np.shares_memory(reshape(flat, (4, 6)).array, X.array)


def test_a_reshape_of_a_strided_view_copies() -> None:
    part = X[:, 1]
    assert np.shares_memory(part.array, X.array)
    flat = reshape(part, (8,))
    assert not np.shares_memory(flat.array, X.array)
    np.testing.assert_array_equal(flat.array, X.array[:, 1].reshape(8))


def test_views_of_views_stay_on_one_root() -> None:
    view = slice_axis(X[1], 0, 1, 3)[1, 2:]
    assert view.root is X
    assert view.offset == 12 + 8 + 2
    np.testing.assert_array_equal(view.array, X.array[1, 2, 2:])


@pytest.mark.parametrize(
    "index",
    [
        0,
        -1,
        slice(1, None),
        slice(None, -1),
        (1, 2),
        (slice(None), 1),
        (1, slice(0, 2), 3),
        slice(None, None, 2),
        (Ellipsis, 1),
        (None, 1),
    ],
)
def test_indexing_is_numpys(index: Index | tuple[Index, ...]) -> None:
    np.testing.assert_array_equal(X[index].array, X.array[index])


@pytest.mark.parametrize("index", [2, -3])
def test_an_index_outside_is_refused(index: int) -> None:
    with pytest.raises(IndexRangeError, match="index: got"):
        X[index]


@pytest.mark.parametrize("axis", [-1, 3])
def test_slices_along_no_axis_are_refused(axis: int) -> None:
    with pytest.raises(AttributeValueError, match="need 0 ≤ axis < 3"):
        slice_axis(X, axis, 0, 1)


@pytest.mark.parametrize("shape", [(5, 5), (-1, 7), (-1, -1)])
def test_impossible_reshapes(shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match="reshape: got"):
        reshape(X, shape)


def test_an_empty_list_has_no_concatenation() -> None:
    with pytest.raises(ShapeError, match="concatenate: got no operands; need at least one"):
        concatenate([])


def test_sum_to_undoes_broadcasting() -> None:
    total = sum_to(Eager(np.ones((5, 2, 3, 4))), (3, 1))
    np.testing.assert_array_equal(total.array, np.full((3, 1), 40.0))
    assert reduce_sum(X).shape == ()
    assert reduce_sum(X, -1, keepdims=True).shape == (2, 3, 1)


def test_a_cast_changes_the_element_type() -> None:
    assert cast(X, F32).spec.dtype is F32
