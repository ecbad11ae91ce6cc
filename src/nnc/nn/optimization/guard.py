"""A guard of updates: where the loss or a gradient is no finite number, everything stays as it was.

healthy = |loss| + |g|₂ + sum |s| ≤ the largest number, g the gradients of all parameters, s the renewed statistics
kept = updated where healthy, else old
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from nnc.core.values.dtype import F32, F64
from nnc.ops import abs, cast, less_equal, reduce_sum, sum_of, where
from nnc.ops.movement.fill import scalar_like
from nnc.symbolic import Symbol
from nnc.symbolic.minimization import global_norm, steering_dtype

# Steering numbers are of one of these types.
LARGEST = {F32: float(np.finfo(np.float32).max), F64: float(np.finfo(np.float64).max)}


def gradient_norm(gradients: Sequence[Symbol]) -> Symbol:
    """The 2-norm of all gradients together."""
    return global_norm(gradients, steering_dtype(*(gradient.spec.dtype for gradient in gradients)))


def guarded(
    carry: Mapping[Symbol, Symbol], loss: Symbol, norm: Symbol, renewed: Iterable[Symbol] = ()
) -> tuple[dict[Symbol, Symbol], Symbol]:
    """(new value → old value, total): the new value is the old one unless the total is finite.

    Statistics may be renewed with what is not finite although the loss hides it behind a normalization.
    """
    parts = (abs(cast(number, norm.spec.dtype)) for number in (loss, *renewed))
    total = sum_of(norm, *(reduce_sum(part) for part in parts))
    healthy = less_equal(total, scalar_like(total, LARGEST[total.spec.dtype]))
    return {where(healthy, updated, old): old for updated, old in carry.items()}, total
