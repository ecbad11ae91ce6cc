"""The exponential distribution from `loc` on, of the mean `scale`.

pdf(x) = e^-z / scale, z = (x - loc) / scale ≥ 0
"""

from __future__ import annotations

from nnc.numerics.conversion import AnyArray, Array
from nnc.numerics.elementwise import exp, expm1, log, maximum
from nnc.numerics.scipy_names.stats.standard import standardized, within

__all__ = ["cdf", "logpdf", "pdf"]


def logpdf(x: AnyArray, loc: AnyArray = 0.0, scale: AnyArray = 1.0) -> Array:
    """ln pdf(x)

    >>> nnc.scipy.stats.expon.logpdf([1.0, -1.0]).tolist()
    [-1.0, -inf]
    """
    z, width = standardized(x, loc, scale)
    return within(z >= 0.0, -z - log(width))


def pdf(x: AnyArray, loc: AnyArray = 0.0, scale: AnyArray = 1.0) -> Array:
    """The density at x.

    >>> round(nnc.scipy.stats.expon.pdf(1.0).item(), 4)
    0.3679
    """
    return exp(logpdf(x, loc, scale))


def cdf(x: AnyArray, loc: AnyArray = 0.0, scale: AnyArray = 1.0) -> Array:
    """The share below x.

    >>> round(nnc.scipy.stats.expon.cdf(1.0).item(), 4)
    0.6321
    """
    return -expm1(-maximum(standardized(x, loc, scale)[0], 0.0))
