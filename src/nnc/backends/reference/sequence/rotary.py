"""Rotary position embedding."""

from __future__ import annotations

import numpy as np

from nnc.backends.reference.arrays import Inputs, Outputs, Rows, widen, write
from nnc.ops.number import as_float
from nnc.ops.sequence.rotary import ROTARY, ROTARY_ANGLES, RotaryAnglesAttrs, RotaryAttrs


def rotary(attrs: RotaryAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """(y₁, y₂) = (x₁ · cos a - x₂ · sin a, x₁ · sin a + x₂ · cos a) for each pair of features."""
    x, angles = widen(inputs[0]), widen(inputs[1])[..., None, :]
    pairs = angles.shape[-1]
    cosine, sine = np.cos(angles), np.sin(-angles if attrs.inverse else angles)
    ends = (slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2))
    first, second = ends if attrs.interleaved else (slice(0, pairs), slice(pairs, 2 * pairs))
    y = x.copy()
    y[..., first] = x[..., first] * cosine - x[..., second] * sine
    y[..., second] = x[..., first] * sine + x[..., second] * cosine
    write(outputs[0], y)


def rotary_angles(attrs: RotaryAnglesAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y[…, i] = position[…] · base^(-i / pairs), in f64."""
    if not outputs[0].size:
        # No positions: the frequencies may be more than memory holds.
        return
    frequencies = as_float(attrs.base) ** (-np.arange(attrs.pairs) / attrs.pairs)
    write(outputs[0], widen(inputs[0])[..., None] * frequencies)


ROWS: Rows = {ROTARY: rotary, ROTARY_ANGLES: rotary_angles}
