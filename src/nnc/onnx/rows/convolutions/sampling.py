"""Samples: GridSample, deformed convolutions, boxes, Col2Im; running products and determinants."""

from __future__ import annotations

import math

import numpy as np

from nnc import ops
from nnc.core.values.spec import Shape
from nnc.onnx.kept.asked_elements import Unknown
from nnc.onnx.node import Array, NodeCall, OnnxNode, OnnxRow, Results
from nnc.onnx.rows.convolutions.products import matmul
from nnc.onnx.rows.convolutions.window import channels_first, channels_last, kernel_sizes, window_of
from nnc.ops.convolutions.window import Window, output_sizes

# Larger determinants are computed from elements: without divisions their terms cancel.
MOST_DETERMINANT = 8


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
    axis = call.axis(given[0], x.spec.rank)
    backward = bool(call.integer("reverse", 0))
    y = ops.flip(x, axis) if backward else x
    if call.integer("exclusive", 0):
        ones = ops.fill_like(ops.slice_axis(y, axis, 0, 1), 1.0)
        y = ops.concatenate([ones, ops.slice_axis(y, axis, 0, y.shape[axis] - 1)], axis)
    y = ops.cumprod(y, axis)
    return ops.flip(y, axis) if backward else y


def _determinant(node: OnnxNode, x: Array) -> Array:
    return np.asarray(np.linalg.det(x)).astype(x.dtype)


def _small_determinant(call: NodeCall) -> Results:
    """det A = (-1)^(n-1) · (F^(n-1) A)[0, 0] with F(X) = mu(X) · A, without a division (Bird 2011)."""
    a = call[0]
    size = a.shape[-1]
    if not 0 < size <= MOST_DETERMINANT or not a.spec.dtype.is_float:
        raise Unknown(frozenset[str]().union(*call.sources), f"{call.node.label} of size {size}", whole=True)
    upper = call.constant(np.triu(np.ones((size, size)), 1), a.spec)
    unit = call.constant(np.eye(size), a.spec)
    x = a
    for _ in range(size - 1):
        behind = ops.reduce_sum(matmul(upper, x * unit), (-1,), keepdims=True)
        x = matmul(x * upper - behind * unit, a)
    first = ops.reshape(x[(..., slice(0, 1), slice(0, 1))], a.shape[:-2])
    return first if size % 2 else -first


def _deformed(call: NodeCall) -> Results:
    """y[n, o, p] = sum_{c, k} w[o, c, k] · m[n, k, p] · x[n, c, place of tap k at p + offset[n, k, p]]

    The places between elements are sampled linearly, and are 0 outside (Zhu et al. 2019).
    """
    x, w, offset, bias, mask = call[0], call[1], call[2], call.maybe(3), call.maybe(4)
    sizes, kernel = x.shape[2:], kernel_sizes(call, w.shape)
    rank, groups, parts = len(sizes), call.integer("group", 1), call.integer("offset_group", 1)
    window = window_of(call, sizes, kernel)
    outputs, taps = output_sizes("deform_conv", sizes, kernel, window), math.prod(kernel)
    points, rows, depth = math.prod(outputs), x.shape[0] * parts, x.shape[1] // parts
    moved = ops.transpose(ops.reshape(offset, (rows, taps, rank, points)), (0, 1, 3, 2))
    scale, shift = np.array([2 / size for size in sizes]), np.array([1 / size - 1 for size in sizes])
    unit = (moved + call.constant(_places(kernel, outputs, window), x.spec)) * call.constant(scale, x.spec)
    grid = ops.flip(unit + call.constant(shift, x.spec), 3)
    samples = ops.grid_sample(channels_last(ops.reshape(x, (rows, depth, *sizes))), grid)
    if mask is not None:
        samples = samples * ops.reshape(mask, (rows, taps, points, 1))
    split = ops.reshape(samples, (x.shape[0], parts, taps, points, depth))
    columns = ops.reshape(ops.transpose(split, (0, 3, 1, 4, 2)), (x.shape[0] * points, groups, w.shape[1] * taps))
    weights = ops.reshape(w, (groups, w.shape[0] // groups, w.shape[1] * taps))
    y = ops.transpose(ops.gemm(ops.transpose(columns, (1, 0, 2)), weights, transpose_b=True), (1, 0, 2))
    y = ops.reshape(y, (x.shape[0], *outputs, w.shape[0]))
    return channels_first(y if bias is None else y + bias)


def _places(kernel: Shape, outputs: Shape, window: Window) -> Array:
    """Where each tap reads for each output without an offset: [tap, output, axis]."""
    result = np.empty((math.prod(kernel), math.prod(outputs), len(kernel)))
    for axis, (low, _) in enumerate(window.padding):
        at = np.indices(kernel)[axis].reshape(-1, 1) * window.dilations[axis] - low
        result[..., axis] = at + np.indices(outputs)[axis].reshape(-1) * window.strides[axis]
    return result


def _aligned(call: NodeCall) -> Results:
    """Means of linear samples in the cells of each box, where their number is given (He et al. 2017)."""
    x, boxes, batches = call[0], call[1], call[2]
    half = call.node.opset >= 16 and call.text("coordinate_transformation_mode", "half_pixel") == "half_pixel"
    samples = call.integer("sampling_ratio", 0)
    if call.text("mode", "avg") != "avg" or not samples:
        names = frozenset[str]().union(*call.sources)
        raise Unknown(names, f"{call.node.label}, whose samples depend on the boxes", whole=True)
    scaled = boxes * call.real("spatial_scale", 1.0)
    low, high = ops.slice_axis(scaled, 1, 0, 2), ops.slice_axis(scaled, 1, 2, 4)
    if not half:
        low, high = low + 0.5, low + 0.5 + ops.maximum(high - low, 1.0)
    of = ops.cast(ops.reshape(batches, (batches.spec.elements, 1)), boxes.spec.dtype)
    rows = ops.concatenate([of, ops.flip(low, 1), ops.flip(high, 1)], 1)
    cells = (call.integer("output_height", 1), call.integer("output_width", 1))
    return channels_first(ops.roi_align(channels_last(x), rows, cells, samples))


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
    "DeformConv": OnnxRow(_deformed),
    "RoiAlign": OnnxRow(_aligned, _roi_align),
    "GridSample": OnnxRow(_grid_sample),
    "Col2Im": OnnxRow(_col2im),
    "CumProd": OnnxRow(_running_product),
    "Det": OnnxRow(_small_determinant, _determinant),
}
