"""Conversion of values that enter a tensor from outside: what the element type cannot hold is an error, never wrapped.

Integers must lie in the range of an integer type, floats must be whole besides; floats of any width go into floats,
rounded as IEEE 754 has it. The command `cast` is another matter: there the conversion is what is asked for.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nnc.core.values.dtype import DType
from nnc.errors import DTypeError


def check_values(subject: str, values: NDArray[np.generic], dtype: DType) -> None:
    """DTypeError naming the first value, and its place, that elements of type `dtype` cannot hold."""
    if dtype.kind not in ("int", "uint") or not values.size or np.can_cast(values.dtype, dtype.numpy, "safe"):
        return
    ends = np.iinfo(dtype.numpy.name)
    if values.dtype.kind in "iu" and ends.min <= int(values.min()) and int(values.max()) <= ends.max:
        return
    place = _first_misfit(values, int(ends.min), int(ends.max))
    if place is not None:
        at = f" at {list(place)}" if place else ""
        raise DTypeError(
            subject,
            got=f"{values[place]}{at} into {dtype}",
            need=f"whole numbers from {ends.min} to {ends.max}",
            fix="take a wider type, or clip or round first",
        )


def _first_misfit(values: NDArray[np.generic], lowest: int, highest: int) -> tuple[int, ...] | None:
    """The index of the first value that is not whole or not inside."""
    if values.dtype.kind in "iu":
        fits = np.greater_equal(values, lowest) & np.less_equal(values, highest)
    else:
        # The end itself may be no float; one more than it is a power of two, or beyond all values of a narrow type.
        with np.errstate(over="ignore"):
            inside = np.greater_equal(values, float(lowest)) & np.less(values, float(highest + 1))
        fits = inside & np.equal(np.trunc(values), values)
    misfits = np.argwhere(~fits)
    return tuple(int(index) for index in misfits[0]) if len(misfits) else None
