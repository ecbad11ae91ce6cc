"""Embedding layers: a row of a table per token, and a row per position."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from nnc.arguments import Count, checked
from nnc.classes import dataclass
from nnc.core.values.dtype import F32, DType
from nnc.core.values.spec import TensorSpec
from nnc.errors import DTypeError, ShapeError
from nnc.nn.layers.initializers import Values, draw
from nnc.nn.layers.layer import Layer, Scope, T
from nnc.ops import add, broadcast_to, index_select, reshape, slice_axis

__all__ = ["Embedding", "PositionEmbedding"]

DEVIATION = 0.02


def normal(generator: np.random.Generator, values: Values) -> None:
    """Normal with mean 0 and standard deviation 0.02 (Radford et al. 2019)."""
    draw(values, lambda count: generator.normal(0.0, DEVIATION, count))


@checked
@dataclass(frozen=True, slots=True)
class Embedding(Layer):
    """y[…, features] = weight[x[…]]: `count` rows for integers 0 ≤ x < count, of element type `dtype`.

    >>> nn.Embedding(100, 8)([[1, 5, 7]]).shape
    (1, 3, 8)
    """

    replays: ClassVar[bool] = True
    count: Count
    features: Count
    dtype: DType = F32

    def table(self, scope: Scope[T]) -> T:
        """The weight[count, features], for a layer that uses it twice."""
        return scope.parameter_of("weight", TensorSpec((self.count, self.features), self.dtype), normal)

    def build(self, scope: Scope[T], x: T) -> T:
        """Apply to tokens."""
        if x.spec.dtype.kind != "int":
            raise DTypeError("Embedding", got=str(x.spec), need="integers", fix="Model(..., input_dtype=I32)")
        return index_select(self.table(scope), x)


@checked
@dataclass(frozen=True, slots=True)
class PositionEmbedding(Layer):
    """y[batch, t, features] = x + weight[t], for at most `steps` steps.

    >>> nn.PositionEmbedding(16)(nnc.ones((2, 5, 8))).shape
    (2, 5, 8)
    """

    steps: Count

    def table(self, scope: Scope[T], x: T) -> T:
        """The weight[steps, features], for a layer that says itself where its steps stand."""
        return scope.parameter("weight", (self.steps, x.shape[2]), x, normal)

    def build(self, scope: Scope[T], x: T) -> T:
        """Apply to `x`[batch, steps, features]."""
        if x.spec.rank != 3 or x.shape[1] > self.steps:
            need = f"[batch, at most {self.steps} steps, features]"
            raise ShapeError("PositionEmbedding", got=str(x.spec), need=need)
        weight = self.table(scope, x)
        if scope.cache is not None:
            return add(x, index_select(weight, scope.cache.positions))
        return add(x, broadcast_rows(slice_axis(weight, 0, 0, x.shape[1]), x))


def broadcast_rows(rows: T, like: T) -> T:
    """`rows`, which are the last axes of `like`, for each of its leading places."""
    return broadcast_to(reshape(rows, (1,) * (like.spec.rank - rows.spec.rank) + rows.shape), like.shape)
