"""Forms composed of operators: the projected LSTM, dropout between layers, attention with its output projection."""

from __future__ import annotations

import numpy as np
import pytest
from tests.ops.eager import Eager, check_gradients

from nnc.errors import ShapeError
from nnc.ops import lstm, recurrent_layers, scaled_dot_product_attention
from nnc.ops.sequence.recurrent_layers import RecurrentWeights

STEPS, BATCH, INPUTS, UNITS, WIDTH = 3, 2, 4, 5, 2


def arrays() -> list[np.ndarray]:
    """x, w, u, bias, projection."""
    draw = np.random.default_rng(9).standard_normal
    shapes = ((STEPS, BATCH, INPUTS), (INPUTS, 4 * UNITS), (WIDTH, 4 * UNITS), (4 * UNITS,), (UNITS, WIDTH))
    return [draw(shape) for shape in shapes]


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize("reverse", [False, True])
def test_a_projected_lstm_is_its_formula(reverse: bool) -> None:
    x, w, u, bias, projection = arrays()
    h, c = np.zeros((BATCH, WIDTH)), np.zeros((BATCH, UNITS))
    want = np.empty((STEPS, BATCH, WIDTH))
    for step in reversed(range(STEPS)) if reverse else range(STEPS):
        i, f, g, o = np.split(x[step] @ w + bias + h @ u, 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = want[step] = (sigmoid(o) * np.tanh(c)) @ projection
    weights = RecurrentWeights(Eager(w), Eager(u), Eager(bias))
    got = lstm(Eager(x), weights, reverse=reverse, projection=Eager(projection))
    for one, other in zip(got, (want, h, c), strict=True):
        np.testing.assert_allclose(one.array, other, rtol=1e-12)


def test_gradients_of_a_projected_lstm() -> None:
    def function(variables: list[Eager]) -> list[Eager]:
        x, w, u, bias, projection = variables
        return [lstm(x, RecurrentWeights(w, u, bias), projection=projection)[0]]

    check_gradients(function, arrays())


def test_a_projection_must_fit() -> None:
    x, w, u, bias, _ = arrays()
    with pytest.raises(ShapeError, match=r"lstm: got z=.*projection"):
        lstm(Eager(x), RecurrentWeights(Eager(w), Eager(u), Eager(bias)), projection=Eager(np.ones((3, 2))))


def test_dropout_stands_between_layers_only() -> None:
    x, w, _, bias, _ = arrays()
    draw = np.random.default_rng(1).standard_normal
    first = RecurrentWeights(Eager(w), Eager(draw((UNITS, 4 * UNITS))), Eager(bias))
    second = RecurrentWeights(Eager(draw((UNITS, 4 * UNITS))), Eager(draw((UNITS, 4 * UNITS))))

    def run(layers: list[list[RecurrentWeights[Eager]]], rate: float, count: int | None) -> np.ndarray:
        counter = None if count is None else Eager(np.array(count))
        cell = lambda x, weights, reverse: lstm(x, weights, reverse=reverse)[0]  # noqa: E731 - as users write it
        return recurrent_layers(cell, Eager(x), layers, rate=rate, counter=counter).array

    assert np.array_equal(run([[first]], 0.5, 3), run([[first]], 0.0, None))
    assert np.array_equal(run([[first], [second]], 0.0, 3), run([[first], [second]], 0.0, None))
    dropped = run([[first], [second]], 0.5, 3)
    assert np.array_equal(dropped, run([[first], [second]], 0.5, 3))
    assert not np.array_equal(dropped, run([[first], [second]], 0.5, 4))


def test_attention_joins_and_projects_its_heads() -> None:
    draw = np.random.default_rng(2).standard_normal
    q, k, v = (draw((2, 3, 4, 5)) for _ in range(3))
    weight, bias = draw((20, 6)), draw(6)
    plain = scaled_dot_product_attention(Eager(q), Eager(k), Eager(v)).array
    got = scaled_dot_product_attention(Eager(q), Eager(k), Eager(v), weight=Eager(weight), bias=Eager(bias)).array
    np.testing.assert_allclose(got, plain.reshape(2, 3, 20) @ weight + bias, rtol=1e-12)
