"""Indexing: gather, scatter, one-hot, and what has results whose size depends on data."""

from __future__ import annotations

import math

import numpy as np

from nnc import ops
from nnc.core.values.dtype import I64
from nnc.core.values.spec import Shape
from nnc.errors import DTypeError, IndexRangeError
from nnc.onnx.kept.asked_elements import Unknown
from nnc.onnx.node import Array, NodeCall, OnnxNode, OnnxRow, Operand, Results


def positive(index: Operand, size: int) -> Operand:
    """Indices from the end counted from the start, as i64."""
    wide = ops.cast(index, I64) if index.spec.dtype is not I64 else index
    return ops.where(ops.less(wide, ops.fill_like(wide, 0.0)), wide + size, wide)


def _gather(call: NodeCall) -> Results:
    x = call[0]
    axis = call.axis(call.integer("axis", 0), x.spec.rank)
    index, known = call[1], call.known[1]
    # One slice of the outermost axis is read where it lies.
    if known is not None and known.size == 1 and math.prod(x.shape[:axis]) == 1:
        place = int(known.reshape(-1)[0])
        if -x.shape[axis] <= place < x.shape[axis]:
            part = ops.slice_axis(x, axis, place % x.shape[axis], place % x.shape[axis] + 1)
            return ops.reshape(part, (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]))
    return ops.index_select(x, positive(index, x.shape[axis]), axis)


def _gather_elements(call: NodeCall) -> Results:
    x = call[0]
    axis = call.axis(call.integer("axis", 0), x.spec.rank)
    return ops.gather(_cut(x, call[1], axis), positive(call[1], x.shape[axis]), axis)


def _cut(x: Operand, index: Operand, axis: int) -> Operand:
    """x as large as the index along the other axes."""
    for other, size in enumerate(index.shape):
        if other != axis and x.shape[other] != size:
            x = ops.slice_axis(x, other, 0, size)
    return x


def _flat_places(call: NodeCall, index: Operand, sizes: tuple[int, ...]) -> Operand:
    """index[…, k] as numbers of rows of an array whose first axes have these sizes."""
    total: Operand | None = None
    for place, size in enumerate(sizes):
        part = ops.slice_axis(index, index.spec.rank - 1, place, place + 1)
        term = positive(part, size) * float(math.prod(sizes[place + 1 :]))
        total = term if total is None else total + term
    assert total is not None
    return ops.reshape(total, index.shape[:-1])


def _gather_nd(call: NodeCall) -> Results:
    x, index = call[0], call[1]
    batch = call.integer("batch_dims", 0)
    depth = index.shape[-1]
    shape = x.shape[:batch] + index.shape[batch:-1] + x.shape[batch + depth :]
    lead = math.prod(x.shape[:batch])
    inner = x.shape[batch : batch + depth]
    rows = ops.reshape(x, (lead * math.prod(inner), math.prod(x.shape[batch + depth :])))
    places = ops.reshape(_flat_places(call, index, inner), (lead, math.prod(index.shape[batch:-1])))
    if batch:
        places = places + call.constant(np.arange(lead, dtype=np.int64)[:, None] * math.prod(inner))
    flat = ops.reshape(places, (places.spec.elements,))
    return ops.reshape(ops.index_select(rows, flat, 0), shape)


def _check_scattered(node: OnnxNode, x: Array, index: Array, updates: Array) -> None:
    """DTypeError where NumPy would convert in silence: updates of another element type, an index that is no integer."""
    if x.dtype != updates.dtype or index.dtype.kind not in "iu":
        got = f"{x.dtype}, an index of {index.dtype} and updates of {updates.dtype}"
        raise DTypeError(node.label, got=got, need="integers in the index, and one element type for the others")


def _scatter_host(node: OnnxNode, x: Array, index: Array, updates: Array) -> Array:
    axis = node.integer("axis", 0)
    _check_scattered(node, x, index, updates)
    result, axis = np.array(x), axis % x.ndim
    mode = node.attributes.get("reduction", "none")
    for place in np.ndindex(*index.shape):
        target = (*place[:axis], int(index[place]), *place[axis + 1 :])
        result[target] = _merged(mode, result[target], updates[place])
    return result


def _scatter_nd_host(node: OnnxNode, x: Array, index: Array, updates: Array) -> Array:
    _check_scattered(node, x, index, updates)
    result = np.array(x)
    mode = node.attributes.get("reduction", "none")
    for place in np.ndindex(*index.shape[:-1]):
        target = tuple(int(operand) for operand in index[place])
        result[target] = _merged(mode, result[target], updates[place])
    return result


def _merged(mode: object, old: Array, new: Array) -> Array:
    if mode == "add":
        return old + new
    if mode == "mul":
        return old * new
    if mode in ("max", "min"):
        return np.maximum(old, new) if mode == "max" else np.minimum(old, new)
    return new


def _scatter(call: NodeCall) -> Results:
    """x with `updates` at the places that the index names."""
    x, index, updates = call[0], call[1], call[2]
    axis = call.axis(call.integer("axis", 0), x.spec.rank)
    mode = call.text("reduction", "none")
    places = positive(index, x.shape[axis])
    if any(size != x.shape[other] for other, size in enumerate(index.shape) if other != axis):
        # Updates smaller than the data along other axes: places among all elements.
        flat = call.constant(_offsets(x.shape, index.shape, axis)) + places * math.prod(x.shape[axis + 1 :])
        whole = ops.reshape(x, (x.spec.elements,))
        x, places, updates, axis, shape = whole, _flat(flat), _flat(updates), 0, x.shape
    else:
        shape = x.shape
    if mode == "add":
        return ops.reshape(x + ops.scatter_along(updates, places, axis, x.shape[axis]), shape)
    if mode != "none":
        raise Unknown(frozenset[str]().union(*call.sources), f"{call.node.label} with reduction {mode}", whole=True)
    return ops.reshape(ops.scatter(x, places, updates, axis), shape)


def _flat(x: Operand) -> Operand:
    return ops.reshape(x, (x.spec.elements,))


def _offsets(shape: Shape, inner: Shape, axis: int) -> Array:
    """Places among all elements of the corner of these inner sizes, where `axis` counts as 0."""
    total = np.zeros((1,) * len(shape), np.int64)
    for other, size in enumerate(inner):
        if other != axis:
            steps = np.arange(size) * math.prod(shape[other + 1 :])
            total = total + steps.reshape([-1 if operand == other else 1 for operand in range(len(shape))])
    return np.broadcast_to(total, inner)


def _scatter_nd(call: NodeCall) -> Results:
    x, index, updates = call[0], call[1], call[2]
    mode, depth = call.text("reduction", "none"), call[1].shape[-1]
    outer, row = math.prod(x.shape[:depth]), math.prod(x.shape[depth:])
    places = _flat_places(call, index, x.shape[:depth])
    flat = ops.reshape(places, (places.spec.elements,))
    rows = ops.reshape(updates, (places.spec.elements, row))
    if mode == "add":
        return x + ops.reshape(ops.scatter_add(rows, flat, 0, outer), x.shape)
    if mode != "none":
        raise Unknown(frozenset[str]().union(*call.sources), f"{call.node.label} with reduction {mode}", whole=True)
    wide = ops.broadcast_to(ops.reshape(flat, (places.spec.elements, 1)), rows.shape)
    return ops.reshape(ops.scatter(ops.reshape(x, (outer, row)), wide, rows, 0), x.shape)


def _one_hot(call: NodeCall) -> Results:
    index, values = call[0], call[2]
    depth = call.static(1)
    assert depth is not None
    classes = int(depth.reshape(-1)[0])
    axis = call.integer("axis", -1)
    rank = index.spec.rank + 1
    hot = ops.one_hot(positive(ops.cast(index, I64), classes), classes, values.spec.dtype)
    off, on = (ops.slice_axis(values, 0, place, place + 1) for place in (0, 1))
    y = hot * (on - off) + off
    axis %= rank
    order = list(range(rank - 1))
    order.insert(axis, rank - 1)
    return ops.transpose(y, tuple(order))


def _most_compressed(node: OnnxNode, x: Array, condition: Array) -> tuple[tuple[int, ...], ...]:
    if "axis" not in node.attributes:
        return ((min(x.size, condition.size),),)
    axis = node.integer("axis", 0) % x.ndim
    return ((*x.shape[:axis], min(x.shape[axis], condition.size), *x.shape[axis + 1 :]),)


def _most_unique(node: OnnxNode, x: Array) -> tuple[tuple[int, ...], ...]:
    if "axis" not in node.attributes:
        return ((x.size,),) * 4
    return (x.shape, *((x.shape[node.integer("axis", 0) % x.ndim],),) * 3)


def _most_suppressed(
    node: OnnxNode, boxes: Array, scores: Array, most: Array | None = None, *options: Array | None
) -> tuple[tuple[int, ...], ...]:
    each = 0 if most is None else int(most.reshape(-1)[0])
    return ((scores.shape[0] * scores.shape[1] * min(each, boxes.shape[1]), 3),)


def _non_zero(node: OnnxNode, x: Array) -> Array:
    return np.asarray(np.nonzero(x), np.int64).reshape(x.ndim, -1) if x.ndim else np.zeros((0, int(bool(x))), np.int64)


def _compress(node: OnnxNode, x: Array, condition: Array) -> Array:
    axis = node.attributes.get("axis")
    return np.compress(condition, x, None if axis is None else int(axis))  # type: ignore[call-overload]


def _unique(node: OnnxNode, x: Array) -> tuple[Array, ...]:
    axis = node.attributes.get("axis")
    if axis is not None and not x.size:
        return _unique_nothing(x, int(axis))  # type: ignore[call-overload]
    unique, first, inverse, counts = np.unique(x, True, True, True, axis=axis)  # type: ignore[call-overload]
    inverse = inverse.reshape(-1)
    if not node.attributes.get("sorted", 1):
        order = np.argsort(first)
        rank = np.argsort(order)
        unique = np.take(unique, order, axis=0 if axis is None else int(axis))  # type: ignore[call-overload]
        first, counts, inverse = first[order], counts[order], rank[inverse]
    return unique, first.astype(np.int64), inverse.astype(np.int64), counts.astype(np.int64)


def _unique_nothing(x: Array, axis: int) -> tuple[Array, ...]:
    """Entries without elements are all the same one."""
    count = x.shape[axis]
    first = np.arange(min(count, 1), dtype=np.int64)
    return np.take(x, first, axis), first, np.zeros(count, np.int64), np.full(len(first), count, np.int64)


def _suppress(node: OnnxNode, boxes: Array, scores: Array, *options: Array | None) -> Array:
    """Pick boxes by score, class by class; those that overlap one already picked are left out."""
    most, overlap, least = [
        None if place >= len(options) or options[place] is None else np.asarray(options[place]).reshape(-1)[0].item()
        for place in range(3)
    ]
    if not most:
        return np.zeros((0, 3), np.int64)
    corners = _corners(boxes.astype(np.float32), node.attributes.get("center_point_box", 0) == 1)
    chosen: list[tuple[int, int, int]] = []
    for batch, group in np.ndindex(*scores.shape[:2]):
        left = np.argsort(-scores[batch, group], kind="stable")
        if least is not None:
            left = left[scores[batch, group, left] > least]
        for _ in range(min(most, len(left))):
            if not len(left):
                break
            chosen.append((batch, group, int(left[0])))
            best, rest = corners[batch, left[0]], corners[batch, left[1:]]
            left = left[1:][_overlaps(best, rest) <= (overlap or 0.0)]
    return np.array(chosen, np.int64).reshape(-1, 3)


def _corners(boxes: Array, centred: bool) -> Array:
    if centred:
        centre, size = boxes[..., :2], boxes[..., 2:]
        return np.concatenate([centre - size / 2, centre + size / 2], -1)
    first, second = boxes[..., :2], boxes[..., 2:]
    return np.concatenate([np.minimum(first, second), np.maximum(first, second)], -1)


def _overlaps(box: Array, boxes: Array) -> Array:
    """What a box has in common with each of some, over what both cover."""
    sides = np.maximum(np.minimum(box[2:], boxes[:, 2:]) - np.maximum(box[:2], boxes[:, :2]), 0.0)
    common = sides.prod(-1)
    areas = (box[2:] - box[:2]).prod() + (boxes[:, 2:] - boxes[:, :2]).prod(-1)
    return np.asarray(common / np.where(common > 0, areas - common, 1.0))


def _written(call: NodeCall) -> Results:
    """The update written into each row of a cache from where `start` says, or round and round."""
    cache, update, start = call[0], call[1], call.maybe(2)
    axis = call.axis(call.integer("axis", -2), cache.spec.rank)
    shape = [1] * cache.spec.rank
    shape[axis] = update.shape[axis]
    places = call.constant(np.arange(update.shape[axis], dtype=np.int64).reshape(shape))
    if start is not None:
        places = places + ops.reshape(ops.cast(start, I64), (-1, *[1] * (cache.spec.rank - 1)))
    if call.text("mode", "linear") == "circular":
        places = ops.remainder(places, cache.shape[axis])
    return ops.scatter(cache, ops.broadcast_to(places, update.shape), update, axis)


def _tensor_scatter(node: OnnxNode, cache: Array, update: Array, start: Array | None = None) -> Array:
    """The update written into each row of a cache from where `start` says, or round and round."""
    axis, result = node.attributes.get("axis", -2), np.array(cache)
    assert isinstance(axis, int)
    axis %= cache.ndim
    length, size = update.shape[axis], cache.shape[axis]
    for row in range(cache.shape[0]):
        begin = 0 if start is None else int(start.reshape(-1)[row])
        places = begin + np.arange(length)
        if node.attributes.get("mode", "linear") == "circular":
            places %= size
        elif begin < 0 or begin + length > size:
            raise IndexRangeError(node.label, got=f"places {begin}..{begin + length} of {size}", need="places inside")
        index: list[object] = [slice(None)] * (cache.ndim - 1)
        index[axis - 1] = places
        result[row][tuple(index)] = update[row]
    return result


ROWS = {
    "TensorScatter": OnnxRow(_written, _tensor_scatter),
    "Gather": OnnxRow(_gather, lambda node, x, index: np.take(x, index, axis=node.attributes.get("axis", 0))),
    "GatherElements": OnnxRow(_gather_elements),
    "GatherND": OnnxRow(_gather_nd),
    "ScatterElements": OnnxRow(_scatter, _scatter_host),
    "Scatter": OnnxRow(_scatter, _scatter_host),
    "ScatterND": OnnxRow(_scatter_nd, _scatter_nd_host),
    "OneHot": OnnxRow(_one_hot),
    "NonZero": OnnxRow(None, _non_zero, most=lambda node, x: ((x.ndim, x.size),)),
    "Compress": OnnxRow(None, _compress, most=_most_compressed),
    "Unique": OnnxRow(None, _unique, most=_most_unique),
    "NonMaxSuppression": OnnxRow(None, _suppress, most=_most_suppressed),
}
