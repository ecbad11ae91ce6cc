"""Low-rank products beside a network's matrices: added to weights that are floats, computed beside those in blocks.

y = x · W + (x · a) · b, for a[in, rank] and b[rank, out]
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import field, replace
from functools import partial
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nnc.classes import dataclass
from nnc.core.values.dtype import F32
from nnc.nn.layers.initializers import Values
from nnc.nn.layers.layer import MultiLayer, Scope, T
from nnc.ops import add, gemm


@dataclass(frozen=True, slots=True, eq=False)
class LowRank:
    """What is added to a matrix [in, out]: a[in, rank] · b[rank, out]."""

    a: NDArray[np.float32]
    b: NDArray[np.float32]

    @property
    def product(self) -> NDArray[np.float32]:
        """The whole matrix, summed in f64."""
        return np.asarray(self.a.astype(np.float64) @ self.b.astype(np.float64), np.float32)


# By the path of the layer: `block0.attention.query`.
Products: TypeAlias = Mapping[str, LowRank]


def digest_of(products: Products) -> str:
    """What tells some products from others; empty for none."""
    digest = hashlib.sha256()
    for path, product in sorted(products.items()):
        digest.update(path.encode() + product.a.tobytes() + product.b.tobytes())
    return digest.hexdigest()[:16] if products else ""


@dataclass(frozen=True, slots=True, eq=False)
class AdaptedDecoder(MultiLayer):
    """A decoder with products beside its layers, which are not trained."""

    tokens_apart: ClassVar[bool] = True

    decoder: MultiLayer
    products: Products = field(repr=False)

    def build_many(self, scope: Scope[T], inputs: tuple[T, ...]) -> tuple[T, ...]:
        """Apply to tokens."""

        def adapted(place: Scope[T], x: T, y: T) -> T:
            product = self.products.get(place.path)
            return y if product is None else add(y, _beside(place, product, x))

        return self.decoder.build_many(replace(scope, adapt=adapted), inputs)


def _beside(place: Scope[T], product: LowRank, x: T) -> T:
    """(x · a) · b"""
    a = place.statistic("lora_a", product.a.shape, F32, partial(_written, product.a))
    b = place.statistic("lora_b", product.b.shape, F32, partial(_written, product.b))
    return gemm(gemm(x, a), b)


def _written(array: NDArray[np.float32], generator: np.random.Generator, values: Values) -> None:
    values[...] = array
