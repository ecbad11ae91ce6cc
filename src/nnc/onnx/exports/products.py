"""Matrix products, attention, rotary embeddings."""

from __future__ import annotations

import math

import numpy as np

from nnc import ops
from nnc.core.values.dtype import BOOL
from nnc.onnx.exporter import ExportCall, ExportOperand, ExportRow, Written


def _gemm(call: ExportCall) -> Written:
    """Gemm of two matrices, else MatMul; what is read transposed is turned before."""
    w, a, b, attrs = call.writer, call[0], call[1], call.attrs
    if a.spec.rank == b.spec.rank == 2:
        name = w.node(
            "Gemm", *call.names(), transA=int(attrs.transpose_a), transB=int(attrs.transpose_b)
        )  # fmt: skip
        y = call.of(name, call.outputs[0])
    else:
        sides = [
            _swapped(operand) if turn else operand for operand, turn in ((a, attrs.transpose_a), (b, attrs.transpose_b))
        ]
        y = call.of(w.node("MatMul", *map(w.name_of, sides)), call.outputs[0])
        bias = call.operands[2]
        y = y if bias is None else y + bias
    if not (attrs.transpose_a or attrs.transpose_b) and b.spec.rank == 2:
        w.products[w.name_of(y)] = (a, b, call.operands[2])
    return y


def _swapped(x: ExportOperand) -> ExportOperand:
    rank = x.spec.rank
    return ops.transpose(x, (*range(rank - 2), rank - 1, rank - 2))


def _attention(call: ExportCall) -> Written:
    """softmax(scale · q · k^T + mask) · v; a row that sees no column gives 0."""
    q, k, v = call[0], call[1], call[2]
    mask, attrs = call.operands[3], call.attrs
    if call.wanted[1]:
        raise call.refuse("the log-sum-exp of attention as a result")
    rows, columns, groups = q.shape[1], k.shape[1], k.shape[2]
    keys, values = (_heads(operand, groups) for operand in (k, v))
    scores = ops.gemm(_heads(q, groups) * attrs.scale, keys, transpose_b=True)
    hidden = call.of(call.writer.constant(-math.inf, q.spec.dtype), q.spec, shape=())
    blind = rows > columns and attrs.causal
    if attrs.causal:
        seen = np.tril(np.ones((rows, columns), bool), columns - rows)
        bias = call.writer.constant(np.where(seen, 0.0, -math.inf), q.spec.dtype)
        scores = scores + call.of(bias, q.spec, shape=(rows, columns))
    if mask is not None:
        blind = True
        part = _grouped(mask, groups, q.shape[2])
        scores = ops.where(part, scores, hidden) if mask.spec.dtype is BOOL else scores + part
    if blind:
        sees = ops.reduce_max(scores, (4,), keepdims=True) > -math.inf
        y = ops.gemm(ops.softmax(ops.where(sees, scores, ops.fill_like(scores, 0.0))), values)
        y = ops.where(sees, y, ops.fill_like(y, 0.0))
    else:
        y = ops.gemm(ops.softmax(scores), values)
    flat = ops.reshape(y, (y.shape[0], q.shape[2], rows, y.shape[-1]))
    return (ops.transpose(flat, (0, 2, 1, 3)), None)


def _heads(x: ExportOperand, groups: int) -> ExportOperand:
    """[batch, groups, heads of each, rows, features]"""
    batch, rows, heads, features = x.shape
    return ops.reshape(ops.transpose(x, (0, 2, 1, 3)), (batch, groups, heads // groups, rows, features))


def _grouped(mask: ExportOperand, groups: int, heads: int) -> ExportOperand:
    batch, own, rows, columns = (1,) * (4 - mask.spec.rank) + mask.shape
    split = (1, 1) if own == 1 else (groups, heads // groups)
    return ops.reshape(mask, (batch, *split, rows, columns))


def _rotary(call: ExportCall) -> Written:
    """Each pair of features turned by its angle; what lies behind the pairs stays."""
    x, angles, attrs = call[0], call[1], call.attrs
    pairs = angles.shape[-1]
    angle = ops.reshape(ops.cast(angles, x.spec.dtype), (*(angles.shape[:-2] or (1,)), angles.shape[-2], 1, pairs))
    sine, cosine = ops.sin(angle) * (-1.0 if attrs.inverse else 1.0), ops.cos(angle)
    turning = ops.slice_axis(x, 3, 0, 2 * pairs)
    if attrs.interleaved:
        split = ops.reshape(turning, (*x.shape[:3], pairs, 2))
        first, second = (ops.reshape(ops.slice_axis(split, 4, p, p + 1), (*x.shape[:3], pairs)) for p in (0, 1))
    else:
        first, second = ops.slice_axis(turning, 3, 0, pairs), ops.slice_axis(turning, 3, pairs, 2 * pairs)
    parts = [first * cosine - second * sine, first * sine + second * cosine]
    if attrs.interleaved:
        wide = [ops.reshape(part, (*part.shape, 1)) for part in parts]
        parts = [ops.reshape(ops.concatenate(wide, 4), turning.shape)]
    rest = ops.slice_axis(x, 3, 2 * pairs, x.shape[3])
    return (
        ops.concatenate([*parts, rest] if rest.shape[3] else parts, 3) if len(parts) > 1 or rest.shape[3] else parts[0]
    )


def _rotary_angles(call: ExportCall) -> Written:
    positions, attrs = call[0], call.attrs
    rates = attrs.base ** (-np.arange(attrs.pairs) / attrs.pairs)
    table = call.of(call.writer.constant(rates, attrs.dtype), call.outputs[0], shape=(attrs.pairs,))
    return ops.cast(ops.reshape(positions, (*positions.shape, 1)), attrs.dtype) * table


def _causal_bias(call: ExportCall) -> Written:
    rows, columns = call.attrs.spec.shape
    seen = np.tril(np.ones((rows, columns), bool), columns - rows)
    return call.writer.constant(np.where(seen, 0.0, -math.inf), call.attrs.spec.dtype)


EXPORTS: dict[str, ExportRow] = {
    "gemm": _gemm,
    "attention": _attention,
    "causal_bias": _causal_bias,
    "rotary": _rotary,
    "rotary_angles": _rotary_angles,
}
