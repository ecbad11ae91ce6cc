"""copy: y[i…] = x[i…]."""

from __future__ import annotations

from nnc.backends.reference.arrays import Inputs, Outputs, Rows, write
from nnc.ops.movement.copy import contiguous, stop_gradient
from nnc.ops.movement.transfer import TO_DEVICE, TransferAttrs
from nnc.ops.rules import NoAttrs


def copy(attrs: NoAttrs | TransferAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y[i…] = x[i…]."""
    (x,) = inputs
    assert x is not None
    write(outputs[0], x)


ROWS: Rows = {contiguous: copy, stop_gradient: copy, TO_DEVICE: copy}
