"""Polynomials as NumPy has them, coefficients with the highest power first; gradients flow through all of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnc import ops
from nnc.core.values.dtype import F32, F64
from nnc.errors import ArgumentError
from nnc.numerics.conversion import AnyArray, Array, as_array
from nnc.numerics.creation import ones, vander, zeros
from nnc.numerics.cumulative import convolve
from nnc.numerics.linalg import qr, solve
from nnc.numerics.shapes import concatenate

__all__ = ["poly", "polyadd", "polyder", "polyfit", "polyint", "polymul", "polysub"]


def polyfit(x: AnyArray, y: AnyArray, deg: int, w: AnyArray | None = None) -> Array:
    """The p[0] · x^deg + … + p[deg] of least Σ (w · (p(x) - y))², for each column of y; found in f64, by QR.

    >>> nnc.polyfit([0.0, 1.0, 2.0, 3.0], [1.0, 3.0, 5.0, 7.0], 1).round(3).tolist()
    [2.0, 1.0]
    """
    points, values = as_array(x), as_array(y)
    if points.ndim != 1 or not 0 <= deg < points.size or values.shape[:1] != points.shape:
        got = f"x={points.spec}, y={values.spec}, deg={deg}"
        raise ArgumentError("polyfit", got=got, need="x[n], y[n] or y[n, k], and n > deg ≥ 0")
    result = F64 if F64 in (points.dtype, values.dtype) else F32
    matrix, targets = vander(ops.cast(points, F64), deg + 1), ops.cast(values, F64)
    if w is not None:
        weights = ops.cast(as_array(w), F64)
        matrix = matrix * weights.reshape(-1, 1)
        targets = targets * weights.reshape(-1, *(1,) * (targets.ndim - 1))
    scale = ops.stop_gradient((matrix * matrix).sum(0).sqrt())
    q, r = qr(matrix / scale)
    scaled: Array = solve(r, q.T @ targets)
    return ops.cast(scaled / scale.reshape(-1, *(1,) * (targets.ndim - 1)), result)


def poly(seq_of_zeros: AnyArray) -> Array:
    """The polynomial with these zeros.

    >>> nnc.poly([1.0, 2.0]).tolist()
    [1.0, -3.0, 2.0]
    """
    product = ones(1)
    for zero in _row(seq_of_zeros):
        product = convolve(product, concatenate([ones(1), -zero.reshape(1)]))
    return product


def _row(p: AnyArray) -> Array:
    """Coefficients of one axis."""
    x = as_array(p)
    return x if x.ndim else x.reshape(1)


def _padded(p: AnyArray, q: AnyArray) -> tuple[Array, Array]:
    """Both with as many coefficients."""
    first, second = _row(p), _row(q)
    many = max(first.size, second.size)
    return tuple(concatenate([zeros(many - x.size, x.dtype), x]) for x in (first, second))  # type: ignore[return-value]  # of two


def polyadd(a1: AnyArray, a2: AnyArray) -> Array:
    """The sum of two polynomials.

    >>> nnc.polyadd([1.0, 2.0], [3.0]).tolist()
    [1.0, 5.0]
    """
    p, q = _padded(a1, a2)
    return p + q


def polysub(a1: AnyArray, a2: AnyArray) -> Array:
    """The difference of two polynomials.

    >>> nnc.polysub([1.0, 2.0], [3.0]).tolist()
    [1.0, -1.0]
    """
    p, q = _padded(a1, a2)
    return p - q


def polymul(a1: AnyArray, a2: AnyArray) -> Array:
    """The product of two polynomials.

    >>> nnc.polymul([1.0, 1.0], [1.0, -1.0]).tolist()
    [1.0, 0.0, -1.0]
    """
    return convolve(_row(a1), _row(a2))


def polyder(p: AnyArray, m: int = 1) -> Array:
    """The m-th derivative.

    >>> nnc.polyder([1.0, 2.0, 3.0]).tolist()
    [2.0, 2.0]
    """
    whole = _row(p)
    for _ in range(m):
        powers: Any = np.arange(whole.size - 1, 0, -1)
        whole = whole[:-1] * as_array(powers)
    return whole


def polyint(p: AnyArray, m: int = 1, k: float = 0.0) -> Array:
    """The m-th integral, each with the constant k.

    >>> nnc.polyint([2.0, 2.0], k=3.0).tolist()
    [1.0, 2.0, 3.0]
    """
    whole = _row(p) * 1.0
    for _ in range(m):
        powers: Any = np.arange(whole.size, 0, -1)
        whole = concatenate([whole / as_array(powers), ones(1, whole.dtype) * k])
    return whole
