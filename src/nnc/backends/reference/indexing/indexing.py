"""Reading and adding at positions that a tensor of integers names."""

from __future__ import annotations

import numpy as np

from nnc.backends.reference.arrays import Array, Inputs, Outputs, Rows, accumulator, widen, write
from nnc.core.values.spec import Shape
from nnc.errors import IndexRangeError
from nnc.ops.indexing import indexing as ops
from nnc.ops.indexing.indexing import AxisAttrs, OneHotAttrs, ScatterAttrs


def positions(subject: str, index: Array | None, size: int) -> Array:
    """The index as i64; IndexRangeError unless 0 ≤ index < size everywhere."""
    assert index is not None
    if index.size and not (index.min() >= 0 and index.max() < size):
        raise IndexRangeError(subject, got="an index outside its axis", need=f"0 ≤ index < {size}")
    return index.astype(np.int64)


def places(index: Array, axis: int) -> tuple[Array, ...]:
    """What names the element [i…, index[i…], …] for all i at once: open grids of the other axes."""
    grids: list[Array] = list(np.indices(index.shape, sparse=True))
    grids[axis] = index
    return tuple(grids)


def zeros(like: Array, shape: Shape) -> Array:
    """Zeros to add into: f64 for floats, i64 for integers (modulo 2^64)."""
    return np.zeros(shape, accumulator(like))


def added_rows(x: Array, index: Array, axis: int, size: int) -> Array:
    """y[…, index[i…], …] += x[…, i…, …] into zeros of `size` positions along the axis."""
    total = zeros(x, (*x.shape[:axis], size, *x.shape[axis + index.ndim :]))
    named = tuple(range(axis, axis + index.ndim))
    np.add.at(np.moveaxis(total, axis, 0), index, np.moveaxis(x, named, range(index.ndim)))
    return total


def index_select(attrs: AxisAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y[…, i…, …] = x[…, index[i…], …]."""
    x, index = inputs
    assert x is not None
    write(outputs[0], np.take(x, positions("index_select", index, x.shape[attrs.axis]), attrs.axis))


def scatter_add(attrs: ScatterAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y[…, index[i…], …] += x[…, i…, …]."""
    x, index = widen(inputs[0]), positions("scatter_add", inputs[1], attrs.size)
    write(outputs[0], added_rows(x, index, attrs.axis, attrs.size))


def gather(attrs: AxisAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y[…, k, …] = x[…, index[…, k, …], …]."""
    x, index = inputs
    assert x is not None
    write(outputs[0], x[places(positions("gather", index, x.shape[attrs.axis]), attrs.axis)])


def scatter_along(attrs: ScatterAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y[…, index[…, k, …], …] += x[…, k, …]."""
    x, index = widen(inputs[0]), positions("scatter_along", inputs[1], attrs.size)
    total = zeros(x, outputs[0].shape)
    np.add.at(total, places(index, attrs.axis), x)
    write(outputs[0], total)


def scatter(attrs: AxisAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y = x, but y[…, index[…, k, …], …] = updates[…, k, …]."""
    x, index, updates = inputs
    assert x is not None
    assert updates is not None
    result = np.array(x)
    # Of several elements for one place NumPy keeps the last.
    result[places(positions("scatter", index, x.shape[attrs.axis]), attrs.axis)] = updates
    write(outputs[0], result)


def one_hot(attrs: OneHotAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y[i…, c] = [index[i…] == c]."""
    (index,) = inputs
    assert index is not None
    write(outputs[0], np.equal(index[..., None], np.arange(attrs.classes)))


ROWS: Rows = {
    ops.INDEX_SELECT: index_select,
    ops.SCATTER_ADD: scatter_add,
    ops.GATHER: gather,
    ops.SCATTER_ALONG: scatter_along,
    ops.SCATTER: scatter,
    ops.ONE_HOT: one_hot,
}
