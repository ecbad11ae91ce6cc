"""Shapes and movement: reshape, transpose, slice, concatenate, pad, tile, expand, resize."""

from __future__ import annotations

import math
from functools import partial
from itertools import accumulate

import numpy as np

from nnc import ops
from nnc.core.values.spec import Shape, broadcast_shapes
from nnc.errors import ShapeError
from nnc.onnx.file import array_of, dtype_named
from nnc.onnx.node import FOLDED_RESULT, Array, NodeCall, OnnxNode, OnnxRow, Operand, Results
from nnc.onnx.size_elements import kind_of


def _reshape(call: NodeCall) -> Results:
    x = call[0]
    wanted = call.integers_at(1)
    assert wanted is not None
    keeps = not call.integer("allowzero", 0)
    sizes = [x.shape[axis] if size == 0 and keeps else size for axis, size in enumerate(wanted)]
    if -1 in sizes:
        known = math.prod(size for size in sizes if size != -1)
        sizes[sizes.index(-1)] = x.spec.elements // known if known else 0
    return ops.reshape(x, sizes)


def _flatten(call: NodeCall) -> Results:
    x = call[0]
    axis = call.integer("axis", 1)
    axis = axis + x.spec.rank if axis < 0 else axis
    return ops.reshape(x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))


def _axes(call: NodeCall) -> Shape | None:
    return call.optional("axes") if call.node.opset < 13 else call.integers_at(1)


def _squeeze(call: NodeCall) -> Results:
    x, axes = call[0], _axes(call)
    drop = (
        {call.axis(axis, x.spec.rank) for axis in axes}
        if axes is not None
        else {i for i, size in enumerate(x.shape) if size == 1}
    )
    if any(x.shape[axis] != 1 for axis in drop):
        raise ShapeError(call.node.label, got=f"{x.spec} without axes {sorted(drop)}", need="axes of size 1")
    return ops.reshape(x, [size for axis, size in enumerate(x.shape) if axis not in drop])


def _unsqueeze(call: NodeCall) -> Results:
    x, axes = call[0], _axes(call) or ()
    rank = x.spec.rank + len(axes)
    added = {call.axis(axis, rank) for axis in axes}
    sizes = iter(x.shape)
    return ops.reshape(x, [1 if axis in added else next(sizes) for axis in range(rank)])


def _transpose(call: NodeCall) -> Results:
    x = call[0]
    return ops.transpose(x, call.integers("perm", tuple(reversed(range(x.spec.rank)))))


def _slice(call: NodeCall) -> Results:
    x = call[0]
    if call.node.opset < 10:
        starts, ends = call.integers("starts"), call.integers("ends")
        axes, steps = call.optional("axes"), None
    else:
        starts, ends = call.integers_at(1) or (), call.integers_at(2) or ()
        axes, steps = call.integers_at(3), call.integers_at(4)
    axes = tuple(range(len(starts))) if axes is None else axes
    steps = (1,) * len(starts) if steps is None else steps
    index: list[slice] = [slice(None)] * x.spec.rank
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        size = x.shape[axis]
        if step == 0:
            raise ShapeError(call.node.label, got="step 0", need="a step in some direction")
        begin, stop = start + size if start < 0 else start, end + size if end < 0 else end
        if step > 0:
            begin, stop = min(max(begin, 0), size), min(max(stop, 0), size)
            index[axis] = slice(begin, max(begin, stop), step)
        else:
            begin, stop = min(max(begin, 0), size - 1), min(max(stop, -1), size - 1)
            index[axis] = slice(begin, None if stop < 0 else stop, step) if begin > stop else slice(0, 0)
    return x[tuple(index)]


def _split(call: NodeCall) -> Results:
    x, count = call[0], len(call.node.outputs)
    axis = call.axis(call.integer("axis", 0), x.spec.rank)
    sizes = call.optional("split") if call.node.opset < 13 else call.integers_at(1)
    if sizes is None:
        if call.integer("num_outputs", count) != count:
            raise call.refuse(f"num_outputs {call.integer('num_outputs')} for {count} outputs")
        each = -(-x.shape[axis] // count)
        sizes = tuple(min(each, x.shape[axis] - each * part) for part in range(count))
    ends = accumulate(sizes)
    return tuple(ops.slice_axis(x, axis, end - size, end) for size, end in zip(sizes, ends, strict=True))


def _concat(call: NodeCall) -> Results:
    return ops.concatenate(call.present, call.axis(call.integer("axis"), call[0].spec.rank))


def _expand(call: NodeCall) -> Results:
    x, wanted = call[0], call.integers_at(1) or ()
    return ops.broadcast_to(x, broadcast_shapes(call.node.label, x.shape, wanted))


def _tile(call: NodeCall) -> Results:
    return ops.tile(call[0], call.integers_at(1) or ())


def _pad(call: NodeCall) -> Results:
    x = call[0]
    old = call.node.opset < 11
    flat = call.integers("pads") if old else call.integers_at(1)
    assert flat is not None
    axes = None if old or len(call) < 4 else call.integers_at(3)
    axes = tuple(range(x.spec.rank)) if axes is None else tuple(call.axis(axis, x.spec.rank) for axis in axes)
    half = len(flat) // 2
    before, after = [0] * x.spec.rank, [0] * x.spec.rank
    for axis, low, high in zip(axes, flat[:half], flat[half:], strict=True):
        before[axis], after[axis] = low, high
    mode = call.text("mode", "constant")
    cropped = x[tuple(slice(max(-low, 0), size - max(-high, 0)) for low, high, size in zip(before, after, x.shape))]
    lows, highs = tuple(max(operand, 0) for operand in before), tuple(max(operand, 0) for operand in after)
    if mode == "wrap":
        return _wrapped(cropped, lows, highs)
    constant = call.real("value", 0.0) if old else _scalar(call.static(2))
    return ops.pad(cropped, lows, highs, mode, constant)


def _scalar(value: Array | None) -> float:
    return 0.0 if value is None or value.size == 0 else float(value.reshape(-1)[0])


def _wrapped(x: Operand, before: Shape, after: Shape) -> Operand:
    for axis, (low, high) in enumerate(zip(before, after, strict=True)):
        size = x.shape[axis]
        parts = [x]
        while low > 0:
            parts.insert(0, ops.slice_axis(x, axis, max(size - low, 0), size))
            low -= size
        while high > 0:
            parts.append(ops.slice_axis(x, axis, 0, min(high, size)))
            high -= size
        x = ops.concatenate(parts, axis)
    return x


def _depth_to_space(call: NodeCall) -> Results:
    x, block = call[0], call.integer("blocksize")
    n, c, h, w = x.shape
    if call.text("mode", "DCR") == "DCR":
        y = ops.transpose(ops.reshape(x, (n, block, block, c // block**2, h, w)), (0, 3, 4, 1, 5, 2))
    else:
        y = ops.transpose(ops.reshape(x, (n, c // block**2, block, block, h, w)), (0, 1, 4, 2, 5, 3))
    return ops.reshape(y, (n, c // block**2, h * block, w * block))


def _space_to_depth(call: NodeCall) -> Results:
    x, block = call[0], call.integer("blocksize")
    n, c, h, w = x.shape
    parts = ops.reshape(x, (n, c, h // block, block, w // block, block))
    order = (0, 3, 5, 1, 2, 4) if call.text("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    return ops.reshape(ops.transpose(parts, order), (n, c * block**2, h // block, w // block))


def _filled(node: OnnxNode, *known: Array | None) -> Array | None:
    """A constant of a shape that is known: 0.02 ms, where a graph of its own takes 0.5; light files have hundreds."""
    value = node.attributes.get("value")
    sizes = known[0].tolist() if len(known) == 1 and known[0] is not None and known[0].dtype == np.int64 else [-1]
    if known[0] is None or known[0].ndim != 1 or min(sizes, default=0) < 0 or math.prod(sizes) > FOLDED_RESULT:
        return None
    element = np.zeros(1, np.float32) if value is None else array_of(value)  # type: ignore[arg-type]  # a tensor
    return np.full(sizes, element.reshape(-1)[0]) if element.size == 1 else None


def _constant_of_shape(call: NodeCall) -> Results:
    shape = call.integers_at(0) or ()
    value = call.node.attributes.get("value")
    array = np.zeros(1, np.float32) if value is None else array_of(value)  # type: ignore[arg-type]  # a tensor
    flat = call.constant(array.reshape(-1)[:1])
    return ops.broadcast_to(ops.reshape(flat, (1,) * len(shape)), shape) if shape else ops.reshape(flat, ())


def _range(call: NodeCall) -> Results:
    start, limit, delta = (call.static(position) for position in range(3))
    assert start is not None
    assert limit is not None
    assert delta is not None
    if float(delta) == 0.0:
        raise ShapeError(call.node.label, got="delta 0", need="a delta in some direction")
    count = max(math.ceil((limit.item() - start.item()) / delta.item()), 0)
    if count > 1 << 28:
        raise ShapeError(call.node.label, got=f"{count} elements", need="at most 2^28")
    elements = partial(_counted, kind_of(start))
    return call.computed(elements, start.item(), delta.item(), count, shape=(count,))


def _counted(kind: np.dtype[np.generic], start: float, delta: float, count: int) -> Array:
    """start, start + delta, start + 2 · delta, …"""
    return (start + np.arange(count) * delta).astype(kind)


def _trilu(call: NodeCall) -> Results:
    x, shift = call[0], call.integers_at(1) if len(call) > 1 else None
    k = shift[0] if shift else 0
    rows, columns = x.shape[-2:]
    keep = call.computed(_upper if call.integer("upper", 1) else _lower, rows, columns, k, shape=(rows, columns))
    return ops.where(keep, x, ops.fill_like(x, 0.0))


def _upper(rows: int, columns: int, shift: int) -> Array:
    return ~np.tri(rows, columns, shift - 1, bool)


def _lower(rows: int, columns: int, shift: int) -> Array:
    return np.tri(rows, columns, shift, bool)


def _eye(call: NodeCall) -> Results:
    x = call[0]
    kind = dtype_named(call.integer("dtype")) if call.has("dtype") else x.spec.dtype
    rows, columns = x.shape
    return call.constant(np.eye(rows, columns, call.integer("k", 0)).astype(kind.numpy))


def _center_crop_pad(call: NodeCall) -> Results:
    x, wanted = call[0], call.integers_at(1) or ()
    axes = call.integers("axes", tuple(range(x.spec.rank)))
    y = x
    for axis, target in zip(axes, wanted, strict=True):
        axis %= x.spec.rank
        size = y.shape[axis]
        if size > target:
            start = (size - target) // 2
            y = ops.slice_axis(y, axis, start, start + target)
        elif size < target:
            low = (target - size) // 2
            before, after = [0] * x.spec.rank, [0] * x.spec.rank
            before[axis], after[axis] = low, target - size - low
            y = ops.pad(y, tuple(before), tuple(after))
    return y


def _reverse_sequence(call: NodeCall) -> Results:
    x, lengths = call[0], call.integers_at(1) or ()
    batch, time = call.integer("batch_axis", 1), call.integer("time_axis", 0)
    index = np.tile(np.arange(x.shape[time]), (x.shape[batch], 1))
    for row, length in enumerate(lengths):
        index[row, :length] = index[row, :length][::-1]
    shape = [1] * x.spec.rank
    shape[batch], shape[time] = x.shape[batch], x.shape[time]
    table = (index if batch < time else index.T).reshape(shape)
    return ops.gather(x, call.constant(np.broadcast_to(table, x.shape).astype(np.int64)), time)


ROWS = {
    "Reshape": OnnxRow(_reshape, moves=True, sizes=(1,)),
    "Flatten": OnnxRow(_flatten, moves=True),
    "Squeeze": OnnxRow(_squeeze, moves=True),
    "Unsqueeze": OnnxRow(_unsqueeze, moves=True),
    "Transpose": OnnxRow(_transpose, moves=True),
    "Slice": OnnxRow(_slice, moves=True, sizes=(1, 2, 3, 4)),
    "Split": OnnxRow(_split, moves=True, sizes=(1,)),
    "Concat": OnnxRow(_concat, moves=True),
    "Expand": OnnxRow(_expand, moves=True, sizes=(1,)),
    "Tile": OnnxRow(_tile, moves=True, sizes=(1,)),
    "Pad": OnnxRow(_pad, sizes=(1, 3)),
    "DepthToSpace": OnnxRow(_depth_to_space, moves=True),
    "SpaceToDepth": OnnxRow(_space_to_depth, moves=True),
    "ConstantOfShape": OnnxRow(_constant_of_shape, _filled, sizes=(0,)),
    "Range": OnnxRow(_range, sizes=(0, 1, 2)),
    "Trilu": OnnxRow(_trilu),
    "EyeLike": OnnxRow(_eye),
    "CenterCropPad": OnnxRow(_center_crop_pad, sizes=(1,)),
    "ReverseSequence": OnnxRow(_reverse_sequence),
}
