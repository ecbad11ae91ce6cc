"""Quantization, and products of bytes: sums in f64, where each partial sum is an exact integer, then modulo 2^32."""

from __future__ import annotations

import math

import numpy as np

from nnc.backends.reference.arrays import Array, Inputs, Outputs, Rows, widen, write
from nnc.backends.reference.convolutions.convolutions import columns_of, filters_of, image_blocks
from nnc.backends.reference.convolutions.window import pad
from nnc.backends.reference.products.products import product
from nnc.core.values.dtype import U8
from nnc.ops.quantization import quantization as ops
from nnc.ops.quantization.quantization import QUAD, DynamicQuantizeAttrs, IntegerConvolutionAttrs, IntegerProductAttrs
from nnc.ops.rules import NoAttrs


def quantized(x: Array, scale: Array, zero: Array) -> Array:
    """y = saturate(round(x / scale) + zero), nan as 0."""
    limits = np.iinfo(zero.dtype)
    y = np.clip(np.rint(x / scale.astype(x.dtype)) + zero.astype(x.dtype), int(limits.min), int(limits.max))
    return np.where(np.isnan(y), 0, y).astype(zero.dtype)


def quantize(attrs: NoAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y = saturate(round(x / scale) + zero)."""
    x, scale, zero = widen(inputs[0]), widen(inputs[1]), inputs[2]
    assert zero is not None
    write(outputs[0], quantized(x, scale, zero))


def dequantize(attrs: NoAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y = (x - zero) · scale, the difference in i32."""
    x, scale, zero = inputs
    assert x is not None
    assert zero is not None
    factor = widen(scale)
    write(outputs[0], (x.astype(np.int32) - zero.astype(np.int32)).astype(factor.dtype) * factor)


def dynamic_quantize(attrs: DynamicQuantizeAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """scale = (max(x, 0) - min(x, 0)) / 255; zero = round(-min(x, 0) / scale)."""
    x = widen(inputs[0])
    axes = tuple(range(attrs.leading, x.ndim))
    high = np.max(x, axes, keepdims=True, initial=0)
    low = np.min(x, axes, keepdims=True, initial=0)
    scale = np.where(high == low, x.dtype.type(1), (high - low) / x.dtype.type(255))
    zero = quantized(-low, scale, np.zeros((), U8.numpy))
    y = quantized(x, scale, zero)
    for output, value in zip(outputs, (y, scale, zero), strict=True):
        write(output, value.reshape(output.shape))


def dequantized_product(attrs: NoAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y[…, m, n] = (sum_k x[…, m, k] · q[k, n]) · scale[n] + bias[n]."""
    x, q, scale, bias = inputs
    assert q is not None
    left = widen(x)
    y = product(left, q.astype(left.dtype)) * widen(scale)
    write(outputs[0], y if bias is None else y + widen(bias))


def shifted(x: Array | None, zero: Array | None) -> Array:
    """x - zero, in f64."""
    assert x is not None
    wide = x.astype(np.float64)
    if zero is None:
        return wide
    return wide - (zero.reshape(()) if zero.size == 1 else zero)


def wrapped(total: Array) -> Array:
    """Whole numbers as i32, modulo 2^32."""
    return total.astype(np.int64).astype(np.int32)


def plain(x: Array | None, size: int) -> Array:
    """[…, ⌈size / 4⌉, n, 4] as […, size, n]."""
    assert x is not None
    rows = x.swapaxes(-1, -2)
    return rows.reshape(*x.shape[:-3], x.shape[-3] * QUAD, x.shape[-2])[..., :size, :]


def integer_product(attrs: IntegerProductAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y[…, m, n] = sum_k (a[…, m, k] - a_zero) · (b[…, k, n] - b_zero)."""
    a, b, a_zero, b_zero = inputs
    assert a is not None
    assert b is not None
    left = a.swapaxes(-1, -2) if attrs.transpose_a else a
    right = plain(b, left.shape[-1]) if attrs.quads else b.swapaxes(-1, -2) if attrs.transpose_b else b
    write(outputs[0], wrapped(product(shifted(left, a_zero), shifted(right, b_zero))))


def integer_convolution(attrs: IntegerConvolutionAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y[n, o…, f] = sum_{k…, c} (x[n, o·stride + k·dilation - before…, c] - x_zero) · (w[k…, c, f] - w_zero)."""
    x, w, x_zero, w_zero = inputs
    assert x is not None
    flat = plain(w, x.shape[-1]) if attrs.quads else w
    filters = shifted(flat, w_zero)
    kernel, sizes = filters.shape[:-2], outputs[0].shape[1:-1]
    padded = pad(shifted(x, x_zero), attrs.window, 0)
    right = filters_of(filters, attrs.groups)
    for images in image_blocks(len(padded), math.prod((*sizes, *filters.shape[:-1])) * attrs.groups):
        y = product(columns_of(padded[images], kernel, attrs.window, sizes, attrs.groups), right)
        shape = (images.stop - images.start, *sizes, filters.shape[-1])
        write(outputs[0][images], wrapped(y.transpose(1, 0, 2).reshape(shape)))


ROWS: Rows = {
    ops.QUANTIZE: quantize,
    ops.DEQUANTIZE: dequantize,
    ops.DYNAMIC_QUANTIZE: dynamic_quantize,
    ops.DEQUANTIZED_PRODUCT: dequantized_product,
    ops.INTEGER_PRODUCT: integer_product,
    ops.INTEGER_CONVOLUTION: integer_convolution,
}
