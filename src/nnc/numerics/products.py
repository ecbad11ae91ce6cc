"""Products of vectors, matrices and more: `matmul`, `dot`, `einsum`, `outer`, `kron`, `tensordot`, `trace` …"""

from __future__ import annotations

import string
from collections.abc import Sequence

from nnc import ops
from nnc.array_api import linalg as standard
from nnc.core.precautions.origin import caller_origin
from nnc.errors import AttributeValueError, ShapeError
from nnc.numerics.conversion import AnyArray, Array, met, pair
from nnc.numerics.creation import diagonal
from nnc.ops.number import INTEGERS, integers_of

__all__ = [
    "addmm", "bmm", "cdist", "cross", "dot", "einsum", "inner", "kron", "matmul", "mm", "outer", "polyval", "tensordot",
    "trace", "vdot", "vecdot",
]  # fmt: skip


def matmul(x1: AnyArray, x2: AnyArray) -> Array:
    """x1 @ x2

    >>> nnc.matmul([[1.0, 2.0], [3.0, 4.0]], [1.0, 1.0])
    Variable(f32[2], constant)
    [3. 7.]
    """
    return ops.matmul(*pair(x1, x2))


def dot(x1: AnyArray, x2: AnyArray) -> Array:
    """The sum over the last axis of x1 and the last but one of x2 (its one of a vector); of numbers the product.

    >>> nnc.dot([1.0, 2.0], [3.0, 4.0])
    Variable(f32[], constant)
    11.0
    """
    a, b = pair(x1, x2)
    if not (a.ndim and b.ndim):
        return ops.multiply(a, b)
    return tensordot(a, b, ([a.ndim - 1], [max(b.ndim - 2, 0)]))


def inner(x1: AnyArray, x2: AnyArray) -> Array:
    """The sum over the last axes of both.

    >>> nnc.inner([1, 2], [3, 4])
    Variable(i64[], constant)
    11
    """
    a, b = pair(x1, x2)
    return tensordot(a, b, ([a.ndim - 1], [b.ndim - 1])) if a.ndim and b.ndim else ops.multiply(a, b)


def outer(x1: AnyArray, x2: AnyArray) -> Array:
    """y[i, j] = x1[i] · x2[j], of all elements in a row.

    >>> nnc.outer([1, 2], [3, 4])
    Variable(i64[2, 2], constant)
    [[3 4]
     [6 8]]
    """
    a, b = pair(x1, x2)
    return ops.multiply(a.reshape((-1, 1)), b.ravel())


def vdot(x1: AnyArray, x2: AnyArray) -> Array:
    """The sum of conj(x1) · x2 over all elements.

    >>> nnc.vdot([1, 2], [3, 4])
    Variable(i64[], constant)
    11
    """
    a, b = pair(x1, x2)
    if a.size != b.size:
        raise ShapeError("vdot", got=f"{a.spec}, {b.spec}", need="as many elements")
    return ops.multiply(a.conj().ravel(), b.ravel()).sum()


def vecdot(x1: AnyArray, x2: AnyArray, axis: int = -1) -> Array:
    """The sum of conj(x1) · x2 along the axis.

    >>> nnc.vecdot([[1, 2], [3, 4]], [1, 1])
    Variable(i64[2], constant)
    [3 7]
    """
    a, b = pair(x1, x2)
    return standard.vecdot(a, b, axis=axis)


def tensordot(x1: AnyArray, x2: AnyArray, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Array:
    """Sums of products over axes: the last of x1 and the first of x2, or those that are named.

    >>> nnc.tensordot([[1.0, 2.0], [3.0, 4.0]], [[1.0, 2.0], [3.0, 4.0]], 2)
    Variable(f32[], constant)
    30.0
    """
    a, b = pair(x1, x2)
    if isinstance(axes, INTEGERS):
        return standard.tensordot(a, b, axes=axes)
    left, right = map(integers_of, axes)
    return standard.tensordot(a, b, axes=(left, right))


def cross(x1: AnyArray, x2: AnyArray, axis: int = -1) -> Array:
    """The vector product of three elements along the axis.

    >>> nnc.cross([1, 0, 0], [0, 1, 0])
    Variable(i64[3], constant)
    [0 0 1]
    """
    return standard.cross(*pair(x1, x2), axis=axis)


def kron(x1: AnyArray, x2: AnyArray) -> Array:
    """Each element of x1 times all of x2, side by side.

    >>> nnc.kron([1, 2], [1, 1])
    Variable(i64[4], constant)
    [1 1 2 2]
    """
    a, b = pair(x1, x2)
    rank = max(a.ndim, b.ndim)
    first, second = (value.reshape((*(1,) * (rank - value.ndim), *value.shape)) for value in (a, b))
    wide = first.reshape([part for size in first.shape for part in (size, 1)])
    other = second.reshape([part for size in second.shape for part in (1, size)])
    shape = [p * q for p, q in zip(first.shape, second.shape, strict=True)]
    return ops.multiply(wide, other).reshape(shape)


def trace(x: AnyArray, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """The sum of a diagonal of two axes.

    >>> nnc.trace([[1.0, 2.0], [3.0, 4.0]])
    Variable(f32[], constant)
    5.0
    """
    return diagonal(x, offset, axis1, axis2).sum(-1)


def addmm(c: AnyArray, a: AnyArray, b: AnyArray, alpha: float = 1.0, beta: float = 1.0) -> Array:
    """beta · c + alpha · (a @ b)

    >>> nnc.addmm([1.0, 1.0], [[1.0, 2.0]], [[1.0, 0.0], [0.0, 1.0]])
    Variable(f32[1, 2], constant)
    [[2. 3.]]
    """
    product = matmul(a, b)
    array, other = pair(product if alpha == 1 else product * alpha, c)
    return array + (other if beta == 1 else other * beta)


def cdist(x1: AnyArray, x2: AnyArray, p: float = 2.0) -> Array:
    """y[…, i, j] = |x1[…, i] - x2[…, j]|ₚ, the distance of each row of one from each of the other.

    >>> nnc.cdist([[0.0, 0.0]], [[3.0, 4.0], [0.0, 1.0]])
    Variable(f32[1, 2], constant)
    [[5. 1.]]
    """
    a, b = pair(x1, x2)
    if a.ndim < 2 or b.ndim < 2 or a.shape[-1] != b.shape[-1]:
        got, need = f"x1={a.spec}, x2={b.spec}", "rows of one width, x1[…, n, d] and x2[…, m, d]"
        raise ShapeError("cdist", got=got, need=need, origin=caller_origin())
    return standard.vector_norm(ops.subtract(a.expand_dims(-2), b.expand_dims(-3)), axis=-1, ord=p)


def polyval(coefficients: AnyArray, x: AnyArray) -> Array:
    """c[0] · x^(n - 1) + … + c[n - 1], by Horner's rule.

    >>> nnc.polyval([1, 0, 2], 3)
    Variable(i64[], constant)
    11
    """
    factors, at = pair(coefficients, x)
    result = ops.fill_like(at, 0)
    for row in range(factors.shape[0]):
        result = result * at + factors[row]
    return result


def einsum(equation: str, *values: AnyArray | Sequence[AnyArray]) -> Array:
    """Einstein sum, such as `einsum("ij,jk->ik", a, b)`.

    Without `->` the result has the letters that stand once, in alphabetical order; `...` stands for the other axes.

    >>> nnc.einsum("ij,ij->i", [[1.0, 2.0], [3.0, 4.0]], [[1.0, 2.0], [3.0, 4.0]])
    Variable(f32[2], constant)
    [ 5. 25.]
    """
    row = values[0] if len(values) == 1 and "," in equation else values
    given = met(row)  # type: ignore[arg-type]  # arrays, one by one or in a list
    terms, result = _written_out(equation.replace(" ", ""), given)
    return ops.einsum(f"{','.join(terms)}->{result}", *given)


def _written_out(equation: str, values: Sequence[Array]) -> tuple[list[str], str]:
    """The terms and the result with a letter for each axis."""
    left, arrow, result = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(values):
        got = f"{equation!r} for {len(values)} arrays"
        raise AttributeValueError("einsum", got=got, need="a term for each array")
    spare = "".join(letter for letter in string.ascii_letters if letter not in equation)
    counts = [value.ndim - len(term.replace("...", "")) for value, term in zip(values, terms, strict=True)]
    most = max((count for count, term in zip(counts, terms, strict=True) if "..." in term), default=0)
    if min(counts) < 0 or most > len(spare):
        got = f"{equation!r} for {', '.join(str(value.spec) for value in values)}"
        raise AttributeValueError("einsum", got=got, need="a letter for each axis")
    rest = spare[:most]
    full = [
        term.replace("...", rest[most - count :] if count else "") for term, count in zip(terms, counts, strict=True)
    ]
    if arrow:
        return full, result.replace("...", rest)
    letters = "".join(terms).replace("...", "")
    return full, rest + "".join(sorted(value for value in set(letters) if letters.count(value) == 1))


mm = bmm = matmul
