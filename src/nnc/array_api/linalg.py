"""Linear algebra: the functions of the standard's main namespace, and its extension `linalg`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nnc import ops
from nnc.array_api.data_types import finfo, lifted, meet
from nnc.array_api.elementwise import checked_array
from nnc.array_api.manipulation import place_of
from nnc.array_api.statistical import sum as total
from nnc.core.values.dtype import I64, DType
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.errors import AttributeValueError, ShapeError
from nnc.ops.movement.broadcast import normalize_axes
from nnc.ops.number import INTEGERS
from nnc.ops.rules import ARITHMETIC, CONTINUOUS

__all__ = [
    "cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm", "matrix_power",
    "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "tensordot",
    "trace", "vecdot", "vector_norm",
]  # fmt: skip

Array = ArrayOperand


class SymmetricEigen(NamedTuple):
    """Eigenvalues, ascending, and eigenvectors as columns."""

    eigenvalues: Array
    eigenvectors: Array


class OrthogonalTriangular(NamedTuple):
    """Q · R"""

    Q: Array
    R: Array


class SignAndLogarithm(NamedTuple):
    """det = sign · e^logabsdet"""

    sign: Array
    logabsdet: Array


class SingularValues(NamedTuple):
    """U · diag(S) · Vh"""

    U: Array
    S: Array
    Vh: Array


def _matrix(name: str, x: Array) -> Array:
    if checked_array(name, x, CONTINUOUS).ndim < 2:
        raise ShapeError(name, got=str(x.spec), need="matrices […, m, n]")
    return x


def _adjoint(x: Array) -> Array:
    return ops.conjugate(x.mT)


def matmul(x1: Array, x2: Array, /) -> Array:
    """x1 @ x2"""
    a, b = meet("matmul", checked_array("matmul", x1, ARITHMETIC), checked_array("matmul", x2, ARITHMETIC))
    return ops.matmul(a, b)


def matrix_transpose(x: Array, /) -> Array:
    """The last two axes swapped."""
    return checked_array("matrix_transpose", x).mT


def tensordot(x1: Array, x2: Array, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Array:
    """Sums of products over axes: the last of x1 and the first of x2, or those that are named."""
    a, b = meet("tensordot", checked_array("tensordot", x1, ARITHMETIC), checked_array("tensordot", x2, ARITHMETIC))
    if isinstance(axes, INTEGERS):
        if not 0 <= axes <= min(a.ndim, b.ndim):
            need = f"axes of 0 to {min(a.ndim, b.ndim)}, the number of axes that both have"
            raise ShapeError("tensordot", got=f"{a.spec}, {b.spec} over {axes} axes", need=need)
        left, right = list(range(a.ndim - axes, a.ndim)), list(range(axes))
    else:
        left, right = (
            [place_of("tensordot", axis, x.ndim) for axis in each] for x, each in zip((a, b), axes, strict=True)
        )
    if [a.shape[axis] for axis in left] != [b.shape[axis] for axis in right]:
        raise ShapeError("tensordot", got=f"{a.spec}, {b.spec} over {left}, {right}", need="equal sizes in pairs")
    rows = [axis for axis in range(a.ndim) if axis not in left]
    columns = [axis for axis in range(b.ndim) if axis not in right]
    inner = math.prod(a.shape[axis] for axis in left)
    first, second = ops.transpose(a, (*rows, *left)), ops.transpose(b, (*right, *columns))
    kept = (*(a.shape[axis] for axis in rows), *(b.shape[axis] for axis in columns))
    height, width = (math.prod(x.shape[axis] for axis in each) for x, each in ((a, rows), (b, columns)))
    return ops.gemm(first.reshape((height, inner)), second.reshape((inner, width))).reshape(kept)


def vecdot(x1: Array, x2: Array, /, *, axis: int = -1) -> Array:
    """The sum of conj(x1) · x2 along the axis."""
    a, b = meet("vecdot", checked_array("vecdot", x1, ARITHMETIC), checked_array("vecdot", x2, ARITHMETIC))
    if not -min(a.ndim, b.ndim) <= axis < 0:
        raise AttributeValueError("vecdot", got=f"axis {axis}", need="an axis counted from the last")
    if a.shape[axis] != b.shape[axis]:
        raise ShapeError("vecdot", got=f"{a.spec}, {b.spec}", need="one size along the axis")
    return ops.reduce_sum(ops.multiply(ops.conjugate(a), b), axis)


def cholesky(x: Array, /, *, upper: bool = False) -> Array:
    """The lower l with l · lᴴ = x, or the upper u with uᴴ · u = x, of symmetric positive matrices."""
    lower = ops.cholesky(_matrix("cholesky", x))
    return _adjoint(lower) if upper else lower


def cross(x1: Array, x2: Array, /, *, axis: int = -1) -> Array:
    """The vector product of three elements along the axis."""
    a, b = meet("cross", checked_array("cross", x1, ARITHMETIC), checked_array("cross", x2, ARITHMETIC))
    if not -min(a.ndim, b.ndim) <= axis < min(a.ndim, b.ndim) or (a.shape[axis], b.shape[axis]) != (3, 3):
        raise ShapeError("cross", got=f"{a.spec}, {b.spec} along {axis}", need="three elements along the axis")
    (ax, ay, az), (bx, by, bz) = (ops.split(vector, 3, axis) for vector in (a, b))
    parts = [ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx]
    return ops.concatenate(parts, place_of("cross", axis, parts[0].ndim))


def det(x: Array, /) -> Array:
    """The determinant."""
    sign, logarithm = slogdet(x)
    return ops.multiply(sign, ops.cast(ops.exp(logarithm), sign.dtype))


def diagonal(x: Array, /, *, offset: int = 0) -> Array:
    """The elements on a diagonal of the last two axes."""
    if checked_array("diagonal", x).ndim < 2:
        raise ShapeError("diagonal", got=str(x.spec), need="two axes or more")
    rows, columns = x.shape[-2:]
    offset = max(-rows, min(offset, columns))
    first, left = max(-offset, 0), max(offset, 0)
    places = np.arange(max(min(rows - first, columns - left), 0))
    flat = x.reshape((*x.shape[:-2], rows * columns))
    return ops.index_select(flat, lifted(x, (places + first) * columns + places + left), x.ndim - 2)


def eigh(x: Array, /) -> SymmetricEigen:
    """Eigenvalues and eigenvectors of symmetric matrices."""
    return SymmetricEigen(*ops.eigh(_matrix("eigh", x)))


def eigvalsh(x: Array, /) -> Array:
    """Eigenvalues of symmetric matrices."""
    return eigh(x).eigenvalues


def inv(x: Array, /) -> Array:
    """x⁻¹"""
    return ops.inverse(_matrix("inv", x))


def matrix_norm(x: Array, /, *, keepdims: bool = False, ord: float | str | None = "fro") -> Array:
    """The norm of each matrix: "fro", "nuc", or by rows, columns and singular values 1, 2, ∞ and their negatives."""
    size = ops.magnitude(_matrix("matrix_norm", x)) if x.dtype.kind == "complex" else ops.abs(_matrix("matrix_norm", x))
    if ord in ("fro", None):
        norm = ops.reduce_norm(size, (-2, -1))
    elif ord == "nuc":
        norm = total(svdvals(x), axis=-1)
    elif ord in (2, -2):
        norm = (ops.reduce_max if ord == 2 else ops.reduce_min)(svdvals(x), -1)
    elif ord in (1, -1, math.inf, -math.inf):
        sums = ops.reduce_sum(size, -2 if abs(ord) == 1 else -1)
        norm = (ops.reduce_max if ord > 0 else ops.reduce_min)(sums, -1)
    else:
        raise AttributeValueError("matrix_norm", got=f"ord={ord!r}", need='"fro", "nuc", 1, 2, inf or their negatives')
    return norm.reshape((*norm.shape, 1, 1)) if keepdims else norm


def matrix_power(x: Array, n: int, /) -> Array:
    """x @ x @ … n times; of the inverse for negative n."""
    square = inv(x) if n < 0 else _matrix("matrix_power", x)
    result = ops.broadcast_to(ops.identity_like(square), square.shape)
    left = abs(n)
    while left:
        result = ops.matmul(result, square) if left & 1 else result
        left >>= 1
        square = ops.matmul(square, square) if left else square
    return result


def matrix_rank(x: Array, /, *, rtol: float | Array | None = None) -> Array:
    """How many singular values are larger than rtol times the largest."""
    values = svdvals(_matrix("matrix_rank", x))
    return ops.reduce_sum(ops.cast(values > _least(values, x, rtol), I64), -1)


def pinv(x: Array, /, *, rtol: float | Array | None = None) -> Array:
    """The pseudoinverse, without singular values that are not larger than rtol times the largest."""
    u, s, v = ops.svd(_matrix("pinv", x))
    kept = s > _least(s, x, rtol)
    inverse = ops.where(kept, ops.reciprocal(ops.where(kept, s, ops.scalar_like(s, 1.0))), ops.scalar_like(s, 0.0))
    scaled = ops.multiply(_adjoint(v), ops.cast(inverse.reshape((*s.shape[:-1], 1, s.shape[-1])), x.dtype))
    return ops.matmul(scaled, _adjoint(u))


def _least(values: Array, x: Array, rtol: float | Array | None) -> Array:
    """The bound of singular values that count, an axis behind each matrix."""
    largest = ops.reduce_max(values, -1, keepdims=True)
    if isinstance(rtol, ArrayOperand):
        return largest * rtol.reshape((*rtol.shape, 1))
    return largest * (max(x.shape[-2:]) * finfo(values.dtype).eps if rtol is None else rtol)


def outer(x1: Array, x2: Array, /) -> Array:
    """x1[i] · x2[j]"""
    return ops.outer(*meet("outer", checked_array("outer", x1, ARITHMETIC), checked_array("outer", x2, ARITHMETIC)))


def qr(x: Array, /, *, mode: str = "reduced") -> OrthogonalTriangular:
    """Q with orthonormal columns and upper triangular R; "complete" has a square Q."""
    if mode not in ("reduced", "complete"):
        raise AttributeValueError("qr", got=f"mode={mode!r}", need='"reduced" or "complete"')
    q, r = ops.qr(_matrix("qr", x))
    m, n = x.shape[-2:]
    if mode == "complete" and m > n:
        zeros = lifted(x, np.zeros((*x.shape[:-2], m - n, n), x.dtype.numpy))
        q, r = _completed(q), ops.concatenate((r, zeros), x.ndim - 2)
    return OrthogonalTriangular(q, r)


def _completed(q: Array) -> Array:
    return ops.concatenate((q, ops.complement(q)), q.ndim - 1)


def slogdet(x: Array, /) -> SignAndLogarithm:
    """The sign of the determinant, and the logarithm of its magnitude."""
    return SignAndLogarithm(*ops.slogdet(_matrix("slogdet", x)))


def solve(x1: Array, x2: Array, /) -> Array:
    """x with x1 @ x = x2; x2 of one axis is one column."""
    return ops.solve(*meet("solve", _matrix("solve", x1), checked_array("solve", x2, CONTINUOUS)))


def svd(x: Array, /, *, full_matrices: bool = True) -> SingularValues:
    """Singular values, descending, between matrices with orthonormal columns and rows, square where full."""
    u, s, v = ops.svd(_matrix("svd", x))
    m, n = x.shape[-2:]
    if full_matrices and m > n:
        u = _completed(u)
    if full_matrices and m < n:
        v = _adjoint(_completed(_adjoint(v)))
    return SingularValues(u, s, v)


def svdvals(x: Array, /) -> Array:
    """Singular values, descending."""
    return ops.svd(_matrix("svdvals", x))[1]


def trace(x: Array, /, *, offset: int = 0, dtype: DType | None = None) -> Array:
    """The sum of a diagonal."""
    return total(diagonal(checked_array("trace", x, ARITHMETIC), offset=offset), axis=-1, dtype=dtype)


def vector_norm(
    x: Array, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False, ord: float = 2
) -> Array:
    """(sum of |x|^ord)^(1 / ord) over the axes; the count of what is not 0, and extrema, for 0 and ±∞."""
    size = ops.magnitude(x) if checked_array("vector_norm", x, CONTINUOUS).dtype.kind == "complex" else ops.abs(x)
    axes = normalize_axes("vector_norm", axis, x.ndim)
    return ops.norm(size, axes, order=float(ord), keepdims=keepdims)
