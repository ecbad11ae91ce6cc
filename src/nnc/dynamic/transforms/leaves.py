"""Leaves of arguments whose derivatives are asked for."""

from __future__ import annotations

import numpy as np

from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.traced import is_array
from nnc.dynamic.transforms.batched import BatchedValue
from nnc.dynamic.tree import Tree


def unbatched(value: Tree) -> Tree:
    """The value of a batch, whatever axes were mapped."""
    while isinstance(value, BatchedValue):
        value = value.value
    return value


def as_array_like(value: Tree, like: ArrayOperand) -> Tree:
    """An array, in the element type of `like` where it is none yet."""
    return value if is_array(value) else np.asarray(value, like.dtype.numpy)
