"""Laplace's distribution of a median `loc` and a `scale`.

pdf(x) = e^-|z| / (2 · scale), z = (x - loc) / scale
"""

from __future__ import annotations

import math

from nnc.numerics.conversion import AnyArray, Array
from nnc.numerics.elementwise import abs, exp, log
from nnc.numerics.order import where
from nnc.numerics.scipy_names.stats.standard import standardized

__all__ = ["cdf", "logpdf", "pdf"]


def logpdf(x: AnyArray, loc: AnyArray = 0.0, scale: AnyArray = 1.0) -> Array:
    """ln pdf(x)

    >>> nnc.scipy.stats.laplace.logpdf(1.0)
    Variable(f32[], constant)
    -1.6931471824645996
    """
    z, width = standardized(x, loc, scale)
    return -abs(z) - log(width) - math.log(2.0)


def pdf(x: AnyArray, loc: AnyArray = 0.0, scale: AnyArray = 1.0) -> Array:
    """The density at x.

    >>> round(nnc.scipy.stats.laplace.pdf(1.0).item(), 4)
    0.1839
    """
    return exp(logpdf(x, loc, scale))


def cdf(x: AnyArray, loc: AnyArray = 0.0, scale: AnyArray = 1.0) -> Array:
    """The share below x.

    >>> round(nnc.scipy.stats.laplace.cdf(1.0).item(), 4)
    0.8161
    """
    z, _ = standardized(x, loc, scale)
    tail = 0.5 * exp(-abs(z))
    return where(z < 0.0, tail, 1.0 - tail)
