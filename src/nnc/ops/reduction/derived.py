"""Functions of one operand made of other operators: activations, statistics, running products, triangles.

They add no operator, so they need no kernel, and their gradients of any order are those of what they are made of.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from nnc.core.values.dtype import I64
from nnc.errors import AttributeValueError, ShapeError
from nnc.ops.elementwise.complex_numbers import imaginary
from nnc.ops.elementwise.pointwise import (
    abs,
    add,
    affine,
    divide,
    equal,
    exp,
    expm1,
    greater,
    greater_equal,
    log,
    multiply,
    real,
    sqrt,
    square,
    subtract,
    where,
)
from nnc.ops.movement.broadcast import normalize_axes, reduce_sum, reshape
from nnc.ops.movement.fill import fill_like, scalar_like
from nnc.ops.movement.generate import arange_like
from nnc.ops.movement.movement import concatenate, slice_axis
from nnc.ops.operand import T
from nnc.ops.reduction.reduction import reduce_max, reduce_mean

__all__ = [
    "cumprod", "elu", "is_inf", "logsumexp", "prod", "roll", "selu", "std", "tril", "triu", "var",
]  # fmt: skip

Axes = int | Iterable[int] | None
# Klambauer et al. 2017.
SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805


def is_inf(x: T) -> T:
    """y = x is infinite, of either sign, as bool."""
    return equal(abs(x), scalar_like(x, math.inf))


def elu(x: T, alpha: float = 1.0) -> T:
    """y = x where x > 0, else alpha · (e^x - 1) (Clevert et al. 2015)."""
    above = greater(x, scalar_like(x, 0.0))
    return where(above, x, affine(expm1(where(above, scalar_like(x, 0.0), x)), alpha))


def selu(x: T) -> T:
    """y = s · elu(x, a), with the a and s that keep mean and variance (Klambauer et al. 2017)."""
    return affine(elu(x, SELU_ALPHA), SELU_SCALE)


def var(x: T, axes: Axes = None, *, correction: float = 0.0, keepdims: bool = False) -> T:
    """y = sum over axes of |x - mean|² / (n - correction), real; a correction of 1 is Bessel's."""
    chosen = normalize_axes("var", axes, x.spec.rank)
    count = math.prod(x.shape[axis] for axis in chosen) - correction
    deviations = subtract(x, reduce_mean(x, chosen, keepdims=True))
    if x.spec.dtype.kind == "complex":
        squares = add(square(real(deviations)), square(imaginary(deviations)))
    else:
        squares = square(deviations)
    total = reduce_sum(squares, chosen, keepdims=keepdims)
    return divide(total, scalar_like(total, max(count, 0.0)))


def std(x: T, axes: Axes = None, *, correction: float = 0.0, keepdims: bool = False) -> T:
    """y = √var(x); its derivative at 0 is 0."""
    variance = var(x, axes, correction=correction, keepdims=keepdims)
    still = equal(variance, scalar_like(variance, 0.0))
    return where(still, scalar_like(variance, 0.0), sqrt(where(still, scalar_like(variance, 1.0), variance)))


def logsumexp(x: T, axes: Axes = None, *, keepdims: bool = False) -> T:
    """y = ln sum over axes of e^x, the largest x taken off first."""
    chosen = normalize_axes("logsumexp", axes, x.spec.rank)
    largest = reduce_max(x, chosen, keepdims=True)
    shift = where(is_inf(largest), scalar_like(x, 0.0), largest)
    y = add(log(reduce_sum(exp(subtract(x, shift)), chosen, keepdims=True)), shift)
    return y if keepdims else _without(y, chosen)


def prod(x: T, axes: Axes = None, *, keepdims: bool = False) -> T:
    """y = product of x over axes (all when None), by halves; of no elements it is 1."""
    chosen = normalize_axes("prod", axes, x.spec.rank)
    for axis in chosen:
        if x.shape[axis] == 0:
            x = fill_like(reduce_sum(x, axis, keepdims=True), 1.0)
        while (size := x.shape[axis]) > 1:
            half = size // 2
            pairs = multiply(slice_axis(x, axis, 0, half), slice_axis(x, axis, half, 2 * half))
            x = concatenate((pairs, slice_axis(x, axis, 2 * half, size)), axis) if size % 2 else pairs
    return x if keepdims else _without(x, chosen)


def cumprod(x: T, axis: int = -1) -> T:
    """y[k] = x[0] · … · x[k] along `axis`, in about log2(n) passes."""
    (along,) = normalize_axes("cumprod", axis, x.spec.rank)
    size, step = x.shape[along], 1
    while step < size:
        later = multiply(slice_axis(x, along, step, size), slice_axis(x, along, 0, size - step))
        x = concatenate((slice_axis(x, along, 0, step), later), along)
        step *= 2
    return x


def roll(x: T, shift: int, axis: int = -1) -> T:
    """y[k] = x[k - shift] along `axis`, round its end."""
    (along,) = normalize_axes("roll", axis, x.spec.rank)
    size = x.shape[along]
    start = -shift % size if size else 0
    if not start:
        return x
    return concatenate((slice_axis(x, along, start, size), slice_axis(x, along, 0, start)), along)


def tril(x: T, diagonal: int = 0) -> T:
    """y[…, i, j] = x[…, i, j] where j ≤ i + diagonal, else 0."""
    return _triangle("tril", x, diagonal, lower=True)


def triu(x: T, diagonal: int = 0) -> T:
    """y[…, i, j] = x[…, i, j] where j ≥ i + diagonal, else 0."""
    return _triangle("triu", x, diagonal, lower=False)


def _triangle(name: str, x: T, diagonal: int, *, lower: bool) -> T:
    if x.spec.rank < 2:
        raise ShapeError(name, got=str(x.spec), need="[…, rows, columns]")
    if isinstance(diagonal, bool) or not isinstance(diagonal, int):
        raise AttributeValueError(name, got=f"a diagonal of type {type(diagonal).__name__}", need="an integer")
    rows, columns = x.shape[-2:]
    # Beyond the corners there are no diagonals: all of x, or nothing.
    first = float(max(-rows, min(diagonal, columns)))
    row = reshape(arange_like(x, rows, first, dtype=I64), (rows, 1))
    column = arange_like(x, columns, dtype=I64)
    kept = greater_equal(row, column) if lower else greater_equal(column, row)
    return where(kept, x, scalar_like(x, 0.0))


def _without(x: T, axes: tuple[int, ...]) -> T:
    """x without these axes of size 1."""
    return reshape(x, tuple(size for axis, size in enumerate(x.shape) if axis not in axes))
