"""Windows over the spatial axes: pooling, and what convolutions share with it. ONNX has the channels on axis 1."""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from nnc import ops
from nnc.core.values.dtype import F32
from nnc.core.values.spec import Layout, Shape
from nnc.errors import AttributeValueError, ShapeError
from nnc.onnx.kept.asked_elements import Unknown
from nnc.onnx.node import Array, NodeCall, OnnxNode, OnnxRow, Operand, Results
from nnc.ops.convolutions.window import Window, output_sizes, same_border
from nnc.ops.movement.layout import layout_permutation


def channels_last(x: Operand) -> Operand:
    """[n, i…, c] of [n, c, i…]"""
    return ops.transpose(x, layout_permutation(Layout.NHWC, x.spec.rank))


def channels_first(y: Operand) -> Operand:
    """[n, c, i…] of [n, i…, c]"""
    return ops.transpose(y, layout_permutation(Layout.NCHW, y.spec.rank))


def pads_of(call: NodeCall, rank: int) -> list[tuple[int, int]]:
    """(before, after) per spatial axis, from the attribute that lists all starts, then all ends."""
    flat = call.integers("pads", (0,) * (2 * rank))
    if len(flat) != 2 * rank:
        raise call.refuse(f"{len(flat)} pads for {rank} spatial axes")
    return list(zip(flat[:rank], flat[rank:], strict=True))


def kernel_sizes(call: NodeCall, weight: Shape) -> Shape:
    """The sizes of a kernel [f, c, k…]; ShapeError where the attribute says others than the weight has."""
    given = call.integers("kernel_shape", weight[2:])
    if given != weight[2:]:
        got = f"kernel_shape {list(given)} and a weight of {list(weight)}"
        raise ShapeError(call.node.label, got=got, need=f"kernel_shape {list(weight[2:])}, or none")
    return given


def pool_sizes(call: NodeCall, sizes: Shape) -> Shape:
    """The sizes of a pool's window over axes of these sizes; ShapeError unless there is one of 1 or more for each."""
    kernel = call.integers("kernel_shape")
    if len(kernel) != len(sizes) or min(kernel, default=1) < 1:
        got = f"kernel_shape {list(kernel)} and an input of {len(sizes)} spatial axes"
        raise ShapeError(call.node.label, got=got, need="a size of 1 or more for each spatial axis")
    return kernel


def _power(call: NodeCall) -> int:
    """The p of a norm over a window."""
    power = call.integer("p", 2)
    if power < 1:
        raise AttributeValueError(call.node.label, got=f"p {power}", need="1 or more")
    return power


def window_of(call: NodeCall, sizes: Shape, kernel: Shape) -> Window:
    """Strides, pads (also the automatic ones) and dilations; `ceil_mode` adds to the end what a last window needs."""
    rank = len(sizes)
    strides, dilations = call.integers("strides", (1,) * rank), call.integers("dilations", (1,) * rank)
    if len(strides) != rank or len(dilations) != rank:
        got = f"strides {list(strides)}, dilations {list(dilations)} and an input of {rank} spatial axes"
        raise ShapeError(call.node.label, got=got, need="one of each for each spatial axis")
    mode = call.text("auto_pad", "NOTSET")
    extents = [dilation * (size - 1) + 1 for dilation, size in zip(dilations, kernel, strict=True)]
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        pads = list(map(same_border, sizes, extents, strides))
        pads = pads if mode == "SAME_UPPER" else [(after, before) for before, after in pads]
    else:
        pads = [(0, 0)] * rank if mode == "VALID" else pads_of(call, rank)
    return Window(strides, tuple(pads), dilations)


def _ceiled(call: NodeCall, sizes: Shape, kernel: Shape, window: Window) -> Window:
    """With the border at the end that `ceil_mode` needs; no window begins in that border."""
    if not call.integer("ceil_mode", 0):
        return window
    padding = []
    for size, extent, stride, (low, high), dilation in zip(
        sizes, kernel, window.strides, window.padding, window.dilations, strict=True
    ):
        span = dilation * (extent - 1) + 1
        count = -(-(size + low + high - span) // stride) + 1
        if (count - 1) * stride >= size + low:
            count -= 1
        padding.append((low, max((count - 1) * stride + span - size - low, high)))
    return Window(window.strides, tuple(padding), window.dilations)


def _max_pool(call: NodeCall) -> Results:
    x, kernel = call[0], pool_sizes(call, call[0].shape[2:])
    if call.wants(1):
        raise Unknown(call.sources[0], f"{call.node.label}, whose indices are asked for", whole=True)
    window = _ceiled(call, x.shape[2:], kernel, window_of(call, x.shape[2:], kernel))
    y = channels_last(x)
    if not x.spec.dtype.is_float:
        y = ops.cast(y, F32)
    pooled = channels_first(ops.max_pool(y, kernel, window))
    return pooled if x.spec.dtype.is_float else ops.cast(pooled, x.spec.dtype)


def average_pool(call: NodeCall, x: Operand) -> Operand:
    """The sum of each window over how many of its places count: those of x, or of x and its border, never beyond."""
    sizes = x.shape[2:]
    kernel = pool_sizes(call, sizes)
    given = window_of(call, sizes, kernel)
    window = _ceiled(call, sizes, kernel, given)
    border = bool(call.integer("count_include_pad", 0))
    pooled = ops.average_pool(channels_last(x), kernel, window, count_border=border)
    if border and window != given:
        pooled = pooled * call.constant(_corrections(sizes, kernel, given, window), x.spec)
    return channels_first(pooled)


def _corrections(sizes: Shape, kernel: Shape, given: Window, window: Window) -> Array:
    """Places of each window over those inside x and its given border: [1, o…, 1]."""
    factors = []
    for axis, size in enumerate(sizes):
        low, high = window.padding[axis]
        stride, dilation, extent = window.strides[axis], window.dilations[axis], kernel[axis]
        count = (size + low + high - dilation * (extent - 1) - 1) // stride + 1
        end = size + low + given.padding[axis][1]
        inside = [sum(begin * stride + place * dilation < end for place in range(extent)) for begin in range(count)]
        factors.append([extent / max(operand, 1) for operand in inside])
    shape = tuple(len(factor) for factor in factors)
    result = np.empty((1, *shape, 1))
    for places in product(*(range(size) for size in shape)):
        result[(0, *places, 0)] = math.prod(operand[place] for operand, place in zip(factors, places, strict=True))
    return result


def _spatial(x: Operand) -> tuple[int, ...]:
    return tuple(range(2, x.spec.rank))


def _lp_pool(call: NodeCall) -> Results:
    x, kernel = call[0], pool_sizes(call, call[0].shape[2:])
    power = _power(call)
    window = _ceiled(call, x.shape[2:], kernel, window_of(call, x.shape[2:], kernel))
    raised = abs(x) if power == 1 else ops.square(x) if power == 2 else abs(x) ** float(power)
    total = ops.average_pool(channels_last(raised), kernel, window, count_border=True) * float(math.prod(kernel))
    root = total if power == 1 else ops.sqrt(total) if power == 2 else total ** (1.0 / power)
    return channels_first(root)


def _global_lp(call: NodeCall) -> Results:
    x, power = call[0], _power(call)
    raised = abs(x) if power == 1 else ops.square(x) if power == 2 else abs(x) ** float(power)
    total = ops.reduce_sum(raised, _spatial(x), keepdims=True)
    return total if power == 1 else ops.sqrt(total) if power == 2 else total ** (1.0 / power)


def _host_max_pool(node: OnnxNode, x: Array) -> tuple[Array, Array]:
    """The largest elements and where they are among all elements of x."""
    call = NodeCall(node, (), (x,), (frozenset(),), None)  # type: ignore[arg-type]  # attributes alone are asked for
    sizes = x.shape[2:]
    kernel = pool_sizes(call, sizes)
    window = _ceiled(call, sizes, kernel, window_of(call, sizes, kernel))
    outputs = output_sizes("max_pool", sizes, kernel, window)
    numbers = np.arange(x.size).reshape(x.shape)
    if call.integer("storage_order", 0):
        plane = np.arange(math.prod(sizes)).reshape(sizes[::-1]).T
        numbers = plane + (np.arange(math.prod(x.shape[:2])) * math.prod(sizes)).reshape(
            *x.shape[:2], *[1] * len(sizes)
        )
    values, places = np.empty((*x.shape[:2], *outputs), x.dtype), np.empty((*x.shape[:2], *outputs), np.int64)
    for target in np.ndindex(*outputs):
        index: list[slice] = [slice(None), slice(None)]
        for axis, place in enumerate(target):
            stride, dilation, (low, _) = window.strides[axis], window.dilations[axis], window.padding[axis]
            begin = place * stride - low
            first = begin if begin >= 0 else begin + dilation * -(begin // dilation)
            index.append(slice(first, min(begin + dilation * (kernel[axis] - 1) + 1, sizes[axis]), dilation))
        block = x[tuple(index)].reshape(*x.shape[:2], -1)
        best = block.argmax(-1)[..., None]
        values[(..., *target)] = np.take_along_axis(block, best, -1)[..., 0]
        flat = numbers[tuple(index)].reshape(*x.shape[:2], -1)
        places[(..., *target)] = np.take_along_axis(flat, best, -1)[..., 0]
    return values, places


def _unpooled(call: NodeCall) -> Results:
    """Zeros with the maxima where they were; the border of a larger shape is behind them."""
    x, places, shape = call[0], call[1], call.integers_at(2)
    natural = (*x.shape[:2], *_unpooled_sizes(call, x.shape[2:]))
    zeros = ops.broadcast_to(call.constant(np.zeros(1), x.spec), (math.prod(natural),))
    flat = [ops.reshape(operand, (operand.spec.elements,)) for operand in (places, x)]
    inner = ops.reshape(ops.scatter(zeros, flat[0], flat[1], 0), natural)
    if shape is None or shape == natural:
        return inner
    if any(size < least for size, least in zip(shape, natural, strict=True)):
        raise call.refuse(f"the shape {list(shape)} for {list(natural)}")
    return ops.pad(inner, (0,) * len(natural), tuple(a - b for a, b in zip(shape, natural, strict=True)))


def _unpooled_sizes(call: NodeCall, sizes: Shape) -> Shape:
    kernel, rank = pool_sizes(call, sizes), len(sizes)
    strides, pads = call.integers("strides", (1,) * rank), pads_of(call, rank)
    return tuple(
        (size - 1) * stride + extent - low - high
        for size, stride, extent, (low, high) in zip(sizes, strides, kernel, pads, strict=True)
    )


ROWS = {
    "MaxPool": OnnxRow(_max_pool, _host_max_pool),
    "MaxUnpool": OnnxRow(_unpooled),
    "AveragePool": OnnxRow(lambda call: average_pool(call, call[0])),
    "LpPool": OnnxRow(_lp_pool),
    "GlobalAveragePool": OnnxRow(lambda call: ops.reduce_mean(call[0], _spatial(call[0]), keepdims=True)),
    "GlobalMaxPool": OnnxRow(lambda call: ops.reduce_max(call[0], _spatial(call[0]), keepdims=True)),
    "GlobalLpPool": OnnxRow(_global_lp),
}
