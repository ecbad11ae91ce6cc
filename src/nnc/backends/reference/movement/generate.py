"""arange: y[k] = start + k · step."""

from __future__ import annotations

import numpy as np

from nnc.backends.reference.arrays import Inputs, Outputs, Rows, write
from nnc.ops.movement.generate import ARANGE, ArangeAttrs
from nnc.ops.number import as_float


def arange(attrs: ArangeAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y[k] = start + k · step; of floats in f64, rounded once, of integers exactly."""
    places = np.arange(outputs[0].size)
    if attrs.spec.dtype.is_continuous:
        write(outputs[0], as_float(attrs.start) + places * as_float(attrs.step))
    else:
        # Modulo 2^64, for the step alone may be beyond i64 where the values are not.
        start, step = (np.uint64(int(value) % (1 << 64)) for value in (attrs.start, attrs.step))
        write(outputs[0], (start + places.astype(np.uint64) * step).astype(np.int64))


ROWS: Rows = {ARANGE: arange}
