"""Labels: the numbers of classes, looked at before anything learns from them."""

from __future__ import annotations

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
