"""Linear algebra by LAPACK, through NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nnc.backends.reference.arrays import Array, Inputs, Outputs, ReferenceKernel, Rows, widen, write
from nnc.errors import UsageError
from nnc.ops.products.linear_algebra import CHOLESKY, EIGH, QR, SLOGDET, SOLVE, SVD, complement
from nnc.ops.rules import NoAttrs


def _by(name: str, function: Callable[..., Any], need: str) -> ReferenceKernel:
    """The kernel of a function that gives one array or a tuple of them; UsageError where LAPACK finds no result."""

    def kernel(attrs: NoAttrs, inputs: Inputs, outputs: Outputs) -> None:
        try:
            answer = function(*map(widen, inputs))
        except np.linalg.LinAlgError as error:
            raise UsageError(name, got=str(error).lower(), need=need) from None
        results: tuple[Array, ...] = answer if isinstance(answer, tuple) else (answer,)
        for output, result in zip(outputs, results, strict=True):
            write(output, result)

    return kernel


def _svd(a: Array) -> tuple[Array, ...]:
    return tuple(np.linalg.svd(a, full_matrices=False))


def _eigh(a: Array) -> tuple[Array, ...]:
    return tuple(np.linalg.eigh(a))


def _slogdet(a: Array) -> tuple[Array, ...]:
    return tuple(np.linalg.slogdet(a))


def _complement(q: Array) -> Array:
    whole: Array = np.linalg.qr(q, mode="complete")[0]
    return whole[..., q.shape[-1] :]


def _qr(a: Array) -> tuple[Array, ...]:
    return tuple(np.linalg.qr(a))


ROWS: Rows = {
    CHOLESKY: _by("cholesky", np.linalg.cholesky, "symmetric, positive matrices"),
    SOLVE: _by("solve", np.linalg.solve, "matrices that have an inverse"),
    QR: _by("qr", _qr, "finite elements"),
    SVD: _by("svd", _svd, "finite elements"),
    EIGH: _by("eigh", _eigh, "finite elements"),
    SLOGDET: _by("slogdet", _slogdet, "finite elements"),
    complement: _by("complement", _complement, "finite elements"),
}
