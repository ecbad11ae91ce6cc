"""What distributions of one number share: places within a scale, and densities that are 0 outside of a range."""

from __future__ import annotations

import math

from nnc import ops
from nnc.dynamic.arrays.promotion import continuous
from nnc.numerics.conversion import AnyArray, Array, pair


def standardized(x: AnyArray, loc: AnyArray, scale: AnyArray) -> tuple[Array, Array]:
    """(x - loc) / scale, and the scale."""
    place, _ = pair(x, loc)
    place = continuous(place)
    wide, width = pair(place - pair(place, loc)[1], scale)
    return wide / width, continuous(width)


def within(inside: Array, logarithm: Array) -> Array:
    """The logarithm of a density, -∞ outside."""
    return ops.where(inside, logarithm, ops.fill_like(logarithm, -math.inf))
