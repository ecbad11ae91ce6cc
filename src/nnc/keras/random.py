"""`keras.random`: numbers that `nnc.seed` and `keras.utils.set_random_seed` decide."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnc.arguments import Finite, Rate, Seed, Share, Size, checked
from nnc.core.values.dtype import F32, AnyDType, DType, dtype_of
from nnc.core.values.spec import check_shape
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.eager import as_operand
from nnc.dynamic.transforms import randomness
from nnc.dynamic.transforms.randomness import dropout as drop
from nnc.errors import ArgumentError, MemoryLimitError
from nnc.nn.state.generators import generator_for


class SeedGenerator:
    """Draws go on by themselves, whichever generator they are given."""

    @checked
    def __init__(self, seed: Seed | None = None) -> None:
        self.seed = seed


@checked
def normal(
    shape: Sequence[Size],
    mean: Finite = 0.0,
    stddev: Rate = 1.0,
    dtype: AnyDType | None = None,
    seed: Seed | SeedGenerator | None = None,
) -> Any:
    """Normally distributed numbers; a number as the seed gives the same ones each time."""
    kind = F32 if dtype is None else dtype_of(dtype)
    if seed is not None and not isinstance(seed, SeedGenerator):
        return _drawn("normal", shape, kind, lambda sizes: generator_for(seed, "keras").normal(mean, stddev, sizes))
    return randomness.normal(tuple(shape), mean, stddev, kind)


@checked
def uniform(
    shape: Sequence[Size],
    minval: Finite = 0.0,
    maxval: Finite = 1.0,
    dtype: AnyDType | None = None,
    seed: Seed | SeedGenerator | None = None,
) -> Any:
    """Numbers in minval..maxval; a number as the seed gives the same ones each time."""
    kind = F32 if dtype is None else dtype_of(dtype)
    if maxval < minval:
        raise ArgumentError("uniform", got=f"minval={minval}, maxval={maxval}", need="maxval ≥ minval")
    if seed is not None and not isinstance(seed, SeedGenerator):
        return _drawn("uniform", shape, kind, lambda sizes: generator_for(seed, "keras").uniform(minval, maxval, sizes))
    return randomness.uniform(tuple(shape), minval, maxval, kind)


def _drawn(
    subject: str, shape: Sequence[int], kind: DType, draw: Callable[[tuple[int, ...]], NDArray[np.float64]]
) -> ArrayOperand:
    try:
        values = draw(check_shape(shape))
    except (MemoryError, ValueError, OverflowError):
        got, need = f"{tuple(shape)}", "an array that this machine can hold, of numbers that f64 has"
        raise MemoryLimitError(subject, got=got, need=need) from None
    with np.errstate(over="ignore"):
        return as_operand(values.astype(kind.numpy))


@checked
def dropout(inputs: Any, rate: Share, noise_shape: Any = None, seed: Any = None) -> Any:
    """Another share `rate` of the elements set to zero each time."""
    return drop(inputs, rate)
