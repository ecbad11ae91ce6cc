"""Random numbers that are others at each call, eagerly and in compiled functions.

    nnc.seed(7); x = nnc.dropout(x, 0.1); noise = nnc.normal((3, 4))

One counter of the process says which numbers come next. An eager draw takes one; so does a call of a compiled function,
whose draws differ by their seeds (`nnc.ops.random`). Backends draw the same numbers, and after `seed` they come again.
Draws inside of a compiled loop are others in each iteration. Under vmap they are the same for all examples, or with
`randomness="different"` each example has its own. What is computed again for a gradient draws what it drew before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from typing import Any

import numpy as np

from nnc.arguments import checked
from nnc.core.running.device_context import present
from nnc.core.values.device import AnyDevice, Device, current_device, device_of
from nnc.core.values.dtype import F32, DType, dtype_of
from nnc.core.values.spec import TensorSpec, check_shape
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.graph import default_graph
from nnc.dynamic.traced import SPREAD, active_trace, wrapped
from nnc.dynamic.transforms.batched import VmapLevel, active_levels, operand_of
from nnc.errors import AttributeValueError
from nnc.ops.movement.transfer import to_device
from nnc.ops.number import INTEGERS
from nnc.ops.random import random

# Counters of one seed.
RUN = 1 << 32
SEEDS = 1 << 31


class _Counter:
    """The number that the next draw takes; `next` is one step that no other thread divides."""

    def __init__(self) -> None:
        self.numbers: Iterator[int] = count()


_COUNTER = _Counter()


def seed(value: int) -> None:
    """Begin the numbers that belong to `value`, 0 to 2^31 - 1, anew.

    >>> nnc.seed(0)
    >>> first = nnc.normal((2,))
    >>> nnc.seed(0)
    >>> nnc.array_equal(first, nnc.normal((2,)))
    Variable(bool[], constant)
    True
    """
    if isinstance(value, bool) or not isinstance(value, INTEGERS) or not 0 <= value < SEEDS:
        raise AttributeValueError("seed", got=f"{value!r}", need="an integer 0 ≤ seed < 2^31")
    _COUNTER.numbers = count(value * RUN)


def next_counter() -> np.int64:
    """The counter of a draw, or of a call of a compiled function."""
    again = _AGAIN.get()
    return np.int64(next(_COUNTER.numbers)) if again is None else again.apart()


def counter_of_a_call() -> Any:  # noqa: ANN401  # a number, or a traced value
    """A counter that nothing else draws by, for what has seeds of its own; in a compiled function another each call."""
    trace = active_trace()
    if trace is None:
        return next_counter()
    counter, number = trace.draw()
    return counter + wrapped(number * SPREAD**3)


def reserved_counters(many: int) -> np.int64:
    """The first of so many counters in a row, which nobody else has."""
    first = next_counter()
    for _ in range(many - 1):
        next(_COUNTER.numbers)
    return first


class _Again:
    """Draws that come again when the same is computed again: all by one counter, each by another seed."""

    def __init__(self, counter: int) -> None:
        self.counter = counter
        self.draws = 0

    def apart(self) -> np.int64:
        """A counter of its own for what draws by seeds too."""
        self.draws += 1
        return np.int64((self.counter + self.draws * SPREAD) % (1 << 63))


_AGAIN: ContextVar[_Again | None] = ContextVar("again", default=None)


@contextmanager
def drawing_from(counter: int) -> Iterator[None]:
    """Inside, draws depend on this counter and on their order alone."""
    token = _AGAIN.set(_Again(counter))
    try:
        yield
    finally:
        _AGAIN.reset(token)


@checked
def dropout(x: Any, rate: float = 0.5) -> Any:  # noqa: ANN401  # arrays and operands of all kinds
    """`x` with another share `rate` of its elements set to zero each time, the others scaled to keep the mean.

    >>> nnc.dropout(nnc.ones(4), 0.5).shape
    (4,)
    """
    level = _different()
    if level is not None:
        with level.left():
            return level.example(dropout(level.whole(x), rate))
    operand = operand_of(x)
    counter, number = _draw(operand.spec.device)
    return random.dropout(operand, counter, rate, seed=number)


@checked
def uniform(
    shape: Iterable[int] = (),
    low: float = 0.0,
    high: float = 1.0,
    dtype: DType | str = F32,
    device: AnyDevice | None = None,
) -> Any:  # noqa: ANN401  # as above
    """Numbers in [low, high).

    >>> nnc.uniform((2, 3), -1.0, 1.0).shape
    (2, 3)
    """
    level = _different()
    if level is not None:
        with level.left():
            return level.example(uniform((level.size, *check_shape(shape)), low, high, dtype, device))
    counter, number = _draw(_place(device))
    return random.random_uniform(counter, TensorSpec(check_shape(shape), dtype_of(dtype)), low, high, seed=number)


@checked
def normal(
    shape: Iterable[int] = (),
    mean: float = 0.0,
    deviation: float = 1.0,
    dtype: DType | str = F32,
    device: AnyDevice | None = None,
) -> Any:  # noqa: ANN401  # as above
    """Normally distributed numbers.

    >>> nnc.normal((2, 3)).shape
    (2, 3)
    """
    level = _different()
    if level is not None:
        with level.left():
            return level.example(normal((level.size, *check_shape(shape)), mean, deviation, dtype, device))
    counter, number = _draw(_place(device))
    return random.random_normal(counter, TensorSpec(check_shape(shape), dtype_of(dtype)), mean, deviation, seed=number)


def _different() -> VmapLevel | None:
    """The innermost call under vmap, where each of its examples draws for itself."""
    levels = active_levels()
    return levels[-1] if levels and levels[-1].draws_differ else None


def _place(device: AnyDevice | None) -> Device:
    """The device that is asked for, else that of the context."""
    return current_device() if device is None else present(device_of(device))


def _draw(device: Device) -> tuple[ArrayOperand, int]:
    """A counter on a device and a seed that no other draw has."""
    trace, again = active_trace(), _AGAIN.get()
    if trace is not None:
        counter, number = trace.draw()
        return to_device(counter, device), number
    if again is None:
        return default_graph().constant(next_counter(), device=device), 0
    again.draws += 1
    return default_graph().constant(np.int64(again.counter), device=device), again.draws
