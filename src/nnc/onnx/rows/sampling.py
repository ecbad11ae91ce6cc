"""Samples and spectra: GridSample, Col2Im, discrete Fourier transforms, running products."""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from nnc import ops
from nnc.core.dtype import F32, I64
from nnc.onnx.node import Array, NodeCall, OnnxNode, OnnxRow, Operand, Results
from nnc.onnx.rows.products import along

Tap = tuple[Operand, Operand | None]


def _grid_sample(call: NodeCall) -> Results:
    """y[n, c, o…] = sum over taps of weight · x[n, c, place…], each axis with its own taps and weights."""
    x, grid = call[0], call[1]
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(call.text("mode", "linear"), call.text("mode", "linear"))
    padding, corners = call.text("padding_mode", "zeros"), bool(call.integer("align_corners", 0))
    sizes, outputs = x.shape[2:], grid.shape[1:-1]
    count = math.prod(outputs)
    axes: list[list[Tap]] = []
    for place, size in enumerate(sizes):
        # The grid's last axis counts from the innermost axis of x.
        unit = ops.slice_axis(grid, grid.spec.rank - 1, len(sizes) - 1 - place, len(sizes) - place)
        unit = ops.cast(ops.reshape(unit, (x.shape[0], count)), F32)
        position = (unit + 1.0) * ((size - 1) / 2.0) if corners else (unit + 1.0) * (size / 2.0) + (-0.5)
        axes.append([_padded(tap, size, padding, corners=corners) for tap in _taps(position, mode)])
    flat = ops.reshape(x, (*x.shape[:2], math.prod(sizes)))
    total: Operand | None = None
    for taps in product(*axes):
        index, weight = _joined(taps, sizes)
        wide = ops.broadcast_to(ops.reshape(index, (x.shape[0], 1, count)), (*x.shape[:2], count))
        value = ops.gather(flat, wide, 2)
        if weight is not None:
            value = value * ops.cast(ops.reshape(weight, (x.shape[0], 1, count)), x.spec.dtype)
        total = value if total is None else total + value
    assert total is not None
    return ops.reshape(total, (*x.shape[:2], *outputs))


def _taps(position: Operand, mode: str) -> list[Tap]:
    """Places along an axis (as whole floats) and their weights."""
    if mode == "nearest":
        return [(ops.round(position), None)]
    base = ops.floor(position)
    rest = position - base
    if mode == "linear":
        return [(base, 1.0 - rest), (base + 1.0, rest)]
    return [(base + float(shift), _cubic(abs(rest + float(-shift)))) for shift in range(-1, 3)]


def _cubic(distance: Operand, a: float = -0.75) -> Operand:
    near = ((distance * (a + 2) + (-(a + 3))) * distance) * distance + 1.0
    far = (((distance + (-5.0)) * distance + 8.0) * distance + (-4.0)) * a
    zero = ops.fill_like(distance, 0.0)
    return ops.where(distance <= 1.0, near, ops.where(distance < 2.0, far, zero))


def _padded(tap: Tap, size: int, padding: str, *, corners: bool) -> Tap:
    """A place inside the axis; outside it the weight is 0, or the place is that of the border or of the mirror."""
    place, weight = tap
    if padding == "zeros":
        inside = ops.logical_and(place >= 0.0, place <= float(size - 1))
        kept = ops.cast(inside, place.spec.dtype)
        weight = kept if weight is None else weight * kept
    elif padding == "reflection":
        low, high = (0.0, float(size - 1)) if corners else (-0.5, size - 0.5)
        span = high - low
        if span > 0:
            away = abs(place + (-low))
            turns = ops.floor(away * (1.0 / span))
            rest = away - turns * span
            odd = ops.equal(turns - ops.floor(turns * 0.5) * 2.0, ops.fill_like(turns, 1.0))
            place = ops.where(odd, span - rest, rest) + low
        place = ops.round(place) if corners else ops.floor(place + 0.5)
    return ops.clamp(place, 0.0, float(size - 1)), weight


def _joined(taps: tuple[Tap, ...], sizes: tuple[int, ...]) -> Tap:
    """The number of the place among all, as i64, and the product of weights."""
    index: Operand | None = None
    weight: Operand | None = None
    for (place, factor), size in zip(taps, sizes, strict=True):
        whole = ops.cast(place, I64)
        index = whole if index is None else index * float(size) + whole
        if factor is not None:
            weight = factor if weight is None else weight * factor
    assert index is not None
    return index, weight


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


def _dft(call: NodeCall) -> Results:
    """y = x · e^(∓2πi·k·n/N) along an axis, as products with cosines and sines; pairs (re, im) on the last axis."""
    x = call[0]
    inverse, one_sided = bool(call.integer("inverse", 0)), bool(call.integer("onesided", 0))
    given = call.integers_at(1) if len(call) > 1 else None
    if call.node.opset < 20:
        axis = call.integer("axis", 1) % x.spec.rank
    else:
        asked = call.integers_at(2) if len(call) > 2 else None
        axis = (asked[0] if asked else -2) % x.spec.rank
    if inverse and one_sided:
        raise call.refuse("the inverse of one side")
    length = given[0] if given else x.shape[axis]
    used = min(length, x.shape[axis])
    x = ops.slice_axis(x, axis, 0, used)
    results = length // 2 + 1 if one_sided else length
    angle = 2 * np.pi * np.outer(np.arange(used), np.arange(results)) / length
    scale = 1.0 / length if inverse else 1.0
    cosine, sine = np.cos(angle) * scale, np.sin(angle) * scale * (1.0 if inverse else -1.0)
    last = x.spec.rank - 1
    real = ops.slice_axis(x, last, 0, 1)
    parts = [along(call, real, axis, cosine), along(call, real, axis, sine)]
    if x.shape[last] == 2:
        imaginary = ops.slice_axis(x, last, 1, 2)
        parts[0] = parts[0] - along(call, imaginary, axis, sine)
        parts[1] = parts[1] + along(call, imaginary, axis, cosine)
    return ops.concatenate(parts, last)


def _running_product(call: NodeCall) -> Results:
    """Products of ever longer stretches: 2, 4, 8, … elements."""
    x, given = call[0], call.integers_at(1)
    assert given is not None
    axis = given[0] % x.spec.rank
    backward, size = bool(call.integer("reverse", 0)), x.shape[axis]
    y = ops.flip(x, axis) if backward else x
    if call.integer("exclusive", 0):
        y = _shifted(call, y, axis, 1)
    step = 1
    while step < size:
        y = y * _shifted(call, y, axis, step)
        step *= 2
    return ops.flip(y, axis) if backward else y


def _shifted(call: NodeCall, x: Operand, axis: int, step: int) -> Operand:
    """x moved along the axis, behind ones."""
    ones = ops.fill_like(ops.slice_axis(x, axis, 0, step), 1.0)
    return ops.concatenate([ones, ops.slice_axis(x, axis, 0, x.shape[axis] - step)], axis)


def _determinant(node: OnnxNode, x: Array) -> Array:
    return np.asarray(np.linalg.det(x)).astype(x.dtype)


ROWS = {
    "GridSample": OnnxRow(_grid_sample),
    "Col2Im": OnnxRow(_col2im),
    "DFT": OnnxRow(_dft),
    "CumProd": OnnxRow(_running_product),
    "Det": OnnxRow(None, _determinant),
}
