"""Mean, extrema and their positions over axes."""

from __future__ import annotations

import math

import numpy as np

from nnc.backends.reference.arrays import Inputs, Outputs, Rows, widen, write
from nnc.backends.reference.movement.broadcast import total
from nnc.ops.movement.broadcast import ReduceAttrs
from nnc.ops.reduction.reduction import ARGMAX, ARGMIN, REDUCE_MAX, REDUCE_MEAN, REDUCE_MIN, REDUCE_NORM


def reduce_mean(attrs: ReduceAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y[kept] = sum over axes of x[kept, reduced] / count."""
    x = widen(inputs[0])
    write(outputs[0], total(x, attrs) / math.prod(x.shape[axis] for axis in attrs.axes))


def reduce_max(attrs: ReduceAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y[kept] = largest of x[kept, reduced]; nan when any is nan."""
    write(outputs[0], np.max(widen(inputs[0]), axis=attrs.axes, keepdims=attrs.keepdims))


def reduce_min(attrs: ReduceAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y[kept] = smallest of x[kept, reduced]; nan when any is nan."""
    write(outputs[0], np.min(widen(inputs[0]), axis=attrs.axes, keepdims=attrs.keepdims))


def argmax(attrs: ReduceAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y[kept] = first index of the largest of x[kept, reduced]; of the first nan when there is one."""
    write(outputs[0], np.argmax(widen(inputs[0]), axis=attrs.axes[0], keepdims=attrs.keepdims))


def argmin(attrs: ReduceAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y[kept] = first index of the smallest of x[kept, reduced]; of the first nan when there is one."""
    write(outputs[0], np.argmin(widen(inputs[0]), axis=attrs.axes[0], keepdims=attrs.keepdims))


def reduce_norm(attrs: ReduceAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y[kept] = m · √(sum over axes of (x / m)²) in f64, m the largest |x|, so that no square overflows."""
    x = widen(inputs[0]).astype(np.float64)
    largest = np.max(np.abs(x), axis=attrs.axes, keepdims=True, initial=0.0)
    scale = np.where(np.isfinite(largest) & (largest > 0), largest, 1.0)
    y = scale * np.sqrt(np.sum(np.square(x / scale), axis=attrs.axes, keepdims=True))
    write(outputs[0], y if attrs.keepdims else np.squeeze(y, attrs.axes))


ROWS: Rows = {
    REDUCE_MEAN: reduce_mean,
    REDUCE_MAX: reduce_max,
    REDUCE_MIN: reduce_min,
    REDUCE_NORM: reduce_norm,
    ARGMAX: argmax,
    ARGMIN: argmin,
}
