"""Operators of com.microsoft that onnxruntime's optimizers of graphs and of transformers write: several steps in one.

Embeddings and sums with their norms, attention with its masks, products with what follows them, GELU and its relatives,
weights of few bits. `SimplifiedLayerNormalization` stands in ONNX's own domain, as onnxruntime writes it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnc import ops
from nnc.core.values.dtype import F32, I32
from nnc.onnx.node import NodeCall, OnnxRow, Operand, Results
from nnc.onnx.rows.convolutions.products import conv, gemm, matmul
from nnc.onnx.rows.normalization.normalization import rms_norm

Rows = NDArray[np.uint8]
DOMAIN = "com.microsoft"
# Added to scores that are masked, where the node does not say; and to those of later places.
MASKED, LATER = -10000.0, float(np.finfo(np.float32).min)


def _gelu(call: NodeCall) -> Results:
    return ops.gelu(_biased(call))


def _fast_gelu(call: NodeCall) -> Results:
    return ops.gelu_tanh(_biased(call))


def _biased(call: NodeCall) -> Operand:
    bias = call.maybe(1)
    return call[0] if bias is None else call[0] + bias


def _quick_gelu(call: NodeCall) -> Results:
    return call[0] * ops.sigmoid(call[0] * call.real("alpha", 1.702))


# ---- products


def _fused_matmul(call: NodeCall) -> Results:
    """alpha · a @ b; with `transBatch` the outer axes of an operand stand behind its first."""
    a, b = (_inner_first(call[place], bool(call.integer(f"transBatch{'AB'[place]}", 0))) for place in (0, 1))
    flips = [bool(call.integer(name, 0)) and operand.spec.rank > 1 for name, operand in (("transA", a), ("transB", b))]
    if min(a.spec.rank, b.spec.rank) > 1:
        y = ops.gemm(a, b, transpose_a=flips[0], transpose_b=flips[1])
    else:
        y = matmul(*(_swapped(operand) if flip else operand for operand, flip in zip((a, b), flips, strict=True)))
    alpha = call.real("alpha", 1.0)
    return y if alpha == 1.0 else y * alpha


def _swapped(x: Operand) -> Operand:
    rank = x.spec.rank
    return ops.transpose(x, (*range(rank - 2), rank - 1, rank - 2))


def _inner_first(x: Operand, is_turned: bool) -> Operand:
    """[b…, m, n] of [m, b…, n]"""
    rank = x.spec.rank
    return ops.transpose(x, (*range(1, rank - 1), 0, rank - 1)) if is_turned else x


def _activation(call: NodeCall, y: Operand, name: str, numbers: tuple[float, ...]) -> Operand:
    """The activation of a fused product."""
    table: dict[str, Callable[..., Operand]] = {
        "": lambda: y,
        "Relu": lambda: ops.relu(y),
        "Tanh": lambda: ops.tanh(y),
        "Sigmoid": lambda: ops.sigmoid(y),
        "LeakyRelu": lambda slope=0.01: ops.leaky_relu(y, slope),
        "Clip": lambda low=-math.inf, high=math.inf: ops.clamp(y, low, high),
        "HardSigmoid": lambda alpha=0.2, beta=0.5: ops.clamp(y * alpha + beta, 0.0, 1.0),
    }
    if name not in table:
        raise call.refuse(f"activation {name}")
    return table[name](*numbers)


def _fused_gemm(call: NodeCall) -> Results:
    name, slope = call.text("activation", ""), ("activation_alpha",) if call.has("activation_alpha") else ()
    return _activation(call, gemm(call), name, tuple(call.real(operand) for operand in slope))


def _fused_conv(call: NodeCall) -> Results:
    y, other = conv(call), call.maybe(3)
    numbers = call.node.attributes.get("activation_params", ())
    assert isinstance(numbers, tuple)
    return _activation(call, y if other is None else y + other, call.text("activation", ""), numbers)


# ---- normalization


def _skipped(call: NodeCall, bias: Operand | None) -> Operand:
    """x + skip + bias, where skip may be of one example for all."""
    total = call[0] + call[1]
    return total if bias is None else total + bias


def _skip_layer_norm(call: NodeCall) -> Results:
    total, beta = _skipped(call, call.maybe(4)), call.maybe(3)
    y = ops.layer_norm(total, call[2], beta if beta is not None else ops.fill_like(call[2], 0.0),
                       epsilon=call.real("epsilon", 1e-12))  # fmt: skip
    return _with_sum(call, y, total)


def _skip_rms_norm(call: NodeCall) -> Results:
    total = _skipped(call, call.maybe(3))
    return _with_sum(call, ops.rms_norm(total, call[2], epsilon=call.real("epsilon", 1e-12)), total)


def _with_sum(call: NodeCall, y: Operand, total: Operand) -> Results:
    if call.wants(1) or call.wants(2):
        raise call.refuse("the mean and the deviation as outputs")
    return (y, None, None, total)


def _embedding(call: NodeCall) -> Results:
    """The normalized sum of rows of words, places and segments; how many places of each example count."""
    words, segments, mask = call[0], call.maybe(1), call.maybe(7)
    batch, length = words.shape
    places = call.maybe(8)
    total = ops.index_select(call[2], words)
    if places is None:
        total = total + ops.slice_axis(call[3], 0, 0, length)
    else:
        total = total + ops.index_select(call[3], places)
    if segments is not None:
        total = total + ops.index_select(call[4], segments)
    y = ops.layer_norm(total, call[5], call[6], epsilon=call.real("epsilon", 1e-12))
    if mask is None:
        counted = call.constant(np.zeros(batch, np.int32))
    else:
        counted = ops.reduce_sum(ops.cast(ops.equal(mask, ops.scalar_like(mask, 1)), I32), 1)
    return (y, counted, total)


# ---- attention


def _attention(call: NodeCall) -> Results:
    """q, k and v are products of x by one matrix."""
    if call.integer("do_rotary", 0) or call.maybe(6) is not None:
        raise call.refuse("rotary places, or a past in one memory with the present")
    x, weights, bias, heads = call[0], call[1], call.maybe(2), call.integer("num_heads")
    y = ops.gemm(x, weights, bias)
    third = weights.shape[1] // 3
    sizes = call.integers("qkv_hidden_sizes", (third,) * 3)
    q, k, v = (_heads(operand, heads) for operand in _parts(y, sizes))
    past = call.maybe(4)
    if past is not None:
        k, v = (_behind(_slice(past, place), operand) for place, operand in enumerate((k, v)))
    mask = _mask(call, call.maybe(3), q, k)
    result = _attended(call, q, k, v, mask, call.maybe(5))
    if not call.wants(1):
        return result
    keys, values = (ops.transpose(operand, (0, 2, 1, 3)) for operand in (k, v))
    return (result, ops.concatenate([ops.reshape(operand, (1, *operand.shape)) for operand in (keys, values)]))


def _multi_head(call: NodeCall) -> Results:
    """q, k and v as they are, packed per head, or k and v per head of another sequence."""
    heads, (q, k, v), bias = call.integer("num_heads"), _given(call), call.maybe(3)
    if bias is not None:
        sizes = [operand.shape[2] * operand.shape[3] for operand in (q, k, v)]
        parts = _parts(ops.reshape(bias, (1, 1, sum(sizes))), sizes)
        q, k, v = (operand + _heads(part, heads) for operand, part in zip((q, k, v), parts, strict=True))
    pasts = call.maybe(6), call.maybe(7)
    k, v = (operand if past is None else _behind(past, operand) for operand, past in zip((k, v), pasts, strict=True))
    result = _attended(call, q, k, v, _mask(call, call.maybe(4), q, k), call.maybe(5))
    if not call.wants(1):
        return result
    return (result, *(ops.transpose(operand, (0, 2, 1, 3)) for operand in (k, v)))


def _given(call: NodeCall) -> tuple[Operand, Operand, Operand]:
    """q, k and v as [batch, rows, heads, features]."""
    heads, query, key, value = call.integer("num_heads"), call[0], call.maybe(1), call.maybe(2)
    if key is None:
        return (_slice(query, 0, 3), _slice(query, 1, 3), _slice(query, 2, 3))
    if value is None:
        return (_heads(query, heads), _slice(key, 0, 3), _slice(key, 1, 3))
    if key.spec.rank == 4:
        return (_heads(query, heads), ops.transpose(key, (0, 2, 1, 3)), ops.transpose(value, (0, 2, 1, 3)))
    return (_heads(query, heads), _heads(key, heads), _heads(value, heads))


def _heads(x: Operand, heads: int) -> Operand:
    """[batch, rows, heads, features] of [batch, rows, heads · features]"""
    return ops.reshape(x, (*x.shape[:2], heads, x.shape[2] // heads))


def _slice(x: Operand, place: int, axis: int = 0) -> Operand:
    return ops.reshape(ops.slice_axis(x, axis, place, place + 1), (*x.shape[:axis], *x.shape[axis + 1 :]))


def _parts(x: Operand, sizes: tuple[int, ...] | list[int]) -> list[Operand]:
    """Slices of the last axis."""
    ends = np.cumsum(sizes).tolist()
    return [ops.slice_axis(x, x.spec.rank - 1, end - size, end) for size, end in zip(sizes, ends, strict=True)]


def _behind(past: Operand, x: Operand) -> Operand:
    """x[batch, rows, heads, features] behind past[batch, heads, earlier, features]."""
    return ops.concatenate([ops.transpose(past, (0, 2, 1, 3)), x], 1)


def _mask(call: NodeCall, mask: Operand | None, q: Operand, k: Operand) -> Operand | None:
    """What is added to scores[batch, heads, rows, columns], by lengths, by ends and starts, or by a truth for each."""
    if mask is None:
        return None
    (batch, rows), columns = q.shape[:2], k.shape[1]
    if mask.spec.rank == 1:
        if mask.spec.elements not in (batch, 2 * batch) or (mask.spec.elements > batch and call.node.op != "Attention"):
            raise call.refuse(f"{mask.spec.elements} lengths for {batch} examples")
        places = call.constant(np.arange(columns)[None], mask.spec)
        ends = ops.reshape(ops.slice_axis(mask, 0, 0, batch), (batch, 1))
        seen = ops.less(places, ends)
        if mask.spec.elements > batch:
            starts = ops.reshape(ops.slice_axis(mask, 0, batch, 2 * batch), (batch, 1))
            seen = ops.logical_and(seen, ops.greater_equal(places, starts))
    else:
        seen = ops.greater(mask, ops.scalar_like(mask, 0))
    if seen.spec.rank == 4:  # of all places that there may be
        seen = ops.slice_axis(ops.slice_axis(seen, 2, columns - rows, columns), 3, 0, columns)
    else:
        seen = ops.reshape(seen, (batch, 1, -1, columns))
    none = ops.scalar_like(q, 0.0)
    return ops.where(seen, none, ops.scalar_like(q, call.real("mask_filter_value", MASKED)))


def _attended(
    call: NodeCall, q: Operand, k: Operand, v: Operand, mask: Operand | None, bias: Operand | None
) -> Operand:
    """softmax(scale · q kᵀ + mask + bias) v, heads joined."""
    causal, both = bool(call.integer("unidirectional", 0)), mask is not None and bias is not None
    mask = mask + bias if both else mask if bias is None else bias  # type: ignore[operator]  # both are there
    scale = call.real("scale", 0.0) or None
    if causal and mask is not None:
        # Beside a mask, so that a row without a column that is seen still has the weights of onnxruntime.
        rows, columns = q.shape[1], k.shape[1]
        later = np.triu(np.full((rows, columns), LATER), columns - rows + 1)
        mask, causal = ops.maximum(mask + call.constant(later, q.spec), LATER), False
    y = ops.scaled_dot_product_attention(q, k, v, mask, scale=scale, causal=causal)
    return ops.reshape(y, (*y.shape[:2], y.shape[2] * y.shape[3]))


# ---- weights of a few bits


def _few_bits(call: NodeCall) -> Results:
    """a @ bᵀ + bias, b[n, k] of `bits` each, a scale and a zero per block of k."""
    a, packed, bits = call[0], call[1], call.integer("bits", 4)
    inner, columns, block = call.integer("K"), call.integer("N"), call.integer("block_size")
    if bits not in (2, 4, 8) or call.maybe(4) is not None:
        raise call.refuse(f"{bits} bits" if bits not in (2, 4, 8) else "an order of columns")
    blocks, zero, bias = -(-inner // block), call.maybe(3), call.maybe(5)
    kept = _kept_blocks(call, bits, inner, columns, block)
    if kept is not None and a.spec.dtype is F32:
        form, rows = kept
        flat = a if a.spec.rank > 1 else ops.reshape(a, (1, *a.shape))
        y = ops.block_product(flat, call.constant(rows), bias, format=form)
        return y if a.spec.rank > 1 else ops.reshape(y, y.shape[1:])
    scale = ops.reshape(ops.cast(call[2], F32), (columns, blocks, 1))
    values = ops.reshape(_unpacked(packed, bits), (columns, blocks, block))
    if zero is None:
        shift = ops.scalar_like(values, 1 << bits - 1)
    elif zero.spec.dtype is packed.spec.dtype:
        each = ops.reshape(_unpacked(ops.reshape(zero, (columns, -1)), bits), (columns, -1))
        shift = ops.reshape(ops.slice_axis(each, 1, 0, blocks), (columns, blocks, 1))
    else:
        raise call.refuse(f"zero points of {zero.spec.dtype}")
    b = ops.reshape(ops.dequantize(values, scale, shift), (columns, blocks * block))
    b = ops.cast(ops.slice_axis(b, 1, 0, inner), a.spec.dtype)
    return matmul(a, ops.transpose(b, (1, 0))) if bias is None else matmul(a, ops.transpose(b, (1, 0))) + bias


def _kept_blocks(call: NodeCall, bits: int, inner: int, columns: int, block: int) -> tuple[str, Rows] | None:
    """Format and rows of the weights as blocks of 32; None where some value of theirs would be another one.

    So it is for blocks that no 32 weights fill, and for scales, or zeros times scales, that f16 does not hold.
    """
    known = [call.known[place] if place < len(call) else None for place in (1, 2, 3)]
    packed, scale, zero = known
    absent = zero is None and call.maybe(3) is not None
    if packed is None or scale is None or absent or bits not in (4, 8) or block % 32 or inner % 32:
        return None
    numbers = _numbers(packed, bits).reshape(columns, -1)[:, :inner].reshape(columns, -1, 32)
    blocks = -(-inner // block)
    middle = np.full((columns, blocks), 1 << bits - 1) if zero is None else _numbers(zero.reshape(columns, -1), bits)
    spread = np.repeat(scale.reshape(columns, blocks).astype(np.float32), block // 32, 1)[:, : inner // 32]
    shift = np.repeat(middle[:, :blocks].astype(np.float32), block // 32, 1)[:, : inner // 32]
    even = bool((shift == 1 << bits - 1).all())
    least = spread * -shift
    if not _held_by_f16(spread) or not (even or (bits == 4 and _held_by_f16(least))):
        return None
    heads = [spread] if even else [spread, least]
    # q8_0 has bytes with a sign: 128 less than these, so with the highest bit turned.
    body = numbers ^ np.uint8(128) if bits == 8 else numbers[..., :16] | numbers[..., 16:] << 4
    parts = [head.astype("<f2")[..., None].view(np.uint8) for head in heads]
    form = "q8_0" if bits == 8 else "q4_0" if even else "q4_1"
    return form, np.ascontiguousarray(np.concatenate([*parts, body], 2).reshape(columns, -1))


def _held_by_f16(values: NDArray[np.float32]) -> bool:
    with np.errstate(over="ignore"):
        return bool((values.astype(np.float16).astype(np.float32) == values).all())


def _numbers(packed: NDArray[Any], bits: int) -> Rows:
    """[n, k · 8 / bits] of bytes[n, …], the lowest bits first."""
    rows = packed.reshape(len(packed), -1)
    if bits == 8:
        return rows
    return np.stack([rows & 15, rows >> 4], 2).reshape(len(rows), -1)


def _unpacked(x: Operand, bits: int) -> Operand:
    """[…, k · 8 / bits] of bytes[…, k], the lowest bits first."""
    if bits == 8:
        return x
    parts = [ops.bitwise_and(ops.shift_right(x, start) if start else x, (1 << bits) - 1) for start in range(0, 8, bits)]
    return ops.reshape(
        ops.concatenate([ops.reshape(operand, (*operand.shape, 1)) for operand in parts], x.spec.rank),
        (*x.shape[:-1], -1),
    )


ROWS = {
    "SimplifiedLayerNormalization": OnnxRow(rms_norm),
    **{
        f"{DOMAIN}.{name}": OnnxRow(build)
        for name, build in {
            "Gelu": _gelu,
            "BiasGelu": _gelu,
            "FastGelu": _fast_gelu,
            "QuickGelu": _quick_gelu,
            "FusedMatMul": _fused_matmul,
            "FusedGemm": _fused_gemm,
            "FusedConv": _fused_conv,
            "SkipLayerNormalization": _skip_layer_norm,
            "SkipSimplifiedLayerNormalization": _skip_rms_norm,
            "EmbedLayerNormalization": _embedding,
            "Attention": _attention,
            "MultiHeadAttention": _multi_head,
            "MatMulNBits": _few_bits,
        }.items()
    },
}
