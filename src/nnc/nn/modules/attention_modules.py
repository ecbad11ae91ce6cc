"""Attention and transformers as PyTorch has them: sizes are said, and inputs are [steps, batch, features].

    attention = nn.MultiheadAttention(16, 4, batch_first=True)
    y, weights = attention(q, k, v, key_padding_mask=padding)

With `batch_first` inputs are [batch, steps, features]. A mask of booleans is True where something is NOT seen; one of
numbers is added to scores. Tensors have PyTorch's names (`self_attn.in_proj_weight`, `linear1.bias`) and lie as there,
[out, in]. `nn.MultiHeadAttention` and `nn.TransformerBlock` find their sizes.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from nnc.arguments import Count, Probability, checked
from nnc.core.values.dtype import BOOL
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.transforms.randomness import dropout as dropped
from nnc.dynamic.transforms.randomness import next_counter
from nnc.errors import ArgumentError, ShapeError
from nnc.nn.modules.linear import Linear
from nnc.nn.modules.module import Module, Parameter
from nnc.nn.modules.starting_values import empty_parameter
from nnc.nn.state.generators import generator_for
from nnc.ops import gemm, scaled_dot_product_attention, softmax

__all__ = ["MultiheadAttention"]


@checked
class MultiheadAttention(Module):
    """(y, weights): y = concat_h softmax(q_h · k_hᵀ / √d + mask) · v_h · out_proj, and the mean of all heads' weights.

    q, k and v are parts of what `in_proj_weight`[3 · embed_dim, embed_dim] makes of the query, the key and the value.

    >>> attention = nn.MultiheadAttention(16, 4, batch_first=True)
    >>> x = nnc.ones((2, 5, 16))
    >>> y, weights = attention(x, x, x)
    >>> y.shape, weights.shape
    ((2, 5, 16), (2, 5, 5))
    """

    branches_in_training: ClassVar[bool] = False

    def __init__(
        self,
        embed_dim: Count,
        num_heads: Count,
        dropout: Probability = 0.0,
        bias: bool = True,
        batch_first: bool = False,
    ) -> None:
        super().__init__()
        if embed_dim % num_heads:
            got, need = f"{embed_dim} features, {num_heads} heads", "features a multiple of heads"
            raise ArgumentError("MultiheadAttention", got=got, need=need)
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.dropout, self.batch_first = dropout, batch_first
        values = empty_parameter(self, (3 * embed_dim, embed_dim))
        bound = math.sqrt(6.0 / (4 * embed_dim))
        values[...] = generator_for(int(next_counter()), "in_proj_weight").uniform(-bound, bound, values.shape)
        self.in_proj_weight = Parameter(values)
        self.in_proj_bias = Parameter(np.zeros(3 * embed_dim, np.float32)) if bias else None
        self.out_proj = Linear(embed_dim, embed_dim, bias)
        if bias:
            self.out_proj.bias = np.zeros(embed_dim, np.float32)

    def forward(
        self,
        query: Any,  # noqa: ANN401  # arrays of either world
        key: Any,  # noqa: ANN401
        value: Any,  # noqa: ANN401
        key_padding_mask: Any = None,  # noqa: ANN401
        need_weights: bool = True,
        attn_mask: Any = None,  # noqa: ANN401
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> Any:  # noqa: ANN401
        """y, and weights[batch, rows, columns] or None; of each head where they are not to be averaged."""
        alone = query.ndim == 2
        q, k, v = (self._batch_first(x, name) for x, name in ((query, "query"), (key, "key"), (value, "value")))
        q, k, v = (self._heads(x, part) for part, x in enumerate((q, k, v)))
        mask = self._mask(attn_mask, key_padding_mask, q)
        causal = is_causal and attn_mask is None
        if need_weights or (self.dropout and self.training) or causal:
            y, weights = self._attend(q, k, v, mask, causal)
        else:
            y, weights = scaled_dot_product_attention(q, k, v, mask), None
        y = self.out_proj(y.reshape(*y.shape[:2], self.embed_dim))
        y = y[0] if alone else y if self.batch_first else y.swapaxes(0, 1)
        if weights is None or not need_weights:
            return y, None
        weights = weights.mean(1) if average_attn_weights else weights
        return y, weights[0] if alone else weights

    def _batch_first(self, x: ArrayOperand, name: str) -> ArrayOperand:
        """[batch, steps, features]"""
        if x.ndim not in (2, 3) or x.shape[-1] != self.embed_dim:
            axes = "[batch, steps, features]" if self.batch_first else "[steps, batch, features]"
            need = f"{axes} of {self.embed_dim} features"
            raise ShapeError("MultiheadAttention", got=f"{name}={x.spec}", need=need)
        return x.expand_dims(0) if x.ndim == 2 else x if self.batch_first else x.swapaxes(0, 1)

    def _heads(self, x: ArrayOperand, part: int) -> ArrayOperand:
        """The query, key or value of x as [batch, steps, heads, width]."""
        ends = slice(part * self.embed_dim, (part + 1) * self.embed_dim)
        bias = None if self.in_proj_bias is None else self.in_proj_bias[ends]
        y = gemm(x, self.in_proj_weight[ends], bias, transpose_b=True)
        return y.reshape(*x.shape[:2], self.num_heads, self.head_dim)

    def _mask(self, mask: Any, padding: Any, q: ArrayOperand) -> ArrayOperand | None:  # noqa: ANN401  # arrays
        """Both masks as one that is added, [batch or 1, heads or 1, rows or 1, columns]."""
        if mask is not None and mask.ndim == 3:
            mask = mask.reshape(q.shape[0], self.num_heads, *mask.shape[1:])
        elif mask is not None:
            mask = mask.reshape(1, 1, *mask.shape)
        if padding is not None:
            padding = padding.reshape(-1, 1, 1, padding.shape[-1])
        added = [_added(each, q) for each in (mask, padding) if each is not None]
        return added[0] + added[1] if len(added) == 2 else added[0] if added else None

    def _attend(
        self, q: ArrayOperand, k: ArrayOperand, v: ArrayOperand, mask: ArrayOperand | None, causal: bool
    ) -> tuple[ArrayOperand, ArrayOperand]:
        """What rows see of v, and how much of each: weights are dropped in training."""
        q, k, v = (x.swapaxes(1, 2) for x in (q, k, v))
        scores = (q @ k.swapaxes(-1, -2)) * (1.0 / math.sqrt(self.head_dim))
        if causal:
            rows, columns = scores.shape[-2:]
            hidden = np.triu(np.ones((rows, columns), np.bool_), 1)
            scores = scores + np.where(hidden, -np.inf, 0.0).astype(np.float32)
        weights = softmax(scores if mask is None else scores + mask)
        seen = dropped(weights, self.dropout) if self.dropout and self.training else weights
        return (seen @ v).swapaxes(1, 2), weights

    def __repr__(self) -> str:
        return f"MultiheadAttention({self.embed_dim}, {self.num_heads})"


def _added(mask: ArrayOperand, like: ArrayOperand) -> ArrayOperand:
    """A mask of booleans, True where nothing is seen, as one that is added."""
    return mask.astype(like.dtype) if mask.dtype is not BOOL else mask.astype(like.dtype).masked_fill(mask, -math.inf)
