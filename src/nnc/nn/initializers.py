"""Initial values of parameters.

The values of a parameter depend on the seed and on its own path alone, so adding a layer changes no other.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from nnc.core.spec import TensorSpec

Values = NDArray[np.float64]
Initializer = Callable[[np.random.Generator, TensorSpec], Values]


def generator_for(seed: int, path: str) -> np.random.Generator:
    """The random numbers that belong to `path` under `seed`."""
    digest = hashlib.sha256(f"{seed}:{path}".encode()).digest()
    return np.random.Generator(np.random.Philox(int.from_bytes(digest[:16], "little")))


def zeros(generator: np.random.Generator, spec: TensorSpec) -> Values:
    """All zeros."""
    return np.zeros(spec.shape)


def ones(generator: np.random.Generator, spec: TensorSpec) -> Values:
    """All ones."""
    return np.ones(spec.shape)


def he_uniform(generator: np.random.Generator, spec: TensorSpec) -> Values:
    """Uniform in ±√(6 / fan_in), fan_in = product of all axes but the last (He et al. 2015)."""
    bound = math.sqrt(6.0 / max(math.prod(spec.shape[:-1]), 1))
    return generator.uniform(-bound, bound, spec.shape)


def glorot_uniform(generator: np.random.Generator, spec: TensorSpec) -> Values:
    """Uniform in ±√(6 / (fan_in + fan_out)) (Glorot & Bengio 2010)."""
    receptive = math.prod(spec.shape[:-2])
    bound = math.sqrt(6.0 / max(receptive * (spec.shape[-2] + spec.shape[-1]), 1))
    return generator.uniform(-bound, bound, spec.shape)
