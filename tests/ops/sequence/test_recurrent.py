"""Recurrent networks against their steps written out, layers and directions, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from tests.ops.eager import Array, Eager, check_gradients

from nnc.core.values.command import Command
from nnc.errors import DTypeError, ShapeError, UsageError
from nnc.ops.elementwise.pointwise import square
from nnc.ops.sequence.recurrent import LSTM, Activation, RecurrentAttrs
from nnc.ops.sequence.recurrent_layers import RecurrentWeights, gru, lstm, recurrent_layers, rnn

GENERATOR = np.random.default_rng(11)
STEPS, BATCH, INPUTS, UNITS = 4, 2, 3, 2
X = GENERATOR.standard_normal((STEPS, BATCH, INPUTS))
H, C = GENERATOR.standard_normal((2, BATCH, UNITS))


def arrays(gates: int, inputs: int = INPUTS) -> list[Array]:
    shapes = ((inputs, gates * UNITS), (UNITS, gates * UNITS), (gates * UNITS,), (gates * UNITS,))
    return [0.7 * GENERATOR.standard_normal(shape) for shape in shapes]


LSTM_ARRAYS, GRU_ARRAYS, RNN_ARRAYS = arrays(4), arrays(3), arrays(1)


def logistic(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def lstm_steps(x: Array, w: Array, u: Array, b: Array, h: Array, c: Array) -> tuple[Array, Array]:
    ys = []
    for part in x:
        i, f, g, o = np.split(part @ w + b + h @ u, 4, axis=1)
        c = logistic(f) * c + logistic(i) * np.tanh(g)
        h = logistic(o) * np.tanh(c)
        ys.append(h)
    return np.stack(ys), c


def gru_steps(x: Array, w: Array, u: Array, b: Array, d: Array, h: Array) -> Array:
    ys = []
    for part in x:
        z, m = np.split(part @ w + b, 3, axis=1), np.split(h @ u + d, 3, axis=1)
        r, s = logistic(z[0] + m[0]), logistic(z[1] + m[1])
        h = (1 - s) * np.tanh(z[2] + r * m[2]) + s * h
        ys.append(h)
    return np.stack(ys)


@pytest.mark.parametrize("reverse", [False, True])
def test_lstm(reverse: bool) -> None:
    w, u, b = LSTM_ARRAYS[:3]
    order = X[::-1] if reverse else X
    y, h, c = lstm(Eager(X), RecurrentWeights(*map(Eager, (w, u, b))), Eager(H), Eager(C), reverse=reverse)
    want, last = lstm_steps(order, w, u, b, H, C)
    np.testing.assert_allclose(y.array, want[::-1] if reverse else want)
    np.testing.assert_allclose(h.array, want[-1])
    np.testing.assert_allclose(c.array, last)


@pytest.mark.parametrize("reverse", [False, True])
def test_gru(reverse: bool) -> None:
    y, h = gru(Eager(X), RecurrentWeights(*map(Eager, GRU_ARRAYS)), Eager(H), reverse=reverse)
    want = gru_steps(X[::-1] if reverse else X, *GRU_ARRAYS, H)
    np.testing.assert_allclose(y.array, want[::-1] if reverse else want)
    np.testing.assert_allclose(h.array, want[-1])


@pytest.mark.parametrize("activation", list(Activation))
def test_rnn(activation: Activation) -> None:
    w, u, b = RNN_ARRAYS[:3]
    y, last = rnn(Eager(X), RecurrentWeights(*map(Eager, (w, u, b))), activation=activation)
    h, function = np.zeros((BATCH, UNITS)), np.tanh if activation is Activation.TANH else lambda v: np.maximum(v, 0)
    for index in range(STEPS):
        h = function(X[index] @ w + b + h @ u)
        np.testing.assert_allclose(y.array[index], h)
    np.testing.assert_allclose(last.array, h)


def test_states_start_at_zero() -> None:
    weights = RecurrentWeights(*map(Eager, LSTM_ARRAYS[:2]))
    zero = Eager(np.zeros((BATCH, UNITS)))
    for one, other in zip(lstm(Eager(X), weights), lstm(Eager(X), weights, zero, zero), strict=True):
        np.testing.assert_array_equal(one.array, other.array)


def test_layers_of_two_directions() -> None:
    first, second = arrays(4)[:3], arrays(4)[:3]
    third = arrays(4, 2 * UNITS)[:3]
    layers = [[RecurrentWeights(*map(Eager, part)) for part in layer] for layer in ([first, second], [third])]
    y = recurrent_layers(lambda x, weights, reverse: lstm(x, weights, reverse=reverse)[0], Eager(X), layers)
    zero = np.zeros((BATCH, UNITS))
    there, back = lstm_steps(X, *first, zero, zero)[0], lstm_steps(X[::-1], *second, zero, zero)[0][::-1]
    want = lstm_steps(np.concatenate([there, back], axis=2), *third, zero, zero)[0]
    np.testing.assert_allclose(y.array, want)


Function = Callable[[Sequence[Eager]], Sequence[Eager]]
FUNCTIONS: tuple[tuple[str, Function, Sequence[Array]], ...] = (
    ("lstm", lambda v: lstm(v[0], RecurrentWeights(*v[1:4]), *v[4:]), [X, *LSTM_ARRAYS[:3], H, C]),
    ("gru", lambda v: gru(v[0], RecurrentWeights(*v[1:5]), v[5]), [X, *GRU_ARRAYS, H]),
    ("rnn", lambda v: rnn(v[0], RecurrentWeights(*v[1:4]), v[4], reverse=True), [X, *RNN_ARRAYS[:3], H]),
    (
        "last state",
        lambda v: [square(lstm(v[0], RecurrentWeights(v[1], v[2]), reverse=True)[2])],
        [X, *LSTM_ARRAYS[:2]],
    ),
)


@pytest.mark.parametrize(("function", "point"), [row[1:] for row in FUNCTIONS], ids=[row[0] for row in FUNCTIONS])
def test_gradients_of_the_functions(function: Function, point: Sequence[Array]) -> None:
    check_gradients(function, point)


def test_gradients_of_the_saved_gates() -> None:
    def gates(inputs: Sequence[Eager]) -> Sequence[Eager]:
        return inputs[0].apply(Command(LSTM, RecurrentAttrs()), inputs)[1:]

    z = GENERATOR.standard_normal((STEPS, BATCH, 4 * UNITS))
    check_gradients(gates, [z, LSTM_ARRAYS[1], H, C])


def weights(*parts: Array) -> RecurrentWeights[Eager]:
    return RecurrentWeights(*map(Eager, parts))


w, u, b, d = LSTM_ARRAYS
BAD: tuple[tuple[str, type[UsageError], Callable[[], object]], ...] = (
    ("rank", ShapeError, lambda: lstm(Eager(X[0]), weights(w, u))),
    ("no steps", ShapeError, lambda: lstm(Eager(X[:0]), weights(w, u))),
    ("gates", ShapeError, lambda: lstm(Eager(X), weights(w[:, :7], u))),
    ("recurrent weights", ShapeError, lambda: gru(Eager(X), weights(GRU_ARRAYS[0], u))),
    ("state", ShapeError, lambda: lstm(Eager(X), weights(w, u), Eager(H[:1]))),
    ("state type", DTypeError, lambda: lstm(Eager(X), weights(w, u), Eager(H.astype(np.float32)))),
    ("state bias of lstm", ShapeError, lambda: lstm(Eager(X), weights(w, u, b, d))),
    ("state bias of gru", ShapeError, lambda: gru(Eager(X), weights(*GRU_ARRAYS[:3], b))),
    ("integers", DTypeError, lambda: rnn(*integers())),
    ("three directions", ShapeError, lambda: recurrent_layers(lambda x, w, r: x, Eager(X), [[weights(w, u)] * 3])),
    ("no output", UsageError, lambda: recurrent_layers(lambda x, w, r: None, Eager(X), [[weights(w, u)]])),  # type: ignore[arg-type, return-value]
)


def integers() -> tuple[Eager, RecurrentWeights[Eager], Eager]:
    x, w, u, h = (np.ones(shape, np.int32) for shape in ((2, 1, 3), (3, 2), (2, 2), (1, 2)))
    return Eager(x), weights(w, u), Eager(h)


@pytest.mark.parametrize(("error", "call"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_refusals(error: type[UsageError], call: Callable[[], object]) -> None:
    with pytest.raises(error, match="need"):
        call()
