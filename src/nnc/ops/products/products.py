"""Matrix product with optional bias, batched over leading axes.

    y[…, m, n] = sum_k a[…, m, k] · b[…, k, n] + bias[n]

`transpose_a` reads a as [k, m], `transpose_b` reads b as [n, k]. Leading axes broadcast.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from nnc.arguments import explained
from nnc.classes import dataclass
from nnc.core.values.command import Command
from nnc.core.values.spec import Layout, OptionalSpecs, TensorSpec, broadcast_shapes
from nnc.errors import DTypeError, ShapeError
from nnc.ops.batching import BatchedCall
from nnc.ops.elementwise.pointwise import add
from nnc.ops.examples import MATRIX, ROW, Example
from nnc.ops.movement.broadcast import reduce_sum, reshape, sum_to
from nnc.ops.movement.layout import convert_layout
from nnc.ops.operand import Operand, T, apply, apply_command
from nnc.ops.precision import LOW
from nnc.ops.rules import ARITHMETIC, Applied, Gradients, Pattern, Specs, check_kinds, operator, single
from nnc.ops.work import present

__all__ = ["gemm", "matmul"]


@dataclass(frozen=True, slots=True)
class GemmAttrs:
    """Which operands are read transposed."""

    transpose_a: bool = False
    transpose_b: bool = False


def _infer(attrs: GemmAttrs, specs: tuple[TensorSpec | None, ...]) -> Specs:
    a, b, bias = specs
    assert a is not None
    assert b is not None
    shown = f"a={a}, b={b}" + (f", bias={bias}" if bias else "")
    b = b.plain
    check_kinds(ARITHMETIC, a)
    if a.rank < 2 or b.rank < 2:
        raise ShapeError("gemm", got=shown, need="at least two dimensions each", fix="reshape vectors to matrices")
    if a.dtype is not b.dtype or (bias is not None and bias.dtype is not a.dtype):
        raise DTypeError("gemm", got=shown, need="one element type", fix="cast() one of them")
    rows, inner = reversed(a.shape[-2:]) if attrs.transpose_a else a.shape[-2:]
    other, columns = reversed(b.shape[-2:]) if attrs.transpose_b else b.shape[-2:]
    if inner != other:
        mirrored = b.shape[-1] == inner and not attrs.transpose_b
        fix = "set transpose_b=True" if mirrored else "make the inner sizes equal"
        raise ShapeError("gemm", got=shown, need=f"a's k ({inner}) == b's k ({other})", fix=fix)
    if bias is not None and bias.shape != (columns,):
        raise ShapeError("gemm", got=shown, need=f"bias of shape [{columns}]")
    batch = broadcast_shapes("gemm", a.shape[:-2], b.shape[:-2])
    return (replace(a, shape=(*batch, rows, columns)),)


def _as_rows(x: Operand) -> Operand:
    """All leading axes as one, so that one product sums over them and no gradient per batch entry is kept."""
    return reshape(x, (math.prod(x.shape[:-1]), x.shape[-1]))


def _gradient(call: Applied[GemmAttrs], gradients: Gradients) -> Gradients:
    g = single(gradients)
    a, b, *rest = call.inputs
    b = convert_layout(b, Layout.NHWC)
    flip_a, flip_b = call.attrs.transpose_a, call.attrs.transpose_b
    left: Operand | None = None
    right: Operand | None = None
    if call.needed[0]:
        product = gemm(b, g, transpose_a=flip_b, transpose_b=True) if flip_a else gemm(g, b, transpose_b=not flip_b)
        left = sum_to(product, a.shape)
    if call.needed[1]:
        rows, seeds = (a, g) if b.spec.rank > 2 or flip_a else (_as_rows(a), _as_rows(g))
        if flip_b:
            product = gemm(seeds, rows, transpose_a=True, transpose_b=flip_a)
        else:
            product = gemm(rows, seeds, transpose_a=not flip_a)
        right = convert_layout(sum_to(product, b.shape), call.inputs[1].spec.layout)
    bias = reduce_sum(g, tuple(range(g.spec.rank - 1))) if rest and call.needed[2] else None
    return (left, right, bias)


def _work(attrs: GemmAttrs, inputs: OptionalSpecs, outputs: Sequence[TensorSpec]) -> int:
    """2 · |y| · k"""
    return 2 * outputs[0].elements * present(inputs[0]).shape[-2 if attrs.transpose_a else -1]


def _batched(call: BatchedCall[GemmAttrs]) -> tuple[Operand, ...]:
    """One product over the rows of all examples where these share b, else one for each."""
    flip_a, flip_b = call.attrs.transpose_a, call.attrs.transpose_b
    if call.batched[2:] == (True,):
        return call.composed(lambda ab: [add(gemm(*ab[:2], transpose_a=flip_a, transpose_b=flip_b), ab[2])])
    a, b = call.spec(0).rank, call.spec(1).rank
    if not call.batched[1] and b == 2 and not flip_a:
        return tuple(call.parted(y, 0) for y in call.apply([call.merged(0, 0), call.plain(1), call.plain(2)]))
    return call.apply([call.aligned(0, max(a, b)), call.aligned(1, max(a, b)), call.plain(2)])


GEMM = operator(
    "gemm",
    GemmAttrs,
    ("a", "b", "bias"),
    infer=_infer,
    gradient=_gradient,
    pattern=Pattern.FUSABLE_OUTPUT,
    optional=(2,),
    precision=LOW,
    work=_work,
    batched=_batched,
    example=Example(GemmAttrs(), (MATRIX, MATRIX, ROW)),
    doc="y[…, m, n] = sum_k a[…, m, k] · b[…, k, n] + bias[n]",
)

# Made once each, for eager code: what is made anew is hashed and compared by its attributes, 3 of a product's 17 µs.
_COMMANDS = {(a, b): Command(GEMM, GemmAttrs(a, b)) for a in (False, True) for b in (False, True)}


def gemm(a: T, b: T, bias: T | None = None, *, transpose_a: bool = False, transpose_b: bool = False) -> T:
    """y = a @ b + bias, batched over leading axes; `transpose_*` read the last two axes swapped."""
    command = _COMMANDS.get((transpose_a, transpose_b))
    if command is None:
        return apply(GEMM, GemmAttrs(transpose_a, transpose_b), a, b, bias)
    return apply_command(command, a, b, bias)


@explained
def matmul(a: T, b: T) -> T:
    """y = a @ b, batched over leading axes; one axis is a row on the left and a column on the right, as in NumPy."""
    if not (a.shape and b.shape):
        raise ShapeError("matmul", got=f"{a.spec}, {b.spec}", need="at least one axis each", fix="use *")
    rows, columns = a.spec.rank > 1, b.spec.rank > 1
    y = gemm(a if rows else reshape(a, (1, -1)), b if columns else reshape(b, (-1, 1)))
    if rows and columns:
        return y
    kept = (*y.shape[:-2], *y.shape[-2 : -1 if rows else -2], *(y.shape[-1:] if columns else ()))
    return reshape(y, kept)
