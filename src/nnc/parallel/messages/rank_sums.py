"""What came from all ranks, added up in their order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Reduction: TypeAlias = Literal["sum", "mean", "max", "min"]
# Elements of any type: they travel as bytes.
Array: TypeAlias = NDArray[Any]

_COMBINE: Mapping[str, Callable[..., object]] = {
    "sum": np.add,
    "mean": np.add,
    "max": np.maximum,
    "min": np.minimum,
}


def reduced(parts: Array, operation: Reduction) -> Array:
    """((part₀ + part₁) + part₂) + …, in f32 where elements have 16 bits, and rounded once."""
    small = parts.dtype.kind not in "iub" and parts.dtype.itemsize == 2
    total = parts[0].astype(np.float32) if small else np.array(parts[0])
    for part in parts[1:]:
        _COMBINE[operation](total, part, out=total)
    if operation == "mean":
        total = (total / len(parts)).astype(total.dtype)
    return total.astype(parts.dtype) if small else total
