"""What distributions of one number share: places within a scale, and densities that are 0 outside of a range."""

from __future__ import annotations

import math

from nnc import ops
from nnc.dynamic.arrays.promotion import continuous
from nnc.numerics.conversion import AnyArray, Array, as_array, pair


def standardized(x: AnyArray, loc: AnyArray, scale: AnyArray) -> tuple[Array, Array]:
    """(x - loc) / scale, and the scale."""
    place, _ = pair(x, loc)
    place = continuous(place)
    wide, width = pair(place - pair(place, loc)[1], scale)
    return wide / width, continuous(width)


def floats(*values: AnyArray) -> list[Array]:
    """Operands as floats that meet."""
    given = [continuous(as_array(values[0]))]
    for value in values[1:]:
        met = pair(given[-1], value)
        given = [pair(each, met[0])[0] for each in given] + [continuous(met[1])]
    return given


def within(inside: Array, logarithm: Array) -> Array:
    """The logarithm of a density, -∞ outside."""
    return ops.where(inside, logarithm, ops.fill_like(logarithm, -math.inf))
