"""What moves elements or makes them: fills, transposes, joins, gathers, borders, orders."""

from __future__ import annotations

import numpy as np

from nnc import ops
from nnc.core.values.dtype import BF16
from nnc.onnx.exporter import END, ExportCall, ExportRow, Written
from onnx import numpy_helper


def filled(call: ExportCall, value: float, shape: tuple[int, ...]) -> str:
    """`value` everywhere, of the element type of the result."""
    kind = call.outputs[0].dtype
    if not shape:
        return call.writer.constant(value, kind)
    if kind is BF16:  # no element type of ConstantOfShape
        return call.writer.node("Expand", call.writer.constant(value, kind), call.writer.constant(shape))
    single = numpy_helper.from_array(np.full(1, value, kind.numpy))
    return call.writer.node("ConstantOfShape", call.writer.constant(shape), value=single)


def _transpose(call: ExportCall) -> Written:
    return call.writer.transpose(call.name(0), call.attrs.permutation)


def _broadcast(call: ExportCall) -> Written:
    return call.writer.node("Expand", call.name(0), call.writer.constant(call.attrs.shape))


def _concatenate(call: ExportCall) -> Written:
    """Along the axis that it is in what all operands are transposes of."""
    w, axis, rank = call.writer, call.attrs.axis, call.outputs[0].rank
    turned = [w.turned(name) for name in call.names()]
    orders = {None if operand is None else operand[1] for operand in turned}
    (order,) = orders if len(orders) == 1 else (None,)
    if order is None or len(order) != rank:
        return w.node("Concat", *call.names(), axis=axis)
    sources = [operand[0] for operand in turned if operand is not None]
    return w.transpose(w.node("Concat", *sources, axis=order[axis]), order)


def _one_hot(call: ExportCall) -> Written:
    """index == class, for each class"""
    w, index = call.writer, call[0]
    wide = ops.reshape(index, (*index.shape, 1))
    numbers = w.constant(np.arange(call.attrs.classes), index.spec.dtype)
    return w.cast(w.node("Equal", w.name_of(wide), numbers), call.attrs.dtype)


def _scatter(call: ExportCall, index: str) -> str:
    """Zeros, with x added at the places of an index as large as x."""
    zeros = filled(call, 0, call.outputs[0].shape)
    return call.writer.node(
        "ScatterElements", zeros, index, call.name(0), axis=call.attrs.axis, reduction="add"
    )  # fmt: skip


def _scatter_add(call: ExportCall) -> Written:
    x, index, axis = call[0], call[1], call.attrs.axis
    if index.spec.rank != 1:
        raise call.refuse(f"an index of {index.spec.rank} axes")
    wide = ops.reshape(index, tuple(size if place == axis else 1 for place, size in enumerate(x.shape)))
    return _scatter(call, call.writer.node("Expand", call.writer.name_of(wide), call.writer.constant(x.shape)))


def _pad(call: ExportCall) -> Written:
    """A border; of a transpose, that of its source."""
    w, attrs = call.writer, call.attrs
    value = w.constant(attrs.value, call[0].spec.dtype) if attrs.mode == "constant" else ""
    source, order = w.turned(call.name(0)) or (call.name(0), tuple(range(call[0].spec.rank)))
    sides = [edges[order.index(axis)] for edges in (attrs.before, attrs.after) for axis in range(len(order))]
    return w.transpose(w.node("Pad", source, w.constant(sides), value, mode=attrs.mode), order)


def _flip(call: ExportCall) -> Written:
    axes = call.attrs.axes
    count = len(axes)
    return call.writer.slice(call.name(0), [-1] * count, [-END] * count, axes, [-1] * count)


def _cumulative_sum(call: ExportCall) -> Written:
    w, attrs = call.writer, call.attrs
    options = {"exclusive": int(attrs.exclusive), "reverse": int(attrs.reverse)}
    return w.node("CumSum", call.name(0), w.constant(attrs.axis), **options)


def _ordered(call: ExportCall, count: int, *, largest: bool) -> Written:
    w = call.writer
    return w.nodes_of("TopK", [call.name(0), w.constant([count])], 2, axis=call.attrs.axis, largest=int(largest))


def _upsample(call: ExportCall) -> Written:
    w, attrs = call.writer, call.attrs
    batch, _, _, channels = call[0].shape
    shape = (batch, channels, *attrs.target)
    mode = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    if attrs.mode == "bilinear":
        mode = {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}
    if attrs.align_corners:
        mode |= {"coordinate_transformation_mode": "align_corners"}
        mode |= {"nearest_mode": "round_prefer_ceil"} if attrs.mode == "nearest" else {}
    source = w.transpose(call.name(0), (0, 3, 1, 2))
    return w.transpose(w.node("Resize", source, "", "", w.constant(shape), **mode), (0, 2, 3, 1))


EXPORTS: dict[str, ExportRow] = {
    "fill": lambda call: filled(call, call.attrs.value, call.attrs.spec.shape),
    "arange": lambda call: call.writer.constant(
        call.attrs.start + np.arange(call.attrs.spec.shape[0]) * call.attrs.step, call.attrs.spec.dtype
    ),
    "transpose": _transpose,
    "broadcast_to": _broadcast,
    "concatenate": _concatenate,
    "index_select": lambda call: call.writer.node("Gather", *call.names(), axis=call.attrs.axis),
    "gather": lambda call: call.writer.node("GatherElements", *call.names(), axis=call.attrs.axis),
    "scatter_add": _scatter_add,
    "scatter_along": lambda call: _scatter(call, call.name(1)),
    "one_hot": _one_hot,
    "pad": _pad,
    "flip": _flip,
    "sort": lambda call: _ordered(call, call[0].shape[call.attrs.axis], largest=call.attrs.descending),
    "top_k": lambda call: _ordered(call, call.attrs.count, largest=call.attrs.largest),
    "cumulative_sum": _cumulative_sum,
    "upsample": _upsample,
}
