"""Reductions, softmax, and the losses that people evaluate with."""

from __future__ import annotations

from nnc import ops
from nnc.core.values.dtype import I64
from nnc.onnx.exporter import ExportCall, ExportRow, Written
from nnc.ops.loss.loss import LossReduction


def _reduction(op: str) -> ExportRow:
    """The node over the axes; of a transpose, over those of its source where nothing is left to turn."""

    def write(call: ExportCall) -> Written:
        w, axes, keep = call.writer, call.attrs.axes, call.attrs.keepdims
        if not axes:
            return w.node("Abs" if op == "ReduceL2" else "Identity", call.name(0))
        turned = w.turned(call.name(0))
        if turned is not None:
            source, order = turned
            kept = [operand for axis, operand in enumerate(order) if axis not in axes]
            if not keep and kept == sorted(kept):
                return w.node(op, source, w.constant(sorted(order[axis] for axis in axes)), keepdims=0)
            if keep:
                inner = w.node(op, source, w.constant(sorted(order[axis] for axis in axes)), keepdims=1)
                return w.transpose(inner, order)
        return w.node(op, call.name(0), w.constant(axes), keepdims=int(keep))

    return write


def _position(op: str) -> ExportRow:
    def write(call: ExportCall) -> Written:
        if len(call.attrs.axes) != 1:
            raise call.refuse(f"a place along {len(call.attrs.axes)} axes")
        name = call.writer.node(op, call.name(0), axis=call.attrs.axes[0], keepdims=int(call.attrs.keepdims))
        return name if call.outputs[0].dtype is I64 else call.writer.cast(name, call.outputs[0].dtype)

    return write


def _cross_entropy(call: ExportCall) -> Written:
    """(ln sum e^x - x[label], softmax(x))"""
    x, label = call[0], call[1]
    logs = ops.log_softmax(x)
    column = ops.reshape(ops.cast(label, I64), (*label.shape, 1))
    picked = ops.reshape(ops.gather(logs, column, x.spec.rank - 1), label.shape)
    return (-picked, ops.softmax(x))


def _squared_error(call: ExportCall) -> Written:
    squares = ops.square(call[0] - call[1])
    axes = tuple(range(1, squares.spec.rank))
    return (ops.reduce_mean if call.attrs.reduction is LossReduction.MEAN else ops.reduce_sum)(squares, axes)


EXPORTS: dict[str, ExportRow] = {
    "reduce_sum": _reduction("ReduceSum"),
    "reduce_mean": _reduction("ReduceMean"),
    "reduce_max": _reduction("ReduceMax"),
    "reduce_min": _reduction("ReduceMin"),
    "reduce_norm": _reduction("ReduceL2"),
    "argmax": _position("ArgMax"),
    "argmin": _position("ArgMin"),
    "softmax": lambda call: call.writer.node("Softmax", call.name(0), axis=-1),
    "log_softmax": lambda call: call.writer.node("LogSoftmax", call.name(0), axis=-1),
    "softmax_cross_entropy": _cross_entropy,
    "mean_squared_error": _squared_error,
}
