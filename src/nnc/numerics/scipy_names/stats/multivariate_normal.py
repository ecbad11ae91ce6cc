"""The normal distribution of vectors, the last axis, of a mean and a covariance.

ln pdf(x) = -(d ln 2π + ln det C + (x - m)ᵀ C⁻¹ (x - m)) / 2
"""

from __future__ import annotations

from nnc.errors import ShapeError
from nnc.numerics.conversion import AnyArray, Array, floats
from nnc.numerics.creation import eye
from nnc.numerics.elementwise import exp, log
from nnc.numerics.linalg import cholesky, diagonal, solve
from nnc.numerics.scipy_names.special import HALF_LOG_TWO_PI

__all__ = ["logpdf", "pdf"]


def logpdf(x: AnyArray, mean: AnyArray, cov: AnyArray) -> Array:
    """ln pdf(x); a covariance that is a number is that of each element.

    >>> nnc.scipy.stats.multivariate_normal.logpdf([0.0, 0.0], 0.0, nnc.eye(2))
    Variable(f32[], constant)
    -1.8378770351409912
    """
    place, middle, spread = floats(x, mean, cov)
    away = place - middle
    size = away.shape[-1] if away.ndim else 1
    if spread.ndim == 0:
        spread = spread * eye(size, dtype=spread.dtype)
    if spread.shape != (size, size):
        got = f"x {away.spec}, covariance {spread.spec}"
        raise ShapeError("multivariate_normal", got=got, need=f"a covariance [{size}, {size}]")
    factor = cholesky(spread)
    rows = away.reshape(-1, size)
    z = solve(factor, rows.T)
    distances = (z * z).sum(0).reshape(away.shape[:-1])
    return -0.5 * (distances + size * (2.0 * HALF_LOG_TWO_PI)) - log(diagonal(factor)).sum()


def pdf(x: AnyArray, mean: AnyArray, cov: AnyArray) -> Array:
    """The density at x.

    >>> round(nnc.scipy.stats.multivariate_normal.pdf([0.0, 1.0], 0.0, 1.0).item(), 4)
    0.0965
    """
    return exp(logpdf(x, mean, cov))
