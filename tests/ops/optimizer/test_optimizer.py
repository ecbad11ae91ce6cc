"""Two updates of every optimizer against its formula in plain Python, and the tables of states and scalars."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from tests.ops.eager import Eager

from nnc.core.values.command import AnyCommand, Command
from nnc.core.values.spec import spec
from nnc.errors import ShapeError
from nnc.graph import VARIADIC
from nnc.ops.operators import OPERATORS
from nnc.ops.optimizer.adafactor import ADAFACTOR
from nnc.ops.optimizer.optimizer import (
    ADADELTA,
    ADAGRAD,
    ADAM,
    ADAMAX,
    AMSGRAD,
    GRADIENT_DESCENT,
    LAMB,
    LION,
    MUON,
    NADAM,
    RMSPROP,
    RMSPROP_CENTERED,
    RMSPROP_PLAIN,
    SGD,
    AdadeltaAttrs,
    AdagradAttrs,
    AdamAttrs,
    AdamaxAttrs,
    GradientDescentAttrs,
    LambAttrs,
    LionAttrs,
    MuonAttrs,
    NadamAttrs,
    RMSPropAttrs,
    SGDAttrs,
)
from nnc.ops.optimizer.update import UpdateOperator, row_of
from nnc.ops.rules import INPLACE, infer

W, G = [0.5, -2.0, 3.0], ([0.1, -0.2, 4.0], [-1.0, 0.3, 0.5])
RATE, DECAY = 0.1, 0.01
State = list[list[float]]
Rule = Callable[[int, list[float], list[float], State], list[float]]


def gradient_descent(t: int, g: list[float], w: list[float], state: State) -> list[float]:
    return [b - RATE * (a + DECAY * b) for a, b in zip(g, w, strict=True)]


def sgd(t: int, g: list[float], w: list[float], state: State) -> list[float]:
    slopes = [a + DECAY * b for a, b in zip(g, w, strict=True)]
    state[0] = [0.9 * m + s for m, s in zip(state[0], slopes, strict=True)]
    return [b - RATE * (s + 0.9 * m) for b, s, m in zip(w, slopes, state[0], strict=True)]


def moments(t: int, slopes: list[float], state: State) -> tuple[list[float], list[float]]:
    state[0] = [0.9 * m + 0.1 * s for m, s in zip(state[0], slopes, strict=True)]
    state[1] = [0.99 * v + 0.01 * s * s for v, s in zip(state[1], slopes, strict=True)]
    return [m / (1 - 0.9**t) for m in state[0]], [v / (1 - 0.99**t) for v in state[1]]


def adam(t: int, g: list[float], w: list[float], state: State) -> list[float]:
    means, squares = moments(t, [a + DECAY * b for a, b in zip(g, w, strict=True)], state)
    return [b - RATE * m / (math.sqrt(v) + 1e-8) for b, m, v in zip(w, means, squares, strict=True)]


def adamw(t: int, g: list[float], w: list[float], state: State) -> list[float]:
    means, squares = moments(t, g, state)
    return [b - RATE * (m / (math.sqrt(v) + 1e-8) + DECAY * b) for b, m, v in zip(w, means, squares, strict=True)]


def amsgrad(t: int, g: list[float], w: list[float], state: State) -> list[float]:
    means, _ = moments(t, [a + DECAY * b for a, b in zip(g, w, strict=True)], state)
    state[2] = [max(top, v) for top, v in zip(state[2], state[1], strict=True)]
    highest = [top / (1 - 0.99**t) for top in state[2]]
    return [b - RATE * m / (math.sqrt(v) + 1e-8) for b, m, v in zip(w, means, highest, strict=True)]


def lamb(t: int, g: list[float], w: list[float], state: State) -> list[float]:
    means, squares = moments(t, g, state)
    moves = [m / (math.sqrt(v) + 1e-6) + DECAY * b for b, m, v in zip(w, means, squares, strict=True)]
    trust = math.hypot(*w) / math.hypot(*moves)
    return [b - RATE * trust * move for b, move in zip(w, moves, strict=True)]


def rmsprop(t: int, g: list[float], w: list[float], state: State) -> list[float]:
    slopes = [a + DECAY * b for a, b in zip(g, w, strict=True)]
    state[1] = [0.9 * v + 0.1 * s * s for v, s in zip(state[1], slopes, strict=True)]
    state[0] = [0.5 * m + s / (math.sqrt(v) + 1e-8) for m, s, v in zip(state[0], slopes, state[1], strict=True)]
    return [b - RATE * m for b, m in zip(w, state[0], strict=True)]


def rmsprop_plain(t: int, g: list[float], w: list[float], state: State) -> list[float]:
    slopes = [a + DECAY * b for a, b in zip(g, w, strict=True)]
    state[0] = [0.9 * v + 0.1 * s * s for v, s in zip(state[0], slopes, strict=True)]
    return [b - RATE * s / math.sqrt(v + 1e-8) for b, s, v in zip(w, slopes, state[0], strict=True)]


def rmsprop_centered(t: int, g: list[float], w: list[float], state: State) -> list[float]:
    slopes = [a + DECAY * b for a, b in zip(g, w, strict=True)]
    state[1] = [0.9 * v + 0.1 * s * s for v, s in zip(state[1], slopes, strict=True)]
    state[2] = [0.9 * mean + 0.1 * s for mean, s in zip(state[2], slopes, strict=True)]
    roots = [math.sqrt(v - mean * mean) + 1e-8 for v, mean in zip(state[1], state[2], strict=True)]
    state[0] = [0.5 * m + s / root for m, s, root in zip(state[0], slopes, roots, strict=True)]
    return [b - RATE * m for b, m in zip(w, state[0], strict=True)]


def nadam(t: int, g: list[float], w: list[float], state: State) -> list[float]:
    slopes = [a + DECAY * b for a, b in zip(g, w, strict=True)]
    _, squares = moments(t, slopes, state)
    *before, later = (0.9 * (1 - 0.5 * 0.96 ** (step * 0.5)) for step in range(1, t + 2))
    product = math.prod(before)
    means = [
        later * m / (1 - product * later) + (1 - before[-1]) * s / (1 - product)
        for m, s in zip(state[0], slopes, strict=True)
    ]
    return [b - RATE * m / (math.sqrt(v) + 1e-8) for b, m, v in zip(w, means, squares, strict=True)]


def adagrad(t: int, g: list[float], w: list[float], state: State) -> list[float]:
    slopes = [a + DECAY * b for a, b in zip(g, w, strict=True)]
    state[0] = [v + s * s for v, s in zip(state[0], slopes, strict=True)]
    return [b - RATE * s / (math.sqrt(v) + 1e-10) for b, s, v in zip(w, slopes, state[0], strict=True)]


def adadelta(t: int, g: list[float], w: list[float], state: State) -> list[float]:
    slopes = [a + DECAY * b for a, b in zip(g, w, strict=True)]
    state[0] = [0.9 * v + 0.1 * s * s for v, s in zip(state[0], slopes, strict=True)]
    moves = [math.sqrt((u + 1e-6) / (v + 1e-6)) * s for v, u, s in zip(*state, slopes, strict=True)]
    state[1] = [0.9 * u + 0.1 * d * d for u, d in zip(state[1], moves, strict=True)]
    return [b - RATE * d for b, d in zip(w, moves, strict=True)]


def adamax(t: int, g: list[float], w: list[float], state: State) -> list[float]:
    slopes = [a + DECAY * b for a, b in zip(g, w, strict=True)]
    state[0] = [0.9 * m + 0.1 * s for m, s in zip(state[0], slopes, strict=True)]
    state[1] = [max(0.99 * u, abs(s) + 1e-8) for u, s in zip(state[1], slopes, strict=True)]
    return [b - RATE / (1 - 0.9**t) * m / u for b, m, u in zip(w, *state, strict=True)]


def lion(t: int, g: list[float], w: list[float], state: State) -> list[float]:
    signs = [math.copysign(1, 0.9 * m + 0.1 * a) for m, a in zip(state[0], g, strict=True)]
    state[0] = [0.99 * m + 0.01 * a for m, a in zip(state[0], g, strict=True)]
    return [b - RATE * (s + DECAY * b) for b, s in zip(w, signs, strict=True)]


RULES: tuple[tuple[str, AnyCommand, Rule], ...] = (
    ("gradient_descent", Command(GRADIENT_DESCENT, GradientDescentAttrs(DECAY)), gradient_descent),
    ("sgd", Command(SGD, SGDAttrs(0.9, 0.0, DECAY, nesterov=True)), sgd),
    ("adam", Command(ADAM, AdamAttrs(0.9, 0.99, 1e-8, DECAY)), adam),
    ("adamw", Command(ADAM, AdamAttrs(0.9, 0.99, 1e-8, DECAY, decoupled=True)), adamw),
    ("amsgrad", Command(AMSGRAD, AdamAttrs(0.9, 0.99, 1e-8, DECAY)), amsgrad),
    ("lamb", Command(LAMB, LambAttrs(0.9, 0.99, 1e-6, DECAY)), lamb),
    ("rmsprop", Command(RMSPROP, RMSPropAttrs(0.9, 0.5, 1e-8, DECAY)), rmsprop),
    ("rmsprop_plain", Command(RMSPROP_PLAIN, RMSPropAttrs(0.9, 0.5, 1e-8, DECAY, epsilon_inside=True)), rmsprop_plain),
    ("rmsprop_centered", Command(RMSPROP_CENTERED, RMSPropAttrs(0.9, 0.5, 1e-8, DECAY)), rmsprop_centered),
    ("nadam", Command(NADAM, NadamAttrs(0.9, 0.99, 1e-8, DECAY, 0.5)), nadam),
    ("adagrad", Command(ADAGRAD, AdagradAttrs(1e-10, DECAY)), adagrad),
    ("adadelta", Command(ADADELTA, AdadeltaAttrs(0.9, 1e-6, DECAY)), adadelta),
    ("adamax", Command(ADAMAX, AdamaxAttrs(0.9, 0.99, 1e-8, DECAY)), adamax),
    ("lion", Command(LION, LionAttrs(0.9, 0.99, DECAY)), lion),
)


def inputs_of(command: AnyCommand, g: Sequence[float], held: Sequence[Eager], t: int) -> list[Eager]:
    scalars = {"rate": RATE, "step": float(t)}
    steering = [Eager(np.array(scalars[name])) for name in row_of(command).scalars]
    return [Eager(np.array(g)), *held, *steering]


@pytest.mark.parametrize(("command", "rule"), [row[1:] for row in RULES], ids=[row[0] for row in RULES])
def test_two_updates(command: AnyCommand, rule: Rule) -> None:
    states = len(row_of(command).states)
    held: Sequence[Eager] = [Eager(np.array(W)), *(Eager(np.zeros(3)) for _ in range(states))]
    w, state = list(W), [[0.0] * 3 for _ in range(states)]
    for t, g in enumerate(G, start=1):
        held = held[0].apply(command, inputs_of(command, g, held, t))
        w = rule(t, g, w, state)
        np.testing.assert_allclose(held[0].array, w, rtol=1e-12)
        for got, want in zip(held[1:], state, strict=True):
            np.testing.assert_allclose(got.array, want, rtol=1e-12)


def test_muon_steps_along_an_orthogonal_matrix() -> None:
    random = np.random.default_rng(0)
    w, g = random.standard_normal((6, 4)), random.standard_normal((6, 4))
    command = Command(MUON, MuonAttrs(0.9, 0.0, nesterov=False, iterations=12))
    held = [Eager(array) for array in (g, w, np.zeros_like(w), np.array(0.5))]
    moved, moment = held[0].apply(command, held)
    step = (w - moved.array) / 0.5
    # The polynomial keeps singular values near 1, and their vectors as they are.
    assert np.abs(np.linalg.svd(step, compute_uv=False) - 1).max() < 0.35
    u, _, v = np.linalg.svd(0.1 * g, full_matrices=False)
    assert (np.diagonal(u.T @ step @ v.T) > 0.6).all()
    np.testing.assert_allclose(moment.array, 0.1 * g)
    wide = [Eager(array.T.copy()) for array in (g, w, np.zeros_like(w))]
    across, _ = wide[0].apply(command, (*wide, held[3]))
    np.testing.assert_allclose((w - across.array.T) / 0.5, step * 1.5**0.5, rtol=1e-9)


def test_muon_wants_matrices() -> None:
    held = [Eager(np.zeros(3)) for _ in range(3)]
    with pytest.raises(ShapeError, match="need a matrix"):
        held[0].apply(Command(MUON, MuonAttrs()), (*held, Eager(np.array(0.1))))


def test_lamb_without_a_length_takes_the_plain_step() -> None:
    command = Command(LAMB, LambAttrs())
    zero = [Eager(np.zeros(3)) for _ in range(3)]
    (w, *_) = zero[0].apply(command, inputs_of(command, G[0], zero, 1))
    np.testing.assert_allclose(w.array, [-0.1, 0.1, -0.1], rtol=1e-4)
    held = [Eager(np.array(W)), *zero[1:]]
    (same, *_) = held[0].apply(command, inputs_of(command, [0.0] * 3, held, 1))
    np.testing.assert_array_equal(same.array, W)


@pytest.mark.parametrize("command", [row[1] for row in RULES], ids=[row[0] for row in RULES])
def test_the_rows_say_what_the_operators_take(command: AnyCommand) -> None:
    op = row_of(command)
    states = len(op.states)
    assert op.inputs is not VARIADIC
    assert len(op.inputs) == 2 + states + len(op.scalars)
    assert op.inputs[2 + states :] == op.scalars
    assert op.outputs == op.inputs[1 : 2 + states]
    assert {(index + 1, index) for index in range(states + 1)} <= set(INPLACE[op](command.attrs).allowed)


def test_every_optimizer_is_tried() -> None:
    # Muon takes matrices alone: above; Adafactor has a file of its own.
    assert {row[1].op for row in RULES} | {MUON, ADAFACTOR} == {
        op for op in OPERATORS if isinstance(op, UpdateOperator)
    }


@pytest.mark.parametrize("command", [row[1] for row in RULES], ids=[row[0] for row in RULES])
def test_states_must_be_as_the_parameter(command: AnyCommand) -> None:
    part, scalar = spec((3,)), spec(())
    scalars = [scalar] * len(row_of(command).scalars)
    states = [part] * len(row_of(command).states)
    assert infer(command.op, command.attrs, (part, part, *states, *scalars)) == (part, *states)
    with pytest.raises(ShapeError, match=command.op.name):
        infer(command.op, command.attrs, (spec((4,)), part, *states, *scalars))
    for state in range(len(states)):
        wrong = [*states[:state], spec((4,)), *states[state + 1 :]]
        with pytest.raises(ShapeError, match=command.op.name):
            infer(command.op, command.attrs, (part, part, *wrong, *scalars))
    with pytest.raises(ShapeError, match="scalars"):
        infer(command.op, command.attrs, (part, part, *states, *scalars[1:], part))
