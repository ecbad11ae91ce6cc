"""The normal distribution of a mean `loc` and a deviation `scale`.

pdf(x) = e^(-z² / 2) / (√(2π) · scale), z = (x - loc) / scale
"""

from __future__ import annotations

from nnc.numerics.conversion import AnyArray, Array
from nnc.numerics.elementwise import exp, log, multiply
from nnc.numerics.scipy_names.special import HALF_LOG_TWO_PI, log_ndtr, ndtr, ndtri
from nnc.numerics.scipy_names.stats.standard import standardized

__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]


def logpdf(x: AnyArray, loc: AnyArray = 0.0, scale: AnyArray = 1.0) -> Array:
    """ln pdf(x)

    >>> nnc.scipy.stats.norm.logpdf(0.0)
    Variable(f32[], constant)
    -0.9189385175704956
    """
    z, width = standardized(x, loc, scale)
    return -0.5 * z * z - HALF_LOG_TWO_PI - log(width)


def pdf(x: AnyArray, loc: AnyArray = 0.0, scale: AnyArray = 1.0) -> Array:
    """The density at x.

    >>> round(nnc.scipy.stats.norm.pdf(0.0).item(), 4)
    0.3989
    """
    return exp(logpdf(x, loc, scale))


def cdf(x: AnyArray, loc: AnyArray = 0.0, scale: AnyArray = 1.0) -> Array:
    """The share below x.

    >>> nnc.scipy.stats.norm.cdf([0.0, 1.96])
    Variable(f32[2], constant)
    [0.5   0.975]
    """
    return ndtr(standardized(x, loc, scale)[0])


def logcdf(x: AnyArray, loc: AnyArray = 0.0, scale: AnyArray = 1.0) -> Array:
    """ln cdf(x)

    >>> round(nnc.scipy.stats.norm.logcdf(0.0).item(), 4)
    -0.6931
    """
    return log_ndtr(standardized(x, loc, scale)[0])


def sf(x: AnyArray, loc: AnyArray = 0.0, scale: AnyArray = 1.0) -> Array:
    """The share above x.

    >>> round(nnc.scipy.stats.norm.sf(0.0).item(), 4)
    0.5
    """
    return ndtr(-standardized(x, loc, scale)[0])


def logsf(x: AnyArray, loc: AnyArray = 0.0, scale: AnyArray = 1.0) -> Array:
    """ln sf(x)

    >>> round(nnc.scipy.stats.norm.logsf(0.0).item(), 4)
    -0.6931
    """
    return log_ndtr(-standardized(x, loc, scale)[0])


def ppf(q: AnyArray, loc: AnyArray = 0.0, scale: AnyArray = 1.0) -> Array:
    """x with cdf(x) = q.

    >>> nnc.scipy.stats.norm.ppf(0.975)
    Variable(f32[], constant)
    1.959964394569397
    """
    return multiply(ndtri(q), scale) + loc


def isf(q: AnyArray, loc: AnyArray = 0.0, scale: AnyArray = 1.0) -> Array:
    """x with sf(x) = q.

    >>> round(nnc.scipy.stats.norm.isf(0.025).item(), 4)
    1.96
    """
    return multiply(-ndtri(q), scale) + loc
