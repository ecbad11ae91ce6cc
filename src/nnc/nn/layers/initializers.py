"""Initial values of parameters.

The values of a parameter depend on the seed and on its own path alone, so adding a layer changes no other.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from nnc.arguments import checked
from nnc.errors import ShapeError
from nnc.nn.state.generators import Initializer as Initializer
from nnc.nn.state.generators import Values as Values
from nnc.nn.state.generators import generator_for as generator_for

CHUNK = 1 << 16
# The deviation of a normal distribution that is cut off at two deviations.
CUT_DEVIATION = 0.87962566103423978


@checked
def zeros(generator: np.random.Generator, values: Values) -> None:
    """All zeros."""
    values[...] = 0


@checked
def ones(generator: np.random.Generator, values: Values) -> None:
    """All ones."""
    values[...] = 1


@checked
def he_uniform(generator: np.random.Generator, values: Values) -> None:
    """Uniform in ±√(6 / fan_in), fan_in = product of all axes but the last (He et al. 2015)."""
    bound = math.sqrt(6.0 / max(math.prod(values.shape[:-1]), 1))
    draw(values, lambda count: generator.uniform(-bound, bound, count))


@checked
def glorot_uniform(generator: np.random.Generator, values: Values) -> None:
    """Uniform in ±√(6 / (fan_in + fan_out)) (Glorot & Bengio 2010)."""
    bound = math.sqrt(6.0 / _fans("glorot_uniform", values))
    draw(values, lambda count: generator.uniform(-bound, bound, count))


@checked
def constant(value: float) -> Initializer:
    """All of one value."""
    return partial(_constant, value)


@checked
def uniform(low: float, high: float) -> Initializer:
    """Uniform in low..high."""
    return partial(_uniform, low, high)


@checked
def normal(deviation: float, mean: float = 0.0) -> Initializer:
    """Normal of this deviation."""
    return partial(_normal, deviation, mean)


@checked
def truncated_normal(deviation: float) -> Initializer:
    """Normal of this deviation, drawn anew beyond two of them."""
    return partial(_truncated_normal, deviation)


@checked
def identity(generator: np.random.Generator, values: Values) -> None:
    """1 where row and column of a matrix are the same, else 0."""
    if values.ndim != 2:
        raise ShapeError("identity", got=str(list(values.shape)), need="a matrix")
    values[...] = np.eye(*values.shape)


@checked
def lecun_uniform(generator: np.random.Generator, values: Values) -> None:
    """Uniform in ±√(3 / fan_in) (LeCun et al. 1998)."""
    bound = math.sqrt(3.0 / max(math.prod(values.shape[:-1]), 1))
    draw(values, lambda count: generator.uniform(-bound, bound, count))


@checked
def he_normal(generator: np.random.Generator, values: Values) -> None:
    """Normal of deviation √(2 / fan_in), fan_in = product of all axes but the last (He et al. 2015)."""
    deviation = math.sqrt(2.0 / max(math.prod(values.shape[:-1]), 1))
    draw(values, lambda count: generator.normal(0.0, deviation, count))


@checked
def glorot_normal(generator: np.random.Generator, values: Values) -> None:
    """Normal of deviation √(2 / (fan_in + fan_out)) (Glorot & Bengio 2010)."""
    deviation = math.sqrt(2.0 / _fans("glorot_normal", values))
    draw(values, lambda count: generator.normal(0.0, deviation, count))


@checked
def lecun_normal(generator: np.random.Generator, values: Values) -> None:
    """Normal of deviation √(1 / fan_in) (LeCun et al. 1998)."""
    deviation = math.sqrt(1.0 / max(math.prod(values.shape[:-1]), 1))
    draw(values, lambda count: generator.normal(0.0, deviation, count))


@checked
def orthogonal(generator: np.random.Generator, values: Values) -> None:
    """Orthonormal rows or columns of all axes but the last by the last (Saxe et al. 2014)."""
    _check_axes("orthogonal", values, 1)
    rows, columns = math.prod(values.shape[:-1]), values.shape[-1]
    drawn = generator.standard_normal((max(rows, columns), min(rows, columns)))
    q, r = np.linalg.qr(drawn)
    q = q * np.where(np.diagonal(r) < 0.0, -1.0, 1.0)
    values[...] = (q if rows >= columns else q.T).reshape(values.shape)


def _fans(name: str, values: Values) -> int:
    """fan_in + fan_out, at least 1."""
    _check_axes(name, values, 2)
    rows, columns = values.shape[-2:]
    return max(math.prod(values.shape[:-2]) * int(rows + columns), 1)


def _check_axes(name: str, values: Values, least: int) -> None:
    if values.ndim < least:
        raise ShapeError(name, got=str(list(values.shape)), need=f"{least} axes or more")


def draw(values: Values, numbers: Callable[[int], NDArray[np.float64]]) -> None:
    """Fill contiguous `values` with f64 `numbers` rounded to their type, some at a time: no copy of all is made."""
    flat = values.reshape(-1)
    for start in range(0, flat.size, CHUNK):
        part = flat[start : start + CHUNK]
        part[...] = numbers(part.size).astype(part.dtype)


# Functions of modules, not closures: models are pickled with their specs.


def _constant(value: float, generator: np.random.Generator, values: Values) -> None:
    values[...] = value


def _uniform(low: float, high: float, generator: np.random.Generator, values: Values) -> None:
    draw(values, lambda count: generator.uniform(low, high, count))


def _normal(deviation: float, mean: float, generator: np.random.Generator, values: Values) -> None:
    draw(values, lambda count: generator.normal(mean, deviation, count))


def _truncated_normal(deviation: float, generator: np.random.Generator, values: Values) -> None:
    def numbers(count: int) -> NDArray[np.float64]:
        numbers = generator.standard_normal(count)
        while (far := np.abs(numbers) > 2.0).any():
            numbers[far] = generator.standard_normal(int(far.sum()))
        return deviation * numbers

    draw(values, numbers)
