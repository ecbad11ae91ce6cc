"""Attention over what a generation keeps: one row of one example at a time, over the columns that it sees."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nnc.backends.reference.arrays import Inputs, Outputs, Rows, widen, write
from nnc.ops.sequence.cached_attention import CACHED_ATTENTION, PAGE, CachedAttentionAttrs


def cached_attention(attrs: CachedAttentionAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y[i] = softmax(s[i]) · v over columns ≤ positions[i]."""
    q, k, v, positions = (array for array in inputs[:4] if array is not None)
    scales, starts = [array for array in inputs[4:6] if array is not None], inputs[6]
    (batch, rows, heads, width), groups = q.shape, k.shape[2]
    y = np.zeros(outputs[0].shape)
    for example, row in np.ndindex(batch, rows):
        if starts is None:
            home, places = example, np.arange(k.shape[1])
        else:
            home, places = 0, _places(starts[example], k.shape[1])
        seen = places[_seen(attrs, int(positions[example, row]), len(places))]
        if not len(seen):
            continue
        keys, values = (widen(each[home, seen]).astype(np.float64) for each in (k, v))
        if scales:
            if k.dtype == np.uint8:
                keys, values = (np.concatenate((each % 16 - 8, each // 16 - 8), -1) for each in (keys, values))
            keys, values = (
                each * widen(scale[home, seen, :, None]) for each, scale in zip((keys, values), scales, strict=True)
            )
        queries = widen(q[example, row]).astype(np.float64).reshape(groups, heads // groups, width)
        s = attrs.scale * queries @ keys.transpose(1, 2, 0)
        if attrs.cap:
            s = attrs.cap * np.tanh(s / attrs.cap)
        powers = np.exp(s - s.max(-1, keepdims=True))
        shares = powers / powers.sum(-1, keepdims=True)
        y[example, row] = (shares @ values.transpose(1, 0, 2)).reshape(heads, values.shape[-1])
    write(outputs[0], y)


def _places(starts: NDArray[np.generic], count: int) -> NDArray[np.int64]:
    """Where the columns of an example are, page by page."""
    return (np.clip(starts.astype(np.int64), 0, count - PAGE)[:, None] + np.arange(PAGE)).reshape(-1)


def _seen(attrs: CachedAttentionAttrs, position: int, columns: int) -> NDArray[np.bool_]:
    """Which columns a row sees."""
    held = np.arange(columns)
    if attrs.wrapped:
        around = columns - attrs.sinks
        late = position - (position - held) % around
        held = np.where(held < attrs.sinks, held, np.where(late < attrs.sinks, position + 1, late))
    near = held > position - attrs.window if attrs.window else held >= 0
    return (held <= position) & (near | (held < attrs.sinks))


ROWS: Rows = {CACHED_ATTENTION: cached_attention}
