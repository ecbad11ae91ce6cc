"""Labels, the numbers of classes, and other numbers, looked at before anything learns from them."""

from __future__ import annotations

from math import inf, isfinite

import numpy as np
from numpy.typing import NDArray

from nnc.errors import DataError, DTypeError


def check_labels(subject: str, labels: NDArray[np.generic], classes: int) -> None:
    """0 ≤ labels[n, …] < classes, whole numbers of any width; the error names the first that is not, and its row."""
    if labels.dtype.kind not in "biu":
        need, fix = "whole numbers, one class each", "labels.astype(int), or a loss whose targets are numbers"
        raise DTypeError(subject, got=f"labels of type {labels.dtype}", need=need, fix=fix)
    if not labels.size:
        return
    lowest, highest = int(labels.min()), int(labels.max())
    if lowest >= 0 and highest < classes:
        return
    where = np.argwhere(np.less(labels, 0) | np.greater_equal(labels, classes))[0].tolist()
    place = f"row {where[0]}" + (f" at {where[1:]}" if where[1:] else "")
    raise DataError(
        subject,
        got=f"label {labels[tuple(where)]} in {place}",
        need=f"labels from 0 to {classes - 1}, one for each of the {classes} classes",
        fix="subtract 1: classes are counted from 0" if (lowest, highest) == (1, classes) else "",
    )


def check_range(subject: str, what: str, values: NDArray[np.generic], ends: tuple[float, float]) -> None:
    """Finite numbers low ≤ values[n, …] ≤ high; the error names the row of the first that is not."""
    if not values.size or (values.dtype.kind in "biu" and ends == (-inf, inf)):
        return
    # Of f64 each, so that f32 is compared with them as f64.
    low, high = np.maximum(ends[0], np.finfo(np.float64).min), np.minimum(ends[1], np.finfo(np.float64).max)
    # Of numbers that are none, least and largest are none either.
    if low <= float(values.min()) and float(values.max()) <= high:
        return
    right = np.greater_equal(values, low) & np.less_equal(values, high)
    row = int(np.argwhere(~right)[0, 0])
    signs = (f"{sign} {end:g}" for sign, end in (("≥", ends[0]), ("≤", ends[1])) if isfinite(end))
    kind = "out of range" if np.isfinite(values[row]).all() else "no finite numbers"
    need = " ".join(["finite numbers", " and ".join(signs)]).strip()
    raise DataError(subject, got=f"{what} in row {row} that are {kind}", need=need)
