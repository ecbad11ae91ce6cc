"""Linear algebra of matrices over leading axes.

    cholesky:  l · lᵀ = a, l lower triangular; a symmetric and positive, of which the lower half alone is read
    solve:     a · x = b for square a [n, n] and b [n, k]
    qr:        q · r = a, q with orthonormal columns, r upper triangular, both of min(m, n)
    svd:       u · diag(s) · v = a, u with orthonormal columns, v with orthonormal rows, s descending
    eigh:      a · v = v · diag(w), a symmetric, of which the lower half alone is read, v orthonormal, w ascending
    slogdet:   det a = sign · e^logarithm
    complement: columns that with those of q are an orthonormal basis

Gradients (g of the result, S for solves, Φ halves the diagonal of the lower half, copy mirrors the lower half):

    cholesky:  a' = lower half of P + Pᵀ, its diagonal once, P = l⁻ᵀ · Φ(lᵀ · g) · l⁻¹        (Murray 2016)
    solve:     b' = a⁻ᵀ · g, a' = -b' · xᵀ
    qr:        a' = (g_q + q · copy(r · g_rᵀ - g_qᵀ · q)) · r⁻ᵀ, for m ≥ n                  (Walter & Lehmann 2018)
    svd:       a' = u · (F ∘ [uᵀ g_u - g_uᵀ u] · s + s · F ∘ [v g_vᵀ - g_v vᵀ] + diag g_s) · v
               + (1 - u uᵀ) · g_u / s · v + u / s · g_v · (1 - vᵀ v), F[i, j] = 1 / (s[j]² - s[i]²)   (Townsend 2016)

    eigh:      a' = v · (diag g_w + F ∘ (vᵀ g_v)) · vᵀ, F[i, j] = 1 / (w[j] - w[i])
    slogdet:   a' = g_logarithm · a⁻ᵀ

Complex matrices have transposed conjugates where real ones are transposed; gradients are by real ones, but for solve
and slogdet. Where singular values or eigenvalues are equal the gradient by u and v is not defined, and comes out as
if F were 0 there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from nnc.core.values.command import Command
from nnc.core.values.dtype import I64, DType
from nnc.core.values.spec import OptionalSpecs, TensorSpec, spec
from nnc.errors import NotDifferentiableError, ShapeError
from nnc.graph import Op
from nnc.ops.batching import batched_rows
from nnc.ops.elementwise.complex_numbers import conjugate
from nnc.ops.elementwise.pointwise import (
    add,
    affine,
    cast,
    divide,
    equal,
    multiply,
    reciprocal,
    square,
    subtract,
    where,
)
from nnc.ops.elementwise.rows import real_dtype
from nnc.ops.examples import MATRIX, Example
from nnc.ops.function import UnaryOperator
from nnc.ops.movement.broadcast import broadcast_to, reshape
from nnc.ops.movement.fill import fill_like, scalar_like
from nnc.ops.movement.generate import arange_like
from nnc.ops.movement.movement import transpose
from nnc.ops.operand import Operand, T, apply
from nnc.ops.products.products import gemm
from nnc.ops.reduction.derived import tril
from nnc.ops.rules import (
    CONTINUOUS,
    Applied,
    Gradients,
    NoAttrs,
    NotDifferentiable,
    Specs,
    check_kinds,
    describe,
    operator,
    single,
)
from nnc.ops.work import present

__all__ = ["cholesky", "complement", "eigh", "identity_like", "inverse", "qr", "slogdet", "solve", "svd"]

_NONE = NoAttrs()


# ---- inference


def _check_matrix(subject: str, a: TensorSpec, *, square: bool) -> None:
    check_kinds(CONTINUOUS, a)
    if a.rank < 2 or (square and a.shape[-1] != a.shape[-2]):
        raise ShapeError(subject, got=str(a), need="square matrices" if square else "matrices […, m, n]")


def _infer_cholesky(attrs: NoAttrs, specs: Specs) -> Specs:
    _check_matrix("cholesky", specs[0], square=True)
    return specs


def _infer_solve(attrs: NoAttrs, specs: Specs) -> Specs:
    a, b = specs
    _check_matrix("solve", a, square=True)
    if b.dtype is not a.dtype or b.rank != a.rank or b.shape[:-1] != a.shape[:-1]:
        raise ShapeError("solve", got=f"a={a}, b={b}", need=f"b {a.dtype}[{', '.join(map(str, a.shape[:-1]))}, k]")
    return (b,)


def _infer_qr(attrs: NoAttrs, specs: Specs) -> Specs:
    (a,) = specs
    _check_matrix("qr", a, square=False)
    *lead, m, n = a.shape
    return replace(a, shape=(*lead, m, min(m, n))), replace(a, shape=(*lead, min(m, n), n))


def _infer_svd(attrs: NoAttrs, specs: Specs) -> Specs:
    (a,) = specs
    u, v = _infer_qr(attrs, specs)
    return u, replace(a, shape=(*a.shape[:-2], min(a.shape[-2:])), dtype=_real(a)), v


def _infer_eigh(attrs: NoAttrs, specs: Specs) -> Specs:
    (a,) = specs
    _check_matrix("eigh", a, square=True)
    return replace(a, shape=a.shape[:-1], dtype=_real(a)), a


def _infer_slogdet(attrs: NoAttrs, specs: Specs) -> Specs:
    (a,) = specs
    _check_matrix("slogdet", a, square=True)
    sign = replace(a, shape=a.shape[:-2])
    return sign, replace(sign, dtype=_real(a))


def _infer_complement(attrs: NoAttrs, specs: Specs) -> Specs:
    (q,) = specs
    _check_matrix("complement", q, square=False)
    *lead, m, n = q.shape
    if m < n:
        raise ShapeError("complement", got=str(q), need="as many rows as columns, or more")
    return (replace(q, shape=(*lead, m, m - n)),)


def _real(a: TensorSpec) -> DType:
    return real_dtype(a.dtype) if a.dtype.kind == "complex" else a.dtype


# ---- gradients


def _turned(x: T) -> T:
    """The last two axes swapped."""
    rank = x.spec.rank
    return transpose(x, (*range(rank - 2), rank - 1, rank - 2))


def _adjoint(x: T) -> T:
    """Transposed, and conjugated where it is complex."""
    return conjugate(_turned(x))


def _check_real(call: Applied[NoAttrs]) -> None:
    (a,) = call.inputs
    if not a.spec.dtype.is_float:
        need = "real matrices"
        raise NotDifferentiableError("linear algebra", got=f"the gradient by {a.spec}", need=need, fix="detach() it")


def _cholesky_gradient(call: Applied[NoAttrs], gradients: Gradients) -> Gradients:
    _check_real(call)
    g, l = single(gradients), call.outputs[0]  # noqa: E741  # the matrix has this name everywhere
    product = gemm(l, g, transpose_a=True)
    half = affine(add(tril(product), tril(product, -1)), 0.5)
    upper = _turned(l)
    right = _turned(apply(SOLVE, _NONE, upper, _turned(apply(SOLVE, _NONE, upper, half))))
    both = affine(add(right, _turned(right)), 0.5)
    return (add(tril(both), tril(both, -1)),)


def _solve_gradient(call: Applied[NoAttrs], gradients: Gradients) -> Gradients:
    by_b = apply(SOLVE, _NONE, _turned(call.inputs[0]), single(gradients))
    by_a = affine(gemm(by_b, call.outputs[0], transpose_b=True), -1.0) if call.needed[0] else None
    return (by_a, by_b)


def _qr_gradient(call: Applied[NoAttrs], gradients: Gradients) -> Gradients:
    _check_real(call)
    q, r = call.outputs
    if q.shape[-2] < r.shape[-1]:
        got = f"the gradient of a wide matrix {call.inputs[0].spec}"
        need = "as many rows as columns, or more"
        raise NotDifferentiableError("qr", got=got, need=need, fix="take its first square part")
    g_q, g_r = (fill_like(y, 0.0) if g is None else g for y, g in zip(call.outputs, gradients, strict=True))
    m = subtract(gemm(r, g_r, transpose_b=True), gemm(g_q, q, transpose_a=True))
    mirrored = add(tril(m), _turned(tril(m, -1)))
    right = add(g_q, gemm(q, mirrored))
    return (_turned(apply(SOLVE, _NONE, r, _turned(right))),)


def _svd_gradient(call: Applied[NoAttrs], gradients: Gradients) -> Gradients:
    _check_real(call)
    u, s, v = call.outputs
    g_u, g_s, g_v = gradients
    row, column = reshape(s, (*s.shape[:-1], 1, s.shape[-1])), reshape(s, (*s.shape, 1))
    gap = subtract(square(row), square(column))
    f = _inverse_gaps(gap)
    inner = fill_like(gap, 0.0)
    parts: list[Operand] = []
    if g_s is not None:
        inner = add(inner, multiply(identity_like(gap), reshape(g_s, column.shape)))
    if g_u is not None:
        m = gemm(u, g_u, transpose_a=True)
        inner = add(inner, multiply(multiply(f, subtract(m, _turned(m))), row))
        parts.append(gemm(divide(subtract(g_u, gemm(u, m)), row), v))
    if g_v is not None:
        m = gemm(v, g_v, transpose_b=True)
        inner = add(inner, multiply(column, multiply(f, subtract(m, _turned(m)))))
        parts.append(gemm(u, divide(subtract(g_v, gemm(_turned(m), v)), column)))
    total = gemm(gemm(u, inner), v)
    for part in parts:
        total = add(total, part)
    return (total,)


def _inverse_gaps(gap: Operand) -> Operand:
    """1 / gap, and 0 where there is none."""
    alike = equal(gap, scalar_like(gap, 0.0))
    return where(alike, scalar_like(gap, 0.0), reciprocal(where(alike, scalar_like(gap, 1.0), gap)))


def _eigh_gradient(call: Applied[NoAttrs], gradients: Gradients) -> Gradients:
    _check_real(call)
    w, v = call.outputs
    g_w, g_v = gradients
    row, column = reshape(w, (*w.shape[:-1], 1, w.shape[-1])), reshape(w, (*w.shape, 1))
    inner = fill_like(v, 0.0)
    if g_w is not None:
        inner = add(inner, multiply(identity_like(v), reshape(g_w, column.shape)))
    if g_v is not None:
        inner = add(inner, multiply(_inverse_gaps(subtract(row, column)), gemm(v, g_v, transpose_a=True)))
    whole = gemm(gemm(v, inner), v, transpose_b=True)
    # The lower half alone is read, so it has the gradient of both.
    return (add(tril(whole), tril(_turned(whole), -1)),)


def _slogdet_gradient(call: Applied[NoAttrs], gradients: Gradients) -> Gradients:
    g, a = gradients[1], call.inputs[0]
    if g is None:
        return (None,)
    return (multiply(_turned(inverse(a)), cast(reshape(g, (*g.shape, 1, 1)), a.spec.dtype)),)


# ---- work: what LAPACK does, to the leading order (Golub & Van Loan 2013)


def _sizes(a: TensorSpec) -> tuple[int, int, int]:
    """How many matrices, and the larger and the smaller of their sizes."""
    *lead, m, n = a.shape
    return math.prod(lead), max(m, n), min(m, n)


def _cholesky_work(attrs: NoAttrs, inputs: OptionalSpecs, outputs: Sequence[TensorSpec]) -> int:
    count, n, _ = _sizes(outputs[0])
    return count * max(n**3 // 3, n)


def _solve_work(attrs: NoAttrs, inputs: OptionalSpecs, outputs: Sequence[TensorSpec]) -> int:
    count, n, _ = _sizes(present(inputs[0]))
    return count * 2 * n**3 // 3 + 2 * n * outputs[0].elements


def _qr_work(attrs: NoAttrs, inputs: OptionalSpecs, outputs: Sequence[TensorSpec]) -> int:
    count, m, n = _sizes(present(inputs[0]))
    return count * 4 * n * n * m


def _svd_work(attrs: NoAttrs, inputs: OptionalSpecs, outputs: Sequence[TensorSpec]) -> int:
    count, m, n = _sizes(present(inputs[0]))
    return count * (14 * m * n * n + 8 * n**3)


def _determinant_work(attrs: NoAttrs, inputs: OptionalSpecs, outputs: Sequence[TensorSpec]) -> int:
    count, n, _ = _sizes(present(inputs[0]))
    return count * max(2 * n**3 // 3, n)


def _of_matrix(
    name: str,
    outputs: tuple[str, ...],
    infer: Callable[[NoAttrs, Specs], Specs],
    gradient: Callable[[Applied[NoAttrs], Gradients], Gradients],
    work: Callable[[NoAttrs, OptionalSpecs, Sequence[TensorSpec]], int],
    doc: str,
    inputs: tuple[str, ...] = ("a",),
) -> Op[NoAttrs]:
    """An operator of matrices, or of each of a batch of them."""
    return operator(
        name,
        NoAttrs,
        inputs,
        outputs,
        infer=infer,
        gradient=gradient,
        work=work,
        batched=batched_rows,
        example=Example(NoAttrs(), (MATRIX,) * len(inputs)),
        doc=doc,
    )


CHOLESKY = _of_matrix(
    "cholesky", ("l",), _infer_cholesky, _cholesky_gradient, _cholesky_work, "l · lᵀ = a, l lower triangular"
)
SOLVE = _of_matrix("solve", ("x",), _infer_solve, _solve_gradient, _solve_work, "a · x = b", ("a", "b"))
QR = _of_matrix(
    "qr", ("q", "r"), _infer_qr, _qr_gradient, _qr_work, "q · r = a, q with orthonormal columns, r upper triangular"
)
SVD = _of_matrix("svd", ("u", "s", "v"), _infer_svd, _svd_gradient, _svd_work, "u · diag(s) · v = a, s descending")
EIGH = _of_matrix("eigh", ("w", "v"), _infer_eigh, _eigh_gradient, _svd_work, "a · v = v · diag(w), w ascending")
SLOGDET = _of_matrix(
    "slogdet", ("sign", "logarithm"), _infer_slogdet, _slogdet_gradient, _determinant_work, "det a = sign · e^logarithm"
)
complement = UnaryOperator("complement", ("q",), "m - n columns that with those of q[m, n] are an orthonormal basis")
describe(
    complement,
    infer=_infer_complement,
    gradient=NotDifferentiable("a basis of what is left is any one"),
    work=_qr_work,
    batched=batched_rows,
    example=Example(NoAttrs(), (spec((4, 2)),)),
)


def identity_like(x: T) -> T:
    """The identity [n, n] of the last axis of `x`, in its element type; `x` is not read."""
    if not x.shape:
        raise ShapeError("identity_like", got=f"x={x.spec}", need="an axis")
    places = arange_like(x, x.shape[-1], dtype=I64)
    return cast(equal(reshape(places, (-1, 1)), places), x.spec.dtype)


def cholesky(a: T) -> T:
    """The lower triangular l with l · lᵀ = a, of positive a […, n, n], which is made symmetric first."""
    _check_matrix("cholesky", a.spec, square=True)
    return apply(CHOLESKY, _NONE, affine(add(a, _adjoint(a)), 0.5))


def solve(a: T, b: T) -> T:
    """x with a · x = b; leading axes broadcast, and b of one axis is one column."""
    if b.spec.rank == 1:
        columns = solve(a, reshape(b, (-1, 1)))
        return reshape(columns, columns.shape[:-1])
    lead = tuple(a.shape[:-2]) if a.spec.rank >= b.spec.rank else tuple(b.shape[:-2])
    return apply(SOLVE, _NONE, broadcast_to(a, (*lead, *a.shape[-2:])), broadcast_to(b, (*lead, *b.shape[-2:])))


def inverse(a: T) -> T:
    """a⁻¹, of square matrices."""
    _check_matrix("inverse", a.spec, square=True)
    return apply(SOLVE, _NONE, a, broadcast_to(identity_like(a), a.shape))


def qr(a: T) -> tuple[T, T]:
    """(q, r) with q · r = a, of min(m, n) columns and rows."""
    q, r = a.apply(Command(QR, _NONE), (a,))
    return q, r


def svd(a: T) -> tuple[T, T, T]:
    """(u, s, v) with u · diag(s) · v = a; v has orthonormal rows."""
    u, s, v = a.apply(Command(SVD, _NONE), (a,))
    return u, s, v


def eigh(a: T) -> tuple[T, T]:
    """(w, v): the eigenvalues, ascending, and eigenvectors of a, which is made symmetric first."""
    _check_matrix("eigh", a.spec, square=True)
    w, v = a.apply(Command(EIGH, _NONE), (affine(add(a, _adjoint(a)), 0.5),))
    return w, v


def slogdet(a: T) -> tuple[T, T]:
    """(the sign of the determinant, the logarithm of its magnitude)."""
    sign, logarithm = a.apply(Command(SLOGDET, _NONE), (a,))
    return sign, logarithm
