"""Sorting, searching, choosing and counting, against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest
from tests.numerics.agreement import Call, agree, agree_compiled, slopes_agree

import nnc
from nnc.errors import AttributeValueError, ShapeError

RANDOM = np.random.default_rng(5)
X = RANDOM.standard_normal((3, 4))
PLACES = RANDOM.integers(0, 4, (3, 2))
EDGES = np.array([-1.0, -0.2, 0.3, 1.1])
SMOOTH: list[Call] = [
    lambda xp, x: xp.where(x > 0, x, 0.0),
    lambda xp, x: xp.where(x > 0, 1.0, x),
    lambda xp, x: xp.select([x > 0.5, x > 0], [x, 2 * x], 7.0),
    lambda xp, x: xp.sort(x),
    lambda xp, x: xp.sort(x, axis=0),
    lambda xp, x: xp.sort(x, axis=None),
    lambda xp, x: xp.take(x, xp.asarray([0, -1, 2])),
    lambda xp, x: xp.take(x, xp.asarray([[1, 0]]), axis=1),
    lambda xp, x: xp.take(x, 1, axis=0),
    lambda xp, x: xp.take_along_axis(x, xp.asarray(PLACES), axis=1),
]
LOOKS: list[Call] = [
    lambda xp, x: xp.argsort(x, axis=1),
    lambda xp, x: xp.searchsorted(xp.asarray(EDGES), x),
    lambda xp, x: xp.searchsorted(xp.asarray(EDGES), x, side="right"),
    lambda xp, x: xp.digitize(x, xp.asarray(EDGES)),
    lambda xp, x: xp.digitize(x, xp.asarray(EDGES), right=True),
    lambda xp, x: xp.histogram(x, 5),
    lambda xp, x: xp.histogram(x, bins=3, range=(-1.0, 1.0)),
    lambda xp, x: xp.histogram(x, bins=4, density=True),
    lambda xp, x: xp.histogram(x, EDGES),
    lambda xp, x: xp.histogram(x, 4, weights=np.ones((3, 4))),
    lambda xp, x: xp.isin(x, x[0]),
    lambda xp, x: xp.unravel_index(xp.asarray(PLACES), (2, 2)),
]
EAGER: list[Call] = [
    lambda xp, x: xp.nonzero(x > 0),
    lambda xp, x: xp.where(x > 0),
    lambda xp, x: xp.flatnonzero(x > 0),
    lambda xp, x: xp.argwhere(x > 0),
    lambda xp, x: xp.extract(x > 0, x),
    lambda xp, x: xp.compress(x[0] > 0, x, axis=1),
    lambda xp, x: xp.unique(x),
    lambda xp, x: xp.union1d(x, x[0] + 1),
    lambda xp, x: xp.intersect1d(x, x[0]),
    lambda xp, x: xp.setdiff1d(x, x[0]),
]


def test_values_and_gradients() -> None:
    agree([*SMOOTH, *LOOKS, *EAGER], X)
    slopes_agree([*SMOOTH, EAGER[4], EAGER[6]], X)


def test_compiled() -> None:
    agree_compiled([*SMOOTH, *LOOKS], X)


def test_integers_with_ties() -> None:
    counts = RANDOM.integers(0, 4, (3, 5))
    calls: list[Call] = [
        lambda xp, x: xp.sort(x),
        lambda xp, x: xp.unique(x, return_index=True, return_inverse=True, return_counts=True),
        lambda xp, x: xp.bincount(xp.ravel(x)),
        lambda xp, x: xp.bincount(xp.ravel(x), minlength=9),
        lambda xp, x: xp.bincount(xp.ravel(x), weights=np.linspace(0, 1, 15)),
        lambda xp, x: xp.where(x, 1, 2),
        lambda xp, x: xp.histogram(x, 4),
    ]
    agree(calls, counts)
    assert nnc.bincount(counts, length=3).tolist() == np.bincount(counts.ravel())[:3].tolist()
    agree([lambda xp, x: xp.unique(x), lambda xp, x: xp.sort(x)], np.array([np.nan, 1.0, np.nan, 0.0]))
    agree([lambda xp, x: xp.sort(x), lambda xp, x: xp.unique(x)], np.zeros(0))


def test_partitions_are_in_order() -> None:
    for kth in (0, 2, -1):
        assert nnc.partition(X, kth)[:, kth].tolist() == np.partition(X, kth)[:, kth].tolist()
        rows = np.take_along_axis(X, nnc.argpartition(X, kth).numpy(), -1)
        assert rows[:, kth].tolist() == np.partition(X, kth)[:, kth].tolist()
    with pytest.raises(AttributeValueError, match="kth"):
        nnc.partition(X, 4)


def test_put_along_axis_gives_a_new_array() -> None:
    places = np.argmax(X, axis=1, keepdims=True)
    want = X.copy()
    np.put_along_axis(want, places, -9.0, 1)
    np.testing.assert_array_equal(nnc.put_along_axis(X, places, -9.0, 1), want)
    np.testing.assert_array_equal(nnc.put_along_axis(X, places - 4, -9.0, axis=-1), want)
    slopes_agree([lambda xp, x, y: xp.put_along_axis(x, places, y, 1)], X, X[:, :1])
    with pytest.raises(ShapeError, match="put_along_axis"):
        nnc.put_along_axis(X, places[:2], 0.0, 1)


def test_refusals() -> None:
    for refused, text in (
        (lambda: nnc.bincount([-1]), "0 or more"),
        (lambda: nnc.bincount([0.5]), "integers"),
        (lambda: nnc.histogram(X, 0), "at least one"),
        (lambda: nnc.select([], []), "one choice"),
        (lambda: nnc.searchsorted(EDGES, X, side="middle"), "side"),
    ):
        with pytest.raises(AttributeValueError, match=text):
            refused()
