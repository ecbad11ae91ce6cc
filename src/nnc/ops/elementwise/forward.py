"""What pointwise operators mean, in NumPy, where NumPy has no function for it: y[i…] = f(a[i…], b[i…])."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

# `Any`: one text for all element types, and NumPy's types allow arithmetic only on known or on any.
Array = NDArray[Any]
# gelu_tanh(x) = x · sigmoid(GATE · x · (1 + BEND · x²)), because 1 + tanh u = 2 · sigmoid(2u).
GATE, BEND = 2.0 * math.sqrt(2.0 / math.pi), 0.044715


def by_library(function: Callable[[float], float]) -> Callable[[Array], Array]:
    """A function of the C library on every element."""

    def apply(x: Array) -> Array:
        return np.fromiter(map(function, x.ravel().tolist()), np.float64, x.size).reshape(x.shape)

    return apply


def relu(x: Array) -> Array:
    """y = x where x ≥ 0, so that -0 stays -0, else 0; nan stays nan."""
    return np.where(x < 0, x.dtype.type(0), x)


def sigmoid(x: Array) -> Array:
    """y = 1 / (1 + e^-x); where e^-x overflows, 1 / inf is the right 0."""
    y: Array = np.reciprocal(1 + np.exp(-x))
    return y


def swish(x: Array) -> Array:
    """y = x · sigmoid(x)"""
    y: Array = x * sigmoid(x)
    return y


def gelu(x: Array) -> Array:
    """y = x · ½ erfc(-x / √2), by the C library: for x ≪ 0 the difference 1 + erf(x / √2) would cancel."""
    return x * 0.5 * by_library(math.erfc)(x * -math.sqrt(0.5))


def gelu_tanh(x: Array) -> Array:
    """y = x · sigmoid(GATE · x · (1 + BEND · x²))"""
    y: Array = x * sigmoid(GATE * x * (1 + BEND * np.square(x)))
    return y


def softplus(x: Array) -> Array:
    """y = ln(e^0 + e^x), the larger of the two taken off first."""
    y: Array = np.logaddexp(x.dtype.type(0), x)
    return y


def is_nan(x: Array) -> Array:
    """y = [x ≠ x], which also holds for element types without nan."""
    return np.not_equal(x, x)


def sign(x: Array) -> Array:
    """y = [x > 0] - [x < 0], so that nan gives 0."""
    return np.subtract(x > 0, x < 0, dtype=x.dtype)


def step(x: Array) -> Array:
    """y = [x > 0]."""
    return np.greater(x, 0).astype(x.dtype)


def preference(a: Array, b: Array) -> Array:
    """y = [a > b] + ½ [a = b]."""
    return np.greater(a, b) + 0.5 * np.equal(a, b)


def power(a: Array, b: Array) -> Array:
    """y = a^b; of integers to negative powers 1, -1 or 0."""
    if a.dtype.kind != "i":
        return np.power(a, b)
    odd = np.where(b & 1, a, 1).astype(a.dtype)
    return np.where(b < 0, np.where(np.abs(a) == 1, odd, 0), np.power(a, np.maximum(b, 0)))
