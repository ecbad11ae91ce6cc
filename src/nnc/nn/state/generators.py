"""The random numbers that a parameter begins with: they depend on the seed and on its own path alone."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from nnc.arguments import checked

# Elements of any floating-point type.
Values = NDArray[np.generic]
Initializer = Callable[[np.random.Generator, Values], None]


@checked
def generator_for(seed: int, path: str) -> np.random.Generator:
    """The random numbers that belong to `path` under `seed`."""
    digest = hashlib.sha256(f"{seed}:{path}".encode()).digest()
    return np.random.Generator(np.random.Philox(int.from_bytes(digest[:16], "little")))
