"""Layer norm as ONNX's own node where its axes are the last; everything else from means."""

from __future__ import annotations

from nnc import ops
from nnc.onnx.exporter import ExportCall, ExportOperand, ExportRow, Written
from nnc.ops.normalization.normalization import spread_shape


def _spread(call: ExportCall, position: int) -> ExportOperand | None:
    operand = call.operands[position]
    return None if operand is None else ops.reshape(operand, spread_shape(call[0].shape, call.attrs.parameter_axes))


def _layer_norm(call: ExportCall) -> Written:
    x, attrs = call[0], call.attrs
    last = tuple(range(attrs.axes[0], x.spec.rank))
    w = call.writer
    if attrs.axes == attrs.parameter_axes == last and call.operands[1] is not None and x.spec.dtype.itemsize >= 4:
        count = 3 if any(call.wanted[1:]) else 1
        names = w.nodes_of("LayerNormalization", call.names(), count, axis=last[0], epsilon=attrs.epsilon)
        return (*names, *[None] * (3 - count))
    wide = ops.cast(x, call.outputs[1].dtype)
    mean = ops.reduce_mean(wide, attrs.axes, keepdims=True)
    centred = wide - mean
    inverse = ops.reciprocal(ops.sqrt(ops.reduce_mean(ops.square(centred), attrs.axes, keepdims=True) + attrs.epsilon))
    y = ops.cast(centred * inverse, x.spec.dtype)
    scale, bias = _spread(call, 1), _spread(call, 2)
    y = y if scale is None else y * scale
    return (y if bias is None else y + bias, mean, inverse)


def _rms_norm(call: ExportCall) -> Written:
    x, attrs = call[0], call.attrs
    wide = ops.cast(x, call.outputs[1].dtype)
    inverse = ops.reciprocal(ops.sqrt(ops.reduce_mean(ops.square(wide), attrs.axes, keepdims=True) + attrs.epsilon))
    y, scale = ops.cast(wide * inverse, x.spec.dtype), _spread(call, 1)
    return (y if scale is None else y * scale, inverse)


EXPORTS: dict[str, ExportRow] = {"layer_norm": _layer_norm, "rms_norm": _rms_norm}
