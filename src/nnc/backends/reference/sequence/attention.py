"""Scaled dot product attention: one example at a time, so that the scores of one example are in memory.

Heads are [groups, r, rows, d], so that r query heads broadcast over one key and value head.
"""

from __future__ import annotations

import numpy as np

from nnc.backends.reference.arrays import Array, Inputs, Outputs, Rows, widen, write
from nnc.backends.reference.products.products import product
from nnc.ops.sequence.attention import ATTENTION, ATTENTION_GRADIENT, CAUSAL_BIAS, AttentionAttrs, CausalBiasAttrs


def heads(x: Array, groups: int) -> Array:
    """[groups, r, rows, d] of one example [rows, heads, d]."""
    rows, count, features = x.shape
    return x.transpose(1, 0, 2).reshape(groups, count // groups, rows, features)


def joined(x: Array) -> Array:
    """[rows, heads, d] of [groups, r, rows, d]."""
    groups, repeats, rows, features = x.shape
    return x.reshape(groups * repeats, rows, features).transpose(1, 0, 2)


def visible(rows: int, columns: int) -> Array:
    """[rows, columns]: row i sees columns j ≤ i + columns - rows."""
    return np.tri(rows, columns, columns - rows, np.bool_)


def masks(mask: Array | None, shape: tuple[int, ...]) -> Array | None:
    """The mask as [batch, heads, rows, columns]."""
    return None if mask is None else np.broadcast_to(mask, shape)


def scores(attrs: AttentionAttrs, q: Array, k: Array, mask: Array | None) -> Array:
    """s[groups, r, i, j] of one example, -inf where a column is not seen."""
    s = product(q, k.swapaxes(-1, -2)) * attrs.scale
    if attrs.causal:
        s = np.where(visible(*s.shape[-2:]), s, -np.inf)
    if mask is None:
        return s
    part = mask.reshape(s.shape)
    return np.where(part, s, -np.inf) if part.dtype == np.bool_ else s + widen(part)


def attention(attrs: AttentionAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y = softmax(s) · v, lse = ln sum_j e^s, for each example."""
    q, k, v = (widen(array) for array in inputs[:3])
    (batch, rows, count, _), (_, columns, groups, _) = q.shape, k.shape
    mask = masks(inputs[3], (batch, count, rows, columns))
    for index in range(batch):
        keys, values = heads(k[index], groups), heads(v[index], groups)
        s = scores(attrs, heads(q[index], groups), keys, None if mask is None else mask[index])
        top = np.max(s, axis=-1, keepdims=True, initial=-np.inf)
        powers = np.exp(s - np.where(np.isneginf(top), 0, top))
        total = np.sum(powers, axis=-1, keepdims=True)
        seen = total != 0
        y = product(powers / np.where(seen, total, 1), values)
        write(outputs[0][index], joined(y))
        write(outputs[1][index], np.where(seen, top + np.log(total), np.inf).reshape(count, rows))


def attention_gradient(attrs: AttentionAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """q' = scale · s' · k, k' = scale · s'^T · q, v' = p^T · g, with s' = p · (g · v^T - sum_e g · y)."""
    g, q, k, v, y, lse = (widen(array) for array in inputs[:6])
    (batch, rows, count, _), (_, columns, groups, _) = q.shape, k.shape
    mask = masks(inputs[6], (batch, count, rows, columns))
    for index in range(batch):
        queries, keys, values, slopes = (heads(x[index], groups) for x in (q, k, v, g))
        s = scores(attrs, queries, keys, None if mask is None else mask[index])
        p = np.exp(s - lse[index].reshape(groups, count // groups, rows, 1))
        delta = heads(np.sum(g[index] * y[index], axis=-1, keepdims=True), groups)
        by_scores = p * (product(slopes, values.swapaxes(-1, -2)) - delta)
        by_q = product(by_scores, keys) * attrs.scale
        by_k = product(by_scores.swapaxes(-1, -2), queries).sum(axis=1, keepdims=True) * attrs.scale
        by_v = product(p.swapaxes(-1, -2), slopes).sum(axis=1, keepdims=True)
        for output, part in zip(outputs, (by_q, by_k, by_v), strict=True):
            write(output[index], joined(part))


def causal_bias(attrs: CausalBiasAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y[i, j] = 0 where j ≤ i + columns - rows, else -inf."""
    write(outputs[0], np.where(visible(*attrs.spec.shape), 0.0, -np.inf))


ROWS: Rows = {ATTENTION: attention, ATTENTION_GRADIENT: attention_gradient, CAUSAL_BIAS: causal_bias}
