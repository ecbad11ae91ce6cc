"""Padding, flipping, upsampling and regions of interest, each with its adjoint.

All of them read, for each output position, a few input positions with weights, the same way along each axis. The
adjoint adds to those positions what the forward reads from them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nnc.backends.reference.arrays import Array, Inputs, Outputs, Rows, widen, write
from nnc.backends.reference.indexing.indexing import added_rows
from nnc.classes import dataclass
from nnc.errors import IndexRangeError
from nnc.ops.convolutions import resize as ops
from nnc.ops.convolutions.resize import FlipAttrs, PadAttrs, RoiAttrs, UpsampleAttrs


def pad(attrs: PadAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """x with a border: a constant, the edge repeated, or mirrored without the edge."""
    (x,) = inputs
    assert x is not None
    if attrs.mode == "constant":
        y = np.full(outputs[0].shape, attrs.value, x.dtype)
        y[inside(attrs, x.shape)] = x
    else:
        y = x
        for axis, sources in enumerate(pad_sources(attrs, x.shape)):
            y = np.take(y, sources, axis)
    write(outputs[0], y)


def pad_gradient(attrs: PadAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """Each g goes to the position of x that the border or the inside was read from; the constant reads none."""
    g, shape = widen(inputs[0]), outputs[0].shape
    if attrs.mode == "constant":
        write(outputs[0], g[inside(attrs, shape)])
        return
    for axis, sources in enumerate(pad_sources(attrs, shape)):
        g = added_rows(g, sources, axis, shape[axis])
    write(outputs[0], g)


def inside(attrs: PadAttrs, shape: tuple[int, ...]) -> tuple[slice, ...]:
    """Where x lies in its border."""
    return tuple(slice(before, before + size) for before, size in zip(attrs.before, shape, strict=True))


def pad_sources(attrs: PadAttrs, shape: tuple[int, ...]) -> Iterator[Array]:
    """Per axis, the position of x that each position of the padded axis repeats."""
    for size, before, after in zip(shape, attrs.before, attrs.after, strict=True):
        places = np.arange(-before, size + after)
        if attrs.mode == "reflect":
            mirrored = np.abs(places)
            yield np.where(mirrored < size, mirrored, 2 * (size - 1) - mirrored)
        else:
            yield np.clip(places, 0, max(size - 1, 0))


def flip(attrs: FlipAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y[…, k, …] = x[…, size - 1 - k, …]; a copy first, for y may lie in x's memory."""
    (x,) = inputs
    assert x is not None
    write(outputs[0], np.flip(x, attrs.axes).copy())


def taps(source: int, target: int, mode: str, *, align_corners: bool) -> list[tuple[Array, Array]]:
    """Along one axis, pairs (position read, weight) for each of the target positions."""
    places = np.arange(target)
    if mode == "nearest":
        return [(nearest(places, source, target, align_corners=align_corners), np.ones(target))]
    if align_corners:
        return between(places * ((source - 1) / max(target - 1, 1)), source)
    return between((places + 0.5) * source / target - 0.5, source)


def nearest(places: Array, source: int, target: int, *, align_corners: bool) -> Array:
    """floor(i · source / target), or i · (source - 1) / (target - 1) rounded, halves up; exact, for in integers."""
    if not align_corners:
        return places * source // target
    span = max(target - 1, 1)
    return (2 * places * (source - 1) + span) // (2 * span)


def between(position: Array, size: int) -> list[tuple[Array, Array]]:
    """The two positions around each real one, moved between 0 and size - 1, with their weights."""
    moved = np.clip(position, 0, size - 1)
    low = np.floor(moved).astype(np.int64)
    share = moved - low
    return [(low, 1 - share), (np.minimum(low + 1, size - 1), share)]


def upsample(attrs: UpsampleAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y[n, i, j, c] = sum over taps of weight · x[n, row, column, c]."""
    y = widen(inputs[0])
    for axis in (1, 2):
        pairs = taps_of(attrs, axis)
        if attrs.mode == "nearest":
            y = np.take(y, pairs[0][0], axis)
        else:
            y = sum_of([np.take(y, places, axis) * along(weights, axis) for places, weights in pairs])
    write(outputs[0], y)


def upsample_gradient(attrs: UpsampleAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """Each weight · g goes to the position that was read."""
    g = widen(inputs[0])
    for axis in (1, 2):
        size = attrs.source[axis - 1]
        parts = [
            added_rows(g * along(weights, axis) if attrs.mode == "bilinear" else g, places, axis, size)
            for places, weights in taps_of(attrs, axis)
        ]
        g = sum_of(parts)
    write(outputs[0], g)


def taps_of(attrs: UpsampleAttrs, axis: int) -> list[tuple[Array, Array]]:
    """Pairs (position read, weight) along axis 1 or 2 of the image."""
    source, target = attrs.source[axis - 1], attrs.target[axis - 1]
    return taps(source, target, attrs.mode, align_corners=attrs.align_corners)


def along(weights: Array, axis: int) -> Array:
    """Weights in the direction of one axis of [batch, height, width, channels]."""
    return weights.reshape([-1 if other == axis else 1 for other in range(4)])


def sum_of(parts: list[Array]) -> Array:
    """The parts added up."""
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


@dataclass(frozen=True, slots=True)
class RoiTap:
    """What cell [r, i, j] reads of image `batch[r]`: rows[r, i, s], columns[r, j, t], and each such pair's weight."""

    batch: Array
    rows: Array
    columns: Array
    weights: Array


def roi_taps(subject: str, attrs: RoiAttrs, boxes: Array) -> Iterator[RoiTap]:
    """The four corners around each sample; weights [r, i, j, s, t] divide by the samples of a cell."""
    images, height, width = attrs.source
    batch = boxes[:, 0].astype(np.int64)
    if batch.size and not (boxes[:, 0].min() >= 0 and boxes[:, 0].max() < images):
        raise IndexRangeError(subject, got="a box of an image outside x", need=f"0 ≤ batch index < {images}")
    share = 1.0 / attrs.samples**2
    for rows, down in sample_taps(boxes[:, 1], boxes[:, 3], attrs.cells[0], attrs.samples, height):
        for columns, across in sample_taps(boxes[:, 2], boxes[:, 4], attrs.cells[1], attrs.samples, width):
            weights = down[:, :, None, :, None] * across[:, None, :, None, :] * share
            yield RoiTap(batch, rows, columns, weights)


def sample_taps(low: Array, high: Array, cells: int, samples: int, size: int) -> Iterator[tuple[Array, Array]]:
    """Pairs (position read, weight) as [box, cell, sample] along one axis; weight 0 for samples outside the image."""
    parts = (np.arange(cells * samples) + 0.5) / (cells * samples)
    position = (low[:, None] + (high - low)[:, None] * parts - 0.5).reshape(-1, cells, samples)
    real = (position >= -1) & (position <= size)
    for places, weights in between(np.where(real, position, 0.0), size):
        yield places, np.where(real, weights, 0.0)


def indices(tap: RoiTap) -> tuple[Array, Array, Array]:
    """What names x[n, row, column] for [r, i, j, s, t]."""
    return tap.batch[:, None, None, None, None], tap.rows[:, :, None, :, None], tap.columns[:, None, :, None, :]


def roi_align(attrs: RoiAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y[r, i, j, c] = mean over the samples of cell (i, j) of box r of x between its pixels."""
    x, boxes = widen(inputs[0]), widen(inputs[1]).astype(np.float64)
    total = np.zeros(outputs[0].shape)
    for tap in roi_taps("roi_align", attrs, boxes):
        total += np.einsum("rijstc,rijst->rijc", x[indices(tap)], tap.weights)
    write(outputs[0], total)


def roi_align_gradient(attrs: RoiAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """Each weight · g goes to the pixel that was read."""
    g, boxes = widen(inputs[0]), widen(inputs[1]).astype(np.float64)
    total = np.zeros(outputs[0].shape)
    for tap in roi_taps("roi_align_gradient", attrs, boxes):
        np.add.at(total, indices(tap), g[:, :, :, None, None, :] * tap.weights[..., None])
    write(outputs[0], total)


ROWS: Rows = {
    ops.PAD: pad,
    ops.PAD_GRADIENT: pad_gradient,
    ops.FLIP: flip,
    ops.UPSAMPLE: upsample,
    ops.UPSAMPLE_GRADIENT: upsample_gradient,
    ops.ROI_ALIGN: roi_align,
    ops.ROI_ALIGN_GRADIENT: roi_align_gradient,
}
