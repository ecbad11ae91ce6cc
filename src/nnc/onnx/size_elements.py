"""Elements that are sizes: what Shape gives, and what small nodes make of it, remember which sizes they follow from.

    Shape → Gather → Mul → Concat → Reshape        each of them on arrays of objects, `nnc.core.values.sizes.Size`

A node that is none of these reads the numbers: what comes of them is for these sizes alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce

import numpy as np

import onnx
from nnc.core.values.derived import largest, smallest
from nnc.core.values.sizes import size_of
from nnc.onnx.node import Array, OnnxNode

# As `OnnxRow.host`, on arrays some of which have sizes in them; None where the numbers have to be known.
SizeHost = Callable[..., object]


# What ONNX calls the types of sizes.
KINDS: Mapping[int, np.dtype[np.generic]] = {
    onnx.TensorProto.INT64: np.dtype(np.int64),
    onnx.TensorProto.INT32: np.dtype(np.int32),
}


class SizeArray(np.ndarray):
    """An array of objects, some of which are sizes, that stands for one of integers of this `kind`."""

    kind: np.dtype[np.generic] = np.dtype(np.int64)


def array_of_sizes(sizes: Iterable[int]) -> Array:
    """A vector of integers; of objects where some remember where they come from."""
    listed = [*sizes]
    return np.array(listed, object if any(size_of(size) is not None for size in listed) else np.int64)


def kind_of(array: Array) -> np.dtype[np.generic]:
    """The type of the elements, as numbers."""
    if array.dtype != object:
        return array.dtype
    return array.kind if isinstance(array, SizeArray) else SizeArray.kind


def has_sizes(array: Array | None) -> bool:
    """Whether some elements remember where they come from."""
    if array is None or array.dtype != object:
        return False
    return any(size_of(element) is not None for element in array.reshape(-1).tolist())


def settled(array: Array) -> Array:
    """The elements as numbers; that they are these is a guard then."""
    return np.asarray(array).astype(kind_of(array)) if has_sizes(array) else array


def computed_sizes(node: OnnxNode, known: Sequence[Array | None]) -> Array | None:
    """What a node makes of sizes; None for a node that reads numbers."""
    host = HOSTS.get(node.op) if not node.domain else None
    made = None if host is None else host(node, *known)
    if made is None:
        return None
    array: Array = np.asarray(made, made.dtype if isinstance(made, np.ndarray) else object)
    if array.dtype != object:
        return array
    first = next(entry for entry in known if entry is not None and has_sizes(entry))
    kind = KINDS[node.integer("to", 0)] if node.op == "Cast" else kind_of(first)
    if not has_sizes(array):
        return array.astype(kind)
    sizes = array.view(SizeArray)
    sizes.kind = kind
    return sizes


def _integers(values: Array | Sequence[int]) -> tuple[int, ...]:
    return tuple(int(value) for value in np.ravel(np.asarray(values)).tolist())


def _axes(node: OnnxNode, given: Array | None) -> tuple[int, ...] | None:
    value = node.attributes.get("axes") if given is None else _integers(given)
    return value if isinstance(value, tuple) else None


def _shape(node: OnnxNode, x: Array) -> Array:
    return np.array(x.shape[node.integer("start", 0) : node.integer("end", x.ndim)], np.int64)


def _gather(node: OnnxNode, x: Array, places: Array) -> object:
    return None if has_sizes(places) else np.take(x, places, axis=node.integer("axis", 0))


def _concat(node: OnnxNode, *parts: Array) -> Array:
    return np.concatenate([part.astype(object) for part in parts], axis=node.integer("axis", 0))


def _unsqueeze(node: OnnxNode, x: Array, axes: Array | None = None) -> Array:
    return np.expand_dims(x, _axes(node, axes) or ())


def _squeeze(node: OnnxNode, x: Array, axes: Array | None = None) -> object:
    return np.squeeze(x, axis=_axes(node, axes))


def _slice(node: OnnxNode, x: Array, *options: Array | None) -> object:
    if not options or any(has_sizes(option) for option in options):
        return None
    starts, ends, axes, steps = [None if option is None else _integers(option) for option in (*options, None, None)][:4]
    if starts is None or ends is None:
        return None
    axes = tuple(range(len(starts))) if axes is None else axes
    steps = (1,) * len(starts) if steps is None else steps
    index: list[slice] = [slice(None)] * x.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        if step < 1:
            return None
        index[axis] = slice(start, end, step)
    return x[tuple(index)]


def _reshape(node: OnnxNode, x: Array, shape: Array) -> object:
    return None if has_sizes(shape) or 0 in _integers(shape) else x.reshape(_integers(shape))


def _cast(node: OnnxNode, x: Array) -> object:
    return x if node.attributes.get("to") in KINDS else None


def _product(node: OnnxNode, x: Array, axes: Array | None = None) -> object:
    if x.ndim != 1 or _axes(node, axes) not in (None, (0,), (-1,)):
        return None
    whole = np.asarray(math.prod(x.tolist()), object)
    return whole.reshape(1) if node.integer("keepdims", 1) else whole


def _where(node: OnnxNode, condition: Array, x: Array, y: Array) -> Array:
    return np.where(condition, x.astype(object), y.astype(object))


def _divided(left: int, right: int) -> int:
    """Towards zero, as in C."""
    return left // right if (left >= 0) == (right > 0) else -(-left // right)


def _elementwise(function: Callable[[int, int], object]) -> SizeHost:
    def host(node: OnnxNode, *operands: Array) -> object:
        return reduce(np.frompyfunc(function, 2, 1), [operand.astype(object) for operand in operands])

    return host


def _compared(function: Callable[[int, int], bool]) -> SizeHost:
    def host(node: OnnxNode, left: Array, right: Array) -> Array:
        return np.asarray(np.frompyfunc(function, 2, 1)(left.astype(object), right.astype(object))).astype(bool)

    return host


HOSTS: Mapping[str, SizeHost] = {
    "Add": _elementwise(lambda left, right: left + right),
    "Cast": _cast,
    "Concat": _concat,
    "Div": _elementwise(_divided),
    "Equal": _compared(lambda left, right: left == right),
    "Gather": _gather,
    "Greater": _compared(lambda left, right: left > right),
    "GreaterOrEqual": _compared(lambda left, right: left >= right),
    "Identity": lambda node, x: x,
    "Less": _compared(lambda left, right: left < right),
    "LessOrEqual": _compared(lambda left, right: left <= right),
    "Max": _elementwise(largest),
    "Min": _elementwise(smallest),
    "Mul": _elementwise(lambda left, right: left * right),
    "ReduceProd": _product,
    "Reshape": _reshape,
    "Shape": _shape,
    "Slice": _slice,
    "Squeeze": _squeeze,
    "Sub": _elementwise(lambda left, right: left - right),
    "Unsqueeze": _unsqueeze,
    "Where": _where,
}
