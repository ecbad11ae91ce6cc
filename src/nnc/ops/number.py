"""Numbers beside tensors: a float where f64 holds the number exactly, else the integer itself.

x + (2**53 + 1)     of i64: the integer, which no float holds
x * 1e39            of f32: by infinity, as NumPy and torch have it
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import islice
from typing import SupportsFloat, SupportsIndex, cast

import ml_dtypes
import numpy as np

from nnc.core.values.dtype import DType
from nnc.core.values.sizes import is_power_of_two, size_of
from nnc.errors import AttributeValueError

Number = int | float
# Python's integers and NumPy's: an axis, a size or a count is one of these wherever several may be given.
INTEGERS = (int, np.integer)
SEVERAL = 1024
LEAST = -(1 << 63)  # the least i64
# Floats of larger magnitude may stand for several integers.
EXACT = 1 << 53


def integers_of(values: int | Iterable[int]) -> tuple[int, ...]:
    """One integer, or several, as a tuple: axes, sizes, counts. AttributeValueError where they are more than 1,024.

    >>> integers_of(2), integers_of([0, 1])
    ((2,), (0, 1))
    """
    if not isinstance(values, INTEGERS):
        # An array would give a row at a time, and may have 2^40 of them.
        several = tuple(islice(values, SEVERAL + 1))
        if len(several) > SEVERAL:
            raise AttributeValueError(
                "axes", got=f"more than {SEVERAL}", need="one integer or several: axes, sizes, counts"
            )
        return several
    # A size of a graph in the making keeps what it follows from.
    return (int(values) if size_of(values) is None else values,)


def exact(value: SupportsFloat | SupportsIndex) -> Number:
    """The form that attributes keep a number in: a float, but for integers beyond 2^53.

    >>> exact(2), exact(2**53 + 1), exact(0.5)
    (2.0, 9007199254740993, 0.5)
    """
    # The common cases first: asking a protocol takes longer than a small kernel.
    if type(value) is float:
        return value
    if type(value) is int:
        return float(value) if -EXACT <= value <= EXACT else value
    if size_of(value) is not None:
        # A share of a size of a graph in the making keeps what it follows from.
        number = cast("Number", value)
        return number * 1.0 if isinstance(number, int) and abs(number) <= EXACT else number
    if not isinstance(value, SupportsIndex):
        return float(value)
    whole = value.__index__()
    return float(whole) if abs(whole) <= EXACT else whole


def as_float(value: Number) -> float:
    """The nearest f64; infinite for integers beyond it.

    >>> as_float(-(10**400))
    -inf
    """
    if size_of(value) is not None:
        return value * 1.0
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def is_whole(value: Number) -> bool:
    """True for what integers can be combined with: integers to 2^63, and floats that name just one of them.

    >>> is_whole(2**60), is_whole(2.0**60), is_whole(0.5)
    (True, False, False)
    """
    if isinstance(value, int):
        return abs(value) <= -LEAST
    return value % 1 == 0 and abs(value) <= EXACT


def wrapped(value: int) -> int:
    """`value` modulo 2^64, as i64: what arithmetic of integers has of it.

    >>> wrapped(2**63)
    -9223372036854775808
    """
    return (value - LEAST) % (1 << 64) + LEAST


def holds(dtype: DType, value: Number) -> bool:
    """True when arithmetic of this type has the value, with all digits: no denormal number and no infinity."""
    if not dtype.is_float:
        return is_whole(value)
    limits = ml_dtypes.finfo(dtype.numpy)  # type: ignore[no-untyped-call]  # ml_dtypes ships no stubs
    return value == 0 or float(limits.smallest_normal) <= abs(value) <= float(limits.max)


def exact_reciprocal(dtype: DType, divisor: Number) -> float | None:
    """1 / divisor where x · (1 / divisor) is x / divisor to the last bit: for powers of two, of floats.

    >>> from nnc.core.values.dtype import F32
    >>> exact_reciprocal(F32, 4), exact_reciprocal(F32, 49.0)
    (0.25, None)
    """
    number = as_float(divisor)
    if not dtype.is_float or number == 0 or not is_power_of_two(number):
        return None
    inverse = 1.0 / number
    return inverse if holds(dtype, inverse) else None
