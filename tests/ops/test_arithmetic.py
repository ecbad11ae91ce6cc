"""Indexing as views: NumPy's results, no copies for positive steps, gradients in every graph, typed errors."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.ops.eager import Array, Eager, check_gradients

import nnc
from nnc.core.values.spec import spec
from nnc.dynamic import DynamicGraph
from nnc.errors import AttributeValueError, IndexRangeError, ShapeError, SymbolError
from nnc.ops.arithmetic import Index
from nnc.ops.elementwise.pointwise import square
from nnc.symbolic import SymbolicGraph, backward, compile

# Importing the package puts its backends into the dispatcher.
assert nnc.__name__ == "nnc"

X = np.arange(60.0, dtype=np.float64).reshape(5, 4, 3)
INDICES: tuple[Index | tuple[Index, ...], ...] = (
    np.s_[::2],
    np.s_[1::3, ::2],
    np.s_[..., ::2],
    np.s_[4:0:-2],
    np.s_[::-1, 1, ::-2],
    np.s_[None, 2, ..., 1],
    np.s_[:, None, ::3],
    np.s_[3:3:2],
    np.s_[1:3:-1],
    np.s_[-2:, ..., None],
    np.s_[np.int64(2)],
    np.s_[...],
    (),
)


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_indexing_is_numpys(index: Index | tuple[Index, ...]) -> None:
    x = Eager(X)
    np.testing.assert_array_equal(x[index].array, X[index])
    if X[index].size:
        check_gradients(lambda variables: [square(variables[0][index])], [X / 60])


@settings(max_examples=80, deadline=None, derandomize=True, database=None)
@given(data=st.data())
def test_any_slices(data: st.DataObject) -> None:
    ends = st.none() | st.integers(-7, 7)
    steps = st.none() | st.sampled_from([-3, -2, -1, 1, 2, 3])
    index = tuple(
        slice(data.draw(ends), data.draw(ends), data.draw(steps)) for _ in range(data.draw(st.integers(0, 3)))
    )
    np.testing.assert_array_equal(Eager(X)[index].array, X[index])
    again = tuple(slice(None, None, data.draw(steps)) for _ in index)
    np.testing.assert_array_equal(Eager(X)[index][again].array, X[index][again])


def test_positive_steps_are_views_and_negative_ones_copies() -> None:
    x = Eager(X.copy())
    view = x[1::2, :, ::2][None]
    assert view.root is x
    assert view.strides[1:] == (24, 3, 2)
    assert view.offset == 12
    assert np.shares_memory(view.array, x.array)
    assert not np.shares_memory(x[::-1].array, x.array)


def expected(x: Array) -> Array:
    """The gradient of sum(x[::2, ::-1]² · 3) by x."""
    g = np.zeros_like(x)
    g[::2] = 6 * x[::2]
    return g


def test_steps_in_a_symbolic_graph() -> None:
    graph = SymbolicGraph()
    x = graph.input(spec(X.shape, "f64"))
    y = square(x[::2, ::-1]) * 3
    (g,) = backward(graph, [y], [x])
    got, slope = compile(graph, [y, g])({x: X}, y, g)
    np.testing.assert_array_equal(got, 3 * X[::2, ::-1] ** 2)
    np.testing.assert_allclose(slope, expected(X), rtol=1e-12)


def test_steps_in_a_dynamic_graph() -> None:
    graph = DynamicGraph()
    x = graph.variable(X.copy())
    y = square(x[::2, ::-1]) * 3
    np.testing.assert_array_equal(y.numpy(), 3 * X[::2, ::-1] ** 2)
    (g,) = graph.backward([y], [x])
    np.testing.assert_allclose(g.numpy(), expected(X), rtol=1e-12)


@pytest.mark.parametrize("index", [1.5, True, "a", [0, 1], np.s_[::0], np.s_[1.5:], np.s_[:"a"]])
def test_other_indices_are_refused(index: object) -> None:
    with pytest.raises(AttributeValueError, match=r"^(index|slice): got"):
        Eager(X)[index]


@pytest.mark.parametrize("index", [5, -6, (0, 4), (0,) * 4, (..., ...)])
def test_positions_outside_are_pythons_index_error(index: Index | tuple[Index, ...]) -> None:
    with pytest.raises(IndexRangeError, match="index: got") as caught:
        Eager(X)[index]
    assert isinstance(caught.value, IndexError)


def test_at_most_eight_axes() -> None:
    with pytest.raises(ShapeError, match="at most 8"):
        Eager(X)[(None,) * 6]


COMPARISONS: tuple[Callable[[Any, Any], Any], ...] = (operator.lt, operator.le, operator.gt, operator.ge)


@pytest.mark.parametrize("compare", COMPARISONS)
def test_comparisons_are_numpys(compare: Callable[[Any, Any], Any]) -> None:
    x, y = Eager(X), Eager(X[::-1].copy())
    np.testing.assert_array_equal(compare(x, y).array, compare(x.array, y.array))
    np.testing.assert_array_equal(compare(x, 7).array, compare(x.array, 7))
    np.testing.assert_array_equal(compare(7, x).array, compare(7, x.array))
    np.testing.assert_array_equal(abs(x - 30.0).array, abs(X - 30))


def test_a_variable_is_true_as_its_element_is() -> None:
    graph = DynamicGraph()
    x = graph.variable(np.float32(2))
    assert x < 3.0
    assert not x * 2.0 < 3.0
    assert float(x) == 2.0
    with pytest.raises(ShapeError, match="one element"):
        bool(graph.variable(X) < 3.0)


def test_a_symbol_has_no_truth() -> None:
    x = SymbolicGraph().input(spec((2,)))
    with pytest.raises(SymbolError, match=r"case_of\(\)"):
        bool(x < 1.0)
