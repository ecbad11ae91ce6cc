"""Reductions, running sums, softmax, argmax, top-k."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from nnc import ops
from nnc.core.values.dtype import F64, I64, U8
from nnc.core.values.spec import Shape
from nnc.onnx.node import Array, NodeCall, OnnxNode, OnnxRow, Operand, Results

Reduce = Callable[..., Operand]


def _axes(call: NodeCall, newest: int) -> Shape | None:
    """The axes, an attribute before operator set `newest` and an input since; () where nothing is reduced."""
    axes = call.optional("axes") if call.node.opset < newest else call.integers_at(1)
    if not axes:
        return () if call.integer("noop_with_empty_axes", 0) else None
    return tuple(call.axis(axis, call[0].spec.rank) for axis in axes)


def _reduction(
    reduce: Reduce,
    newest: int = 18,
    before: Callable[[Operand], Operand] | None = None,
    after: Callable[[Operand], Operand] | None = None,
) -> OnnxRow:
    """y = after(reduce(before(x)))"""

    def build(call: NodeCall) -> Results:
        x, axes = call[0], _axes(call, newest)
        kind = x.spec.dtype
        if not kind.is_float and (reduce is ops.reduce_mean or after is not None):
            x = ops.cast(x, F64)
        y = x if before is None else before(x)
        if axes != () and not y.spec.elements and reduce in EMPTY:
            return _of_nothing(call, y, axes, EMPTY[reduce])
        if axes != ():
            y = reduce(y, axes, keepdims=bool(call.integer("keepdims", 1)))
        y = y if after is None else after(y)
        return y if y.spec.dtype is kind else ops.cast(y, kind)

    return OnnxRow(build)


EMPTY: dict[Reduce, float] = {ops.reduce_max: -math.inf, ops.reduce_min: math.inf}


def _of_nothing(call: NodeCall, x: Operand, axes: Shape | None, value: float) -> Results:
    """What a reduction gives where there is nothing to reduce: the least or greatest value of the element type."""
    every = tuple(range(x.spec.rank)) if axes is None else axes
    shape = tuple(1 if axis in every else size for axis, size in enumerate(x.shape))
    shape = shape if call.integer("keepdims", 1) else _without(x.shape, every)
    kind = x.spec.dtype
    if not kind.is_float:
        limits = np.iinfo(kind.name.replace("i", "int").replace("u", "uint"))
        value = limits.min if value == -math.inf else limits.max
    return call.constant(np.full(shape, value, kind.numpy))


def _log_sum_exp(call: NodeCall) -> Results:
    """m + log(sum exp(x - m)) with the largest element m."""
    x, axes = call[0], _axes(call, 18)
    if not x.spec.elements and axes != ():
        return _of_nothing(call, x, axes, -math.inf)
    if axes == ():
        return x
    keep = bool(call.integer("keepdims", 1))
    largest = ops.reduce_max(x, axes, keepdims=True)
    finite = ops.where(
        ops.equal(abs(largest), ops.fill_like(largest, float("inf"))), ops.fill_like(largest, 0.0), largest
    )
    y = ops.log(ops.reduce_sum(ops.exp(x - finite), axes, keepdims=True)) + finite
    return y if keep else ops.reshape(y, _without(y.shape, axes))


def _without(shape: Shape, axes: Shape | None) -> Shape:
    return () if axes is None else tuple(size for axis, size in enumerate(shape) if axis not in axes)


def _product(call: NodeCall) -> Results:
    """The factors of each axis one after another, halves at a time."""
    x, axes = call[0], _axes(call, 18)
    every = tuple(range(x.spec.rank)) if axes is None else axes
    if any(x.shape[axis] == 0 for axis in every):
        return _of_nothing(call, x, every, 1.0)
    y = x
    for axis in every:
        while y.shape[axis] > 1:
            half = y.shape[axis] // 2
            low, high = ops.slice_axis(y, axis, 0, half), ops.slice_axis(y, axis, half, 2 * half)
            rest = ops.slice_axis(y, axis, 2 * half, y.shape[axis])
            y = ops.multiply(low, high)
            if rest.shape[axis]:
                y = ops.concatenate([y, rest], axis)
    return y if call.integer("keepdims", 1) else ops.reshape(y, _without(y.shape, every))


def _extreme(reduce: Reduce) -> OnnxRow:
    plain = _reduction(reduce)

    def build(call: NodeCall) -> Results:
        assert plain.build is not None
        if call[0].spec.dtype.kind != "bool":
            return plain.build(call)
        whole = ops.cast(call[0], U8)
        if not whole.spec.elements and _axes(call, 18) != ():
            empty = _of_nothing(call, whole, _axes(call, 18), EMPTY[reduce])
            assert not isinstance(empty, tuple)
            return ops.not_equal(empty, ops.fill_like(empty, 0.0))
        y = reduce(whole, _axes(call, 18), keepdims=bool(call.integer("keepdims", 1)))
        return ops.not_equal(y, ops.fill_like(y, 0.0))

    return OnnxRow(build)


def _arg(largest: bool) -> OnnxRow:
    """The first place of the extreme, or with select_last_index the last one: the first from the other end."""

    def build(call: NodeCall) -> Results:
        x, keep = call[0], bool(call.integer("keepdims", 1))
        axis = call.axis(call.integer("axis", 0), x.spec.rank)
        find = ops.argmax if largest else ops.argmin
        if not call.integer("select_last_index", 0):
            return ops.cast(find(x, axis, keepdims=keep), I64)
        place = ops.cast(find(ops.flip(x, axis), axis, keepdims=keep), I64)
        return place * -1 + (x.shape[axis] - 1)

    return OnnxRow(build)


def _flattened(call: NodeCall, function: Callable[[Operand], Operand]) -> Results:
    """Along one axis; before operator set 13 over all axes from it on."""
    x, old = call[0], call.node.opset < 13
    axis = call.axis(call.integer("axis", 1 if old else -1), x.spec.rank)
    if old:
        rows = 1
        for size in x.shape[:axis]:
            rows *= size
        return ops.reshape(function(ops.reshape(x, (rows, x.spec.elements // max(rows, 1)))), x.shape)
    if axis == x.spec.rank - 1:
        return function(x)
    order = [operand for operand in range(x.spec.rank) if operand != axis] + [axis]
    inverse = tuple(order.index(operand) for operand in range(x.spec.rank))
    return ops.transpose(function(ops.transpose(x, tuple(order))), inverse)


def _hardmax(x: Operand) -> Operand:
    return ops.one_hot(ops.argmax(x, x.spec.rank - 1), x.shape[-1], x.spec.dtype)


def _cumsum(call: NodeCall) -> Results:
    x, axis = call[0], call.integers_at(1)
    assert axis is not None
    return ops.cumsum(
        x,
        call.axis(axis[0], x.spec.rank),
        exclusive=bool(call.integer("exclusive", 0)),
        reverse=bool(call.integer("reverse", 0)),
    )  # fmt: skip


def _top_k(call: NodeCall) -> Results:
    x = call[0]
    count = call.integers_at(1) if call.node.opset >= 10 else (call.integer("k"),)
    assert count is not None
    largest = bool(call.integer("largest", 1))
    axis = call.axis(call.integer("axis", -1), x.spec.rank)
    values, places = ops.top_k(x, count[0], axis, largest=largest)
    return values, ops.cast(places, I64)


def _host_top_k(node: OnnxNode, x: Array, count: Array | None = None) -> tuple[Array, Array]:
    axis, largest = node.attributes.get("axis", -1), bool(node.attributes.get("largest", 1))
    assert isinstance(axis, int)
    kept = int(np.asarray(node.attributes["k"] if count is None else count).reshape(-1)[0])
    order = np.argsort(x, axis, kind="stable")
    if largest:
        size = x.shape[axis]
        order = np.flip(size - 1 - np.argsort(np.flip(x, axis), axis, kind="stable"), axis)
    order = np.take(order, np.arange(kept), axis)
    return np.take_along_axis(x, order, axis), order.astype(np.int64)


ROWS = {
    "ReduceSum": _reduction(ops.reduce_sum, 13),
    "ReduceMean": _reduction(ops.reduce_mean),
    "ReduceMax": _extreme(ops.reduce_max),
    "ReduceMin": _extreme(ops.reduce_min),
    "ReduceProd": OnnxRow(_product),
    "ReduceL1": _reduction(ops.reduce_sum, before=abs),
    "ReduceL2": _reduction(ops.reduce_sum, before=lambda x: x * x, after=ops.sqrt),
    "ReduceSumSquare": _reduction(ops.reduce_sum, before=lambda x: x * x),
    "ReduceLogSum": _reduction(ops.reduce_sum, after=ops.log),
    "ReduceLogSumExp": OnnxRow(_log_sum_exp),
    "ArgMax": _arg(largest=True),
    "ArgMin": _arg(largest=False),
    "Softmax": OnnxRow(lambda call: _flattened(call, ops.softmax)),
    "LogSoftmax": OnnxRow(lambda call: _flattened(call, ops.log_softmax)),
    "Hardmax": OnnxRow(lambda call: _flattened(call, _hardmax)),
    "CumSum": OnnxRow(_cumsum),
    "TopK": OnnxRow(_top_k, _host_top_k),
}
