"""A decoder of tokens whose parts are chosen one by one: what LLaMA, Mistral, Qwen, Phi, Gemma and GPT-2 are made of.

    y = table[tokens] · scale (+ place)                                    blocks, norm, head
    block:  y = y + post(attention(norm(y)));  y = y + post(feed_forward(norm(y)))

`post` is a norm or nothing. Tensors have the paths of `LLaMA`, so the same files fill them. Several sequences may lie
behind each other in a row: with `starts`, the place where the sequence of each token begins, none sees another.
"""

from __future__ import annotations

import math
from dataclasses import field
from functools import partial, reduce
from typing import ClassVar

import numpy as np

from nnc.arguments import Count, Finite, Positive, Rate, Size, checked
from nnc.classes import dataclass
from nnc.core.values.blocks import format_of
from nnc.core.values.dtype import F32, I32, U8
from nnc.errors import ArityError, AttributeValueError
from nnc.nn.layers.activation import SiLU
from nnc.nn.layers.attention import capped, masked_attention, seen_columns
from nnc.nn.layers.dense import Dense
from nnc.nn.layers.embedding import Embedding, PositionEmbedding, broadcast_rows
from nnc.nn.layers.initializers import Values, zeros
from nnc.nn.layers.layer import AttentionForm, Layer, MultiLayer, Scope, T
from nnc.nn.layers.normalization import LayerNorm, RMSNorm
from nnc.ops import (
    add,
    affine,
    block_product,
    block_rows,
    broadcast_to,
    divide,
    equal,
    gemm,
    greater_equal,
    index_select,
    logical_and,
    logical_or,
    multiply,
    reduce_sum,
    reshape,
    rotary_angles,
    rotary_embedding,
    sigmoid,
    slice_axis,
    softmax,
    subtract,
    top_k,
    where,
)
from nnc.ops.movement.fill import scalar_like
from nnc.ops.movement.generate import arange_like

# The name of the shares that angles are multiplied with.
TURNS = "turns"


@checked
@dataclass(frozen=True, slots=True)
class Rotary:
    """angle[t, i] = t · base^(-i / pairs) / factors[i], by which pair i of a head's features is turned.

    `pairs` are half of the width unless given; features behind them stay. Pair i is features (i, i + pairs), or
    (2i, 2i + 1) when `interleaved`. Without `factors` all are 1.
    """

    base: Positive = 10_000.0
    pairs: Size = 0
    factors: tuple[float, ...] = ()
    interleaved: bool = False


@checked
@dataclass(frozen=True, slots=True)
class Experts:
    """y = sum over the `used` experts e of the largest p_e of p_e · feed_forward_e(x), p = softmax(router(x)).

    There are `count` of them, `hidden` wide each. Where `renormalized`, the p of those that are used sum to 1. With
    `shared` > 0, an expert so wide is always used: σ(shared_gate(x)) · feed_forward(x).
    """

    count: Count
    used: Count
    hidden: Count
    shared: Size = 0
    renormalized: bool = True

    def __post_init__(self) -> None:
        if self.used > self.count:
            raise AttributeValueError("Experts", got=f"{self.used} of {self.count} used", need="at most all")


@checked
@dataclass(frozen=True, slots=True)
class Decoder(MultiLayer):
    """Tokens[batch, t] to logits[batch, t, vocabulary], or to y[batch, t, features] before the `head`.

    A second input `starts`[batch, t], i32, packs sequences: token t sees those from starts[t] to t, its place is
    t - starts[t].

    A head has `width` features (features / heads where that is 0). Layer i sees `window[i]` tokens, itself
    among them, 0 for all; layers with a window turn by `local`, where that is given. With a
    `limit` layers that see more see the last `limit` tokens and the first `sinks` (Xiao et al. 2023). `steps` > 0:
    places are learned.
    `experts` stand in the place of each feed_forward; all of them are computed, as routes differ by token.
    Scores are `scale` · q · k (1 / √width when 0) and with a cap `c` c · tanh(scores / c), the `score_cap` of attention
    and the `logit_cap` of the head. Weights in `packed`, by path, are rows of bytes in
    a block format, and not trained.
    """

    tokens_apart: ClassVar[bool] = True

    vocabulary: Count
    features: Count
    layers: Count
    heads: Count
    hidden: Count
    key_value_heads: Size = 0
    width: Size = 0
    steps: Size = 0
    rotary: Rotary | None = field(default_factory=Rotary)
    local: Rotary | None = None
    window: tuple[int, ...] = ()
    epsilon: Positive = 1e-5
    activation: Layer = field(default_factory=SiLU)
    gated: bool = True
    rms: bool = True
    query_bias: bool = False
    output_bias: bool = False
    feed_forward_bias: bool = False
    head_bias: bool = False
    head_norm: bool = False
    post_norm: bool = False
    tied: bool = False
    head: bool = True
    token_scale: Finite = 1.0
    scale: Rate = 0.0
    score_cap: Rate = 0.0
    logit_cap: Rate = 0.0
    packed: tuple[tuple[str, str], ...] = ()
    experts: Experts | None = None
    limit: Size = 0
    sinks: Size = 0

    def __post_init__(self) -> None:
        if self.sinks and not self.limit:
            raise AttributeValueError("Decoder", got=f"{self.sinks} sinks", need="a limit beside them")
        if self.heads % (self.key_value_heads or self.heads):
            got = f"{self.heads} heads, {self.key_value_heads} of keys and values"
            raise AttributeValueError("Decoder", got=got, need="heads a multiple of those of keys and values")
        if len(self.window) not in (0, self.layers) or min(self.window, default=0) < 0:
            need = f"none, or one ≥ 0 for each of {self.layers} layers"
            raise AttributeValueError("Decoder", got=f"{len(self.window)} windows", need=need)
        if not self.width and self.features % self.heads:
            got = f"{self.features} features, {self.heads} heads"
            raise AttributeValueError("Decoder", got=got, need="features a multiple of heads, or a width")
        for rotary in (self.rotary, self.local):
            if rotary is not None and not 2 * self.pairs_of(rotary) <= self.head_width:
                got = f"{self.pairs_of(rotary)} pairs in heads of {self.head_width} features"
                raise AttributeValueError("Decoder", got=got, need="at most half as many pairs")

    @property
    def head_width(self) -> int:
        """Features of a head."""
        return self.width or self.features // self.heads

    def pairs_of(self, rotary: Rotary) -> int:
        """How many pairs of features are turned."""
        pairs = rotary.pairs or self.head_width // 2
        if rotary.factors and len(rotary.factors) != pairs:
            got = f"{len(rotary.factors)} factors of {pairs} pairs"
            raise AttributeValueError("Rotary", got=got, need="one for each pair")
        return pairs

    def build_many(self, scope: Scope[T], inputs: tuple[T, ...]) -> tuple[T, ...]:
        """Apply to tokens, and to starts where they are packed."""
        if not 1 <= len(inputs) <= 2:
            raise ArityError("Decoder", got=f"{len(inputs)} inputs", need="tokens, and starts or none")
        if self.sinks and len(inputs) > 1:
            raise AttributeValueError("Decoder", got="sinks beside packed sequences", need="one or the other")
        y = self._hidden(scope, inputs[0], inputs[1] if len(inputs) > 1 else None)
        return (self._head(scope, y) if self.head else y,)

    def _hidden(self, scope: Scope[T], x: T, starts: T | None) -> T:
        y = self._tokens(scope.inside("tokens"), x)
        if self.token_scale != 1.0:
            y = affine(y, self.token_scale)
        if self.steps:
            y = self._places(scope.inside("positions"), y, starts)
        for layer in range(self.layers):
            y = self._block(scope.inside(f"block{layer}"), y, self.window[layer] if self.window else 0, starts)
        return self._norm(scope.inside("norm"), y)

    def _places(self, scope: Scope[T], y: T, starts: T | None) -> T:
        """y + the row of each token's place."""
        learned = PositionEmbedding(self.steps)
        if starts is None:
            return learned.build(scope, y)
        return add(y, index_select(learned.table(scope, y), subtract(_columns(starts), starts)))

    def _head(self, scope: Scope[T], y: T) -> T:
        y = scope.wanted(y)
        inside = scope.inside("tokens" if self.tied else "head")
        if self.tied and not self._format(inside):
            y = gemm(y, Embedding(self.vocabulary, self.features).table(inside), transpose_b=True)
        else:
            y = self._dense(inside, y, self.vocabulary, self.head_bias)
        return capped(y, self.logit_cap)

    def _format(self, scope: Scope[T]) -> str:
        """The block format of the weight here; empty for floats."""
        path = f"{scope.path}.weight"
        return next((form for name, form in self.packed if name == path), "")

    def _rows(self, scope: Scope[T], form: str, rows: int, elements: int) -> T:
        return scope.statistic("weight", (rows, format_of(form).row_bytes(elements)), U8, zeros)

    def _tokens(self, scope: Scope[T], x: T) -> T:
        form = self._format(scope)
        if not form:
            return Embedding(self.vocabulary, self.features).build(scope, x)
        return block_rows(self._rows(scope, form, self.vocabulary, self.features), x, format=form)

    def _dense(self, scope: Scope[T], x: T, units: int, bias: bool) -> T:
        """y = x @ weight + bias, the weight in blocks or in floats."""
        form = self._format(scope)
        if not form:
            return Dense(units, bias).build(scope, x)
        added = scope.parameter("bias", (units,), x, zeros) if bias else None
        packed = self._rows(scope, form, units, x.shape[-1])
        return scope.adapt(scope, x, block_product(x, packed, added, format=form))

    def _norm(self, scope: Scope[T], x: T) -> T:
        norm = RMSNorm(epsilon=self.epsilon) if self.rms else LayerNorm(epsilon=self.epsilon)
        return norm.build(scope, x)

    def _block(self, scope: Scope[T], x: T, window: int, starts: T | None) -> T:
        for name in ("attention", "feed_forward"):
            y = self._norm(scope.inside(f"{name}_norm"), x)
            inside = scope.inside(name)
            y = self._attention(inside, y, window, starts) if name == "attention" else self._widened(inside, y)
            if self.post_norm:
                y = self._norm(scope.inside(f"{name}_post_norm"), y)
            x = add(x, y)
        return x

    def _widened(self, scope: Scope[T], x: T) -> T:
        """A feed_forward, or those of experts by their shares."""
        experts = self.experts
        if experts is None:
            return self._feed_forward(scope, x, self.hidden)
        shares = _shares(self._dense(scope.inside("router"), x, experts.count, False), experts)
        parts = []
        for number in range(experts.count):
            own = self._feed_forward(scope.inside(f"expert{number}"), x, experts.hidden)
            share = slice_axis(shares, x.spec.rank - 1, number, number + 1)
            parts.append(multiply(own, broadcast_to(share, own.shape)))
        if experts.shared:
            own = self._feed_forward(scope.inside("shared"), x, experts.shared)
            gate = sigmoid(self._dense(scope.inside("shared_gate"), x, 1, False))
            parts.append(multiply(own, broadcast_to(gate, own.shape)))
        return reduce(add, parts)

    def _feed_forward(self, scope: Scope[T], x: T, hidden: int) -> T:
        bias = self.feed_forward_bias
        wide = self._dense(scope.inside("widen"), x, hidden, bias)
        if self.gated:
            gate = self._dense(scope.inside("gate"), x, hidden, bias)
            wide = multiply(self.activation.build(scope, gate), wide)
        else:
            wide = self.activation.build(scope, wide)
        return self._dense(scope.inside("narrow"), wide, self.features, bias)

    def _attention(self, scope: Scope[T], x: T, window: int, starts: T | None) -> T:
        groups, width = self.key_value_heads or self.heads, self.head_width
        q, k, v = (
            reshape(self._dense(scope.inside(name), x, heads * width, self.query_bias), (*x.shape[:2], heads, width))
            for name, heads in (("query", self.heads), ("key", groups), ("value", groups))
        )
        if self.head_norm:
            q, k = self._norm(scope.inside("query_norm"), q), self._norm(scope.inside("key_norm"), k)
        positions = arange_like(q, q.shape[1], dtype=I32) if scope.cache is None else scope.cache.positions
        rotary = self.local if window and self.local is not None else self.rotary
        if rotary is not None:
            places = positions if starts is None else subtract(_columns(starts), starts)
            angles = self._angles(scope, rotary, places)
            q, k = (rotary_embedding(each, angles, interleaved=rotary.interleaved) for each in (q, k))
        if self.limit and not 0 < window <= self.limit:
            window, sinks = self.limit, self.sinks
        else:
            sinks = 0
        form = AttentionForm(self.scale or 1.0 / math.sqrt(width), window, self.score_cap, sinks)
        y = scope.attended(q, k, v, form)
        if y is None:
            plain = not (window or self.score_cap or starts is not None)
            seen = None if plain else _of_same(seen_columns(positions, k.shape[1], window, sinks), starts)
            y = masked_attention(q, k, v, seen, form)
        y = reshape(y, (*x.shape[:2], self.heads * width))
        return self._dense(scope.inside("output"), y, self.features, self.output_bias)

    def _angles(self, scope: Scope[T], rotary: Rotary, positions: T) -> T:
        angles = rotary_angles(positions, self.pairs_of(rotary), base=rotary.base)
        if not rotary.factors:
            return angles
        shares = scope.statistic(TURNS, (len(rotary.factors),), F32, partial(_write_shares, rotary.factors))
        return multiply(angles, broadcast_rows(shares, angles))


def _shares(scores: T, experts: Experts) -> T:
    """softmax(scores) of the experts that are used, 0 of all others."""
    whole = softmax(scores)
    _, chosen = top_k(whole, experts.used)
    numbers = broadcast_rows(arange_like(chosen, experts.count, dtype=chosen.spec.dtype), whole)
    last = whole.spec.rank - 1
    hits = [
        equal(broadcast_to(slice_axis(chosen, last, place, place + 1), whole.shape), numbers)
        for place in range(experts.used)
    ]
    shares = where(reduce(logical_or, hits), whole, scalar_like(whole, 0.0))
    if not experts.renormalized:
        return shares
    return divide(shares, broadcast_to(reduce_sum(shares, -1, keepdims=True), shares.shape))


def _columns(starts: T) -> T:
    """0, 1, … along each row."""
    return broadcast_rows(arange_like(starts, starts.shape[1], dtype=I32), starts)


def _of_same(seen: T, starts: T | None) -> T:
    """Of the columns that are seen, those that do not lie before the start of the row's sequence."""
    if starts is None:
        return seen
    batch, rows = starts.shape
    whole = (batch, 1, rows, rows)
    columns = broadcast_to(reshape(arange_like(starts, rows, dtype=I32), (1, 1, 1, rows)), whole)
    own = greater_equal(columns, broadcast_to(reshape(starts, (batch, 1, rows, 1)), whole))
    return logical_and(broadcast_to(seen, whole), own)


def _write_shares(factors: tuple[float, ...], generator: np.random.Generator, values: Values) -> None:
    """1 / factor of each pair."""
    values[...] = 1.0 / np.array(factors)
