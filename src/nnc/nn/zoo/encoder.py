"""An encoder of texts: what BERT, RoBERTa and DistilBERT are made of (Devlin et al. 2019).

    y = norm(table[tokens] + places + types[0])                                    blocks
    block:  y = norm(y + attention(y));  y = norm(y + feed_forward(y))

Each token sees all that are there.
"""

from __future__ import annotations

from dataclasses import field

from nnc.arguments import Count, Positive, Size, checked
from nnc.classes import dataclass
from nnc.core.values.blocks import format_of
from nnc.core.values.dtype import BOOL, U8
from nnc.errors import ArityError, AttributeValueError
from nnc.nn.layers.activation import GELU
from nnc.nn.layers.dense import Dense
from nnc.nn.layers.embedding import Embedding, broadcast_rows, normal
from nnc.nn.layers.initializers import zeros
from nnc.nn.layers.layer import Layer, MultiLayer, Scope, T
from nnc.nn.layers.normalization import LayerNorm
from nnc.ops import add, block_product, block_rows, reshape, scaled_dot_product_attention, slice_axis


@checked
@dataclass(frozen=True, slots=True)
class TextEncoder(MultiLayer):
    """Tokens[batch, t] to y[batch, t, features]; a second input real[batch, t], truth values, says which are there.

    There are `steps` places from `offset` on, and `types` of tokens, of which the first is taken. Weights in `packed`,
    by path, are rows of bytes in a block format, and not trained.
    """

    vocabulary: Count
    features: Count
    layers: Count
    heads: Count
    hidden: Count
    steps: Count
    offset: Size = 0
    types: Size = 0
    epsilon: Positive = 1e-12
    activation: Layer = field(default_factory=GELU)
    packed: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if self.features % self.heads:
            got = f"{self.features} features, {self.heads} heads"
            raise AttributeValueError("TextEncoder", got=got, need="features a multiple of heads")

    @property
    def head_width(self) -> int:
        """Features of a head."""
        return self.features // self.heads

    @property
    def key_value_heads(self) -> int:
        """As many heads of keys and values as of queries."""
        return self.heads

    def build_many(self, scope: Scope[T], inputs: tuple[T, ...]) -> tuple[T, ...]:
        """Apply to tokens, and to which of them are there."""
        if not 1 <= len(inputs) <= 2 or (len(inputs) == 2 and inputs[1].spec.dtype is not BOOL):
            got = ", ".join(str(each.spec) for each in inputs)
            raise ArityError("TextEncoder", got=got, need="tokens, and truth values of which are there, or none")
        tokens = inputs[0]
        real = reshape(inputs[1], (tokens.shape[0], 1, 1, tokens.shape[1])) if len(inputs) > 1 else None
        y = self._begun(scope, tokens)
        for layer in range(self.layers):
            place = scope.inside(f"block{layer}")
            y = self._norm(place.inside("attention_norm"), add(y, self._attention(place.inside("attention"), y, real)))
            y = self._norm(place.inside("feed_forward_norm"), add(y, self._widened(place.inside("feed_forward"), y)))
        return (y,)

    def _begun(self, scope: Scope[T], tokens: T) -> T:
        """norm(table[tokens] + places + types[0])"""
        form = self._format(inside := scope.inside("tokens"))
        if form:
            packed = inside.statistic("weight", (self.vocabulary, format_of(form).row_bytes(self.features)), U8, zeros)
            y = block_rows(packed, tokens, format=form)
        else:
            y = Embedding(self.vocabulary, self.features).build(inside, tokens)
        rows = scope.inside("positions").parameter("weight", (self.steps + self.offset, self.features), y, normal)
        y = add(y, broadcast_rows(slice_axis(rows, 0, self.offset, self.offset + tokens.shape[1]), y))
        if self.types:
            kinds = scope.inside("types").parameter("weight", (self.types, self.features), y, normal)
            y = add(y, broadcast_rows(slice_axis(kinds, 0, 0, 1), y))
        return self._norm(scope.inside("norm"), y)

    def _norm(self, scope: Scope[T], x: T) -> T:
        return LayerNorm(epsilon=self.epsilon).build(scope, x)

    def _format(self, scope: Scope[T]) -> str:
        """The block format of the weight here; empty for floats."""
        return next((form for name, form in self.packed if name == f"{scope.path}.weight"), "")

    def _dense(self, scope: Scope[T], x: T, units: int) -> T:
        form = self._format(scope)
        if not form:
            return Dense(units).build(scope, x)
        bias = scope.parameter("bias", (units,), x, zeros)
        packed = scope.statistic("weight", (units, format_of(form).row_bytes(x.shape[-1])), U8, zeros)
        return scope.adapt(scope, x, block_product(x, packed, bias, format=form))

    def _attention(self, scope: Scope[T], x: T, real: T | None) -> T:
        shape = (*x.shape[:2], self.heads, self.head_width)
        q, k, v = (
            reshape(self._dense(scope.inside(name), x, self.features), shape) for name in ("query", "key", "value")
        )
        y = reshape(scaled_dot_product_attention(q, k, v, real), x.shape)
        return self._dense(scope.inside("output"), y, self.features)

    def _widened(self, scope: Scope[T], x: T) -> T:
        wide = self.activation.build(scope, self._dense(scope.inside("widen"), x, self.hidden))
        return self._dense(scope.inside("narrow"), wide, self.features)
