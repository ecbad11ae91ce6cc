"""Operators of com.microsoft on bytes with a scale and a zero point each, as onnxruntime's quantizer writes them.

What is no product works on the real numbers that its operands stand for, and quantizes the result.
"""

from __future__ import annotations

from collections.abc import Callable

from nnc import ops
from nnc.core.values.dtype import I32, U8
from nnc.onnx.node import NodeCall, OnnxRow, Operand, Results
from nnc.onnx.rows.convolutions.window import average_pool, channels_first, channels_last
from nnc.onnx.rows.quantization import quantization
from nnc.onnx.rows.quantization.quantization import filled, is_zero, point, product, q_linear_conv, requantized, scalar
from nnc.onnx.rows.sequence.transformers import DOMAIN


def _real(call: NodeCall, place: int) -> Operand:
    """The numbers of an operand that its scale and its zero point follow."""
    x = call[place]
    zero = filled(x, 0, x.spec.dtype) if call.maybe(place + 2) is None or is_zero(call, place + 2) else call[place + 2]
    return ops.dequantize(x, scalar(call[place + 1]), ops.reshape(zero, ()))


def _bytes(call: NodeCall, y: Operand, place: int, like: Operand) -> Operand:
    """y by the scale there and the zero point behind it."""
    zero = call.maybe(place + 1)
    target = filled(y, 0, like.spec.dtype) if zero is None or is_zero(call, place + 1) else ops.reshape(zero, ())
    if zero is not None and zero.spec.dtype is not target.spec.dtype:
        target = filled(y, 0, zero.spec.dtype)
    return ops.quantize(y, scalar(call[place]), target)


def _pairs(function: Callable[[Operand, Operand], Operand]) -> OnnxRow:
    """a, its scale and zero, b, its scale and zero, those of the result."""
    return OnnxRow(lambda call: _bytes(call, function(_real(call, 0), _real(call, 3)), 6, call[0]))


def _each(function: Callable[[NodeCall, Operand], Operand]) -> OnnxRow:
    """x, its scale and zero, those of the result."""
    return OnnxRow(lambda call: _bytes(call, function(call, _real(call, 0)), 3, call[0]))


def _softmax(call: NodeCall, x: Operand) -> Operand:
    """Over one axis; before operator set 13 over all from the axis on."""
    axis, rank = call.axis(call.integer("axis", -1), x.spec.rank), x.spec.rank
    if call.integer("opset", 13) < 13:
        return ops.reshape(ops.softmax(ops.reshape(x, (*x.shape[:axis], -1))), x.shape)
    order = (*(operand for operand in range(rank) if operand != axis), axis)
    y = ops.softmax(ops.transpose(x, order))
    return ops.transpose(y, tuple(order.index(operand) for operand in range(rank)))


def _global_average(call: NodeCall, x: Operand) -> Operand:
    first = 1 if call.integer("channels_last", 0) else 2
    return ops.reduce_mean(x, tuple(range(first, first + x.spec.rank - 2)), keepdims=True)


def _average(call: NodeCall, x: Operand) -> Operand:
    if call.integer("channels_last", 0):
        return channels_last(average_pool(call, channels_first(x)))
    return average_pool(call, x)


def _mean(call: NodeCall, x: Operand) -> Operand:
    return ops.reduce_mean(x, call.optional("axes"), keepdims=bool(call.integer("keepdims", 1)))


def _concatenated(call: NodeCall) -> Results:
    """The scale and the zero of the result, then each operand with its own."""
    parts = [_real(call, place) for place in range(2, len(call), 3)]
    return _bytes(call, ops.concatenate(parts, call.integer("axis")), 0, call[2])


def _where(call: NodeCall) -> Results:
    return _bytes(call, ops.where(call[0], _real(call, 1), _real(call, 4)), 7, call[1])


# ---- products


def _to_float(call: NodeCall) -> Results:
    """(a - a_zero) @ (b - b_zero) · a_scale · b_scale + bias"""
    return _scaled(call, call[0], call[2], point(call, 4, is_left=True), 3, 5, 6)


def _dynamic_product(call: NodeCall) -> Results:
    """a in f32, quantized as it comes."""
    a, scale, zero = ops.dynamic_quantize(call[0])
    return _scaled(call, a, scale, zero, 2, 3, 4)


def _scaled(
    call: NodeCall, a: Operand, a_scale: Operand, a_zero: Operand | None, b_scale: int, b_zero: int, bias: int
) -> Operand:
    """The product of a with operand 1, whose scale, zero and bias stand at these places."""
    sums = product(a, call[1], a_zero, point(call, b_zero))
    y = ops.dequantize(sums, scalar(a_scale) * scalar(call[b_scale]), filled(sums, 0, I32))
    return y if call.maybe(bias) is None else y + call[bias]


def _gemm(call: NodeCall) -> Results:
    """alpha · a @ b with a bias in units of both scales; f32 where there is no scale of the result."""
    flips = {f"transpose_{name.lower()}": bool(call.integer(f"trans{name}", 0)) for name in "AB"}
    sums = ops.integer_product(call[0], call[3], point(call, 2), point(call, 5), **flips)
    if call.maybe(6) is not None:
        sums = sums + call[6]
    factor = scalar(call[1]) * scalar(call[4]) * call.real("alpha", 1.0)
    if call.maybe(7) is None:
        return ops.dequantize(sums, factor, filled(sums, 0, I32))
    return requantized(
        sums, factor, filled(sums, 0, I32), call[7], call[8] if call.maybe(8) is not None else filled(sums, 0, U8)
    )


def _convolution(call: NodeCall) -> Results:
    if call.integer("channels_last", 0):
        raise call.refuse("channels in the last axis")
    return q_linear_conv(call)


ROWS = {
    f"{DOMAIN}.{name}": row
    for name, row in {
        "QuantizeLinear": quantization.ROWS["QuantizeLinear"],
        "DequantizeLinear": quantization.ROWS["DequantizeLinear"],
        "QLinearAdd": _pairs(ops.add),
        "QLinearMul": _pairs(ops.multiply),
        "QLinearSigmoid": _each(lambda call, x: ops.sigmoid(x)),
        "QLinearLeakyRelu": _each(lambda call, x: ops.leaky_relu(x, call.real("alpha", 0.01))),
        "QLinearSoftmax": _each(_softmax),
        "QLinearGlobalAveragePool": _each(_global_average),
        "QLinearAveragePool": _each(_average),
        "QLinearReduceMean": _each(_mean),
        "QLinearConcat": OnnxRow(_concatenated),
        "QLinearWhere": OnnxRow(_where),
        "QLinearConv": OnnxRow(_convolution),
        "QGemm": OnnxRow(_gemm),
        "MatMulIntegerToFloat": OnnxRow(_to_float),
        "DynamicQuantizeMatMul": OnnxRow(_dynamic_product),
    }.items()
}
