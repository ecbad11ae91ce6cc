"""Histograms and non-maximum suppression."""

from __future__ import annotations

import numpy as np

from nnc.backends.reference.arrays import Array, Inputs, Outputs, Rows, widen, write
from nnc.ops.indexing.detection import HISTOGRAM, NON_MAXIMUM_SUPPRESSION, HistogramAttrs, SuppressionAttrs


def histogram(attrs: HistogramAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """counts[k] = number of x with edge[k - 1] ≤ x < edge[k]; nan in none."""
    x = widen(inputs[0]).reshape(-1)
    bins = np.searchsorted(np.array(attrs.edges), x[x == x].astype(np.float64), side="right")
    write(outputs[0], np.bincount(bins, minlength=len(attrs.edges) + 1))


def overlap(box: Array, others: Array) -> Array:
    """Area of the intersection of `box` with each of `others` over that of their union; boxes are top, left, bottom,
    right."""
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    shared = np.prod(np.maximum(high - low, 0), axis=-1)
    areas = np.prod(np.maximum(others[:, 2:] - others[:, :2], 0), axis=-1)
    union = np.prod(np.maximum(box[2:] - box[:2], 0)) + areas - shared
    ratio: Array = np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
    return ratio


def non_maximum_suppression(attrs: SuppressionAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """Boxes by falling score (nan last, equal ones in order), each kept unless it overlaps a kept one too much."""
    boxes = widen(inputs[0]).astype(np.float64)
    waiting = np.argsort(-boxes[:, 0], kind="stable")
    chosen: list[int] = []
    while waiting.size:
        best, waiting = waiting[0], waiting[1:]
        chosen.append(int(best))
        waiting = waiting[overlap(boxes[best, 1:], boxes[waiting, 1:]) <= attrs.threshold]
    kept, index = np.zeros(boxes.shape), np.full(len(boxes), -1)
    kept[: len(chosen)], index[: len(chosen)] = boxes[chosen], chosen
    write(outputs[0], kept)
    write(outputs[1], index)


ROWS: Rows = {HISTOGRAM: histogram, NON_MAXIMUM_SUPPRESSION: non_maximum_suppression}
