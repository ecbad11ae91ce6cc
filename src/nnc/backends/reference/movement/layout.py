"""Layout conversion between NHWC and NCHW, and between NHWC and blocks."""

from __future__ import annotations

import numpy as np

from nnc.backends.reference.arrays import Array, Inputs, Outputs, Rows, write
from nnc.core.values.spec import Blocked, Layout
from nnc.ops.movement.layout import CONVERT_LAYOUT, LayoutAttrs


def convert_layout(attrs: LayoutAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """NHWC: y[n, s…, c] = x[n, c, s…]; NCHW: y[n, c, s…] = x[n, s…, c]; blocks: as `Blocked` says."""
    (x,) = inputs
    assert x is not None
    if isinstance(attrs.target, Blocked):
        write(outputs[0], in_blocks(x, attrs.target))
    else:
        write(outputs[0], np.moveaxis(x, 1, -1) if attrs.target is Layout.NHWC else np.moveaxis(x, -1, 1))


def in_blocks(x: Array, layout: Blocked) -> Array:
    """y[p, q, j, r], with zeros for places that x does not have."""
    count = layout.sizes[layout.axis] // layout.parts
    places = np.moveaxis(x, layout.axis, 0).reshape(layout.parts, count, layout.depth)
    blocks, words, steps = layout.blocks // layout.parts, layout.shape[1], layout.steps
    padded = np.zeros((layout.parts, blocks * layout.width, words * steps), x.dtype)
    padded[:, :count, : layout.depth] = places
    split = padded.reshape(layout.blocks, layout.width, words, steps)
    return split.transpose(0, 2, 1, 3).reshape(layout.shape)


def out_of_blocks(y: Array, layout: Blocked) -> Array:
    """x of y."""
    count = layout.sizes[layout.axis] // layout.parts
    split = y.reshape(layout.blocks, layout.shape[1], layout.width, layout.steps).transpose(0, 2, 1, 3)
    length = layout.blocks // layout.parts * layout.width
    padded = split.reshape(layout.parts, length, layout.shape[1] * layout.steps)
    places = padded[:, :count, : layout.depth]
    others = [size for axis, size in enumerate(layout.sizes) if axis != layout.axis]
    return np.moveaxis(places.reshape(layout.sizes[layout.axis], *others), 0, layout.axis)


ROWS: Rows = {CONVERT_LAYOUT: convert_layout}
