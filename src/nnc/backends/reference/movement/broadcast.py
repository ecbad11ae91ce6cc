"""Sum over axes, and broadcasting."""

from __future__ import annotations

import numpy as np

from nnc.backends.reference.arrays import Array, Inputs, Outputs, Rows, accumulator, widen, write
from nnc.ops.movement.broadcast import BROADCAST_TO, REDUCE_SUM, BroadcastAttrs, ReduceAttrs


def total(x: Array, attrs: ReduceAttrs) -> Array:
    """Sum over the axes: of floats in f64, of integers in i64 (modulo 2^64)."""
    return np.asarray(np.sum(x, axis=attrs.axes, keepdims=attrs.keepdims, dtype=accumulator(x)))


def reduce_sum(attrs: ReduceAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y[kept] = sum over axes of x[kept, reduced]."""
    write(outputs[0], total(widen(inputs[0]), attrs))


def broadcast_to(attrs: BroadcastAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y[i…] = x[i… with 0 where x has size 1]."""
    (x,) = inputs
    assert x is not None
    write(outputs[0], x)


ROWS: Rows = {REDUCE_SUM: reduce_sum, BROADCAST_TO: broadcast_to}
