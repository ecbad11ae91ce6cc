"""Attention and transformer blocks over [batch, steps, features] (Vaswani et al. 2017)."""

from __future__ import annotations

from dataclasses import dataclass, field

from nnc.arguments import Count, Positive, Size, checked
from nnc.errors import ShapeError
from nnc.nn.layer import Layer, Scope, T, require_rank
from nnc.nn.layers.activation import GELU
from nnc.nn.layers.dense import Dense
from nnc.nn.layers.normalization import LayerNorm
from nnc.ops import add, reshape, scaled_dot_product_attention


@checked
@dataclass(frozen=True, slots=True)
class MultiHeadAttention(Layer):
    """y = join_h softmax(q_h · k_hᵀ / √d) · v_h · output, with q, k and v dense layers of x; d = features / heads.

    `causal`: step t sees steps ≤ t only.
    """

    heads: Count
    causal: bool = False
    bias: bool = True

    def build(self, scope: Scope[T], x: T) -> T:
        """Apply to `x`[batch, steps, features]."""
        require_rank("MultiHeadAttention", x, 3, "batch, steps, features")
        batch, steps, features = x.shape
        if features % self.heads:
            raise ShapeError("MultiHeadAttention", got=f"{features} features", need=f"a multiple of {self.heads} heads")
        dense = Dense(features, self.bias)
        shape = (batch, steps, self.heads, features // self.heads)
        q, k, v = (reshape(dense.build(scope.inside(name), x), shape) for name in ("query", "key", "value"))
        y = scaled_dot_product_attention(q, k, v, causal=self.causal)
        return dense.build(scope.inside("output"), reshape(y, x.shape))


@checked
@dataclass(frozen=True, slots=True)
class TransformerBlock(Layer):
    """x = x + attention(norm(x)); y = x + narrow(activation(widen(norm(x)))), `hidden` wide (4 · features when 0).

    Without `norm_first` each norm comes behind its sum instead, as in the first transformers.
    """

    heads: Count
    hidden: Size = 0
    causal: bool = False
    norm_first: bool = True
    bias: bool = True
    epsilon: Positive = 1e-5
    activation: Layer = field(default_factory=GELU)

    def build(self, scope: Scope[T], x: T) -> T:
        """Apply to `x`[batch, steps, features]."""
        attention = MultiHeadAttention(self.heads, self.causal, self.bias)
        x = self._join(scope, x, "attention", attention)
        return self._join(scope, x, "feed_forward", _FeedForward(self.hidden or 4 * x.shape[-1], self))

    def _join(self, scope: Scope[T], x: T, name: str, body: Layer) -> T:
        norm, inside = LayerNorm(epsilon=self.epsilon, bias=self.bias), scope.inside(f"{name}_norm")
        if self.norm_first:
            return add(body.build(scope.inside(name), norm.build(inside, x)), x)
        return norm.build(inside, add(body.build(scope.inside(name), x), x))


@checked
@dataclass(frozen=True, slots=True)
class _FeedForward(Layer):
    """y = narrow(activation(widen(x)))."""

    hidden: int
    block: TransformerBlock

    def build(self, scope: Scope[T], x: T) -> T:
        """Apply to the last axis of `x`."""
        wide = Dense(self.hidden, self.block.bias).build(scope.inside("widen"), x)
        active = self.block.activation.build(scope, wide)
        return Dense(x.shape[-1], self.block.bias).build(scope.inside("narrow"), active)
