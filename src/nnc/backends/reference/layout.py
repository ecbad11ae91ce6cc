"""Layout conversion between NHWC and NCHW."""

from __future__ import annotations

import numpy as np

from nnc.backends.reference.arrays import Inputs, Outputs, Rows, write
from nnc.core.spec import Layout
from nnc.ops.layout import CONVERT_LAYOUT, LayoutAttrs


def convert_layout(attrs: LayoutAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """NHWC: y[n, s…, c] = x[n, c, s…]; NCHW: y[n, c, s…] = x[n, s…, c]."""
    (x,) = inputs
    assert x is not None
    write(outputs[0], np.moveaxis(x, 1, -1) if attrs.target is Layout.NHWC else np.moveaxis(x, -1, 1))


ROWS: Rows = {CONVERT_LAYOUT: convert_layout}
