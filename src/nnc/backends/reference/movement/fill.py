"""fill: y[…] = value."""

from __future__ import annotations

from nnc.backends.reference.arrays import Inputs, Outputs, Rows
from nnc.ops.movement.fill import FILL, FillAttrs
from nnc.ops.number import as_float


def fill(attrs: FillAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y[…] = value."""
    y = outputs[0]
    y[...] = int(attrs.value) if y.dtype.kind in "iu" else as_float(attrs.value)


ROWS: Rows = {FILL: fill}
