"""Recurrent networks over whole sequences: LSTM, GRU and the plain recurrence.

What the inputs contribute is one matrix product over all steps, made before (`x @ w + bias`); the operators here start
from it, z[step, batch, gates], and do what must go step by step. σ is the sigmoid, h₋ and c₋ are of the step before.

    lstm:  i, f, g, o = σ, σ, tanh, σ of the four parts of z + h₋ · u;      c = f · c₋ + i · g;   h = o · tanh c
    gru:   m = h₋ · u + bias, in three parts;  r = σ(z₁ + m₁);  s = σ(z₂ + m₂);  n = tanh(z₃ + r · m₃)
           h = (1 - s) · n + s · h₋
    rnn:   h = tanh(z + h₋ · u), or relu

With `reverse` the steps go from the last to the first. The forward operators save their gates; the gradient operators
read these, and give the gradient of z (and of m for gru), step by step from the end. The gradient of u is one matrix
product over all steps again. Gradients of higher order are decomposed into the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any

from nnc.classes import dataclass
from nnc.core.values.command import Command
from nnc.core.values.spec import OptionalSpecs, TensorSpec, spec
from nnc.errors import DTypeError, ShapeError
from nnc.ops.batching import BatchedCall, BatchRule, batched_within
from nnc.ops.decomposition import by_decomposition, pull_back
from nnc.ops.elementwise.pointwise import add, affine, multiply, relu, sigmoid, square, step, subtract, tanh
from nnc.ops.examples import MATRIX, Example
from nnc.ops.movement.broadcast import reduce_sum, reshape
from nnc.ops.movement.fill import fill_like
from nnc.ops.movement.movement import concatenate, slice_axis
from nnc.ops.operand import Operand, T
from nnc.ops.precision import LOW
from nnc.ops.products.products import gemm
from nnc.ops.rules import FLOATS, Applied, Gradients, Inplace, Specs, check_kinds, operator, single
from nnc.ops.work import most_elements

__all__ = [
    "Activation",
]


@dataclass(frozen=True, slots=True)
class RecurrentAttrs:
    """Whether the steps go from the last to the first."""

    reverse: bool = False


class Activation(Enum):
    """The function of a plain recurrence."""

    TANH = "tanh"
    RELU = "relu"


@dataclass(frozen=True, slots=True)
class RnnAttrs:
    """The function, and whether the steps go from the last to the first."""

    activation: Activation = Activation.TANH
    reverse: bool = False


def time_order(steps: int, reverse: bool) -> range:
    """The steps in the order in which they are computed."""
    return range(steps - 1, -1, -1) if reverse else range(steps)


# ---- inference


def _check(subject: str, z: TensorSpec, u: TensorSpec, states: Sequence[TensorSpec], gates: int) -> TensorSpec:
    """The spec of one step's state."""
    specs = (z, u, *states)
    shown = ", ".join(map(str, specs))
    check_kinds(FLOATS, z)
    if any(spec.dtype is not z.dtype for spec in specs):
        raise DTypeError(subject, got=shown, need="one element type", fix="cast() one of them")
    if z.rank != 3 or z.shape[0] == 0 or z.shape[2] % gates:
        raise ShapeError(subject, got=f"z={z}", need=f"[steps ≥ 1, batch, {gates} · units]")
    state = replace(z, shape=(z.shape[1], z.shape[2] // gates))
    if u.shape != (state.shape[1], z.shape[2]):
        raise ShapeError(subject, got=f"z={z}, u={u}", need=f"u[{state.shape[1]}, {z.shape[2]}]")
    if any(spec.shape != state.shape for spec in states):
        raise ShapeError(subject, got=shown, need=f"states {state}")
    return state


def _sequence(z: TensorSpec, state: TensorSpec, parts: int) -> TensorSpec:
    return replace(z, shape=(*z.shape[:2], parts * state.shape[1]))


def _infer_lstm(attrs: RecurrentAttrs, specs: Specs) -> Specs:
    z, u, *states = specs
    y = _sequence(z, _check("lstm", z, u, states, 4), 1)
    return (y, y, z)


def _infer_lstm_gradient(attrs: RecurrentAttrs, specs: Specs) -> Specs:
    g, g_cells, gates, cells, u, c = specs
    y = _sequence(gates, _check("lstm_gradient", gates, u, (c,), 4), 1)
    _check_like("lstm_gradient", y, g, g_cells, cells)
    return (gates, c, c)


def _infer_gru(attrs: RecurrentAttrs, specs: OptionalSpecs) -> Specs:
    z, u, h, bias = specs
    assert z is not None
    assert u is not None
    assert h is not None
    state = _check("gru", z, u, (h,), 3)
    if bias is not None and (bias.shape != u.shape[1:] or bias.dtype is not z.dtype):
        raise ShapeError("gru", got=f"bias={bias}", need=f"{z.dtype}[{u.shape[1]}]")
    return (_sequence(z, state, 1), _sequence(z, state, 4))


def _infer_gru_gradient(attrs: RecurrentAttrs, specs: Specs) -> Specs:
    g, gates, y, u, h = specs
    subject = "gru_gradient"
    if gates.rank != 3 or gates.shape[2] % 4:
        raise ShapeError(subject, got=f"gates={gates}", need="[steps, batch, 4 · units]")
    z = replace(gates, shape=(*gates.shape[:2], gates.shape[2] // 4 * 3))
    _check_like(subject, _sequence(z, _check(subject, z, u, (h,), 3), 1), g, y)
    return (z, z, h)


def _infer_rnn(attrs: RnnAttrs, specs: Specs) -> Specs:
    z, u, h = specs
    _check("rnn", z, u, (h,), 1)
    return (z,)


def _infer_rnn_gradient(attrs: RnnAttrs, specs: Specs) -> Specs:
    g, y, u = specs
    state = _check("rnn_gradient", y, u, (), 1)
    _check_like("rnn_gradient", y, g)
    return (y, state)


def _check_like(subject: str, need: TensorSpec, *specs: TensorSpec) -> None:
    if any(spec != need for spec in specs):
        raise ShapeError(subject, got=", ".join(map(str, specs)), need=f"{need} each")


# ---- steps and gates in operators


def at(x: T, index: int) -> T:
    """x[index], a view."""
    return reshape(slice_axis(x, 0, index, index + 1), x.shape[1:])


def _stacked(parts: dict[int, T]) -> T:
    """The steps, given by number, as one sequence."""
    ordered = [parts[index] for index in sorted(parts)]
    return concatenate([reshape(part, (1, *part.shape)) for part in ordered], 0)


def _gates(x: T, count: int) -> list[T]:
    """Equal parts of the last axis, views."""
    axis, size = x.spec.rank - 1, x.shape[-1] // count
    return [slice_axis(x, axis, index * size, (index + 1) * size) for index in range(count)]


def _before(y: T, first: T, reverse: bool) -> T:
    """The states that the steps start from: those of the step before, `first` for the first step."""
    steps = y.shape[0]
    start = reshape(first, (1, *first.shape))
    if reverse:
        return concatenate([slice_axis(y, 0, 1, steps), start], 0)
    return concatenate([start, slice_axis(y, 0, 0, steps - 1)], 0)


def _weight_gradient(before: Operand, g: Operand) -> Operand:
    """u' = sum over steps and batch of h₋^T · g."""
    return gemm(_flat(before), _flat(g), transpose_a=True)


def _flat(x: Operand) -> Operand:
    return reshape(x, (x.shape[0] * x.shape[1], x.shape[2]))


def _complement(x: T) -> T:
    return affine(x, -1.0, 1.0)


def _through_sigmoid(g: T, y: T) -> T:
    return multiply(g, multiply(y, _complement(y)))


def _through_tanh(g: T, y: T) -> T:
    return multiply(g, affine(square(y), -1.0, 1.0))


# ---- lstm


def _composed_lstm(attrs: RecurrentAttrs, inputs: Sequence[T]) -> tuple[T, T, T]:
    z, u, h, c = inputs
    ys: dict[int, T] = {}
    cells: dict[int, T] = {}
    saved: dict[int, T] = {}
    for index in time_order(z.shape[0], attrs.reverse):
        i, f, g, o = _gates(add(at(z, index), gemm(h, u)), 4)
        i, f, g, o = sigmoid(i), sigmoid(f), tanh(g), sigmoid(o)
        c = add(multiply(f, c), multiply(i, g))
        h = multiply(o, tanh(c))
        ys[index], cells[index], saved[index] = h, c, concatenate([i, f, g, o], 1)
    return _stacked(ys), _stacked(cells), _stacked(saved)


def _composed_lstm_gradient(attrs: RecurrentAttrs, inputs: Sequence[T]) -> tuple[T, T, T]:
    g_y, g_cells, gates, cells, u, c = inputs
    before = _before(cells, c, attrs.reverse)
    by_h, by_c = fill_like(c, 0.0), fill_like(c, 0.0)
    by_step: dict[int, T] = {}
    for index in reversed(time_order(gates.shape[0], attrs.reverse)):
        i, f, g, o = _gates(at(gates, index), 4)
        bent = tanh(at(cells, index))
        by_h = add(by_h, at(g_y, index))
        by_c = add(add(by_c, at(g_cells, index)), _through_tanh(multiply(by_h, o), bent))
        parts = [
            _through_sigmoid(multiply(by_c, g), i),
            _through_sigmoid(multiply(by_c, at(before, index)), f),
            _through_tanh(multiply(by_c, i), g),
            _through_sigmoid(multiply(by_h, bent), o),
        ]
        by_step[index] = concatenate(parts, 1)
        by_h, by_c = gemm(by_step[index], u, transpose_b=True), multiply(by_c, f)
    return _stacked(by_step), by_h, by_c


def _lstm_gradient(call: Applied[RecurrentAttrs], gradients: Gradients) -> Gradients:
    g_y, g_cells, g_gates = gradients
    if g_gates is not None:
        # Only a gradient of a gradient reads the gates.
        return pull_back(lambda inputs: _composed_lstm(call.attrs, inputs), call.inputs, gradients, call.needed)
    _, u, h, c = call.inputs
    y, cells, gates = call.outputs
    seeds = (fill_like(y, 0.0) if g is None else g for g in (g_y, g_cells))
    by_z, by_h, by_c = y.apply(Command(LSTM_GRADIENT, call.attrs), (*seeds, gates, cells, u, c))
    by_u = _weight_gradient(_before(y, h, call.attrs.reverse), by_z) if call.needed[1] else None
    return (by_z, by_u, by_h, by_c)


# ---- gru


def _composed_gru(attrs: RecurrentAttrs, inputs: Sequence[T]) -> tuple[T, T]:
    z, u, h, *bias = inputs
    ys: dict[int, T] = {}
    saved: dict[int, T] = {}
    for index in time_order(z.shape[0], attrs.reverse):
        z1, z2, z3 = _gates(at(z, index), 3)
        m1, m2, m3 = _gates(gemm(h, u, bias[0] if bias else None), 3)
        r, s = sigmoid(add(z1, m1)), sigmoid(add(z2, m2))
        n = tanh(add(z3, multiply(r, m3)))
        h = add(multiply(_complement(s), n), multiply(s, h))
        ys[index], saved[index] = h, concatenate([r, s, n, m3], 1)
    return _stacked(ys), _stacked(saved)


def _composed_gru_gradient(attrs: RecurrentAttrs, inputs: Sequence[T]) -> tuple[T, T, T]:
    g_y, gates, y, u, h = inputs
    before = _before(y, h, attrs.reverse)
    by_h = fill_like(h, 0.0)
    by_z: dict[int, T] = {}
    by_m: dict[int, T] = {}
    for index in reversed(time_order(gates.shape[0], attrs.reverse)):
        r, s, n, m = _gates(at(gates, index), 4)
        by_h = add(by_h, at(g_y, index))
        by_n = _through_tanh(multiply(by_h, _complement(s)), n)
        by_r = _through_sigmoid(multiply(by_n, m), r)
        by_s = _through_sigmoid(multiply(by_h, subtract(at(before, index), n)), s)
        by_z[index] = concatenate([by_r, by_s, by_n], 1)
        by_m[index] = concatenate([by_r, by_s, multiply(by_n, r)], 1)
        by_h = add(multiply(by_h, s), gemm(by_m[index], u, transpose_b=True))
    return _stacked(by_z), _stacked(by_m), by_h


def _gru_gradient(call: Applied[RecurrentAttrs], gradients: Gradients) -> Gradients:
    g_y, g_gates = gradients
    if g_gates is not None:
        return pull_back(lambda inputs: _composed_gru(call.attrs, inputs), call.inputs, gradients, call.needed)
    assert g_y is not None
    u, h = call.inputs[1:3]
    y, gates = call.outputs
    by_z, by_m, by_h = y.apply(Command(GRU_GRADIENT, call.attrs), (g_y, gates, y, u, h))
    by_u = _weight_gradient(_before(y, h, call.attrs.reverse), by_m) if call.needed[1] else None
    return (by_z, by_u, by_h, reduce_sum(by_m, (0, 1)) if call.wants(3) else None)


# ---- rnn


def _composed_rnn(attrs: RnnAttrs, inputs: Sequence[T]) -> tuple[T]:
    z, u, h = inputs
    ys: dict[int, T] = {}
    for index in time_order(z.shape[0], attrs.reverse):
        total = add(at(z, index), gemm(h, u))
        h = ys[index] = tanh(total) if attrs.activation is Activation.TANH else relu(total)
    return (_stacked(ys),)


def _composed_rnn_gradient(attrs: RnnAttrs, inputs: Sequence[T]) -> tuple[T, T]:
    g_y, y, u = inputs
    by_h = fill_like(at(y, 0), 0.0)
    by_step: dict[int, T] = {}
    for index in reversed(time_order(y.shape[0], attrs.reverse)):
        h = at(y, index)
        by_h = add(by_h, at(g_y, index))
        slope = _through_tanh(by_h, h) if attrs.activation is Activation.TANH else multiply(by_h, step(h))
        by_step[index] = slope
        by_h = gemm(slope, u, transpose_b=True)
    return _stacked(by_step), by_h


def _rnn_gradient(call: Applied[RnnAttrs], gradients: Gradients) -> Gradients:
    g = single(gradients)
    _, u, h = call.inputs
    (y,) = call.outputs
    by_z, by_h = y.apply(Command(RNN_GRADIENT, call.attrs), (g, y, u))
    by_u = _weight_gradient(_before(y, h, call.attrs.reverse), by_z) if call.needed[1] else None
    return (by_z, by_u, by_h)


def _batched(composed: Callable[[Any, Sequence[Any]], Sequence[Any]], *weights: int) -> BatchRule:
    """A longer batch, where all examples share the weights; else step by step."""
    longer = batched_within(*weights, axis=-2)

    def rule(call: BatchedCall[Any]) -> tuple[Operand, ...]:
        if any(call.batched[index] for index in weights):
            return call.composed(lambda inputs: composed(call.attrs, inputs))
        return longer(call)

    return rule


# ---- operators


def _work(attrs: object, inputs: OptionalSpecs, outputs: Sequence[TensorSpec]) -> int:
    """2 · |z| · units for the matrix product with u, and eight operations per gate."""
    units = max((spec.shape[0] for spec in inputs if spec is not None and spec.rank == 2), default=1)
    return most_elements(inputs, outputs) * (2 * units + 8)


_STATES, _STATE, _FOUR_GATES = spec((4, 2, 4)), spec((2, 4)), spec((4, 2, 16))

LSTM = operator(
    "lstm",
    RecurrentAttrs,
    ("z", "u", "h", "c"),
    ("y", "cells", "gates"),
    infer=_infer_lstm,
    gradient=_lstm_gradient,
    inplace=Inplace(allowed=((0, 2),)),
    precision=LOW,
    work=_work,
    batched=_batched(_composed_lstm, 1),
    example=Example(RecurrentAttrs(), (_FOUR_GATES, spec((4, 16)), _STATE, _STATE)),
    doc="i, f, g, o = σ, σ, tanh, σ of z + h₋ · u; c = f · c₋ + i · g; h = o · tanh c (Hochreiter & Schmidhuber 1997)",
)
LSTM_GRADIENT = operator(
    "lstm_gradient",
    RecurrentAttrs,
    ("g", "g_cells", "gates", "cells", "u", "c"),
    ("z", "h", "c"),
    infer=_infer_lstm_gradient,
    gradient=by_decomposition(_composed_lstm_gradient),
    inplace=Inplace(allowed=((2, 0),)),
    precision=LOW,
    work=_work,
    batched=_batched(_composed_lstm_gradient, 4),
    example=Example(RecurrentAttrs(), (_STATES, _STATES, _FOUR_GATES, _STATES, spec((4, 16)), _STATE)),
    doc="the gradients of lstm by z and by the first states, step by step from the end",
)
GRU = operator(
    "gru",
    RecurrentAttrs,
    ("z", "u", "h", "bias"),
    ("y", "gates"),
    infer=_infer_gru,
    gradient=_gru_gradient,
    optional=(3,),
    precision=LOW,
    work=_work,
    batched=_batched(_composed_gru, 1, 3),
    example=Example(RecurrentAttrs(), (spec((4, 2, 12)), spec((4, 12)), _STATE, spec((12,)))),
    doc="m = h₋ · u + bias; r, s = σ(z + m); n = tanh(z + r · m); h = (1 - s) · n + s · h₋ (Cho et al. 2014)",
)
GRU_GRADIENT = operator(
    "gru_gradient",
    RecurrentAttrs,
    ("g", "gates", "y", "u", "h"),
    ("z", "m", "h"),
    infer=_infer_gru_gradient,
    gradient=by_decomposition(_composed_gru_gradient),
    precision=LOW,
    work=_work,
    batched=_batched(_composed_gru_gradient, 3),
    example=Example(RecurrentAttrs(), (_STATES, _FOUR_GATES, _STATES, spec((4, 12)), _STATE)),
    doc="the gradients of gru by z, by m and by the first state, step by step from the end",
)
RNN = operator(
    "rnn",
    RnnAttrs,
    ("z", "u", "h"),
    infer=_infer_rnn,
    gradient=_rnn_gradient,
    inplace=Inplace(allowed=((0, 0),)),
    precision=LOW,
    work=_work,
    batched=_batched(_composed_rnn, 1),
    example=Example(RnnAttrs(), (_STATES, MATRIX, _STATE)),
    doc="h = tanh(z + h₋ · u) or relu (Elman 1990)",
)
RNN_GRADIENT = operator(
    "rnn_gradient",
    RnnAttrs,
    ("g", "y", "u"),
    ("z", "h"),
    infer=_infer_rnn_gradient,
    gradient=by_decomposition(_composed_rnn_gradient),
    inplace=Inplace(allowed=((0, 0), (1, 0))),
    precision=LOW,
    work=_work,
    batched=_batched(_composed_rnn_gradient, 2),
    example=Example(RnnAttrs(), (_STATES, _STATES, MATRIX)),
    doc="the gradients of rnn by z and by the first state, step by step from the end",
)


# ---- functions
