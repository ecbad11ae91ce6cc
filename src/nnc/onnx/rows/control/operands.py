"""Operands of loops, scans and sequences: items, places and slices of values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnc import ops
from nnc.errors import FormatError, IndexRangeError
from nnc.onnx.importer import OnnxImporter
from nnc.onnx.kept.asked_elements import Unknown
from nnc.onnx.node import OnnxNode
from nnc.onnx.node_values import OnnxValue

Inputs = Sequence[OnnxValue | None]


def known_integer(inputs: Inputs, place: int, node: OnnxNode) -> int | None:
    """The integer that an input holds; None for an absent one, Unknown where it depends on what runs."""
    value = inputs[place] if place < len(inputs) else None
    if value is None:
        return None
    if value.array is None:
        raise Unknown(value.sources, f"the count of {node.label}")
    if value.array.dtype.kind not in "iu" or not value.array.size:
        raise FormatError(node.label, got=f"a count of type {value.array.dtype}", need="one integer")
    return int(value.array.reshape(-1)[0])


def axis_numbers(node: OnnxNode, name: str, count: int) -> tuple[int, ...]:
    """An attribute of a number for each of `count` axes; zeros where the node has none."""
    value = node.attributes.get(name)
    return tuple(value) if isinstance(value, tuple) else (0,) * count


def value_at(importer: OnnxImporter, value: OnnxValue, index: int, axis: int) -> OnnxValue:
    """One slice of a value along an axis, without that axis."""
    if value.array is not None:
        return OnnxValue(np.take(value.array, index, axis), sources=value.sources)
    x = importer.operand(value)
    axis %= x.spec.rank
    row = ops.slice_axis(x, axis, index, index + 1)
    return OnnxValue(symbol=ops.reshape(row, (*x.shape[:axis], *x.shape[axis + 1 :])), sources=value.sources)


def items_of(value: OnnxValue | None, node: OnnxNode) -> tuple[OnnxValue, ...]:
    """The values of a sequence; FormatError for another value."""
    if value is None or value.items is None:
        raise FormatError(node.label, got="no sequence", need="a sequence")
    return value.items


def place_among(inputs: Inputs, place: int, count: int, node: OnnxNode, *, end: bool = False) -> int:
    """The position that an input names among `count`, the last one (or the `end`) where it is absent."""
    index = known_integer(inputs, place, node)
    if index is None:
        return count if end else count - 1
    whole = index + count if index < 0 else index
    if not 0 <= whole < count + end:
        raise IndexRangeError(node.label, got=f"position {index} of {count}", need="a position of the sequence")
    return whole
