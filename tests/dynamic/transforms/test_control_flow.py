"""Control flow by values gives the same eagerly and compiled, with its gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nnc
from nnc import ops
from nnc.core.settings import SETTINGS
from nnc.errors import ArityError, ShapeError

X = np.array([0.5, -1.0, 2.0])
WAYS = pytest.mark.parametrize("way", [lambda function: function, nnc.compile], ids=["eager", "compiled"])
Way = Callable[[Callable[..., Any]], Callable[..., Any]]


@WAYS
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_one_of_two_branches(way: Way, sign: float) -> None:
    def function(x: Any, scale: Any) -> Any:
        found = nnc.cond(x.sum() > 0, lambda x: {"y": x * scale}, lambda x: {"y": ops.exp(x)}, x)
        return found["y"].sum()

    x = nnc.tensor(sign * X)
    expected = (x.numpy() * 3).sum() if sign > 0 else np.exp(x.numpy()).sum()
    assert way(function)(x, np.float64(3.0)).item() == pytest.approx(expected)
    slope = way(nnc.grad(function))(x, np.float64(3.0))
    np.testing.assert_allclose(slope, np.full(3, 3.0) if sign > 0 else np.exp(x.numpy()))


@WAYS
def test_a_loop_ends_at_its_test(way: Way) -> None:
    def function(x: Any) -> Any:
        return nnc.while_loop(lambda n, y: y.sum() < 100, lambda n, y: (n + 1, y * 2), 0, x)

    count, y = way(function)(nnc.tensor(X))
    assert int(count) == 7
    np.testing.assert_array_equal(y, X * 2**7)
    single = way(lambda x: nnc.while_loop(lambda y: y.sum() < 100, lambda y: y * 2, x))(nnc.tensor(X))
    np.testing.assert_array_equal(single, y)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_recurrence_whose_steps_are_phases_is_the_same_in_a_loop(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SETTINGS, "threads", threads)
    random, units = np.random.default_rng(0), 320
    shapes = ((5, 2, 8), (8, 4 * units), (units, 4 * units), (2, units))
    x, w, u, h = (nnc.tensor(random.standard_normal(shape, dtype=np.float32) / 18) for shape in shapes)

    def function(x: Any, w: Any, u: Any, h: Any) -> Any:
        weights = ops.RecurrentWeights(w, u)
        return nnc.while_loop(lambda n, h: n < 3, lambda n, h: (n + 1, ops.lstm(x, weights, h)[1]), 0, h)[1]

    assert nnc.compile(function)(x, w, u, h).numpy().tobytes() == function(x, w, u, h).numpy().tobytes()


@WAYS
def test_a_bounded_loop_has_a_gradient(way: Way) -> None:
    def function(x: Any) -> Any:
        return nnc.while_loop(lambda y: y.sum() < 100, lambda y: y * y, x, at_most=8).sum()

    x = np.array([1.5, 1.25])
    np.testing.assert_allclose(way(nnc.grad(function))(x), 16 * x**15)


@WAYS
def test_rows_one_after_another(way: Way) -> None:
    def function(start: Any, rows: Any) -> Any:
        return nnc.scan(lambda carry, row: (carry * row["a"] + row["b"], {"before": carry}), start, rows)

    rows = {"a": X, "b": X + 1}
    last, before = way(function)(np.float64(2.0), rows)
    carries = [2.0]
    for a, b in zip(rows["a"], rows["b"], strict=True):
        carries.append(carries[-1] * a + b)
    assert np.asarray(last) == pytest.approx(carries[-1])
    np.testing.assert_allclose(before["before"], carries[:-1])
    by_rows = way(nnc.grad(lambda rows: function(np.float64(2.0), rows)[0]))(rows)
    np.testing.assert_allclose(by_rows["b"], [X[1] * X[2], X[2], 1.0])


def test_constants_may_choose_inside_a_compiled_function() -> None:
    assert nnc.compile(lambda x: nnc.cond(True, lambda: x * 2, lambda: x))(X).tolist() == (X * 2).tolist()


def test_what_does_not_fit_is_said() -> None:
    with pytest.raises(ShapeError, match="case"):
        nnc.compile(lambda x: nnc.cond(x.sum() > 0, lambda x: x, lambda x: x[0], x))(X)
    with pytest.raises(ArityError, match="two structures"):
        nnc.compile(lambda x: nnc.cond(x.sum() > 0, lambda x: (x,), lambda x: [x], x))(X)
    with pytest.raises(ArityError, match="other containers"):
        nnc.compile(lambda x: nnc.while_loop(lambda y: y.sum() < 9, lambda y: (y, y), x))(X)
    with pytest.raises(ShapeError, match="equally many"):
        nnc.scan(lambda carry, row: (carry, row), 0.0, (nnc.tensor(X), nnc.tensor(X[:2])))
    with pytest.raises(ShapeError, match="no rows"):
        nnc.scan(lambda carry, row: (carry, row), 0.0, nnc.tensor(X[:0]))
