"""Attention of new tokens over keys and values that a generation keeps: in f32, 16 bits, or 8 or 4 with scales.

    s[b, h, i, j] = scale · k_scale[b, j, g] · sum_d q[b, i, h, d] · k[b, j, g, d],   g = h / r
    s             = cap · tanh(s / cap)                                       where there is a cap
    y[b, i, h, e] = sum_j softmax_j(s) · v_scale[b, j, g] · v[b, j, g, e]

over the columns j that row i sees: j ≤ position[b, i], and where there is a window those j > position[b, i] - window,
or j < sinks. Columns may be `wrapped`: those behind the sinks hold the latest positions, column j the largest p ≤
position[b, i] with p = j + n · (columns - sinks), and a row sees the last `window` positions and the sinks. q is
[batch, rows, heads, d], k and v are [batch, columns, heads / r, d or e] of q's element type, of 16 bits, or i8 with
scales [batch, columns, heads / r] of q's. u8 has scales too, and two numbers in a byte, 8 more than they are:
k[…, d] = (byte[…, d] mod 16) - 8 of the first half of the features, floor(byte[…, d - D / 2] / 16) - 8 of the other
one. A row that sees no column gets 0.

Columns may lie in pages of 256, several of which may be those of several examples: k and v are then [1, places, heads /
r, d or e], their scales [1, places, heads / r], and column j of example b is at the place starts[b, floor(j / 256)] + j
mod 256, where starts[batch, columns / 256] count as at least 0 and at most places - 256.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from nnc.classes import dataclass
from nnc.core.values.command import Command
from nnc.core.values.dtype import BF16, F16, I8, I32, U8
from nnc.core.values.spec import OptionalSpecs, TensorSpec, spec
from nnc.errors import AttributeValueError, DTypeError, ShapeError
from nnc.ops.batching import BatchedCall, batched_within
from nnc.ops.examples import HEADS, Example
from nnc.ops.number import as_float
from nnc.ops.operand import Operand, T
from nnc.ops.rules import FLOATS, NotDifferentiable, Specs, check_kinds, operator
from nnc.ops.work import present

__all__ = ["cached_attention"]

# Columns of a page, as of a part of the kernel: what a row sees has the bits that it has without pages.
PAGE = 256
# What keys and values may be held in beside the element type of q.
NARROW_CACHES = (BF16, F16, I8, U8)
# Those that have scales.
SCALED_CACHES = (I8, U8)


@dataclass(frozen=True, slots=True)
class CachedAttentionAttrs:
    """The factor of the scores, how many columns back a row sees (0: all), and the bound of scores (0: none).

    Beside its window a row sees the first `sinks` columns; behind those, columns may be `wrapped`.
    """

    scale: float
    window: int = 0
    cap: float = 0.0
    sinks: int = 0
    wrapped: bool = False


def _infer(attrs: CachedAttentionAttrs, specs: OptionalSpecs) -> Specs:
    q, k, v, positions = map(present, specs[:4])
    scales, starts = specs[4:6], specs[6]
    shown = f"q={q}, k={k}, v={v}, positions={positions}"
    if not math.isfinite(as_float(attrs.scale)) or attrs.window < 0 or not 0.0 <= as_float(attrs.cap) < math.inf:
        got = f"scale={attrs.scale}, window={attrs.window}, cap={attrs.cap}"
        raise AttributeValueError("cached_attention", got=got, need="a finite scale, a window ≥ 0, a cap ≥ 0")
    if attrs.sinks < 0 or ((attrs.sinks or attrs.wrapped) and not attrs.window):
        got = f"window={attrs.window}, sinks={attrs.sinks}, wrapped={attrs.wrapped}"
        raise AttributeValueError("cached_attention", got=got, need="sinks ≥ 0, and a window beside them")
    check_kinds(FLOATS, q)
    if k.dtype is not v.dtype or k.dtype not in (q.dtype, *NARROW_CACHES):
        need = "k and v of q's element type, in 16 bits, in i8 or in u8"
        raise DTypeError("cached_attention", got=shown, need=need, fix="cast() one of them")
    if positions.dtype is not I32:
        raise DTypeError("cached_attention", got=shown, need="positions in i32", fix="cast() them")
    if any(each.rank != 4 for each in (q, k, v)) or positions.shape != q.shape[:2]:
        need = "four dimensions [batch, rows, heads, features] each, positions[batch, rows]"
        raise ShapeError("cached_attention", got=shown, need=need)
    numbers = 2 if k.dtype is U8 else 1
    batch = q.shape[0] if starts is None else 1
    if k.shape[:3] != v.shape[:3] or batch != k.shape[0] or q.shape[3] != numbers * k.shape[3]:
        need = f"one batch, k's columns and heads == v's, q's features == {'2 · ' * (numbers - 1)}k's"
        raise ShapeError("cached_attention", got=shown, need=need)
    if starts is not None:
        _check_pages(attrs, shown, q, k, starts)
    if k.shape[2] == 0 or q.shape[2] % k.shape[2]:
        raise ShapeError(
            "cached_attention", got=shown, need=f"q's heads ({q.shape[2]}) divisible by k's ({k.shape[2]})"
        )
    if attrs.wrapped and k.shape[1] < attrs.sinks + attrs.window:
        need = f"at least {attrs.sinks} + {attrs.window} columns, its sinks and its window"
        raise ShapeError("cached_attention", got=shown, need=need)
    wanted = TensorSpec(k.shape[:3], q.dtype, k.layout, k.device)
    if any(
        (each is not None) != (k.dtype in SCALED_CACHES) or (each is not None and each != wanted) for each in scales
    ):
        got = f"{shown}, scales {', '.join('none' if each is None else str(each) for each in scales)}"
        raise ShapeError("cached_attention", got=got, need=f"scales {wanted} of k and v in i8 or u8, and of no others")
    return (replace(q, shape=(*q.shape[:3], numbers * v.shape[3])),)


def _check_pages(attrs: CachedAttentionAttrs, shown: str, q: TensorSpec, k: TensorSpec, starts: TensorSpec) -> None:
    if starts.dtype is not I32:
        raise DTypeError("cached_attention", got=f"{shown}, starts={starts}", need="starts in i32", fix="cast() them")
    if attrs.wrapped or starts.rank != 2 or starts.shape[0] != q.shape[0] or k.shape[1] < PAGE:
        need = f"starts[batch, columns / {PAGE}], at least {PAGE} places, columns that are not wrapped"
        raise ShapeError("cached_attention", got=f"{shown}, starts={starts}, wrapped={attrs.wrapped}", need=need)


def _batched(call: BatchedCall[CachedAttentionAttrs]) -> tuple[Operand, ...]:
    """Pages are those of all examples."""
    shared = () if call.specs[6] is None else (1, 2, 4, 5)
    return batched_within(*shared)(call)


def _work(attrs: CachedAttentionAttrs, inputs: OptionalSpecs, outputs: Sequence[TensorSpec]) -> int:
    """Two matrix products and a softmax over all columns."""
    (q, k), y, starts = map(present, inputs[:2]), outputs[0], inputs[6]
    columns = k.shape[1] if starts is None else PAGE * starts.shape[1]
    return q.shape[0] * q.shape[1] * q.shape[2] * columns * (2 * (q.shape[3] + y.shape[3]) + 5)


CACHED_ATTENTION = operator(
    "cached_attention",
    CachedAttentionAttrs,
    ("q", "k", "v", "positions", "k_scale", "v_scale", "starts"),
    infer=_infer,
    gradient=NotDifferentiable("what a generation keeps is not trained; take scaled_dot_product_attention"),
    optional=(4, 5, 6),
    work=_work,
    batched=_batched,
    example=Example(CachedAttentionAttrs(0.5), (HEADS, HEADS, HEADS, spec(HEADS.shape[:2], I32), None, None, None)),
    doc="y = softmax(scale · q · (k · k_scale)^T) · (v · v_scale) per head, over columns j ≤ position",
)


def cached_attention(
    q: T,
    k: T,
    v: T,
    positions: T,
    k_scale: T | None = None,
    v_scale: T | None = None,
    starts: T | None = None,
    *,
    scale: float | None = None,
    window: int = 0,
    cap: float = 0.0,
    sinks: int = 0,
    wrapped: bool = False,
) -> T:
    """Attention of q[batch, rows, heads, d] at `positions`[batch, rows] over k and v that are kept.

    The scale is 1 / √d unless given. Row i sees columns up to its position, the last `window` of them where that is not
    0, and the first `sinks`. Columns behind these are `wrapped` where they hold the latest positions, one written over
    the one (columns - sinks) before. k and v in i8 have scales, and those in u8, with two numbers of 4 bits in a byte.
    With `starts`[batch, columns / 256] they are pages of 256 columns, each of which any examples may have.
    """
    width = q.shape[-1] if q.shape else 1
    factor = 1.0 / math.sqrt(max(width, 1)) if scale is None else float(scale)
    attrs = CachedAttentionAttrs(factor, window, float(cap), sinks, wrapped)
    return q.apply(Command(CACHED_ATTENTION, attrs), (q, k, v, positions, k_scale, v_scale, starts))[0]
