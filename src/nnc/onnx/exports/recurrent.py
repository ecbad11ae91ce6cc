"""LSTM, GRU and RNN as ONNX's own nodes: the product with the inputs, which we make before, goes into the node."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnc import ops
from nnc.onnx.exporter import ExportCall, ExportOperand, ExportRow, Written

# Where each of ONNX's gates stands among ours: i f g o for the LSTM, r s n for the GRU.
LSTM_GATES, GRU_GATES, RNN_GATES = (0, 3, 1, 2), (1, 0, 2), (0,)


def _reordered(x: ExportOperand, gates: Sequence[int]) -> ExportOperand:
    """ONNX's order of gates along the last axis."""
    size, axis = x.shape[-1] // len(gates), x.spec.rank - 1
    parts = [ops.slice_axis(x, axis, gate * size, (gate + 1) * size) for gate in gates]
    return parts[0] if len(parts) == 1 else ops.concatenate(parts, axis)


def _node(call: ExportCall, op: str, gates: Sequence[int], states: int, **attributes: object) -> tuple[str, ...]:
    """(y, last h, and for an LSTM last c), each as ONNX has it, one direction."""
    w, z, u = call.writer, call[0], call[1]
    product = w.products.get(w.name_of(z))
    units = u.shape[0]
    if product is None:
        kernel = call.of(w.constant(np.eye(z.shape[2]), z.spec.dtype), z.spec, shape=(z.shape[2], z.shape[2]))
        product = (z, kernel, None)
    x, kernel, bias = product
    weights = [ops.transpose(_reordered(operand, gates), (1, 0)) for operand in (kernel, u)]
    names = [w.name_of(ops.reshape(weight, (1, *weight.shape))) for weight in weights]
    own = call.operands[3] if op == "GRU" else None
    if bias is not None or own is not None:
        zero = call.of(w.constant(np.zeros(z.shape[2]), z.spec.dtype), z.spec, shape=(z.shape[2],))
        sides = [zero if operand is None else _reordered(operand, gates) for operand in (bias, own)]
        names.append(w.name_of(ops.reshape(ops.concatenate(sides, 0), (1, 2 * z.shape[2]))))
    else:
        names.append("")
    first = [w.name_of(ops.reshape(call[2 + place], (1, *call[2].shape))) for place in range(states)]
    direction = "reverse" if call.attrs.reverse else "forward"
    inputs = [w.name_of(x), *names, "", *first]
    return w.nodes_of(op, inputs, 1 + states, hidden_size=units, direction=direction, **attributes)


def _squeezed(call: ExportCall, name: str) -> str:
    """y[steps, batch, units] of [steps, 1, batch, units]"""
    return call.writer.node("Squeeze", name, call.writer.constant([1]))


def _lstm(call: ExportCall) -> Written:
    if call.wanted[2]:
        raise call.refuse("the gates of an LSTM as a result")
    y, _, c = _node(call, "LSTM", LSTM_GATES, 2)
    if not call.wanted[1]:
        return (_squeezed(call, y), None, None)
    steps, *rest = call.outputs[1].shape
    last = (0 if call.attrs.reverse else steps - 1) * call[2].spec.elements
    size = call[2].spec.elements
    if any(
        operand.spec.elements > size or operand.alias is None or operand.alias.offset != last
        for operand in call.wanted[1]
    ):
        raise call.refuse("the cells of all steps of an LSTM as a result")
    # Of the cells ONNX gives the last one alone: it stands at every step, and nobody reads the others.
    flat = call.writer.reshape(c, (1, *rest))
    return (_squeezed(call, y), call.writer.node("Expand", flat, call.writer.constant((steps, *rest))), None)


def _gru(call: ExportCall) -> Written:
    if call.wanted[1]:
        raise call.refuse("the gates of a GRU as a result")
    y, _ = _node(call, "GRU", GRU_GATES, 1, linear_before_reset=1)
    return (_squeezed(call, y), None)


def _rnn(call: ExportCall) -> Written:
    y, _ = _node(call, "RNN", RNN_GATES, 1, activations=[call.attrs.activation.value.capitalize()])
    return _squeezed(call, y)


EXPORTS: dict[str, ExportRow] = {"lstm": _lstm, "gru": _gru, "rnn": _rnn}
