"""Rows of linear algebra: matrices far from singular, with singular values far from each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from tests.conformance.case import NONE, Argument, Array, Case, Generator

from nnc.core.values.dtype import F32, F64
from nnc.core.values.spec import Shape
from nnc.ops.products.linear_algebra import CHOLESKY, EIGH, QR, SLOGDET, SOLVE, SVD, complement

EXACT = (F64, F32)
SQUARE: tuple[Shape, ...] = ((3, 3), (2, 4, 4), (1, 1), (0, 2, 2))


def far_apart(generator: Generator, shape: Shape, earlier: Sequence[Array]) -> Array:
    """Matrices with the singular values 1, 2, 3, …"""
    count = min(shape[-2:])
    u, _, v = np.linalg.svd(generator.normal(size=shape), full_matrices=False)
    spread: Array = (u * np.arange(count, 0, -1.0)) @ v
    return spread


def positive_definite(generator: Generator, shape: Shape, earlier: Sequence[Array]) -> Array:
    """A · Aᵀ + 1"""
    a = generator.normal(size=shape)
    product: Array = a @ np.swapaxes(a, -1, -2) + np.eye(shape[-1])
    return product


def rows() -> Iterator[Case]:
    """All rows of this file."""
    for shape in SQUARE:
        yield Case(CHOLESKY, NONE, (Argument(shape, positive_definite),), EXACT)
        columns = Argument((*shape[:-1], 2))
        yield Case(SOLVE, NONE, (Argument(shape, far_apart), columns), EXACT)
        yield Case(EIGH, NONE, (Argument(shape, positive_definite),), EXACT)
        yield Case(SLOGDET, NONE, (Argument(shape, far_apart),), EXACT)
    for shape in ((4, 2), (2, 5, 3), (3, 3)):
        yield Case(complement, NONE, (Argument(shape, far_apart),), EXACT, smooth=False)
    for shape in (*SQUARE, (4, 2), (2, 5, 3)):
        yield Case(QR, NONE, (Argument(shape, far_apart),), EXACT)
        yield Case(SVD, NONE, (Argument(shape, far_apart),), EXACT)
    yield Case(QR, NONE, (Argument((2, 4), far_apart),), EXACT, "wide", smooth=False)
    yield Case(SVD, NONE, (Argument((2, 4), far_apart),), EXACT, "wide")
