"""arange: y[k] = start + k · step."""

from __future__ import annotations

import numpy as np

from nnc.backends.reference.arrays import Inputs, Outputs, write
from nnc.ops.generate import ArangeAttrs


def arange(attrs: ArangeAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y[k] = start + k · step; of floats in f64, rounded once, of integers exactly."""
    steps = np.arange(outputs[0].size)
    if attrs.spec.dtype.is_float:
        write(outputs[0], attrs.start + steps * attrs.step)
    else:
        write(outputs[0], int(attrs.start) + steps * int(attrs.step))
