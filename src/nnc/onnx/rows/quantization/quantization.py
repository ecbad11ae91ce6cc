"""Quantization: integers with a scale and a zero point; products of bytes are sums of integers."""

from __future__ import annotations

import numpy as np

import onnx
from nnc import ops
from nnc.core.values.command import Command
from nnc.core.values.dtype import F32, I8, I16, I32, U8, DType
from nnc.core.values.spec import TensorSpec
from nnc.onnx.file import dtype_named
from nnc.onnx.node import Array, NodeCall, OnnxNode, OnnxRow, Operand, Results
from nnc.onnx.rows.convolutions.products import kernel_of
from nnc.onnx.rows.convolutions.window import channels_first, channels_last, kernel_sizes, window_of
from nnc.ops.movement.fill import FILL, FillAttrs

LIMITS = {
    f"{sign}int{bits}": (0 if sign else -(1 << (bits - 1)), (1 << (bits - (0 if sign else 1))) - 1)
    for sign in ("", "u")
    for bits in (2, 4, 8, 16)
}
# Types of results and of operands that a graph has; others run by value.
QUANTIZED = (U8, I8, I16)


def _along(value: Operand, x: Operand, axis: int, block: int) -> Operand:
    """A scale or zero point beside x: one for all, one per slice of the axis, or one per block of it."""
    if value.spec.elements == 1 and value.spec.rank <= 1:
        return ops.reshape(value, ())
    axis %= x.spec.rank
    if value.spec.rank == 1:
        return ops.reshape(value, [value.spec.elements if operand == axis else 1 for operand in range(x.spec.rank)])
    size = block or -(-x.shape[axis] // value.shape[axis])
    wide = ops.reshape(value, (*value.shape[: axis + 1], 1, *value.shape[axis + 1 :]))
    wide = ops.broadcast_to(wide, (*value.shape[: axis + 1], size, *value.shape[axis + 1 :]))
    flat = ops.reshape(wide, (*value.shape[:axis], value.shape[axis] * size, *value.shape[axis + 1 :]))
    return ops.slice_axis(flat, axis, 0, x.shape[axis])


def filled(x: Operand, value: int, dtype: DType) -> Operand:
    """One element, in the world of x."""
    return x.apply(Command(FILL, FillAttrs(value, TensorSpec((), dtype))), ())[0]


def is_zero(call: NodeCall, place: int) -> bool:
    """Whether all elements of an operand are known to be 0."""
    known = call.known[place]
    return known is not None and not np.any(known)


def _quantize(call: NodeCall) -> Results:
    x, scale, zero = call[0], call[1], call.maybe(2)
    target = zero.spec.dtype if zero is not None else U8
    if zero is None and call.integer("output_dtype", 0):
        target = dtype_named(call.integer("output_dtype"), call.node.label)
    if target not in QUANTIZED:
        raise call.refuse(f"quantization to {target}")
    axis, block = call.integer("axis", 1), call.integer("block_size", 0)
    point = filled(x, 0, target) if zero is None or is_zero(call, 2) else _along(zero, x, axis, block)
    return ops.quantize(ops.cast(x, F32), _along(ops.cast(scale, F32), x, axis, block), point)


def _dequantize(call: NodeCall) -> Results:
    x, scale, zero = call[0], call[1], call.maybe(2)
    axis, block = call.integer("axis", 1), call.integer("block_size", 0)
    if x.spec.dtype not in (*QUANTIZED, I32):
        raise call.refuse(f"quantization of {x.spec.dtype}")
    point = filled(x, 0, x.spec.dtype) if zero is None or is_zero(call, 2) else _along(zero, x, axis, block)
    y = ops.dequantize(x, _along(ops.cast(scale, F32), x, axis, block), point)
    return y if scale.spec.dtype is F32 else ops.cast(y, scale.spec.dtype)


def _dynamic_quantize(call: NodeCall) -> Results:
    return ops.dynamic_quantize(call[0])


def point(call: NodeCall, place: int, *, is_left: bool = False) -> Operand | None:
    """A zero point as products take it: none where it is known to be 0, [m, 1] for one per row of the left operand."""
    zero = call.maybe(place)
    if zero is None or is_zero(call, place):
        return None
    if zero.spec.elements == 1:
        return ops.reshape(zero, ())
    return ops.reshape(zero, (-1, 1)) if is_left and zero.spec.rank == 1 else zero


def product(a: Operand, b: Operand, a_zero: Operand | None, b_zero: Operand | None) -> Operand:
    """NumPy's rule for one axis, as `matmul`."""
    rows, columns = a.spec.rank > 1, b.spec.rank > 1
    left, right = a if rows else ops.reshape(a, (1, -1)), b if columns else ops.reshape(b, (-1, 1))
    y = ops.integer_product(left, right, a_zero, b_zero)
    return ops.reshape(y, (*y.shape[:-2], *y.shape[-2 : -1 if rows else -2], *(y.shape[-1:] if columns else ())))


def _matmul_integer(call: NodeCall) -> Results:
    return product(call[0], call[1], point(call, 2, is_left=True), point(call, 3))


def _q_linear_matmul(call: NodeCall) -> Results:
    a, a_scale, _, b, b_scale, _, scale, zero = (call[place] for place in range(8))
    sums = product(a, b, point(call, 2, is_left=True), point(call, 5))
    if a_scale.spec.elements > 1 and a_scale.spec.rank == 1:
        a_scale = ops.reshape(a_scale, (-1, 1))
    return requantized(sums, scalar(a_scale) * scalar(b_scale), filled(a, 0, I32), scale, zero)


def requantized(sums: Operand, factor: Operand, shift: Operand, scale: Operand, zero: Operand) -> Operand:
    """Sums in i32 as bytes of another scale."""
    return ops.quantize(ops.dequantize(sums, factor, shift), scalar(scale), ops.reshape(zero, ()))


def scalar(scale: Operand) -> Operand:
    """A scale in f32, without axes where it is one."""
    wide = ops.cast(scale, F32)
    return ops.reshape(wide, ()) if wide.spec.elements == 1 else wide


def _sums(call: NodeCall, x: int, w: int, x_zero: int, w_zero: int) -> Operand:
    """The node's convolution of bytes, with channels last."""
    window = window_of(call, call[x].shape[2:], kernel_sizes(call, call[w].shape))
    return ops.integer_convolution(
        channels_last(call[x]),
        kernel_of(call[w]),
        point(call, x_zero),
        point(call, w_zero),
        window=window,
        groups=call.integer("group", 1),
    )


def _conv_integer(call: NodeCall) -> Results:
    return channels_first(_sums(call, 0, 1, 2, 3))


def q_linear_conv(call: NodeCall) -> Results:
    """The bias is in units of the product of both scales: it is taken off with its sign turned."""
    _, x_scale, _, _, w_scale, _, scale, zero = (call[place] for place in range(8))
    sums, bias = _sums(call, 0, 3, 2, 5), call.maybe(8)
    shift = filled(sums, 0, I32) if bias is None else ops.affine(bias, -1, 0)
    return channels_first(requantized(sums, scalar(x_scale) * scalar(w_scale), shift, scale, zero))


def _host_along(value: Array, x: Array, axis: int, block: int) -> Array:
    """The same on arrays."""
    if value.size == 1 and value.ndim <= 1:
        return value.reshape(())
    if value.ndim == 1:
        return value.reshape([value.size if operand == axis % x.ndim else 1 for operand in range(x.ndim)])
    size = block or -(-x.shape[axis] // value.shape[axis])
    return np.repeat(value, size, axis)[tuple(slice(0, operand) for operand in x.shape)]


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


ROWS = {
    "ConvInteger": OnnxRow(_conv_integer),
    "QLinearConv": OnnxRow(q_linear_conv),
    "QuantizeLinear": OnnxRow(_quantize, _host_quantize),
    "DequantizeLinear": OnnxRow(_dequantize, _host_dequantize, late=True),
    "DynamicQuantizeLinear": OnnxRow(_dynamic_quantize),
    "MatMulInteger": OnnxRow(_matmul_integer),
    "QLinearMatMul": OnnxRow(_q_linear_matmul),
}
