"""The gamma distribution of a shape `a` from `loc` on, of a `scale`.

pdf(x) = z^(a - 1) e^-z / (Γ(a) · scale), z = (x - loc) / scale ≥ 0
"""

from __future__ import annotations

from nnc.numerics.conversion import AnyArray, Array, pair
from nnc.numerics.elementwise import exp, log, xlogy
from nnc.numerics.order import where
from nnc.numerics.scipy_names.special import gammaln
from nnc.numerics.scipy_names.stats.standard import standardized, within

__all__ = ["logpdf", "pdf"]


def logpdf(x: AnyArray, a: AnyArray, loc: AnyArray = 0.0, scale: AnyArray = 1.0) -> Array:
    """ln pdf(x)

    >>> nnc.scipy.stats.gamma.logpdf(1.0, 2.0)
    Variable(f32[], constant)
    -1.0
    """
    z, width = standardized(x, loc, scale)
    inside, shape = z >= 0.0, pair(z, a)[1]
    safe = where(inside, z, 1.0)
    return within(inside, xlogy(shape - 1.0, safe) - safe - gammaln(shape) - log(width))


def pdf(x: AnyArray, a: AnyArray, loc: AnyArray = 0.0, scale: AnyArray = 1.0) -> Array:
    """The density at x.

    >>> round(nnc.scipy.stats.gamma.pdf(1.0, 2.0).item(), 4)
    0.3679
    """
    return exp(logpdf(x, a, loc, scale))
