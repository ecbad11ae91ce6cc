"""`keras.random`: numbers that `nnc.seed` and `keras.utils.set_random_seed` decide."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nnc.dynamic.eager import as_operand
from nnc.dynamic.transforms import randomness
from nnc.dynamic.transforms.randomness import dropout as drop
from nnc.nn.state.generators import generator_for


class SeedGenerator:
    """Draws go on by themselves, whichever generator they are given."""

    def __init__(self, seed: int | None = None) -> None:
        self.seed = seed


def normal(shape: Sequence[int], mean: float = 0.0, stddev: float = 1.0, dtype: Any = None, seed: Any = None) -> Any:
    """Normally distributed numbers; a number as the seed gives the same ones each time."""
    if isinstance(seed, int):
        return _drawn(generator_for(seed, "keras").normal(mean, stddev, tuple(shape)), dtype)
    return randomness.normal(tuple(shape), mean, stddev, "float32" if dtype is None else dtype)


def uniform(shape: Sequence[int], minval: float = 0.0, maxval: float = 1.0, dtype: Any = None, seed: Any = None) -> Any:
    """Numbers in minval..maxval; a number as the seed gives the same ones each time."""
    if isinstance(seed, int):
        return _drawn(generator_for(seed, "keras").uniform(minval, maxval, tuple(shape)), dtype)
    return randomness.uniform(tuple(shape), minval, maxval, "float32" if dtype is None else dtype)


def _drawn(values: Any, dtype: Any) -> Any:
    return as_operand(values.astype("float32" if dtype is None else dtype))


def dropout(inputs: Any, rate: float, noise_shape: Any = None, seed: Any = None) -> Any:
    """Another share `rate` of the elements set to zero each time."""
    return drop(inputs, rate)
