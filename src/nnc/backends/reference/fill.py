"""fill: y[…] = value."""

from __future__ import annotations

from nnc.backends.reference.arrays import Inputs, Outputs
from nnc.ops.fill import FillAttrs


def fill(attrs: FillAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y[…] = value."""
    outputs[0][...] = attrs.value
