"""Normally distributed numbers within bounds, as JAX and MLX draw them."""

from __future__ import annotations

import math

import numpy as np

from nnc import ops
from nnc.core.values.dtype import F32, AnyDType, dtype_of
from nnc.dynamic.arrays.promotion import continuous
from nnc.dynamic.variable import Variable
from nnc.errors import AttributeValueError
from nnc.numerics.conversion import AnyArray, Array, Sizes, as_array, pair, sizes_of
from nnc.numerics.draws import key_first, uniform
from nnc.numerics.elementwise import clip, erf, erfinv

__all__ = ["truncated_normal"]


@key_first
def truncated_normal(
    lower: AnyArray,
    upper: AnyArray,
    shape: Sizes | None = None,
    dtype: AnyDType = F32,
    key: Array | None = None,
) -> Array:
    """Normally distributed numbers of [lower, upper] alone: √2 · erfinv(u), u uniform in [erf(lower / √2), …].

    The shape is that of the bounds unless given.

    >>> x = nnc.random.truncated_normal(-2.0, 2.0, (3, 4))
    >>> x.shape, nnc.abs(x).max().item() <= 2.0
    ((3, 4), True)
    """
    low, high = (ops.cast(continuous(as_array(each)), dtype_of(dtype)) for each in pair(lower, upper))
    if isinstance(low, Variable) and isinstance(high, Variable) and not (low < high).all():
        raise AttributeValueError("truncated_normal", got="bounds without room", need="lower < upper")
    begin, end = (erf(bound * math.sqrt(0.5)) for bound in (low, high))
    sizes = np.broadcast_shapes(low.shape, high.shape) if shape is None else sizes_of(shape)
    share = uniform(sizes, dtype=low.dtype, key=key)
    return clip(erfinv(begin + share * (end - begin)) * math.sqrt(2.0), low, high)
