"""Recurrent networks as functions: y[t] = cell(x[t] · w, y[t - 1]), in one direction or two, one layer or several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Generic

from nnc.classes import dataclass
from nnc.core.values.command import Command
from nnc.errors import ShapeError, UsageError
from nnc.ops.elementwise.pointwise import add, multiply, sigmoid, tanh
from nnc.ops.movement.broadcast import reshape
from nnc.ops.movement.fill import FILL, FillAttrs
from nnc.ops.movement.movement import concatenate, slice_axis
from nnc.ops.operand import Operand, T, apply
from nnc.ops.products.products import gemm
from nnc.ops.random.random import dropout
from nnc.ops.sequence.recurrent import GRU, LSTM, RNN, Activation, RecurrentAttrs, RnnAttrs, at

__all__ = ["RecurrentWeights", "gru", "lstm", "recurrent_layers", "rnn"]


@dataclass(frozen=True, slots=True)
class RecurrentWeights(Generic[T]):
    """Of one direction of one layer: w[inputs, gates · units], u[units, gates · units], bias[gates · units].

    `state_bias` is added to h₋ · u; only gru tells it from `bias`, so only gru takes it.
    """

    w: T
    u: T
    bias: T | None = None
    state_bias: T | None = None


def lstm(
    x: T,
    weights: RecurrentWeights[T],
    h: T | None = None,
    c: T | None = None,
    *,
    reverse: bool = False,
    projection: T | None = None,
) -> tuple[T, T, T]:
    """(y[steps, batch, units], last h, last c) of x[steps, batch, inputs]; states start at zero unless given.

    With a `projection`[units, width] the output of each step is (o · tanh c) @ projection; u is then [width, 4 · units]
    and h[batch, width] (Sak et al. 2014). That form is composed step by step.
    """
    _check_alone("lstm", weights)
    z = gemm(x, weights.w, weights.bias)
    if projection is not None:
        return _projected_lstm(z, weights.u, projection, (h, c), reverse)
    inputs = (z, weights.u, _start(z, weights.u, h), _start(z, weights.u, c))
    y, cells, _ = z.apply(Command(LSTM, RecurrentAttrs(reverse)), inputs)
    return y, _last(y, reverse), _last(cells, reverse)


def gru(x: T, weights: RecurrentWeights[T], h: T | None = None, *, reverse: bool = False) -> tuple[T, T]:
    """(y[steps, batch, units], last h) of x[steps, batch, inputs]; the state starts at zero unless given."""
    z = gemm(x, weights.w, weights.bias)
    inputs = (z, weights.u, _start(z, weights.u, h), weights.state_bias)
    y = z.apply(Command(GRU, RecurrentAttrs(reverse)), inputs)[0]
    return y, _last(y, reverse)


def rnn(
    x: T,
    weights: RecurrentWeights[T],
    h: T | None = None,
    *,
    activation: Activation = Activation.TANH,
    reverse: bool = False,
) -> tuple[T, T]:
    """(y[steps, batch, units], last h) of x[steps, batch, inputs]; the state starts at zero unless given."""
    _check_alone("rnn", weights)
    z = gemm(x, weights.w, weights.bias)
    y = apply(RNN, RnnAttrs(activation, reverse), z, weights.u, _start(z, weights.u, h))
    return y, _last(y, reverse)


def recurrent_layers(
    cell: Callable[[T, RecurrentWeights[T], bool], T],
    x: T,
    layers: Sequence[Sequence[RecurrentWeights[T]]],
    *,
    rate: float = 0.0,
    counter: T | None = None,
) -> T:
    """Layers on top of each other, each with one direction or two, whose outputs lie side by side.

    `cell(x, weights, reverse)` is one direction: `lambda x, weights, reverse: lstm(x, weights, reverse=reverse)[0]`.
    With a `counter` (see `dropout`) a share `rate` of what one layer hands to the next is dropped.
    """
    for depth, directions in enumerate(layers):
        if depth and counter is not None:
            x = dropout(x, counter, rate, seed=depth)
        if not 1 <= len(directions) <= 2:
            raise ShapeError("recurrent_layers", got=f"{len(directions)} directions", need="one, or two")
        parts = [cell(x, weights, reverse) for reverse, weights in zip((False, True), directions)]
        for part in parts:
            if not isinstance(part, Operand):
                raise UsageError(
                    "recurrent_layers", got=f"a cell that gave a {type(part).__name__}", need="y[steps, batch, units]"
                )
        x = concatenate(parts, 2)
    return x


def _projected_lstm(z: T, u: T, projection: T, state: tuple[T | None, T | None], reverse: bool) -> tuple[T, T, T]:
    """The cell with a projected output, from the products z[steps, batch, 4 · units]."""
    if z.spec.rank != 3 or projection.spec.rank != 2 or z.shape[2] != 4 * projection.shape[0] or not z.shape[0]:
        need = "z[steps ≥ 1, batch, 4 · units], projection[units, width]"
        raise ShapeError("lstm", got=f"z={z.spec}, projection={projection.spec}", need=need)
    units = projection.shape[0]
    h = _start(z, u, state[0])
    c = _start(z, projection, state[1])
    outputs: list[T] = []
    for moment in reversed(range(z.shape[0])) if reverse else range(z.shape[0]):
        gates = add(at(z, moment), gemm(h, u))
        i, f, g, o = (slice_axis(gates, 1, part * units, (part + 1) * units) for part in range(4))
        c = add(multiply(sigmoid(f), c), multiply(sigmoid(i), tanh(g)))
        h = gemm(multiply(sigmoid(o), tanh(c)), projection)
        outputs.append(reshape(h, (1, *h.shape)))
    return concatenate(outputs[::-1] if reverse else outputs, 0), h, c


def _check_alone(subject: str, weights: RecurrentWeights[T]) -> None:
    if weights.state_bias is not None:
        raise ShapeError(subject, got="a state_bias", need="none", fix="add it to bias")


def _start(z: T, u: T, state: T | None) -> T:
    """The given state, or zeros [batch, units]."""
    if state is not None:
        return state
    if z.spec.rank != 3 or u.spec.rank != 2:
        raise ShapeError("recurrent", got=f"products {z.spec}, u={u.spec}", need="[time, batch, gates], [units, gates]")
    spec = replace(z.spec, shape=(z.shape[1], u.shape[0]))
    return z.apply(Command(FILL, FillAttrs(0.0, spec)), ())[0]


def _last(y: T, reverse: bool) -> T:
    """The state after the last step, a view."""
    return at(y, 0 if reverse else y.shape[0] - 1)
