"""Layers as MLX has them where ours of the name find their sizes: `nn.BatchNorm(8)`, `nn.MultiHeadAttention(64, 4)`.

Channels and features are the last axis, as in MLX. `nn.BatchNorm` and `nn.MultiHeadAttention` give these where they are
told those sizes.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

from nnc.arguments import Count, checked_as
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.errors import ArgumentError, ShapeError
from nnc.nn.layers.batch_norm import NamedBatchNorm
from nnc.nn.layers.layer import Scope, T
from nnc.nn.modules.channels_first import ChannelStatistics
from nnc.nn.modules.linear import Linear
from nnc.nn.modules.module import Module
from nnc.nn.modules.starting_values import only_input
from nnc.ops import scaled_dot_product_attention

__all__ = ["SizedBatchNorm", "SizedMultiHeadAttention"]


@checked_as("BatchNorm")
class SizedBatchNorm(ChannelStatistics):
    """y = (x - mean) / √(variance + eps) · weight + bias per channel, of `num_features` channels on the last axis.

    running = (1 - momentum) · running + momentum · batch.
    """

    def build_many(self, scope: Scope[T], inputs: tuple[T, ...]) -> tuple[T, ...]:
        """Apply to the only input."""
        x = only_input(self, inputs)
        if x.spec.rank < 2 or x.shape[-1] != self.num_features:
            need = f"{self.num_features} channels on the last axis"
            fix = "nn.BatchNorm(), which finds them; nn.BatchNorm2d(channels) has them on axis 1"
            raise ShapeError("BatchNorm", got=str(x.spec), need=need, fix=fix)
        return (NamedBatchNorm(1.0 - self.momentum, self.eps).build(scope, x),)

    def __repr__(self) -> str:
        return f"BatchNorm({self.num_features}, eps={self.eps}, momentum={self.momentum})"


@checked_as("MultiHeadAttention")
class SizedMultiHeadAttention(Module):
    """y = concat_h softmax(q_h · k_hᵀ / √d + mask) · v_h · out_proj, of [batch, steps, features] each.

    A mask of numbers is added to the scores; one of truth values says what is seen.
    """

    branches_in_training: ClassVar[bool] = False

    def __init__(
        self,
        dims: Count,
        num_heads: Count,
        query_input_dims: Count | None = None,
        key_input_dims: Count | None = None,
        value_input_dims: Count | None = None,
        value_dims: Count | None = None,
        value_output_dims: Count | None = None,
        bias: bool = False,
    ) -> None:
        super().__init__()
        width = value_dims or dims
        if dims % num_heads or width % num_heads:
            got = f"{dims} and {width} features, {num_heads} heads"
            raise ArgumentError("MultiHeadAttention", got=got, need="features a multiple of heads")
        self.num_heads, self.dims = num_heads, dims
        keys = key_input_dims or dims
        self.query_proj = Linear(query_input_dims or dims, dims, bias)
        self.key_proj = Linear(keys, dims, bias)
        self.value_proj = Linear(value_input_dims or keys, width, bias)
        self.out_proj = Linear(width, value_output_dims or dims, bias)

    def forward(self, queries: Any, keys: Any = None, values: Any = None, mask: Any = None) -> Any:  # noqa: ANN401  # arrays of either world
        """What the queries see of the values; keys are the queries and values the keys where they are left out."""
        keys = queries if keys is None else keys
        values = keys if values is None else values
        q, k, v = self.query_proj(queries), self.key_proj(keys), self.value_proj(values)
        q, k, v = (x.unflatten(-1, (self.num_heads, -1)) for x in (q, k, v))
        return self.out_proj(scaled_dot_product_attention(q, k, v, _added(mask, q)).flatten(-2))


def _added(mask: Any, like: ArrayOperand) -> ArrayOperand | None:  # noqa: ANN401  # an array or None
    """A mask, be it of what is seen, as one that is added to scores[batch, heads, rows, columns]."""
    if mask is None:
        return None
    seen = mask.dtype.kind == "bool"
    numbers: ArrayOperand = mask.astype(like.dtype)
    added = numbers.masked_fill(~mask, -math.inf) if seen else numbers
    return added.reshape((1,) * (4 - mask.ndim) + mask.shape)
