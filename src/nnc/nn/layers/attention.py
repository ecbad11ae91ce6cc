"""Attention and transformer blocks over [batch, steps, features] (Vaswani et al. 2017).

A mask is the last input of a layer: truth values [batch, columns] of what is there to be seen (False is padding), or
[batch, rows, columns] or [batch, heads, rows, columns], truth values of what each row sees or floats added to scores.
"""

from __future__ import annotations

import math
from dataclasses import field
from typing import Any

from nnc.arguments import Count, Positive, Rate, Share, Size, checked
from nnc.classes import dataclass
from nnc.core.running.late_names import LateModule
from nnc.core.values.dtype import BOOL, F32, I32, AnyDType, dtype_of
from nnc.core.values.spec import check_shape
from nnc.dynamic import eager
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.errors import ArityError, ShapeError
from nnc.nn.layers.activation import GELU
from nnc.nn.layers.dense import Dense
from nnc.nn.layers.layer import AttentionForm, Layer, MultiLayer, Scope, T, require_rank
from nnc.nn.layers.normalization import LayerNorm, RMSNorm
from nnc.nn.layers.random import Dropout
from nnc.ops import (
    add,
    affine,
    broadcast_to,
    gemm,
    greater,
    less,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
    multiply,
    remainder,
    reshape,
    rotary_angles,
    rotary_embedding,
    scaled_dot_product_attention,
    softmax,
    subtract,
    tanh,
    transpose,
    triu,
    where,
)
from nnc.ops.movement.fill import scalar_like
from nnc.ops.movement.generate import arange_like

__all__ = ["CrossAttention", "FeedForward", "MultiHeadAttention", "TransformerBlock"]

_SIZED: Any = LateModule("nnc.nn.modules.mlx_modules")


@checked
@dataclass(frozen=True, slots=True)
class MultiHeadAttention(MultiLayer):
    """y = join_h softmax(q_h · k_hᵀ / √d + mask) · v_h · output, with dense q, k and v of x; d = features / heads.

    `causal`: step t sees steps ≤ t only, of which those > t - `window` where that is not 0. Queries share
    `key_value_heads` heads of keys and values where there are fewer of these (Ainslie et al. 2023). With a
    `rotary_base`, such as 10,000, queries and keys are turned by their positions (Su et al. 2021). Inputs are x, and a
    mask where there is one. In generation, causal attention keeps keys and values of earlier steps.

    >>> nn.MultiHeadAttention(4)(nnc.ones((2, 5, 16))).shape
    (2, 5, 16)
    """

    heads: Count
    causal: bool = False
    bias: bool = True
    key_value_heads: Size = 0
    rotary_base: Rate = 0.0
    window: Size = 0

    def __new__(cls, *sizes: Any, **options: Any) -> Any:  # noqa: ANN401  # this layer, or that of the sizes
        """MLX's layer where features and heads are said: `nn.MultiHeadAttention(64, 4)`."""
        second = sizes[1] if len(sizes) > 1 else options.get("num_heads")
        if "dims" in options or (isinstance(second, int) and not isinstance(second, bool)):
            return _SIZED.SizedMultiHeadAttention(*sizes, **options)
        return object.__new__(cls)

    @staticmethod
    def create_additive_causal_mask(N: int, dtype: AnyDType = F32) -> ArrayOperand:  # noqa: N803  # MLX's name
        """What is added to scores so that step t sees steps ≤ t only: 0 there, and the type's lowest number."""
        low = -1e9 if dtype_of(dtype).itemsize > 2 else -6e4
        return causal_mask("create_additive_causal_mask", N, low).astype(dtype)

    def build_many(self, scope: Scope[T], inputs: tuple[T, ...]) -> tuple[T, ...]:
        """Apply to `x`[batch, steps, features] and a mask."""
        x, mask = with_mask("MultiHeadAttention", inputs, 1)
        require_rank("MultiHeadAttention", x[0], 3, "batch, steps, features")
        features = x[0].shape[2]
        groups = self.key_value_heads or self.heads
        if features % self.heads or self.heads % groups:
            got = f"{features} features, {groups} key and value heads"
            need = f"features a multiple of {self.heads} heads, and these of key and value heads"
            raise ShapeError("MultiHeadAttention", got=got, need=need)
        width = features // self.heads
        q = split_heads(scope.inside("query"), x[0], self.heads, width, self.bias)
        k, v = (split_heads(scope.inside(name), x[0], groups, width, self.bias) for name in ("key", "value"))
        y = self._attend(scope, q, k, v, mask)
        return (Dense(features, self.bias).build(scope.inside("output"), reshape(y, x[0].shape)),)

    def _attend(self, scope: Scope[T], q: T, k: T, v: T, mask: T | None) -> T:
        cache = scope.cache if self.causal else None
        positions = arange_like(q, q.shape[1], dtype=I32) if cache is None else cache.positions
        if self.rotary_base:
            angles = rotary_angles(positions, q.shape[3] // 2, base=self.rotary_base, dtype=q.spec.dtype)
            q, k = rotary_embedding(q, angles), rotary_embedding(k, angles)
        if cache is not None and mask is None:
            y = scope.attended(q, k, v, AttentionForm(1.0 / math.sqrt(max(q.shape[3], 1)), self.window))
            assert y is not None
            return y
        if cache is not None:
            k, v = scope.kept("key", k), scope.kept("value", v)
        if cache is not None or (self.causal and self.window):
            mask = _both(seen_columns(positions, k.shape[1], self.window), mask)
        return scaled_dot_product_attention(q, k, v, mask, causal=self.causal and cache is None)


@checked
@dataclass(frozen=True, slots=True)
class CrossAttention(MultiLayer):
    """`MultiHeadAttention` with keys and values of a memory: inputs are x, the memory, and a mask of the memory.

    >>> nn.CrossAttention(4)(nnc.ones((2, 5, 16)), nnc.ones((2, 7, 16))).shape
    (2, 5, 16)
    """

    heads: Count
    bias: bool = True

    def build_many(self, scope: Scope[T], inputs: tuple[T, ...]) -> tuple[T, ...]:
        """Apply to `x`[batch, steps, features] and `memory`[batch, columns, any features]."""
        (x, memory), mask = with_mask("CrossAttention", inputs, 2)
        for operand in (x, memory):
            require_rank("CrossAttention", operand, 3, "batch, steps, features")
        features = x.shape[2]
        if features % self.heads:
            raise ShapeError("CrossAttention", got=f"{features} features", need=f"a multiple of {self.heads} heads")
        pairs = zip(("query", "key", "value"), (x, memory, memory), strict=True)
        width = features // self.heads
        q, k, v = (split_heads(scope.inside(name), operand, self.heads, width, self.bias) for name, operand in pairs)
        y = scaled_dot_product_attention(q, k, v, mask)
        return (Dense(features, self.bias).build(scope.inside("output"), reshape(y, x.shape)),)


@checked
@dataclass(frozen=True, slots=True)
class FeedForward(Layer):
    """y = narrow(activation(widen(x))), `hidden` wide (4 · features when 0).

    Where it is `gated`, y = narrow(activation(gate(x)) · widen(x)): with `SiLU` the SwiGLU of Shazeer (2020).

    >>> nn.FeedForward(32)(nnc.ones((2, 5, 16))).shape
    (2, 5, 16)
    """

    hidden: Size = 0
    activation: Layer = field(default_factory=GELU)
    bias: bool = True
    gated: bool = False

    def build(self, scope: Scope[T], x: T) -> T:
        """Apply to the last axis of `x`."""
        wider = Dense(self.hidden or 4 * x.shape[-1], self.bias)
        wide = wider.build(scope.inside("widen"), x)
        if self.gated:
            gate = wider.build(scope.inside("gate"), x)
            active = multiply(self.activation.build(scope, gate), wide)
        else:
            active = self.activation.build(scope, wide)
        return Dense(x.shape[-1], self.bias).build(scope.inside("narrow"), active)


@checked
@dataclass(frozen=True, slots=True)
class TransformerBlock(MultiLayer):
    """x = x + attention(norm(x)); y = x + feed_forward(norm(x)), with a `FeedForward` `hidden` wide.

    Without `norm_first` each norm comes behind its sum instead, as in the first transformers. Norms are `RMSNorm`s
    where `rms`. `dropout` is that of what is added to x. Inputs are x, and a mask where there is one. With `memory`, as
    in a decoder, a `CrossAttention` stands between the two, and inputs are x, the memory, and a mask of the memory.

    >>> nn.TransformerBlock(4)(nnc.ones((2, 5, 16))).shape
    (2, 5, 16)
    """

    heads: Count
    hidden: Size = 0
    causal: bool = False
    norm_first: bool = True
    bias: bool = True
    epsilon: Positive = 1e-5
    activation: Layer = field(default_factory=GELU)
    key_value_heads: Size = 0
    rotary_base: Rate = 0.0
    window: Size = 0
    gated: bool = False
    rms: bool = False
    memory: bool = False
    dropout: Share = 0.0

    def build_many(self, scope: Scope[T], inputs: tuple[T, ...]) -> tuple[T, ...]:
        """Apply to `x`[batch, steps, features]."""
        (x, *memory), mask = with_mask("TransformerBlock", inputs, 1 + self.memory)
        attention = MultiHeadAttention(
            self.heads, self.causal, self.bias, self.key_value_heads, self.rotary_base, self.window
        )
        masks = () if mask is None else (mask,)
        x = self._join(scope, (x,) if memory else (x, *masks), "attention", attention)
        if memory:
            x = self._join(scope, (x, *memory, *masks), "cross_attention", CrossAttention(self.heads, self.bias))
        body = FeedForward(self.hidden, self.activation, self.bias, self.gated)
        return (self._join(scope, (x,), "feed_forward", body),)

    def _join(self, scope: Scope[T], inputs: tuple[T, ...], name: str, body: Layer) -> T:
        x, *others = inputs
        norm = RMSNorm(epsilon=self.epsilon) if self.rms else LayerNorm(epsilon=self.epsilon, bias=self.bias)
        within, inside = scope.inside(name), scope.inside(f"{name}_norm")
        first = norm.build(inside, x) if self.norm_first else x
        (y,) = body.build_many(within, (first, *others))
        joined = add(Dropout(self.dropout).build(within, y), x)
        return joined if self.norm_first else norm.build(inside, joined)


def with_mask(layer: str, inputs: tuple[T, ...], count: int) -> tuple[tuple[T, ...], T | None]:
    """The first `count` inputs, and a mask as attention takes it where there is one more."""
    if not count <= len(inputs) <= count + 1:
        raise ArityError(layer, got=f"{len(inputs)} inputs", need=f"{count}, and a mask or none")
    if len(inputs) == count:
        return inputs, None
    mask = inputs[count]
    if mask.spec.rank not in (2, 3, 4) or (mask.spec.rank == 2 and mask.spec.dtype is not BOOL):
        need = "truth values [batch, columns], or a mask [batch, rows, columns] or [batch, heads, rows, columns]"
        raise ShapeError(layer, got=f"mask={mask.spec}", need=need)
    shape = mask.shape
    if len(shape) < 4:
        mask = reshape(mask, (shape[0], *(1,) * (4 - len(shape)), *shape[1:]))
    return inputs[:count], mask


def split_heads(scope: Scope[T], x: T, heads: int, width: int, bias: bool) -> T:
    """A dense layer of x[batch, steps, features] as [batch, steps, heads, width]."""
    return reshape(Dense(heads * width, bias).build(scope, x), (*x.shape[:2], heads, width))


def seen_columns(positions: T, columns: int, window: int, sinks: int = 0, *, wrapped: bool = False) -> T:
    """Which columns each position sees: [batch, 1, rows, columns], with a batch of 1 for positions[rows].

    Those of the window, and the `sinks` in front. Columns behind these are `wrapped` as `cached_attention` has them.
    """
    shape = (*positions.shape[:-1], 1, positions.shape[-1], 1)
    shape = (1,) * (4 - len(shape)) + shape
    whole = (*shape[:3], columns)
    places = broadcast_to(reshape(arange_like(positions, columns, dtype=I32), (1, 1, 1, columns)), whole)
    rows = broadcast_to(reshape(positions, shape), whole)
    seen = less_equal(places, rows)
    if not window:
        return seen
    first = less(places, scalar_like(places, sinks)) if sinks else None
    if wrapped:
        back = remainder(subtract(rows, places), scalar_like(rows, columns - sinks))
        near = logical_and(less(back, scalar_like(back, window)), less_equal(back, affine(rows, 1.0, -sinks)))
        if first is None:
            return near
        return logical_or(logical_and(first, seen), logical_and(logical_not(first), near))
    near = greater(places, affine(rows, 1.0, -window))
    return logical_and(seen, near if first is None else logical_or(near, first))


def masked_attention(q: T, k: T, v: T, seen: T | None, form: AttentionForm) -> T:
    """Attention of rows that see these columns: of all rows those before them and their own where there is no mask."""
    if not form.cap or seen is None:
        return scaled_dot_product_attention(q, k, v, seen, scale=form.scale, causal=seen is None)
    (batch, rows, heads, width), (columns, groups) = q.shape, k.shape[1:3]
    # Heads as [batch, groups, heads of a group, rows, …].
    queries = transpose(reshape(q, (batch, rows, groups, heads // groups, width)), (0, 2, 3, 1, 4))
    keys, values = (reshape(transpose(each, (0, 2, 1, 3)), (batch, groups, 1, columns, width)) for each in (k, v))
    scores = capped(affine(gemm(queries, keys, transpose_b=True), form.scale), form.cap)
    visible = reshape(seen, (seen.shape[0], 1, 1, *seen.shape[2:]))
    y = gemm(softmax(where(visible, scores, -math.inf)), values)
    return reshape(transpose(y, (0, 3, 1, 2, 4)), (batch, rows, heads, width))


def causal_mask(subject: str, steps: int, low: float) -> ArrayOperand:
    """What is added to scores of [steps, steps]: 0 where a row sees a column, up to its own, and `low` behind it."""
    return triu(broadcast_to(eager.tensor(low, dtype=F32), check_shape((steps, steps), subject)), 1)


def capped(x: T, cap: float) -> T:
    """cap · tanh(x / cap); x where the cap is 0."""
    return affine(tanh(affine(x, 1.0 / cap)), cap) if cap else x


def _both(seen: T, mask: T | None) -> T:
    """What both let be seen, scores of a mask of floats kept."""
    if mask is None:
        return seen
    shape = tuple(map(max, seen.shape, mask.shape))
    seen, mask = broadcast_to(seen, shape), broadcast_to(mask, shape)
    return logical_and(seen, mask) if mask.spec.dtype is BOOL else where(seen, mask, -math.inf)
