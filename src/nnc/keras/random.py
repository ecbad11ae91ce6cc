"""`keras.random`: numbers that `nnc.seed` and `keras.utils.set_random_seed` decide."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nnc.arguments import Finite, Rate, Seed, Share, Size, checked
from nnc.core.values.dtype import F32, AnyDType
from nnc.dynamic.eager import as_operand
from nnc.dynamic.transforms import randomness
from nnc.dynamic.transforms.randomness import dropout as drop
from nnc.errors import ArgumentError
from nnc.keras.initializers import drawn
from nnc.numerics.conversion import chosen_dtype


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
    kind = chosen_dtype(dtype, F32)
    if seed is not None and not isinstance(seed, SeedGenerator):
        return as_operand(drawn("normal", lambda of, sizes: of.normal(mean, stddev, sizes), int(seed), shape, kind))
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
    kind = chosen_dtype(dtype, F32)
    if float(maxval) < float(minval):
        raise ArgumentError("uniform", got=f"minval={minval}, maxval={maxval}", need="maxval ≥ minval")
    if seed is not None and not isinstance(seed, SeedGenerator):
        return as_operand(drawn("uniform", lambda of, sizes: of.uniform(minval, maxval, sizes), int(seed), shape, kind))
    return randomness.uniform(tuple(shape), minval, maxval, kind)


@checked
def dropout(inputs: Any, rate: Share, noise_shape: Any = None, seed: Any = None) -> Any:
    """Another share `rate` of the elements set to zero each time."""
    return drop(inputs, rate)
