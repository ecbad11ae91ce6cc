"""Random tensors and dropout: the numbers that `nnc.ops.random` defines, by NumPy's Philox."""

from __future__ import annotations

import math

import numpy as np

from nnc.backends.reference.arrays import Array, Inputs, Outputs, Rows, widen, write
from nnc.core.values.dtype import dtype_of
from nnc.core.values.spec import Shape
from nnc.ops.random.random import (
    DROPOUT,
    RANDOM_NORMAL,
    RANDOM_UNIFORM,
    SEEDS,
    DropoutAttrs,
    NormalAttrs,
    UniformAttrs,
    largest_below,
)


def fractions(seed: int, counter: Array | None, shape: Shape) -> Array:
    """u[i] = (w[i] >> 11) · 2^-53 for the Philox words w of this seed and counter."""
    assert counter is not None
    # NumPy's Philox adds 1 to its 256-bit counter before each block of four words.
    start = np.array([0, 0, int(counter) % SEEDS, 0], np.uint64)
    bits = np.random.Philox(counter=start, key=np.array([seed, 0], np.uint64))
    words: Array = bits.random_raw(math.prod(shape))
    return ((words >> np.uint64(11)) * 2.0**-53).reshape(shape)


def random_uniform(attrs: UniformAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y[i] = low + (high - low) · u[i], rounded down where it would reach `high`."""
    y = outputs[0]
    drawn = attrs.low + (attrs.high - attrs.low) * fractions(attrs.seed, inputs[0], y.shape)
    write(y, np.minimum(drawn, largest_below(attrs.high, dtype_of(y.dtype))))


def random_normal(attrs: NormalAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """Pairs y[2k], y[2k + 1] = mean + deviation · √(-2 ln(1 - u[2k])) · (cos, sin)(2π u[2k + 1])."""
    shape = outputs[0].shape
    count = math.prod(shape)
    pairs = fractions(attrs.seed, inputs[0], (count + count % 2,)).reshape(-1, 2)
    radius, angle = np.sqrt(-2.0 * np.log1p(-pairs[:, 0])), 2.0 * np.pi * pairs[:, 1]
    normal = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).reshape(-1)[:count]
    write(outputs[0], attrs.mean + attrs.deviation * normal.reshape(shape))


def dropout(attrs: DropoutAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y = x / (1 - rate) where mask, else 0; mask[i] = u[i] ≥ rate."""
    x = widen(inputs[0])
    mask = fractions(attrs.seed, inputs[1], outputs[1].shape) >= attrs.rate
    write(outputs[0], np.where(mask, x * (1.0 / (1.0 - attrs.rate)), x.dtype.type(0)))
    write(outputs[1], mask)


ROWS: Rows = {RANDOM_UNIFORM: random_uniform, RANDOM_NORMAL: random_normal, DROPOUT: dropout}
