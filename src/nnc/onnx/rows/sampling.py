"""Samples and spectra: GridSample, Col2Im, running products."""

from __future__ import annotations

import math

import numpy as np

from nnc import ops
from nnc.onnx.node import Array, NodeCall, OnnxNode, OnnxRow, Results
from nnc.onnx.rows.window import channels_first, channels_last


def _grid_sample(call: NodeCall) -> Results:
    mode = call.text("mode", "linear")
    y = ops.grid_sample(
        channels_last(call[0]),
        call[1],
        {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode),
        call.text("padding_mode", "zeros"),
        align_corners=bool(call.integer("align_corners", 0)),
    )
    return channels_first(y)


def _col2im(call: NodeCall) -> Results:
    """Blocks x[n, c · k…, blocks] added up where they lie in the image."""
    x, image, block = call[0], call.integers_at(1) or (), call.integers_at(2) or ()
    rank = len(image)
    strides, dilations = call.integers("strides", (1,) * rank), call.integers("dilations", (1,) * rank)
    pads = call.integers("pads", (0,) * (2 * rank))
    padded = [size + pads[axis] + pads[axis + rank] for axis, size in enumerate(image)]
    counts = [(padded[axis] - dilations[axis] * (block[axis] - 1) - 1) // strides[axis] + 1 for axis in range(rank)]
    places = np.zeros((*block, *counts), np.int64)
    for axis in range(rank):
        steps = np.arange(block[axis])[:, None] * dilations[axis] + np.arange(counts[axis]) * strides[axis]
        shape = [1] * (2 * rank)
        shape[axis], shape[rank + axis] = block[axis], counts[axis]
        places += steps.reshape(shape) * math.prod(padded[axis + 1 :])
    channels = x.shape[1] // math.prod(block)
    rows = ops.reshape(x, (x.shape[0] * channels, places.size))
    total = ops.scatter_add(rows, call.constant(places.reshape(-1)), 1, math.prod(padded))
    whole = ops.reshape(total, (x.shape[0], channels, *padded))
    inside = tuple(slice(pads[axis], pads[axis] + image[axis]) for axis in range(rank))
    return whole[(slice(None), slice(None), *inside)]


def _running_product(call: NodeCall) -> Results:
    """x[0] · … · x[k]; exclusive, without x[k]."""
    x, given = call[0], call.integers_at(1)
    assert given is not None
    axis = given[0] % x.spec.rank
    backward = bool(call.integer("reverse", 0))
    y = ops.flip(x, axis) if backward else x
    if call.integer("exclusive", 0):
        ones = ops.fill_like(ops.slice_axis(y, axis, 0, 1), 1.0)
        y = ops.concatenate([ones, ops.slice_axis(y, axis, 0, y.shape[axis] - 1)], axis)
    y = ops.cumprod(y, axis)
    return ops.flip(y, axis) if backward else y


def _determinant(node: OnnxNode, x: Array) -> Array:
    return np.asarray(np.linalg.det(x)).astype(x.dtype)


ROWS = {
    "GridSample": OnnxRow(_grid_sample),
    "Col2Im": OnnxRow(_col2im),
    "CumProd": OnnxRow(_running_product),
    "Det": OnnxRow(None, _determinant),
}
