"""How values are compared: bit by bit, or within what the roundings of a program allow."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tests.symbolic.interpreter import Array

from nnc.core.values.dtype import TOLERANCE, DType, Tolerance, dtype_of

# So many times what single roundings make of a value.
WIDENING = 16.0


def other_form(one: Array, want: Array) -> str:
    """How type and shape differ, or nothing."""
    if (one.dtype, one.shape) == (want.dtype, want.shape):
        return ""
    return f"{one.dtype}{one.shape}, not {want.dtype}{want.shape}"


def other_bits(one: Array, want: Array) -> str:
    """The first element with other bits, or nothing; any not-a-number is as good as another."""
    if one.tobytes() == want.tobytes() or _same_but_for_nan(one, want):
        return ""
    return _first(one, want)


def _same_but_for_nan(one: Array, want: Array) -> bool:
    if not dtype_of(one.dtype).is_float:
        return False
    lost, missing = np.isnan(one), np.isnan(want)
    kept = ~lost
    return bool(np.array_equal(lost, missing) and one[kept].tobytes() == want[kept].tobytes())


def _first(one: Array, want: Array) -> str:
    differ = np.flatnonzero(np.ravel(one) != np.ravel(want))
    place = int(differ[0]) if len(differ) else 0
    return f"{np.ravel(one)[place]!r} for {np.ravel(want)[place]!r} at {place}"


def coarseness(dtype: DType) -> float:
    """What the tolerance table allows beside zero."""
    return TOLERANCE[dtype].absolute


def outside(one: Array, want: Array, beside: Sequence[Array], row: Tolerance) -> str:
    """Where `one` is beyond what is allowed, or nothing; `beside` are values with roundings elsewhere."""
    dtype = dtype_of(one.dtype)
    if not dtype.is_float:
        settled = np.all([values == want for values in beside], axis=0)
        return "" if np.array_equal(one[settled], want[settled]) else _first(one[settled], want[settled])
    wide, true = one.astype(np.float64), want.astype(np.float64)
    others = [values.astype(np.float64) for values in beside]
    finite = np.isfinite(true) & np.all([np.isfinite(other) for other in others], axis=0)
    with np.errstate(all="ignore"):
        spread = np.max([np.abs(other - true) for other in others], axis=0)
        allowed = row.absolute + row.relative * np.abs(true) + WIDENING * spread
        off = finite & ~(np.abs(wide - true) <= allowed)
    if not off.any():
        return ""
    place = int(np.flatnonzero(off)[0])
    return f"{np.ravel(wide)[place]!r} for {np.ravel(true)[place]!r} ± {np.ravel(allowed)[place]:.2e} at {place}"
