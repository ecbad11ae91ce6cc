"""The beta distribution of two shapes on loc … loc + scale.

pdf(x) = z^(a - 1) (1 - z)^(b - 1) / (B(a, b) · scale), z = (x - loc) / scale
"""

from __future__ import annotations

from nnc.numerics.conversion import AnyArray, Array, pair
from nnc.numerics.elementwise import exp, log, logical_and, xlogy
from nnc.numerics.order import where
from nnc.numerics.scipy_names.special import betaln, xlog1py
from nnc.numerics.scipy_names.stats.standard import standardized, within

__all__ = ["logpdf", "pdf"]


def logpdf(x: AnyArray, a: AnyArray, b: AnyArray, loc: AnyArray = 0.0, scale: AnyArray = 1.0) -> Array:
    """ln pdf(x)

    >>> nnc.scipy.stats.beta.logpdf(0.5, 2.0, 2.0)
    Variable(f32[], constant)
    0.40546512603759766
    """
    z, width = standardized(x, loc, scale)
    inside, (first, second) = logical_and(z >= 0.0, z <= 1.0), (pair(z, shape)[1] for shape in (a, b))
    safe = where(inside, z, 0.5)
    powers = xlogy(first - 1.0, safe) + xlog1py(second - 1.0, -safe)
    return within(inside, powers - betaln(first, second) - log(width))


def pdf(x: AnyArray, a: AnyArray, b: AnyArray, loc: AnyArray = 0.0, scale: AnyArray = 1.0) -> Array:
    """The density at x.

    >>> round(nnc.scipy.stats.beta.pdf(0.25, 2.0, 2.0).item(), 4)
    1.125
    """
    return exp(logpdf(x, a, b, loc, scale))
