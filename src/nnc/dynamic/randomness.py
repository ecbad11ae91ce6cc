"""Random numbers that are others at each call, eagerly and in compiled functions.

    nnc.seed(7); x = nnc.dropout(x, 0.1); noise = nnc.normal((3, 4))

One counter of the process says which numbers come next. An eager draw takes one; so does a call of a compiled function,
whose draws differ by their seeds (`nnc.ops.random`). Backends draw the same numbers, and after `seed` they come again.
A draw inside of a compiled loop gives the same numbers in each iteration, and one under vmap the same for all examples.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any

import numpy as np

from nnc.arguments import checked
from nnc.core.dtype import F32, DType, dtype_of
from nnc.core.spec import TensorSpec, check_shape
from nnc.dynamic.array import ArrayOperand
from nnc.dynamic.batched import operand_of
from nnc.dynamic.eager import default_graph
from nnc.dynamic.traced import active_trace
from nnc.errors import AttributeValueError
from nnc.ops import random

# Counters of one seed.
RUN = 1 << 32
SEEDS = 1 << 31


class _Counter:
    """The number that the next draw takes; `next` is one step that no other thread divides."""

    def __init__(self) -> None:
        self.numbers: Iterator[int] = count()


_COUNTER = _Counter()


def seed(value: int) -> None:
    """Begin the numbers that belong to `value`, 0 to 2^31 - 1, anew."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < SEEDS:
        raise AttributeValueError("seed", got=f"{value!r}", need="an integer 0 ≤ seed < 2^31")
    _COUNTER.numbers = count(value * RUN)


def next_counter() -> np.int64:
    """The counter of a draw, or of a call of a compiled function."""
    return np.int64(next(_COUNTER.numbers))


@checked
def dropout(x: Any, rate: float = 0.5) -> Any:  # noqa: ANN401  # arrays and operands of all kinds
    """`x` with another share `rate` of its elements set to zero each time, the others scaled to keep the mean."""
    counter, number = _draw()
    return random.dropout(operand_of(x), counter, rate, seed=number)


@checked
def uniform(shape: Iterable[int] = (), low: float = 0.0, high: float = 1.0, dtype: DType | str = F32) -> Any:  # noqa: ANN401  # as above
    """Numbers in [low, high)."""
    counter, number = _draw()
    return random.random_uniform(counter, TensorSpec(check_shape(shape), dtype_of(dtype)), low, high, seed=number)


@checked
def normal(shape: Iterable[int] = (), mean: float = 0.0, deviation: float = 1.0, dtype: DType | str = F32) -> Any:  # noqa: ANN401  # as above
    """Normally distributed numbers."""
    counter, number = _draw()
    return random.random_normal(counter, TensorSpec(check_shape(shape), dtype_of(dtype)), mean, deviation, seed=number)


def _draw() -> tuple[ArrayOperand, int]:
    """A counter and a seed that no other draw has."""
    trace = active_trace()
    return (default_graph().constant(next_counter()), 0) if trace is None else trace.draw()
