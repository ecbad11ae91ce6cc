"""Quantization: integers with a scale and a zero point, as arithmetic in f32."""

from __future__ import annotations

import numpy as np

import onnx
from nnc import ops
from nnc.core.dtype import F32, I32, U8
from nnc.onnx.file import dtype_named
from nnc.onnx.node import Array, NodeCall, OnnxNode, OnnxRow, Operand, Results
from nnc.onnx.rows.products import convolution, matmul

LIMITS = {
    f"{sign}int{bits}": (0 if sign else -(1 << (bits - 1)), (1 << (bits - (0 if sign else 1))) - 1)
    for sign in ("", "u")
    for bits in (2, 4, 8, 16)
}
RANGES = {"u8": (0.0, 255.0), "i8": (-128.0, 127.0), "i16": (-32768.0, 32767.0)}


def _along(value: Operand, x: Operand, axis: int, block: int) -> Operand:
    """A scale or zero point beside x: one for all, one per slice of the axis, or one per block of it."""
    if value.spec.elements == 1 and value.spec.rank <= 1:
        return ops.reshape(value, ())
    axis %= x.spec.rank
    if value.spec.rank == 1:
        return ops.reshape(value, [value.spec.elements if one == axis else 1 for one in range(x.spec.rank)])
    size = block or -(-x.shape[axis] // value.shape[axis])
    wide = ops.reshape(value, (*value.shape[: axis + 1], 1, *value.shape[axis + 1 :]))
    wide = ops.broadcast_to(wide, (*value.shape[: axis + 1], size, *value.shape[axis + 1 :]))
    flat = ops.reshape(wide, (*value.shape[:axis], value.shape[axis] * size, *value.shape[axis + 1 :]))
    return ops.slice_axis(flat, axis, 0, x.shape[axis])


def _quantize(call: NodeCall) -> Results:
    x, scale, zero = call[0], call[1], call.maybe(2)
    target = zero.spec.dtype if zero is not None else U8
    if zero is None and call.integer("output_dtype", 0):
        target = dtype_named(call.integer("output_dtype"), call.node.label)
    if target.name not in RANGES:
        raise call.refuse(f"quantization to {target}")
    axis, block = call.integer("axis", 1), call.integer("block_size", 0)
    ratio = ops.cast(x, F32) / _along(ops.cast(scale, F32), x, axis, block)
    y = ops.round(ratio)
    if zero is not None:
        y = y + _along(ops.cast(zero, F32), x, axis, block)
    return ops.cast(ops.clamp(y, *RANGES[target.name]), target)


def _dequantize(call: NodeCall) -> Results:
    x, scale, zero = call[0], call[1], call.maybe(2)
    axis, block = call.integer("axis", 1), call.integer("block_size", 0)
    y = ops.cast(x, F32)
    if zero is not None:
        y = y - _along(ops.cast(zero, F32), x, axis, block)
    y = y * _along(ops.cast(scale, F32), x, axis, block)
    return y if scale.spec.dtype is F32 else ops.cast(y, scale.spec.dtype)


def _shifted(x: Operand, zero: Operand | None, axis: int = -1) -> Operand:
    wide = ops.cast(x, F32)
    if zero is None:
        return wide
    if zero.spec.elements == 1:
        return wide - ops.reshape(ops.cast(zero, F32), ())
    shape = [1] * x.spec.rank
    shape[axis] = zero.spec.elements
    return wide - ops.reshape(ops.cast(zero, F32), shape)


def _matmul_integer(call: NodeCall) -> Results:
    a = _shifted(call[0], call.maybe(2), -2)
    return ops.cast(matmul(a, _shifted(call[1], call.maybe(3))), I32)


def _q_linear_matmul(call: NodeCall) -> Results:
    a, a_scale, a_zero, b, b_scale, b_zero, scale, zero = (call[place] for place in range(8))
    y = matmul(_shifted(a, a_zero, -2), _shifted(b, b_zero))
    ratio = y * (ops.cast(a_scale, F32) * ops.cast(b_scale, F32)) / ops.cast(scale, F32)
    whole = ops.round(ratio) + ops.cast(zero, F32)
    return ops.cast(ops.clamp(whole, *RANGES[zero.spec.dtype.name]), zero.spec.dtype)


def _host_along(value: Array, x: Array, axis: int, block: int) -> Array:
    """The same on arrays."""
    if value.size == 1 and value.ndim <= 1:
        return value.reshape(())
    if value.ndim == 1:
        return value.reshape([value.size if one == axis % x.ndim else 1 for one in range(x.ndim)])
    size = block or -(-x.shape[axis] // value.shape[axis])
    return np.repeat(value, size, axis)[tuple(slice(0, one) for one in x.shape)]


def _host_dequantize(node: OnnxNode, x: Array, scale: Array, zero: Array | None = None) -> Array:
    axis, block = node.integer("axis", 1), node.integer("block_size", 0)
    y = x.astype(np.float32)
    if zero is not None:
        y = y - _host_along(zero, x, axis, block).astype(np.float32)
    kind = node.integer("output_dtype", 0)
    twin = onnx.helper.tensor_dtype_to_np_dtype(kind) if kind else scale.dtype
    return np.asarray(y * _host_along(scale, x, axis, block).astype(np.float32)).astype(twin)


def _host_quantize(node: OnnxNode, x: Array, scale: Array, zero: Array | None = None) -> Array:
    axis, block = node.integer("axis", 1), node.integer("block_size", 0)
    kind = node.integer("output_dtype", 0) or onnx.TensorProto.UINT8
    twin = onnx.helper.tensor_dtype_to_np_dtype(kind) if zero is None else zero.dtype
    precision = node.integer("precision", 0)
    wide = onnx.helper.tensor_dtype_to_np_dtype(precision) if precision else np.dtype(np.float32)
    y: Array = x.astype(wide) / _host_along(scale, x, axis, block).astype(wide)
    shift = np.float32(0) if zero is None else _host_along(zero, x, axis, block).astype(np.float32)
    if "int" in str(twin):
        low, high = LIMITS[str(twin)]
        return np.clip(np.rint(y.astype(np.float32)) + shift, low, high).astype(np.int32).astype(twin)
    y = y.astype(np.float32) + shift
    if not node.integer("saturate", 1):
        return y.astype(twin)
    return np.asarray(onnx.numpy_helper.saturate_cast(y, twin))


def _conv_integer(call: NodeCall) -> Results:
    """Sums of products of integers below 2^24 are exact in f32."""
    x, w = _shifted(call[0], call.maybe(2)), _shifted(call[1], call.maybe(3), 0)
    return ops.cast(ops.round(convolution(call, x, w, None)), I32)


def _q_linear_conv(call: NodeCall) -> Results:
    x, x_scale, x_zero, w, w_scale, w_zero, scale, zero = (call[place] for place in range(8))
    bias = call.maybe(8)
    y = convolution(call, _shifted(x, x_zero), _shifted(w, w_zero, 0), None if bias is None else ops.cast(bias, F32))
    ratio = ops.cast(x_scale, F32) * ops.cast(w_scale, F32) / ops.cast(scale, F32)
    if ratio.spec.elements > 1:
        ratio = ops.reshape(ratio, (1, ratio.spec.elements, *(1,) * (y.spec.rank - 2)))
    whole = ops.round(y * ratio) + ops.cast(zero, F32)
    return ops.cast(ops.clamp(whole, *RANGES[zero.spec.dtype.name]), zero.spec.dtype)


ROWS = {
    "ConvInteger": OnnxRow(_conv_integer),
    "QLinearConv": OnnxRow(_q_linear_conv),
    "QuantizeLinear": OnnxRow(_quantize, _host_quantize),
    "DequantizeLinear": OnnxRow(_dequantize, _host_dequantize),
    "MatMulInteger": OnnxRow(_matmul_integer),
    "QLinearMatMul": OnnxRow(_q_linear_matmul),
}
