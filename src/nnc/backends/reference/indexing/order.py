"""Sorting, the largest elements, and running sums along an axis."""

from __future__ import annotations

from typing import Literal

import numpy as np

from nnc.backends.reference.arrays import Array, Inputs, Outputs, Rows, accumulator, widen, write
from nnc.ops.indexing.order import (
    CUMULATIVE_SUM,
    SEARCHSORTED,
    SORT,
    TOP_K,
    ScanAttrs,
    SearchAttrs,
    SortAttrs,
    TopAttrs,
)


def ranking(x: Array, axis: int, *, descending: bool) -> Array:
    """Where the k-th element in order is; equal elements keep their order, nan counts as the largest."""
    if not descending:
        return np.argsort(x, axis, kind="stable")
    backward = np.argsort(np.flip(x, axis), axis, kind="stable")
    forward: Array = x.shape[axis] - 1 - np.flip(backward, axis)
    return forward


def sort(attrs: SortAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """values[…, k, …] = k-th of x in order; index = where it was."""
    x = widen(inputs[0])
    index = ranking(x, attrs.axis, descending=attrs.descending)
    write(outputs[0], np.take_along_axis(x, index, attrs.axis))
    write(outputs[1], index)


def top_k(attrs: TopAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """The first `count` of the sorted elements, and where they were."""
    x = widen(inputs[0])
    ranked = ranking(x, attrs.axis, descending=attrs.largest)
    index = np.take(ranked, np.arange(attrs.count), attrs.axis)
    write(outputs[0], np.take_along_axis(x, index, attrs.axis))
    write(outputs[1], index)


def searchsorted(attrs: SearchAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """Where each value belongs in the row, or in that of its place."""
    x, values = widen(inputs[0]), widen(inputs[1])
    side: Literal["left", "right"] = "right" if attrs.right else "left"
    if x.ndim == 1:
        write(outputs[0], np.searchsorted(x, values, side))
        return
    insertions = np.empty(values.shape, np.int64)
    for place in np.ndindex(x.shape[:-1]):
        insertions[place] = np.searchsorted(x[place], values[place], side)
    write(outputs[0], insertions)


def cumulative_sum(attrs: ScanAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y[k] = x[0] + … + x[k]; of floats in f64, of integers in i64 (modulo 2^64)."""
    x = widen(inputs[0])
    forward = np.flip(x, attrs.axis) if attrs.reverse else x
    total = np.cumsum(forward, attrs.axis, dtype=accumulator(x))
    if attrs.exclusive:
        # Shifted, not total - x, which would turn an infinity at k into nan.
        shifted = np.zeros_like(total)
        np.moveaxis(shifted, attrs.axis, 0)[1:] = np.moveaxis(total, attrs.axis, 0)[:-1]
        total = shifted
    write(outputs[0], np.flip(total, attrs.axis) if attrs.reverse else total)


ROWS: Rows = {SORT: sort, TOP_K: top_k, SEARCHSORTED: searchsorted, CUMULATIVE_SUM: cumulative_sum}
