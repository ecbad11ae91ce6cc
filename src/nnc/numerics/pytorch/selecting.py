"""Parts, arrangements and products that PyTorch has a name for.

index_select(x, 0, rows), narrow(x, 1, start, length), diag_embed(v), block_diag(a, b), baddbmm(c, a, b)
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from nnc import ops
from nnc.array_api.data_types import lifted
from nnc.core.values.dtype import BOOL, C64, C128, F64
from nnc.errors import AttributeValueError, DTypeError, ShapeError
from nnc.numerics.conversion import AnyArray, Array, as_array, met, place_of
from nnc.numerics.creation import meshgrid, on_diagonal
from nnc.numerics.order import take_along_axis
from nnc.numerics.products import matmul
from nnc.numerics.shapes import array_split, broadcast_arrays, concatenate, stack

__all__ = [
    "baddbmm", "block_diag", "broadcast_tensors", "cartesian_prod", "combinations", "complex", "diag_embed", "gather",
    "index_select", "masked_fill", "masked_select", "mv", "narrow", "numel", "polar", "take_along_dim",
    "tensor_split", "unfold", "view_as_complex", "view_as_real",
]  # fmt: skip


def index_select(x: AnyArray, dim: int, index: AnyArray) -> Array:
    """y[…, k, …] = x[…, index[k], …] along `dim`.

    >>> nnc.index_select(nnc.eye(3), 1, nnc.tensor([2, 0])).tolist()
    [[0.0, 1.0], [0.0, 0.0], [1.0, 0.0]]
    """
    array, places = as_array(x), as_array(index)
    return array[(*[slice(None)] * place_of("index_select", dim, array.ndim), places)]


def gather(x: AnyArray, dim: int, index: AnyArray) -> Array:
    """y[…, k, …] = x[…, index[…, k, …], …] along `dim`.

    >>> nnc.gather([[1, 2], [3, 4]], 1, [[0, 0], [1, 0]]).tolist()
    [[1, 1], [4, 3]]
    """
    return as_array(x).gather(dim, as_array(index))


def take_along_dim(x: AnyArray, indices: AnyArray, dim: int | None = None) -> Array:
    """`take_along_axis`, of all in a row without an axis; shapes are repeated to each other.

    >>> nnc.take_along_dim([[1, 2], [3, 4]], [[1], [0]], 1).tolist()
    [[2], [3]]
    """
    return take_along_axis(x, indices, dim)


def narrow(x: AnyArray, dim: int, start: int, length: int) -> Array:
    """x[…, start : start + length, …] along `dim`.

    >>> nnc.narrow(nnc.arange(5), 0, 1, 3).tolist()
    [1, 2, 3]
    """
    array = as_array(x)
    axis, first = place_of("narrow", dim, array.ndim), int(start)
    size = array.shape[axis]
    first = first + size if first < 0 else first
    if not 0 <= first <= first + length <= size:
        raise AttributeValueError("narrow", got=f"{start} and {length} more", need=f"places within {size}")
    return array[(*[slice(None)] * axis, slice(first, first + length))]


def masked_select(x: AnyArray, mask: AnyArray) -> Array:
    """x[mask], the elements where the mask is true, in a row.

    >>> nnc.masked_select([[1, 2], [3, 4]], [[True, False], [True, True]]).tolist()
    [1, 3, 4]
    """
    array, chosen = broadcast_arrays(x, mask)
    return array[ops.cast(chosen, BOOL)]


def masked_fill(x: AnyArray, mask: AnyArray, value: float) -> Array:
    """`where(mask, value, x)`, of the shape and type of x.

    >>> nnc.masked_fill([1.0, 2.0], [True, False], 9.0).tolist()
    [9.0, 2.0]
    """
    number = value.item() if hasattr(value, "item") else value
    return as_array(x).masked_fill(as_array(mask), number)


def tensor_split(x: AnyArray, indices_or_sections: int | Sequence[int], dim: int = 0) -> list[Array]:
    """So many parts along the axis, of sizes that differ by one at most, or parts that begin at these places.

    >>> [part.tolist() for part in nnc.tensor_split(nnc.arange(5), 2)]
    [[0, 1, 2], [3, 4]]
    """
    return array_split(x, indices_or_sections, dim)


def unfold(x: AnyArray, dimension: int, size: int, step: int) -> Array:
    """y[…, k, …, j] = x[…, k · step + j, …]: windows along the axis, whose places are a new last axis.

    >>> nnc.unfold(nnc.arange(5), 0, 3, 2).tolist()
    [[0, 1, 2], [2, 3, 4]]
    """
    array = as_array(x)
    axis = place_of("unfold", dimension, array.ndim)
    if not 0 < size <= array.shape[axis] or step < 1:
        need = f"1 ≤ size ≤ {array.shape[axis]}, step ≥ 1"
        raise AttributeValueError("unfold", got=f"size {size}, step {step}", need=need)
    starts = np.arange(0, array.shape[axis] - size + 1, step, dtype=np.int64)
    windows = array[(*[slice(None)] * axis, lifted(array, starts[:, None] + np.arange(size)))]
    order = [place for place in range(windows.ndim) if place != axis + 1]
    return windows.transpose(*order, axis + 1) if windows.ndim > 2 else windows


def broadcast_tensors(*values: AnyArray) -> tuple[Array, ...]:
    """Arrays repeated to one shape.

    >>> [x.shape for x in nnc.broadcast_tensors(nnc.ones((2, 1)), nnc.ones(3))]
    [(2, 3), (2, 3)]
    """
    return tuple(broadcast_arrays(*values))


def cartesian_prod(*values: AnyArray) -> Array:
    """Each element of the first with each of the second …, a row each.

    >>> nnc.cartesian_prod([1, 2], [3, 4]).tolist()
    [[1, 3], [1, 4], [2, 3], [2, 4]]
    """
    if len(values) == 1:
        return as_array(values[0])
    return stack([grid.ravel() for grid in meshgrid(*values, indexing="ij")], 1)


def combinations(x: AnyArray, r: int = 2, with_replacement: bool = False) -> Array:
    """Each choice of r elements, a row each.

    >>> nnc.combinations([1, 2, 3]).tolist()
    [[1, 2], [1, 3], [2, 3]]
    """
    array = as_array(x)
    rule = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = np.array(list(rule(range(array.shape[0]), r)), np.int64).reshape(-1, r)
    return array[lifted(array, rows)]


def block_diag(*values: AnyArray) -> Array:
    """Matrices along the diagonal of a larger one, and 0 elsewhere.

    >>> nnc.block_diag([[1, 2]], [3]).tolist()
    [[1, 2, 0], [0, 0, 3]]
    """
    blocks = [x if x.ndim == 2 else x.reshape(1, -1) for x in met(values)]
    width = sum(block.shape[1] for block in blocks)
    rows, before = [], 0
    for block in blocks:
        height, own = block.shape
        left = ops.broadcast_to(ops.cast(lifted(block, np.zeros(())), block.dtype), (height, before))
        right = ops.broadcast_to(ops.cast(lifted(block, np.zeros(())), block.dtype), (height, width - before - own))
        rows.append(concatenate([left, block, right], 1))
        before += own
    return concatenate(rows, 0)


def diag_embed(x: AnyArray, offset: int = 0) -> Array:
    """y[…, k, k + offset] = x[…, k], and 0 elsewhere.

    >>> nnc.diag_embed([[1, 2]]).tolist()
    [[[1, 0], [0, 2]]]
    """
    array = as_array(x)
    if not array.ndim:
        raise ShapeError("diag_embed", got=str(array.spec), need="one axis or more")
    return on_diagonal("diag_embed", array, offset)


def baddbmm(c: AnyArray, batch1: AnyArray, batch2: AnyArray, *, beta: float = 1.0, alpha: float = 1.0) -> Array:
    """beta · c + alpha · batch1 @ batch2, of batches of matrices.

    >>> nnc.baddbmm(nnc.ones((1, 1, 1)), nnc.ones((1, 1, 2)), nnc.ones((1, 2, 1))).tolist()
    [[[3.0]]]
    """
    return as_array(c) * beta + matmul(batch1, batch2) * alpha


def mv(x: AnyArray, vec: AnyArray) -> Array:
    """x @ vec, of a matrix and a vector.

    >>> nnc.mv([[1.0, 2.0]], [3.0, 4.0]).tolist()
    [11.0]
    """
    return matmul(x, vec)


def numel(x: AnyArray) -> int:
    """The number of elements.

    >>> nnc.numel(nnc.ones((2, 3)))
    6
    """
    return as_array(x).spec.elements


# ---- complex numbers of two parts


def complex(real: AnyArray, imag: AnyArray) -> Array:
    """real + i · imag

    >>> nnc.complex([1.0], [2.0]).tolist()
    [(1+2j)]
    """
    first, second = met([real, imag])
    kind = C128 if first.dtype is F64 else C64
    return ops.cast(first, kind) + ops.cast(second, kind) * 1j


def polar(abs: AnyArray, angle: AnyArray) -> Array:
    """abs · (cos angle + i · sin angle)

    >>> nnc.polar([2.0], [0.0]).tolist()
    [(2+0j)]
    """
    size, turn = met([abs, angle])
    return complex(size * ops.cos(turn), size * ops.sin(turn))


def view_as_complex(x: AnyArray) -> Array:
    """x[…, 0] + i · x[…, 1], a new array.

    >>> nnc.view_as_complex([[1.0, 2.0]]).tolist()
    [(1+2j)]
    """
    array = as_array(x)
    if not array.ndim or array.shape[-1] != 2:
        raise ShapeError("view_as_complex", got=str(array.spec), need="two on the last axis")
    return complex(array[..., 0], array[..., 1])


def view_as_real(x: AnyArray) -> Array:
    """The real and the imaginary parts on a new last axis, a new array.

    >>> nnc.view_as_real(nnc.complex([1.0], [2.0])).tolist()
    [[1.0, 2.0]]
    """
    array = as_array(x)
    if array.dtype.kind != "complex":
        raise DTypeError("view_as_real", got=str(array.spec), need="complex numbers")
    return stack([ops.real(array), ops.imaginary(array)], -1)
