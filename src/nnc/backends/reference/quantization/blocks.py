"""Weights in blocks: their values in f32, and products with them as with other weights."""

from __future__ import annotations

from nnc.backends.reference.arrays import Inputs, Outputs, Rows, widen, write
from nnc.backends.reference.products.products import product
from nnc.core.values.blocks import dequantize, quantize
from nnc.ops.quantization import blocks as ops
from nnc.ops.quantization.blocks import BlockAttrs, BlockProductAttrs


def dequantize_blocks(attrs: BlockAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y = the values of packed."""
    (packed,) = inputs
    assert packed is not None
    write(outputs[0], dequantize(packed, attrs.form))


def quantize_blocks(attrs: BlockAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """packed = rows near x."""
    x, importance = inputs
    write(outputs[0], quantize(widen(x), attrs.form, None if importance is None else widen(importance)))


def block_product(attrs: BlockProductAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y[…, m, n] = sum_k x[…, m, k] · W[n, k] + bias[n]."""
    x, packed, bias = inputs
    assert packed is not None
    left = widen(x)
    weights = dequantize(packed, attrs.form).astype(left.dtype)
    y = product(left, weights.T if attrs.transpose_b else weights)
    write(outputs[0], y if bias is None else y + widen(bias))


ROWS: Rows = {
    ops.DEQUANTIZE_BLOCKS: dequantize_blocks,
    ops.QUANTIZE_BLOCKS: quantize_blocks,
    ops.BLOCK_PRODUCT: block_product,
}
