"""LSTM, GRU and RNN over whole sequences, in one direction or two: x[steps, batch, inputs], weights per direction.

The usual cells are ours. What ours do not have (peepholes, other activations, clipping, sequences of several lengths,
a reset before the product) is composed step by step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from nnc import ops
from nnc.classes import dataclass
from nnc.core.values.spec import Shape
from nnc.errors import AttributeValueError, ShapeError
from nnc.onnx.node import Array, NodeCall, OnnxRow, Operand, Results
from nnc.ops import Activation, RecurrentWeights

# Steps that are computed one by one, each of some twenty execs: more would take a minute to import.
MOST_STEPS = 4096

# Where each of our gates stands among ONNX's: i o f c for the LSTM, z r h for the GRU.
LSTM_GATES, GRU_GATES, RNN_GATES = (0, 2, 3, 1), (1, 0, 2), (0,)
ACTIVATIONS: dict[str, Callable[[Operand, float, float], Operand]] = {
    "sigmoid": lambda x, a, b: ops.sigmoid(x),
    "tanh": lambda x, a, b: ops.tanh(x),
    "relu": lambda x, a, b: ops.relu(x),
    "affine": lambda x, a, b: x * a + b,
    "leakyrelu": lambda x, a, b: ops.leaky_relu(x, a),
    "thresholdedrelu": lambda x, a, b: ops.where(x > a, x, ops.fill_like(x, 0.0)),
    "scaledtanh": lambda x, a, b: ops.tanh(x * b) * a,
    "hardsigmoid": lambda x, a, b: ops.clamp(x * a + b, 0.0, 1.0),
    "elu": lambda x, a, b: ops.where(x > 0.0, x, ops.expm1(x) * a),
    "softsign": lambda x, a, b: x / (abs(x) + 1.0),
    "softplus": lambda x, a, b: ops.softplus(x),
}


@dataclass(frozen=True, slots=True, eq=False)
class Direction:
    """One direction, in ONNX's order of gates: w, r[gates · units, …], two biases or none, the first states.

    Weights in bytes are turned: w, r[…, gates · units].
    """

    call: NodeCall
    w: Operand
    r: Operand
    biases: tuple[Operand, Operand] | None
    states: tuple[Operand | None, ...]
    peepholes: Operand | None
    reverse: bool
    number: int
    units: int

    def gate(self, operand: Operand, gate: int) -> Operand:
        """Rows of one gate."""
        return ops.slice_axis(operand, 0, gate * self.units, (gate + 1) * self.units)

    def reordered(self, operand: Operand, gates: Sequence[int]) -> Operand:
        """Our order of gates along the first axis."""
        parts = [self.gate(operand, gate) for gate in gates]
        return parts[0] if len(parts) == 1 else ops.concatenate(parts, 0)

    def weights(self, gates: Sequence[int], *, apart: bool) -> RecurrentWeights[Operand]:
        """Ours; with `apart` the bias of the state stays by itself."""
        w, u = (ops.transpose(self.reordered(entry, gates)) for entry in (self.w, self.r))
        if self.biases is None:
            return RecurrentWeights(w, u)
        first, second = (self.reordered(bias, gates) for bias in self.biases)
        return RecurrentWeights(w, u, first, second) if apart else RecurrentWeights(w, u, first + second)

    def function(self, place: int, usual: Sequence[str], *, clips: bool = True) -> Callable[[Operand], Operand]:
        """The activation at a place, with its numbers; what goes into it is clipped where the node says so."""
        names = _activations(self.call, usual)
        name = names[self.number * len(usual) + place]
        defaults = {"leakyrelu": 0.01, "thresholdedrelu": 1.0, "hardsigmoid": 0.2, "elu": 1.0, "affine": 1.0}
        a = _number(self.call, "activation_alpha", self.number * len(usual) + place, defaults.get(name, 1.0))
        b = _number(
            self.call, "activation_beta", self.number * len(usual) + place, 0.5 if name == "hardsigmoid" else 0.0
        )
        if name not in ACTIVATIONS:
            raise self.call.refuse(f"activation {name}")
        return lambda x: ACTIVATIONS[name](_clipped(self.call, x) if clips else x, a, b)


def _number(call: NodeCall, name: str, place: int, default: float) -> float:
    given = call.node.attributes.get(name, ())
    assert isinstance(given, tuple)
    return float(given[place]) if place < len(given) else default


def _activations(call: NodeCall, usual: Sequence[str]) -> list[str]:
    given = call.node.attributes.get("activations")
    names = [str(label).lower() for label in given] if isinstance(given, tuple) else []
    count = len(usual) * (2 if call.text("direction", "forward") == "bidirectional" else 1)
    if names and len(names) != count:
        raise AttributeValueError(call.node.label, got=f"{len(names)} activations", need=f"{count}, or none")
    return names or [entry.lower() for entry in usual] * 2


def _clipped(call: NodeCall, x: Operand) -> Operand:
    if not call.has("clip"):
        return x
    most = call.real("clip")
    if not most >= 0:
        raise AttributeValueError(call.node.label, got=f"clip {most}", need="0 or more")
    return ops.clamp(x, -most, most)


def _is_usual(call: NodeCall, usual: Sequence[str], x: Operand) -> bool:
    names = _activations(call, usual)
    plain = all(entry == usual[place % len(usual)].lower() for place, entry in enumerate(names))
    return plain and not call.has("clip") and not call.integer("input_forget", 0) and _lengths(call, x) is None


def _lengths(call: NodeCall, x: Operand) -> Array | None:
    """Steps of each sequence; None where all have all."""
    lengths = call.static(4)
    return None if lengths is None or (lengths == x.shape[0]).all() else lengths


Cell = Callable[[Direction, Operand], tuple[Operand, ...]]
# z of each gate in, states out, of which the first is the result of the step.
Step = Callable[[Sequence[Operand], tuple[Operand, ...]], tuple[Operand, ...]]


def check_shapes(call: NodeCall, gates: int, states: int, *, turned: bool = False) -> None:
    """ShapeError for an operand whose shape is not that of its place beside x, the direction and the state."""
    x, r, batch_first = call[0].shape, call[2].shape, bool(call.integer("layout", 0))
    if len(x) != 3 or len(r) != 3:
        raise ShapeError(call.node.label, got=f"x={call[0].spec}, r={call[2].spec}", need="three axes of each")
    units, direction = r[1 if turned else 2], call.text("direction", "forward")
    if call.integer("hidden_size", units) != units:
        got = f"hidden_size {call.integer('hidden_size')} and weights of {units} units"
        raise ShapeError(call.node.label, got=got, need="one number of units")
    directions = 2 if direction == "bidirectional" else 1
    if r[0] != directions:
        got = f"direction {direction} and weights of {r[0]} directions"
        raise ShapeError(call.node.label, got=got, need="weights of one direction, or of two if bidirectional")
    batch = x[0] if batch_first else x[1]
    state = (batch, directions, units) if batch_first else (directions, batch, units)
    w, r = (
        (directions, size, gates * units) if turned else (directions, gates * units, size) for size in (x[2], units)
    )
    named: list[tuple[int, str, Shape]] = [
        (1, "w", w), (2, "r", r), (3, "b", (directions, 2 * gates * units)), (4, "sequence_lens", (batch,)),
        (5, "initial_h", state),
    ]  # fmt: skip
    if states == 2:
        named += [(6, "initial_c", state), (7, "p", (directions, 3 * units))]
    for place, name, shape in named:
        given = call.maybe(place)
        if given is not None and given.shape != shape:
            need = f"{list(shape)} for {units} units, x={call[0].spec}, direction {direction}"
            raise ShapeError(call.node.label, got=f"{name}={given.spec}", need=need)


def _checked(call: NodeCall, gates: int, states: int, cell: Cell) -> Results:
    check_shapes(call, gates, states)
    return layer(call, gates, states, cell)


def layer(call: NodeCall, gates: int, states: int, cell: Cell, *, turned: bool = False) -> Results:
    """The directions side by side: y[steps, directions, batch, units], and last states[directions, batch, units]."""
    x, batch_first = call[0], bool(call.integer("layout", 0))
    if batch_first:
        x = ops.transpose(x, (1, 0, 2))
    parts = [_direction(call, gates, states, number, turned=turned) for number in range(call[1].shape[0])]
    results = [cell(part, x) for part in parts]
    ys = [ops.reshape(result[0], (result[0].shape[0], 1, *result[0].shape[1:])) for result in results]
    y = ys[0] if len(ys) == 1 else ops.concatenate(ys, 1)
    lasts = []
    for place in range(1, 1 + states):
        ends = [ops.reshape(result[place], (1, *result[place].shape)) for result in results]
        lasts.append(ends[0] if len(ends) == 1 else ops.concatenate(ends, 0))
    if batch_first:
        y, lasts = ops.transpose(y, (2, 0, 1, 3)), [ops.transpose(last, (1, 0, 2)) for last in lasts]
    return (y, *lasts)


def _direction(call: NodeCall, gates: int, states: int, number: int, *, turned: bool) -> Direction:
    """What the operands have of one direction."""
    w, r = (row_of(call[place], number) for place in (1, 2))
    units, bias, biases = r.shape[0 if turned else 1], call.maybe(3), None
    if bias is not None:
        whole, size = row_of(bias, number), gates * units
        biases = (ops.slice_axis(whole, 0, 0, size), ops.slice_axis(whole, 0, size, 2 * size))
    first: list[Operand | None] = []
    for place in range(5, 5 + states):
        state = call.maybe(place)
        if state is not None:
            state = ops.transpose(state, (1, 0, 2)) if call.integer("layout", 0) else state
            state = row_of(state, number)
        first.append(state)
    peepholes = call.maybe(7) if states == 2 else None
    own = None if peepholes is None else row_of(peepholes, number)
    reverse = call.text("direction", "forward") == "reverse" or number == 1
    return Direction(call, w, r, biases, tuple(first), own, reverse, number, units)


def row_of(x: Operand, number: int) -> Operand:
    """x[number]"""
    return ops.reshape(ops.slice_axis(x, 0, number, number + 1), x.shape[1:])


LSTM_USUAL, GRU_USUAL, RNN_USUAL = ("Sigmoid", "Tanh", "Tanh"), ("Sigmoid", "Tanh"), ("Tanh",)


def _lstm(part: Direction, x: Operand) -> tuple[Operand, ...]:
    if part.peepholes is None and _is_usual(part.call, LSTM_USUAL, x):
        h, c = part.states
        return ops.lstm(x, part.weights(LSTM_GATES, apart=False), h, c, reverse=part.reverse)
    return stepwise(part, x, 4, lstm_step(part))


def lstm_step(part: Direction) -> Step:
    """One step of an LSTM: z of i o f c, and the states h and c."""
    # onnxruntime clips what goes into the gates, and leaves the cell: files are checked there.
    f, g, h_of = (part.function(place, LSTM_USUAL, clips=place < 2) for place in range(3))
    peep = None if part.peepholes is None else [part.gate(part.peepholes, gate) for gate in range(3)]

    def step(z: Sequence[Operand], states: tuple[Operand, ...]) -> tuple[Operand, ...]:
        (_, c), (i, o, forget, new) = states, z
        i = f(i if peep is None else i + peep[0] * c)
        forget = (
            1.0 - i if part.call.integer("input_forget", 0) else f(forget if peep is None else forget + peep[2] * c)
        )
        cell = forget * c + i * g(new)
        out = f(o if peep is None else o + peep[1] * cell)
        return out * h_of(cell), cell

    return step


def _gru(part: Direction, x: Operand) -> tuple[Operand, ...]:
    before = not part.call.integer("linear_before_reset", 0)
    if not before and _is_usual(part.call, GRU_USUAL, x):
        return ops.gru(x, part.weights(GRU_GATES, apart=True), part.states[0], reverse=part.reverse)
    f, g = (part.function(place, GRU_USUAL) for place in range(2))
    u = ops.transpose(part.gate(part.r, 2))

    def step(z: Sequence[Operand], states: tuple[Operand, ...]) -> tuple[Operand, ...]:
        (h,) = states
        update, reset = f(z[0]), f(z[1])
        if before:
            new = z[2] + (reset * h) @ u
        else:
            bias = 0.0 if part.biases is None else part.gate(part.biases[1], 2)
            inner = h @ u
            new = z[2] + reset * (inner if isinstance(bias, float) else inner + bias)
        return ((1.0 - update) * g(new) + update * h,)

    return stepwise(part, x, 3, step, apart=2, bias_apart=not before)


def _rnn(part: Direction, x: Operand) -> tuple[Operand, ...]:
    names = _activations(part.call, RNN_USUAL)
    name = names[part.number] if part.number < len(names) else names[0]
    if name in ("tanh", "relu") and not part.call.has("clip") and _lengths(part.call, x) is None:
        weights = part.weights(RNN_GATES, apart=False)
        return ops.rnn(x, weights, part.states[0], activation=Activation(name), reverse=part.reverse)
    f = part.function(0, RNN_USUAL)
    return stepwise(part, x, 1, lambda z, states: (f(z[0]),))


class GateProducts(Protocol):
    """The products that z of a step is the sum of, for each gate."""

    def of_input(self, place: int) -> Callable[[int], Operand]:
        """x[place] · w of a gate."""

    def of_state(self, h: Operand) -> Callable[[int], Operand]:
        """h · r of a gate."""


class _RealProducts:
    """Those of real numbers, gate by gate."""

    def __init__(self, part: Direction, x: Operand, gates: int) -> None:
        self.x = x
        self.ws = [ops.transpose(part.gate(part.w, gate)) for gate in range(gates)]
        self.us = [ops.transpose(part.gate(part.r, gate)) for gate in range(gates)]

    def of_input(self, place: int) -> Callable[[int], Operand]:
        """x[place] · w of a gate."""
        row = row_of(self.x, place)
        return lambda gate: row @ self.ws[gate]

    def of_state(self, h: Operand) -> Callable[[int], Operand]:
        """h · r of a gate."""
        return lambda gate: h @ self.us[gate]


def stepwise(
    part: Direction,
    x: Operand,
    gates: int,
    step: Step,
    apart: int | None = None,
    bias_apart: bool = False,
    products: GateProducts | None = None,
) -> tuple[Operand, ...]:
    """`step(z, states)` at each step: z[gate] = x · w + h · r + biases, but gate `apart` without h · r and its bias."""
    steps, batch = x.shape[:2]
    states = tuple(
        part.call.constant(np.zeros((batch, part.units)), x.spec) if state is None else state for state in part.states
    )
    if not batch * part.units:
        return part.call.constant(np.zeros((steps, batch, part.units)), x.spec), *states
    if steps > MOST_STEPS:
        need = f"at most {MOST_STEPS}: each is computed by itself where the gates are not those of nnc.ops"
        raise ShapeError(part.call.node.label, got=f"{steps} steps", need=need)
    lengths = _lengths(part.call, x)
    of = products or _RealProducts(part, x, gates)
    outputs: dict[int, Operand] = {}
    for place in reversed(range(steps)) if part.reverse else range(steps):
        of_input, of_state = of.of_input(place), of.of_state(states[0])
        z = []
        for gate in range(gates):
            value = of_input(gate)
            if gate != apart:
                value = value + of_state(gate)
            if part.biases is not None:
                value = value + part.gate(part.biases[0], gate)
                if gate != apart or not bias_apart:
                    value = value + part.gate(part.biases[1], gate)
            z.append(value)
        following = step(z, states)
        if lengths is not None:
            alive = part.call.constant((place < lengths).reshape(batch, 1))
            following = tuple(ops.where(alive, new, old) for new, old in zip(following, states, strict=True))
            outputs[place] = ops.where(alive, following[0], ops.fill_like(following[0], 0.0))
        else:
            outputs[place] = following[0]
        states = following
    parts = [ops.reshape(outputs[place], (1, *outputs[place].shape)) for place in range(steps)]
    return (parts[0] if steps == 1 else ops.concatenate(parts, 0), *states)


ROWS = {
    "LSTM": OnnxRow(lambda call: _checked(call, 4, 2, _lstm)),
    "GRU": OnnxRow(lambda call: _checked(call, 3, 1, _gru)),
    "RNN": OnnxRow(lambda call: _checked(call, 1, 1, _rnn)),
}
