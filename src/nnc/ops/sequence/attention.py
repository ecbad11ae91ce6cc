"""Scaled dot product attention, one pass without the matrix of probabilities in memory.

    s[b, h, i, j] = scale · sum_d q[b, i, h, d] · k[b, j, h / r, d] + mask[b, h, i, j]
    lse[b, h, i]  = ln sum_j e^s[b, h, i, j]
    y[b, i, h, e] = sum_j p[b, h, i, j] · v[b, j, h / r, e],   p = e^(s - lse)

q is [batch, rows, heads, d], k is [batch, columns, heads / r, d], v is [batch, columns, heads / r, e]: r query heads
share a key and value head. A mask broadcasts to [batch, heads, rows, columns]; floats are added, and where a truth
value is False the column is not seen. With `causal` row i sees columns j ≤ i + columns - rows (the last row sees all).
A row that sees no column gets y = 0 and lse = +inf, so that p is 0 there and not nan.

Gradients (D = sum_e g · y - lse', t = g · v - D, all from p, which is computed again from q, k and lse):

    v' = p^T · g;   s' = p · t;   q' = scale · s' · k;   k' = scale · s'^T · q;   mask' = s'
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from nnc.classes import dataclass
from nnc.core.values.command import Command
from nnc.core.values.dtype import BOOL, F32
from nnc.core.values.spec import OptionalSpecs, TensorSpec, broadcast_shapes, spec
from nnc.errors import AttributeValueError, DTypeError, ShapeError
from nnc.ops.batching import BatchedCall, batched_within
from nnc.ops.decomposition import by_decomposition
from nnc.ops.elementwise.pointwise import add, affine, cast, exp, multiply, subtract, where
from nnc.ops.examples import HEADS, MATRIX, Example
from nnc.ops.movement.broadcast import broadcast_to, reduce_sum, reshape, sum_to
from nnc.ops.movement.fill import fill_like, scalar_like
from nnc.ops.movement.movement import transpose
from nnc.ops.number import as_float
from nnc.ops.operand import Operand, T
from nnc.ops.precision import LOW, Precision, Runs
from nnc.ops.products.products import gemm
from nnc.ops.rules import FLOATS, Applied, Gradients, Inplace, NotDifferentiable, Specs, check_kinds, operator
from nnc.ops.work import present

__all__ = ["attention_with_lse", "scaled_dot_product_attention"]


@dataclass(frozen=True, slots=True)
class AttentionAttrs:
    """The factor of the scores, and whether later columns are hidden."""

    scale: float
    causal: bool = False


@dataclass(frozen=True, slots=True)
class CausalBiasAttrs:
    """The spec of the bias: [rows, columns]."""

    spec: TensorSpec


# ---- inference


def _score_shape(q: TensorSpec, k: TensorSpec) -> tuple[int, int, int, int]:
    return (q.shape[0], q.shape[2], q.shape[1], k.shape[1])


def _check(subject: str, attrs: AttentionAttrs, specs: Specs, mask: TensorSpec | None) -> None:
    q, k, v = specs
    shown = f"q={q}, k={k}, v={v}"
    check_kinds(FLOATS, q)
    if not math.isfinite(as_float(attrs.scale)):
        raise AttributeValueError(subject, got=f"scale={attrs.scale}", need="a finite number")
    if any(spec.dtype is not q.dtype for spec in (k, v)):
        raise DTypeError(subject, got=shown, need="one element type", fix="cast() one of them")
    if any(spec.rank != 4 for spec in specs):
        raise ShapeError(subject, got=shown, need="four dimensions [batch, rows, heads, features] each")
    if k.shape[:3] != v.shape[:3] or q.shape[0] != k.shape[0] or q.shape[3] != k.shape[3]:
        raise ShapeError(subject, got=shown, need="one batch, k's columns and heads == v's, q's features == k's")
    if k.shape[2] == 0 or q.shape[2] % k.shape[2]:
        raise ShapeError(subject, got=shown, need=f"q's heads ({q.shape[2]}) divisible by k's ({k.shape[2]})")
    if mask is not None:
        _check_mask(subject, mask, q, _score_shape(q, k))


def _check_mask(subject: str, mask: TensorSpec, q: TensorSpec, scores: tuple[int, ...]) -> None:
    if mask.dtype not in (BOOL, q.dtype):
        raise DTypeError(subject, got=f"mask={mask}", need=f"bool or {q.dtype}", fix="cast() it")
    if mask.rank > 4 or broadcast_shapes(subject, mask.shape, scores) != scores:
        raise ShapeError(subject, got=f"mask={mask}", need=f"a shape that broadcasts to {list(scores)}")


def _infer(attrs: AttentionAttrs, specs: OptionalSpecs) -> Specs:
    q, k, v, mask = specs
    assert q is not None
    assert k is not None
    assert v is not None
    _check("attention", attrs, (q, k, v), mask)
    return (replace(q, shape=(*q.shape[:3], v.shape[3])), _row_spec(q))


def _row_spec(q: TensorSpec) -> TensorSpec:
    """The spec of lse: f32 for narrower floats."""
    dtype = F32 if q.dtype.itemsize < F32.itemsize else q.dtype
    return replace(q, shape=(q.shape[0], q.shape[2], q.shape[1]), dtype=dtype)


def _infer_gradient(attrs: AttentionAttrs, specs: OptionalSpecs) -> Specs:
    *required, mask = specs
    present = tuple(spec for spec in required if spec is not None)
    g, q, k, v, y, lse = present
    _check("attention_gradient", attrs, (q, k, v), mask)
    need = replace(q, shape=(*q.shape[:3], v.shape[3]))
    if (g, y, lse) != (need, need, _row_spec(q)):
        raise ShapeError("attention_gradient", got=f"g={g}, y={y}, lse={lse}", need=f"{need}, {need}, {_row_spec(q)}")
    return (q, k, v)


def _infer_bias(attrs: CausalBiasAttrs, specs: Specs) -> Specs:
    if not attrs.spec.dtype.is_float or attrs.spec.rank != 2:
        raise AttributeValueError("causal_bias", got=str(attrs.spec), need="floats [rows, columns]")
    return (attrs.spec,)


# ---- gradients in operators; heads are [batch, groups, r, rows, d], so that r query heads broadcast over one of k


def _query_heads(x: T, groups: int) -> T:
    batch, rows, heads, features = x.shape
    return reshape(transpose(x, (0, 2, 1, 3)), (batch, groups, heads // groups, rows, features))


def _key_heads(x: T) -> T:
    return _query_heads(x, x.shape[2])


def _from_heads(x: T) -> T:
    batch, groups, repeats, rows, features = x.shape
    return transpose(reshape(x, (batch, groups * repeats, rows, features)), (0, 2, 1, 3))


def _grouped_mask(mask: T, groups: int, heads: int) -> T:
    """A mask as [batch, groups, r, rows, columns], sizes of 1 where it broadcasts."""
    batch, own, rows, columns = (1,) * (4 - mask.spec.rank) + mask.shape
    split = (1, 1) if own == 1 else (groups, heads // groups)
    return reshape(mask, (batch, *split, rows, columns))


def _probabilities(attrs: AttentionAttrs, q: T, k: T, lse: T, mask: T | None) -> T:
    """p = e^(s - lse), as [batch, groups, r, rows, columns]."""
    (_, rows, heads, _), (_, columns, groups, _) = q.shape, k.shape
    scores = affine(gemm(_query_heads(q, groups), _key_heads(k), transpose_b=True), attrs.scale)
    if attrs.causal:
        bias = Command(CAUSAL_BIAS, CausalBiasAttrs(replace(q.spec, shape=(rows, columns))))
        scores = add(scores, q.apply(bias, ())[0])
    if mask is not None:
        part = _grouped_mask(mask, groups, heads)
        hidden = scalar_like(scores, -math.inf)
        scores = where(part, scores, hidden) if mask.spec.dtype is BOOL else add(scores, part)
    total = reshape(cast(lse, q.spec.dtype), (*scores.shape[:4], 1))
    return exp(subtract(scores, total))


def _composed(
    attrs: AttentionAttrs, operands: Sequence[T], mask: T | None, g_lse: T | None
) -> tuple[tuple[T, T, T], T]:
    """((q', k', v'), s') of g, q, k, v, y, lse."""
    g, q, k, v, y, lse = operands
    groups = k.shape[2]
    p = _probabilities(attrs, q, k, lse, mask)
    queries, keys, values, slopes = _query_heads(q, groups), _key_heads(k), _key_heads(v), _query_heads(g, groups)
    delta = _query_heads(reduce_sum(multiply(g, y), -1, keepdims=True), groups)
    if g_lse is not None:
        delta = subtract(delta, reshape(cast(g_lse, q.spec.dtype), delta.shape))
    by_scores = multiply(p, subtract(gemm(slopes, values, transpose_b=True), delta))
    by_q = affine(gemm(by_scores, keys), attrs.scale)
    by_k = affine(sum_to(gemm(by_scores, queries, transpose_a=True), keys.shape), attrs.scale)
    by_v = sum_to(gemm(p, slopes, transpose_a=True), values.shape)
    return (_from_heads(by_q), _from_heads(by_k), _from_heads(by_v)), by_scores


def _composed_gradient(attrs: AttentionAttrs, inputs: Sequence[T]) -> tuple[T, ...]:
    return _composed(attrs, inputs[:6], inputs[6] if len(inputs) > 6 else None, None)[0]


def _gradient(call: Applied[AttentionAttrs], gradients: Gradients) -> Gradients:
    """Fused, unless somebody wants what the fused operator does not give: the mask's gradient, or that of lse."""
    g, g_lse = gradients
    (q, k, v), mask, (y, lse) = call.inputs[:3], call.optional(3), call.outputs
    operands = (fill_like(y, 0.0) if g is None else g, q, k, v, y, lse)
    if g_lse is None and not call.wants(3):
        return (*q.apply(Command(ATTENTION_GRADIENT, call.attrs), (*operands, mask)), None)
    slopes, by_scores = _composed(call.attrs, operands, mask, g_lse)
    if mask is None or not call.wants(3):
        return (*slopes, None)
    grouped = _grouped_mask(mask, k.shape[2], q.shape[2])
    return (*slopes, reshape(sum_to(by_scores, grouped.shape), mask.shape))


def _batched(call: BatchedCall[AttentionAttrs]) -> tuple[Operand, ...]:
    """A longer batch; a mask that is the same for all of it is repeated first."""
    mask, batch = call.specs[-1], call.spec(0).shape[0]
    if mask is None or (mask.rank == 4 and mask.shape[0] == batch):
        return batched_within()(call)
    shape = (batch, *(1,) * (3 - mask.rank), *mask.shape[max(mask.rank - 3, 0) :])
    return call.composed(lambda inputs: call.again([*inputs[:-1], broadcast_to(inputs[-1], shape)]))


# ---- operators


def _work(attrs: AttentionAttrs, inputs: OptionalSpecs, outputs: Sequence[TensorSpec]) -> int:
    """Two matrix products and a softmax."""
    return _score_work(attrs, inputs[:3], products=2)


def _gradient_work(attrs: AttentionAttrs, inputs: OptionalSpecs, outputs: Sequence[TensorSpec]) -> int:
    """Five matrix products: the scores again, and those of q', k', v' and of the probabilities' gradient."""
    return _score_work(attrs, inputs[1:4], products=5)


def _score_work(attrs: AttentionAttrs, operands: OptionalSpecs, products: int) -> int:
    """products · scores · (d + e) + 5 · scores, scores = batch · heads · rows · columns, half of them when causal"""
    q, k, v = map(present, operands)
    scores = q.shape[0] * q.shape[2] * q.shape[1] * k.shape[1]
    seen = scores // 2 if attrs.causal else scores
    return seen * (products * (q.shape[3] + v.shape[3]) + 5)


ATTENTION = operator(
    "attention",
    AttentionAttrs,
    ("q", "k", "v", "mask"),
    ("y", "lse"),
    infer=_infer,
    gradient=_gradient,
    inplace=Inplace(allowed=((0, 0),)),
    optional=(3,),
    precision=LOW,
    work=_work,
    batched=_batched,
    example=Example(AttentionAttrs(0.5), (HEADS, HEADS, HEADS, None)),
    doc="y = softmax(scale · q · k^T + mask) · v per head; lse = ln sum_j e^s",
)
ATTENTION_GRADIENT = operator(
    "attention_gradient",
    AttentionAttrs,
    ("g", "q", "k", "v", "y", "lse", "mask"),
    ("q", "k", "v"),
    infer=_infer_gradient,
    gradient=by_decomposition(_composed_gradient),
    inplace=Inplace(allowed=((1, 0), (2, 1), (3, 2))),
    optional=(6,),
    precision=Precision(Runs.LOW, (5,)),
    work=_gradient_work,
    batched=_batched,
    example=Example(AttentionAttrs(0.5), (*(HEADS,) * 5, spec((2, 2, 4)), None), wide=(5,)),
    doc="q' = scale · s' · k, k' = scale · s'^T · q, v' = p^T · g, s' = p · (g · v^T - sum_e g · y)",
)
CAUSAL_BIAS = operator(
    "causal_bias",
    CausalBiasAttrs,
    (),
    infer=_infer_bias,
    gradient=NotDifferentiable("it has no inputs"),
    example=Example(CausalBiasAttrs(MATRIX), ()),
    doc="y[i, j] = 0 where j ≤ i + columns - rows, else -inf",
)


def scaled_dot_product_attention(
    q: T,
    k: T,
    v: T,
    mask: T | None = None,
    *,
    scale: float | None = None,
    causal: bool = False,
    weight: T | None = None,
    bias: T | None = None,
) -> T:
    """Scaled dot product attention of q[batch, rows, heads, d] over k and v; the scale is 1 / √d unless given.

    With a `weight`[heads · d, width] the heads of each row are joined and projected: [batch, rows, width].
    """
    y = attention_with_lse(q, k, v, mask, scale=scale, causal=causal)[0]
    if weight is None:
        return y
    return gemm(reshape(y, (*y.shape[:2], y.shape[2] * y.shape[3])), weight, bias)


def attention_with_lse(
    q: T, k: T, v: T, mask: T | None = None, *, scale: float | None = None, causal: bool = False
) -> tuple[T, T]:
    """(y, lse): attention, and the logarithm of the sum of its exponentials, as parts of a whole are joined by."""
    # The rule of the operator tells of a q without axes.
    width = q.shape[-1] if q.shape else 1
    factor = 1.0 / math.sqrt(max(width, 1)) if scale is None else float(scale)
    y, lse = q.apply(Command(ATTENTION, AttentionAttrs(factor, causal)), (q, k, v, mask))
    return y, lse
