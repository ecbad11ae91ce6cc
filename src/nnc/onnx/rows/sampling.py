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


def _taps(places: Array, size: int) -> tuple[Array, Array, Array]:
    """(low, high, how much of the high one) for positions in 0..size; those beyond by more than one weigh nothing."""
    inside = (places >= -1.0) & (places <= size)
    low = np.minimum(np.maximum(places, 0.0).astype(int), size - 1)
    high = np.minimum(low + 1, size - 1)
    share = np.where(low >= size - 1, 0.0, np.maximum(places, 0.0) - low)
    return np.stack([low, high]), np.stack([1.0 - share, share]) * inside, inside


def _roi_align(node: OnnxNode, x: Array, boxes: Array, batches: Array) -> Array:
    """Mean, or greatest weighted corner, of bilinear samples in the cells of each box (He et al. 2017)."""
    height, width = node.integer("output_height", 1), node.integer("output_width", 1)
    scale, ratio = float(str(node.attributes.get("spatial_scale", 1.0))), node.integer("sampling_ratio", 0)
    half = node.opset >= 16 and node.attributes.get("coordinate_transformation_mode", "half_pixel") == "half_pixel"
    result = np.zeros((len(boxes), x.shape[1], height, width), x.dtype)
    for number, (box, batch) in enumerate(zip(boxes * scale - 0.5 * half, batches.tolist(), strict=True)):
        sides = []
        for start, end, cells, size in ((box[1], box[3], height, x.shape[2]), (box[0], box[2], width, x.shape[3])):
            length = end - start if half else max(end - start, 1.0)
            samples = ratio or int(np.ceil(length / cells))
            places = start + (np.arange(cells * samples) + 0.5) * length / (cells * max(samples, 1))
            sides.append((*_taps(places, size)[:2], samples))
        (rows, row_weights, down), (columns, column_weights, across) = sides
        corners = x[batch][:, rows[:, None, :, None], columns[None, :, None, :]]
        weighted = corners * (row_weights[:, None, :, None] * column_weights[None, :, None, :])
        largest = node.attributes.get("mode", "avg") == "max"
        y = weighted.max((1, 2)) if largest else weighted.sum((1, 2))
        cells_of = y.reshape(x.shape[1], height, down, width, across)
        result[number] = cells_of.max((2, 4)) if largest else cells_of.mean((2, 4))
    return result


ROWS = {
    "RoiAlign": OnnxRow(None, _roi_align),
    "GridSample": OnnxRow(_grid_sample),
    "Col2Im": OnnxRow(_col2im),
    "CumProd": OnnxRow(_running_product),
    "Det": OnnxRow(None, _determinant),
}
