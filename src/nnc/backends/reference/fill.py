"""fill: y[…] = value."""

from __future__ import annotations

from nnc.backends.reference.arrays import Inputs, Outputs, Rows
from nnc.ops.fill import FILL, FillAttrs


def fill(attrs: FillAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y[…] = value."""
    outputs[0][...] = attrs.value


ROWS: Rows = {FILL: fill}
