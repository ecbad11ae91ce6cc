"""Embedding layers: a row of a table per token, and a row per position."""

from __future__ import annotations

from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from nnc.arguments import Count, checked
from nnc.classes import QUIET, dataclass
from nnc.core.values.dtype import F32, DType
from nnc.core.values.spec import TensorSpec
from nnc.dynamic.variable import Variable
from nnc.errors import ArgumentError, DTypeError, ShapeError
from nnc.nn.layers.initializers import Initializer, Values, draw
from nnc.nn.layers.layer import Layer, Scope, T
from nnc.nn.state.sized_tensors import SizedTensors
from nnc.ops import add, broadcast_to, equal, index_select, reshape, slice_axis, where
from nnc.ops.movement.copy import stop_gradient
from nnc.ops.movement.fill import scalar_like

__all__ = ["Embedding", "PositionEmbedding"]

DEVIATION = 0.02


def normal(generator: np.random.Generator, values: Values) -> None:
    """Normal with mean 0 and standard deviation 0.02 (Radford et al. 2019)."""
    draw(values, lambda count: generator.normal(0.0, DEVIATION, count))


def _normal_without(row: int, generator: np.random.Generator, values: Values) -> None:
    """`normal`, and zeros in one row."""
    normal(generator, values)
    values[row] = 0


@checked
@dataclass(frozen=True, slots=True)
class Embedding(Layer):
    """y[…, features] = weight[x[…]]: `count` rows for integers 0 ≤ x < count, of element type `dtype`.

    The row of `padding_idx` begins at zero and is not trained.

    >>> nn.Embedding(100, 8)([[1, 5, 7]]).shape
    (1, 3, 8)
    """

    replays: ClassVar[bool] = True
    count: Count
    features: Count
    padding_idx: int | None = field(default=None, metadata=QUIET)
    dtype: DType = F32

    if TYPE_CHECKING:

        @property
        def weight(self) -> Variable: ...

        def __init__(
            self,
            num_embeddings: int,
            embedding_dim: int,
            padding_idx: int | None = None,
            *,
            dtype: DType = F32,
        ) -> None: ...

    def __post_init__(self) -> None:
        if self.padding_idx is not None and not -self.count <= self.padding_idx < self.count:
            raise ArgumentError("Embedding", got=f"padding_idx={self.padding_idx}", need=f"a row of {self.count}")

    def table(self, scope: Scope[T]) -> T:
        """The weight[count, features], for a layer that uses it twice."""
        return scope.parameter_of("weight", TensorSpec((self.count, self.features), self.dtype), self._start())

    def _start(self) -> Initializer:
        return normal if self.padding_idx is None else partial(_normal_without, self.padding_idx)

    def sized_tensors(self) -> SizedTensors:
        """The table."""
        return {"weight": ((self.count, self.features), self._start())} if self.dtype is F32 else {}

    def build(self, scope: Scope[T], x: T) -> T:
        """Apply to tokens."""
        if x.spec.dtype.kind != "int":
            raise DTypeError("Embedding", got=str(x.spec), need="integers", fix="Model(..., input_dtype=I32)")
        rows = index_select(self.table(scope), x)
        if self.padding_idx is None or not scope.training:
            return rows
        padding = equal(x, scalar_like(x, float(self.padding_idx % self.count)))
        padding = broadcast_to(reshape(padding, (*x.shape, 1)), rows.shape)
        return where(padding, stop_gradient(rows), rows)


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
