"""Recurrent networks over whole sequences, one matrix product and some pointwise work per step."""

from __future__ import annotations

import numpy as np

from nnc.backends.reference.arrays import Array, Inputs, Outputs, Rows, widen, write
from nnc.backends.reference.products.products import product
from nnc.ops.elementwise.forward import relu, sigmoid, step
from nnc.ops.sequence import recurrent as ops
from nnc.ops.sequence.recurrent import Activation, RecurrentAttrs, RnnAttrs, time_order


def parts(x: Array, count: int) -> list[Array]:
    """Equal parts of the last axis."""
    return np.split(x, count, axis=-1)


def joined(*gates: Array) -> Array:
    """The gates side by side."""
    return np.concatenate(gates, axis=-1)


def before(y: Array, first: Array, reverse: bool) -> Array:
    """The states that the steps start from."""
    return np.concatenate([y[1:], first[None]] if reverse else [first[None], y[:-1]])


def steps(values: Array, reverse: bool) -> range:
    """The steps in the order of time; none for a batch of nothing, of which a file may ask for 2^40 steps."""
    return time_order(len(values) if values.size else 0, reverse)


def through_sigmoid(g: Array, y: Array) -> Array:
    """g · y · (1 - y)."""
    return np.asarray(g * y * (1 - y))


def through_tanh(g: Array, y: Array) -> Array:
    """g · (1 - y²)."""
    return np.asarray(g * (1 - np.square(y)))


def lstm(attrs: RecurrentAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """i, f, g, o = σ, σ, tanh, σ of z + h₋ · u; c = f · c₋ + i · g; h = o · tanh c."""
    z, u, h, c = (widen(array) for array in inputs)
    shape = (*z.shape[:2], h.shape[1])
    y, cells, gates = np.empty(shape, z.dtype), np.empty(shape, z.dtype), np.empty(z.shape, z.dtype)
    for index in steps(z, attrs.reverse):
        i, f, g, o = parts(z[index] + product(h, u), 4)
        i, f, g, o = sigmoid(i), sigmoid(f), np.tanh(g), sigmoid(o)
        c = f * c + i * g
        h = o * np.tanh(c)
        y[index], cells[index], gates[index] = h, c, joined(i, f, g, o)
    for output, value in zip(outputs, (y, cells, gates), strict=True):
        write(output, value)


def lstm_gradient(attrs: RecurrentAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """Step by step from the end: c' += h' · o · (1 - tanh² c), through the gates, then h' = z' · u^T, c' = c' · f."""
    g_y, g_cells, gates, cells, u, c = (widen(array) for array in inputs)
    earlier, back = before(cells, c, attrs.reverse), u.swapaxes(0, 1)
    by_h, by_c, by_z = np.zeros_like(c), np.zeros_like(c), np.empty(gates.shape, gates.dtype)
    for index in reversed(steps(gates, attrs.reverse)):
        i, f, g, o = parts(gates[index], 4)
        bent = np.tanh(cells[index])
        by_h = by_h + g_y[index]
        by_c = by_c + g_cells[index] + through_tanh(by_h * o, bent)
        by_z[index] = joined(
            through_sigmoid(by_c * g, i),
            through_sigmoid(by_c * earlier[index], f),
            through_tanh(by_c * i, g),
            through_sigmoid(by_h * bent, o),
        )
        by_h, by_c = product(by_z[index], back), by_c * f
    for output, value in zip(outputs, (by_z, by_h, by_c), strict=True):
        write(output, value)


def gru(attrs: RecurrentAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """m = h₋ · u + bias; r, s = σ(z + m); n = tanh(z + r · m); h = (1 - s) · n + s · h₋."""
    z, u, h = (widen(array) for array in inputs[:3])
    bias = 0 if inputs[3] is None else widen(inputs[3])
    units = h.shape[1]
    y, gates = np.empty((*z.shape[:2], units), z.dtype), np.empty((*z.shape[:2], 4 * units), z.dtype)
    for index in steps(z, attrs.reverse):
        z1, z2, z3 = parts(z[index], 3)
        m1, m2, m3 = parts(product(h, u) + bias, 3)
        r, s = sigmoid(z1 + m1), sigmoid(z2 + m2)
        n = np.tanh(z3 + r * m3)
        h = (1 - s) * n + s * h
        y[index], gates[index] = h, joined(r, s, n, m3)
    write(outputs[0], y)
    write(outputs[1], gates)


def gru_gradient(attrs: RecurrentAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """Step by step from the end: through n, r and s, then h' = h' · s + m' · u^T."""
    g_y, gates, y, u, h = (widen(array) for array in inputs)
    earlier, back = before(y, h, attrs.reverse), u.swapaxes(0, 1)
    shape = (*y.shape[:2], 3 * y.shape[2])
    by_h, by_z, by_m = np.zeros_like(h), np.empty(shape, y.dtype), np.empty(shape, y.dtype)
    for index in reversed(steps(gates, attrs.reverse)):
        r, s, n, m = parts(gates[index], 4)
        by_h = by_h + g_y[index]
        by_n = through_tanh(by_h * (1 - s), n)
        by_r = through_sigmoid(by_n * m, r)
        by_s = through_sigmoid(by_h * (earlier[index] - n), s)
        by_z[index], by_m[index] = joined(by_r, by_s, by_n), joined(by_r, by_s, by_n * r)
        by_h = by_h * s + product(by_m[index], back)
    for output, value in zip(outputs, (by_z, by_m, by_h), strict=True):
        write(output, value)


def rnn(attrs: RnnAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """h = tanh(z + h₋ · u), or relu."""
    z, u, h = (widen(array) for array in inputs)
    y = np.empty(z.shape, z.dtype)
    for index in steps(z, attrs.reverse):
        total = z[index] + product(h, u)
        h = np.tanh(total) if attrs.activation is Activation.TANH else relu(total)
        y[index] = h
    write(outputs[0], y)


def rnn_gradient(attrs: RnnAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """Step by step from the end: through the function, then h' = z' · u^T."""
    g_y, y, u = (widen(array) for array in inputs)
    by_h, by_z = np.zeros_like(y[0]), np.empty(y.shape, y.dtype)
    for index in reversed(steps(y, attrs.reverse)):
        by_h = by_h + g_y[index]
        slope = through_tanh(by_h, y[index]) if attrs.activation is Activation.TANH else by_h * step(y[index])
        by_z[index] = slope
        by_h = product(slope, u.swapaxes(0, 1))
    write(outputs[0], by_z)
    write(outputs[1], by_h)


ROWS: Rows = {
    ops.LSTM: lstm,
    ops.LSTM_GRADIENT: lstm_gradient,
    ops.GRU: gru,
    ops.GRU_GRADIENT: gru_gradient,
    ops.RNN: rnn,
    ops.RNN_GRADIENT: rnn_gradient,
}
