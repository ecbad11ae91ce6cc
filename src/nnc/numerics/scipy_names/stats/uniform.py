"""The uniform distribution on loc … loc + scale.

pdf(x) = 1 / scale within
"""

from __future__ import annotations

from nnc.numerics.conversion import AnyArray, Array
from nnc.numerics.elementwise import clip, exp, log, logical_and
from nnc.numerics.scipy_names.stats.standard import standardized, within

__all__ = ["cdf", "logpdf", "pdf"]


def logpdf(x: AnyArray, loc: AnyArray = 0.0, scale: AnyArray = 1.0) -> Array:
    """ln pdf(x)

    >>> nnc.scipy.stats.uniform.logpdf([1.0, 3.0], 0.0, 2.0).tolist()
    [-0.6931471824645996, -inf]
    """
    z, width = standardized(x, loc, scale)
    return within(logical_and(z >= 0.0, z <= 1.0), 0.0 * z - log(width))


def pdf(x: AnyArray, loc: AnyArray = 0.0, scale: AnyArray = 1.0) -> Array:
    """The density at x.

    >>> round(nnc.scipy.stats.uniform.pdf(0.5).item(), 4)
    1.0
    """
    return exp(logpdf(x, loc, scale))


def cdf(x: AnyArray, loc: AnyArray = 0.0, scale: AnyArray = 1.0) -> Array:
    """The share below x.

    >>> round(nnc.scipy.stats.uniform.cdf(0.5).item(), 4)
    0.5
    """
    return clip(standardized(x, loc, scale)[0], 0.0, 1.0)
