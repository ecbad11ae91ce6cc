"""Histograms and non-maximum suppression, against plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.ops.eager import Eager

from nnc.errors import AttributeValueError, DTypeError, ShapeError
from nnc.ops.indexing.detection import even_edges, histogram, logarithmic_edges, non_maximum_suppression

examples = settings(max_examples=60, deadline=None, derandomize=True, database=None)
quarters = st.integers(-8, 8).map(lambda number: number / 4)
boxes = st.lists(st.tuples(quarters, quarters, quarters, st.integers(0, 6), st.integers(0, 6)), max_size=8)


@examples
@given(values=st.lists(quarters | st.sampled_from([math.inf, -math.inf, math.nan]), max_size=20))
def test_every_number_is_counted_once(values: list[float]) -> None:
    edges = (-1.0, 0.0, 0.25, 2.0)
    counts = histogram(Eager(np.array(values)), edges).array
    bins = [sum(edge <= value for edge in edges) for value in values if not math.isnan(value)]
    assert counts.tolist() == [bins.count(k) for k in range(5)]


def test_a_histogram_of_integers() -> None:
    x = Eager(np.array([[1, 2], [2, 200]], np.uint8))
    assert histogram(x, (1.5, 2.0, 3.0)).array.tolist() == [1, 0, 2, 1]


def overlap(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    """Intersection over union of boxes (top, left, bottom, right), cell by cell of a grid of quarters."""

    def cells(box: tuple[float, ...]) -> set[tuple[int, int]]:
        top, left, bottom, right = (round(4 * edge) for edge in box)
        return {(i, j) for i in range(top, bottom) for j in range(left, right)}

    union = cells(a) | cells(b)
    return len(cells(a) & cells(b)) / len(union) if union else 0.0


@examples
@given(drawn=boxes, threshold=st.sampled_from([0.0, 0.25, 0.5, 1.0]))
def test_suppression(drawn: list[tuple[float, ...]], threshold: float) -> None:
    rows = [(score, top, left, top + h / 4, left + w / 4) for score, top, left, h, w in drawn]
    chosen: list[int] = []
    for place in sorted(range(len(rows)), key=lambda place: -rows[place][0]):
        if all(overlap(rows[place][1:], rows[other][1:]) <= threshold for other in chosen):
            chosen.append(place)
    kept, index = non_maximum_suppression(Eager(np.array(rows).reshape(-1, 5)), threshold)
    rest = len(rows) - len(chosen)
    assert index.array.tolist() == chosen + [-1] * rest
    np.testing.assert_array_equal(kept.array, np.array([rows[p] for p in chosen] + [(0.0,) * 5] * rest).reshape(-1, 5))


def test_misuse_is_refused() -> None:
    x = Eager(np.zeros((2, 4)))
    with pytest.raises(ShapeError, match="non_maximum_suppression: "):
        non_maximum_suppression(x)
    with pytest.raises(DTypeError, match="non_maximum_suppression: "):
        non_maximum_suppression(Eager(np.zeros((2, 5), np.int64)))
    for edges in ((), (1.0, 1.0), (2.0, 1.0), (0.0, math.inf), (math.nan,)):
        with pytest.raises(AttributeValueError, match="histogram: .* need finite ascending edges"):
            histogram(x, edges)
    with pytest.raises(AttributeValueError, match="histogram: "):
        even_edges(0, 0.0, 1.0)
    with pytest.raises(AttributeValueError, match="histogram: "):
        logarithmic_edges(2, 0.0, 1.0)
