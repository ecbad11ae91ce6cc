"""What tells programs of a file apart by their inputs."""

from __future__ import annotations

import numpy as np


def signature(value: object, *, by_value: bool) -> object:
    """What tells programs apart by an input: shape and element type, and the elements where they count `by_value`."""
    if not isinstance(value, np.ndarray):
        return (
            tuple(signature(np.asarray(entry), by_value=True) for entry in value) if isinstance(value, list) else None
        )
    if not by_value:
        return value.shape, value.dtype
    content = tuple(value.reshape(-1).tolist()) if value.dtype.kind in "OSU" else value.tobytes()
    return value.shape, value.dtype, content


def kind_of(value: object, *, by_value: bool) -> object:
    """What is the same at all sizes of an input: its type and how many axes it has; all of one that is an option."""
    if by_value or not isinstance(value, np.ndarray):
        return signature(value, by_value=by_value)
    return value.ndim, value.dtype
