"""Convolutions and pools: ONNX has the channels on axis 1, we have them last; the transposes between two cancel."""

from __future__ import annotations

from nnc.core.values.spec import Layout
from nnc.onnx.exporter import ExportCall, ExportRow, Written
from nnc.ops.convolutions.window import Window
from nnc.ops.movement.layout import layout_permutation


def _pads(window: Window) -> list[int]:
    return [low for low, _ in window.padding] + [high for _, high in window.padding]


def _moves(window: Window) -> dict[str, object]:
    return {"strides": list(window.strides), "pads": _pads(window), "dilations": list(window.dilations)}


def _first(call: ExportCall) -> str:
    """[n, c, i…] of [n, i…, c]"""
    return call.writer.transpose(call.name(0), layout_permutation(Layout.NCHW, call[0].spec.rank))


def _last(call: ExportCall, name: str) -> str:
    return call.writer.transpose(name, layout_permutation(Layout.NHWC, call[0].spec.rank))


def _convolution(call: ExportCall) -> Written:
    w, rank, attrs = call.writer, call[0].spec.rank, call.attrs
    kernel = w.transpose(call.name(1), (rank - 1, rank - 2, *range(rank - 2)))
    shape = list(call[1].shape[:-2])
    y = w.node(
        "Conv", _first(call), kernel, call.name(2), kernel_shape=shape, group=attrs.groups, **_moves(attrs.window)
    )  # fmt: skip
    return _last(call, y)


def _transposed(call: ExportCall) -> Written:
    """The data gradient of a convolution is ONNX's ConvTranspose; what a stride forgets is added at the end."""
    w, rank, attrs = call.writer, call[0].spec.rank, call.attrs
    kernel = w.transpose(call.name(1), (rank - 1, rank - 2, *range(rank - 2)))
    window, shape = attrs.window, call[1].shape[:-2]
    extra = [
        size - ((count - 1) * stride + dilation * (extent - 1) + 1 - low - high)
        for size, count, stride, dilation, extent, (low, high) in zip(
            attrs.sizes, call[0].shape[1:-1], window.strides, window.dilations, shape, window.padding, strict=True
        )
    ]
    y = w.node(
        "ConvTranspose", _first(call), kernel, kernel_shape=list(shape), group=attrs.groups, output_padding=extra,
        **_moves(window),
    )  # fmt: skip
    return _last(call, y)


def _max_pool(call: ExportCall) -> Written:
    kernel, moves = list(call.attrs.kernel), _moves(call.attrs.window)
    return _last(call, call.writer.node("MaxPool", _first(call), kernel_shape=kernel, **moves))


def _average_pool(call: ExportCall) -> Written:
    attrs = call.attrs
    if any(operand != 1 for operand in attrs.window.dilations):
        raise call.refuse("dilations")
    moves = {name: value for name, value in _moves(attrs.window).items() if name != "dilations"}
    y = call.writer.node(
        "AveragePool", _first(call), kernel_shape=list(attrs.kernel), count_include_pad=int(attrs.count_border), **moves
    )  # fmt: skip
    return _last(call, y)


EXPORTS: dict[str, ExportRow] = {
    "convolution": _convolution,
    "convolution_data_gradient": _transposed,
    "max_pool": _max_pool,
    "average_pool": _average_pool,
}
