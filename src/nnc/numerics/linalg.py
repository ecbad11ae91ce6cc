"""Linear algebra under the names of `numpy.linalg`, `jax.numpy.linalg`, `mlx.core.linalg` and `torch.linalg`.

nnc.linalg.norm(x), nnc.linalg.solve(a, b), nnc.linalg.svd(a), nnc.linalg.inv(a), nnc.linalg.lstsq(a, b)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from nnc import ops
from nnc.array_api import linalg as standard
from nnc.dynamic.arrays.promotion import continuous
from nnc.errors import AttributeValueError, ShapeError
from nnc.numerics.comparison import finfo
from nnc.numerics.conversion import AnyArray, Array, Axes, as_array, pair
from nnc.numerics.products import cross, matmul, outer, tensordot, trace, vecdot
from nnc.numerics.shapes import matrix_transpose
from nnc.ops.movement.broadcast import normalize_axes
from nnc.ops.number import integers_of
from nnc.vocabulary.answers import unknown_name
from nnc.vocabulary.names import LINALG

__all__ = [
    "cholesky", "cond", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "lstsq", "matmul", "matrix_norm",
    "matrix_power", "matrix_rank", "matrix_transpose", "multi_dot", "norm", "outer", "pinv", "qr", "slogdet", "solve",
    "svd", "svdvals", "tensordot", "trace", "vecdot", "vector_norm",
]  # fmt: skip


class LeastSquares(NamedTuple):
    """What `lstsq` finds."""

    solution: Array
    residuals: Array
    rank: Array
    singular_values: Array


def _matrix(x: AnyArray) -> Array:
    return continuous(as_array(x))


def cholesky(x: AnyArray, *, upper: bool = False) -> Array:
    """The lower l with l · lᴴ = x, or the upper u with uᴴ · u = x, of symmetric positive matrices.

    >>> nnc.linalg.cholesky([[4.0, 0.0], [0.0, 9.0]])
    Variable(f32[2, 2], constant)
    [[2. 0.]
     [0. 3.]]
    """
    return standard.cholesky(_matrix(x), upper=upper)


def det(x: AnyArray) -> Array:
    """The determinant.

    >>> nnc.linalg.det([[2.0, 0.0], [0.0, 4.0]])
    Variable(f32[], constant)
    8.0
    """
    return standard.det(_matrix(x))


def slogdet(x: AnyArray) -> standard.SignAndLogarithm:
    """The sign of the determinant, and the logarithm of its magnitude.

    >>> nnc.linalg.slogdet([[2.0, 0.0], [0.0, 4.0]]).sign
    Variable(f32[], constant)
    1.0
    """
    return standard.slogdet(_matrix(x))


def diagonal(x: AnyArray, offset: int = 0) -> Array:
    """The elements on a diagonal of the last two axes.

    >>> nnc.linalg.diagonal([[2.0, 0.0], [0.0, 4.0]])
    Variable(f32[2], constant)
    [2. 4.]
    """
    return standard.diagonal(as_array(x), offset=offset)


def eigh(x: AnyArray) -> standard.SymmetricEigen:
    """Eigenvalues, ascending, and eigenvectors of symmetric matrices.

    >>> nnc.linalg.eigh([[2.0, 0.0], [0.0, 4.0]]).eigenvalues
    Variable(f32[2], constant)
    [2. 4.]
    """
    return standard.eigh(_matrix(x))


def eigvalsh(x: AnyArray) -> Array:
    """Eigenvalues of symmetric matrices, ascending.

    >>> nnc.linalg.eigvalsh([[2.0, 0.0], [0.0, 4.0]])
    Variable(f32[2], constant)
    [2. 4.]
    """
    return standard.eigvalsh(_matrix(x))


def inv(x: AnyArray) -> Array:
    """x⁻¹

    >>> nnc.linalg.inv([[2.0, 0.0], [0.0, 4.0]])
    Variable(f32[2, 2], constant)
    [[0.5  0.  ]
     [0.   0.25]]
    """
    return standard.inv(_matrix(x))


def pinv(x: AnyArray, rtol: float | None = None) -> Array:
    """The pseudoinverse, without singular values that are not larger than rtol times the largest.

    >>> nnc.linalg.pinv([[2.0, 0.0], [0.0, 4.0]])
    Variable(f32[2, 2], constant)
    [[0.5  0.  ]
     [0.   0.25]]
    """
    return standard.pinv(_matrix(x), rtol=rtol)


def solve(a: AnyArray, b: AnyArray) -> Array:
    """x with a @ x = b; b of one axis is one column.

    >>> nnc.linalg.solve([[2.0, 0.0], [0.0, 4.0]], [2.0, 4.0])
    Variable(f32[2], constant)
    [1. 1.]
    """
    array, other = pair(a, b)
    return standard.solve(continuous(array), continuous(other))


def qr(x: AnyArray, mode: str = "reduced") -> standard.OrthogonalTriangular:
    """Q with orthonormal columns and upper triangular R; "complete" has a square Q.

    >>> [part.shape for part in nnc.linalg.qr(nnc.ones((3, 2)))]
    [(3, 2), (2, 2)]
    """
    return standard.qr(_matrix(x), mode=mode)


def svd(x: AnyArray, full_matrices: bool = True, compute_uv: bool = True) -> standard.SingularValues | Array:
    """Singular values, descending, between matrices with orthonormal columns and rows, square where full.

    >>> [part.shape for part in nnc.linalg.svd(nnc.ones((3, 2)), full_matrices=False)]
    [(3, 2), (2,), (2, 2)]
    """
    return standard.svd(_matrix(x), full_matrices=full_matrices) if compute_uv else standard.svdvals(_matrix(x))


def svdvals(x: AnyArray) -> Array:
    """Singular values, descending.

    >>> nnc.linalg.svdvals([[2.0, 0.0], [0.0, 4.0]])
    Variable(f32[2], constant)
    [4. 2.]
    """
    return standard.svdvals(_matrix(x))


def matrix_power(x: AnyArray, n: int) -> Array:
    """x @ x @ … n times; of the inverse for negative n.

    >>> nnc.linalg.matrix_power([[2.0, 0.0], [0.0, 4.0]], 2)
    Variable(f32[2, 2], constant)
    [[ 4.  0.]
     [ 0. 16.]]
    """
    return standard.matrix_power(_matrix(x), n)


def matrix_rank(x: AnyArray, rtol: float | None = None) -> Array:
    """How many singular values are larger than rtol times the largest.

    >>> nnc.linalg.matrix_rank([[2.0, 0.0], [0.0, 4.0]])
    Variable(i64[], constant)
    2
    """
    return standard.matrix_rank(_matrix(x), rtol=rtol)


def matrix_norm(x: AnyArray, ord: float | str = "fro", keepdims: bool = False) -> Array:
    """The norm of each matrix: "fro", "nuc", or by rows, columns and singular values 1, 2, ∞ and their negatives.

    >>> nnc.linalg.matrix_norm([[2.0, 0.0], [0.0, 4.0]])
    Variable(f32[], constant)
    4.4721360206604
    """
    return standard.matrix_norm(_matrix(x), ord=ord, keepdims=keepdims)


def vector_norm(x: AnyArray, ord: float = 2, axis: Axes = None, keepdims: bool = False) -> Array:
    """(sum of |x|^ord)^(1 / ord) over the axes; the count of what is not 0, and extrema, for 0 and ±∞.

    >>> nnc.linalg.vector_norm([3.0, 4.0], ord=1)
    Variable(f32[], constant)
    7.0
    """
    array = _matrix(x)
    axes = None if axis is None else normalize_axes("vector_norm", axis, array.ndim)
    return standard.vector_norm(array, axis=axes, keepdims=keepdims, ord=ord)


def norm(x: AnyArray, ord: float | str | None = None, axis: Axes = None, keepdims: bool = False) -> Array:
    """The norm of a vector along one axis, of matrices along two; without `ord` the root of the sum of squares.

    >>> nnc.linalg.norm([3.0, 4.0])
    Variable(f32[], constant)
    5.0
    """
    array = _matrix(x)
    if ord is None:
        return vector_norm(array, 2, axis, keepdims)
    axes = tuple(range(array.ndim)) if axis is None else normalize_axes("norm", axis, array.ndim)
    if len(axes) == 1:
        if isinstance(ord, str):
            raise AttributeValueError("norm", got=f"ord={ord!r} of vectors", need="a number")
        return vector_norm(array, ord, axes, keepdims)
    if len(axes) != 2:
        raise ShapeError("norm", got=f"{array.spec}, ord={ord!r}", need="one axis or two", fix="name the axis")
    named = axes if axis is None else integers_of(axis)
    first, second = (normalize_axes("norm", each, array.ndim)[0] for each in named)
    rest = [place for place in range(array.ndim) if place not in (first, second)]
    result = standard.matrix_norm(ops.transpose(array, (*rest, first, second)), ord=ord)
    kept = tuple(1 if place in (first, second) else size for place, size in enumerate(array.shape))
    return result.reshape(kept) if keepdims else result


def cond(x: AnyArray, p: float | str | None = None) -> Array:
    """How many times larger an error of the right side is in the solution, at most: norm(x) · norm(x⁻¹).

    >>> nnc.linalg.cond([[2.0, 0.0], [0.0, 4.0]])
    Variable(f32[], constant)
    2.0
    """
    array = _matrix(x)
    if p in (None, 2, -2):
        values = standard.svdvals(array)
        largest, smallest = values[..., 0], values[..., -1]
        return smallest / largest if p == -2 else largest / smallest
    return standard.matrix_norm(array, ord=p) * standard.matrix_norm(standard.inv(array), ord=p)


def lstsq(a: AnyArray, b: AnyArray, rtol: float | None = None) -> LeastSquares:
    """The x of least norm among those with the least |a @ x - b|, its squared residuals, and rank and values of a.

    >>> nnc.linalg.lstsq([[1.0], [1.0]], [1.0, 3.0]).solution
    Variable(f32[1], constant)
    [2.]
    """
    array, other = (continuous(each) for each in pair(a, b))
    solution = ops.matmul(standard.pinv(array, rtol=rtol), other)
    residuals = ops.square(ops.matmul(array, solution) - other).sum(0)
    values = standard.svdvals(array)
    least = values[0] * (max(array.shape) * finfo(values.dtype).eps if rtol is None else rtol)
    return LeastSquares(solution, residuals, (values > least).sum(), values)


def multi_dot(values: Sequence[AnyArray]) -> Array:
    """The product of all matrices; the pair that shares the largest axis is multiplied first.

    >>> nnc.linalg.multi_dot([[[2.0, 0.0], [0.0, 4.0]], [[2.0, 0.0], [0.0, 4.0]], [1.0, 1.0]])
    Variable(f32[2], constant)
    [ 4. 16.]
    """
    chain = [as_array(value) for value in values]
    if not chain:
        raise ShapeError("multi_dot", got="no matrices", need="at least one")
    while len(chain) > 1:
        place = max(range(len(chain) - 1), key=lambda number: chain[number].shape[-1])
        chain[place : place + 2] = [matmul(chain[place], chain[place + 1])]
    return chain[0]


if not TYPE_CHECKING:
    # A type checker goes by what there is.
    def __getattr__(name: str) -> NoReturn:
        raise unknown_name("module 'nnc.linalg'", name, LINALG, lambda: __all__, "nnc.linalg.")
