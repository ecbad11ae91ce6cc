"""The random numbers that a parameter begins with: they depend on the seed and on its own path alone."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from nnc.arguments import checked
from nnc.core.values.spec import TensorSpec
from nnc.core.values.tensor import Tensor

# Elements of any floating-point type.
Values = NDArray[np.generic]
Initializer = Callable[[np.random.Generator, Values], None]


@runtime_checkable
class PlacedInitializer(Protocol):
    """An initializer of values that may lie somewhere as they are, such as in a file that is mapped."""

    def __call__(self, generator: np.random.Generator, values: Values) -> None:
        """Write the values."""
        ...

    def placed(self, spec: TensorSpec) -> Tensor | None:
        """The values where they lie, read-only; None where they have to be written."""
        ...


@checked
def generator_for(seed: int, path: str) -> np.random.Generator:
    """The random numbers that belong to `path` under `seed`."""
    digest = hashlib.sha256(f"{seed}:{path}".encode("utf-8", "surrogatepass")).digest()
    return np.random.Generator(np.random.Philox(int.from_bytes(digest[:16], "little")))
