"""Student's distribution of `df` degrees of freedom, around `loc` by `scale`.

pdf(x) = Γ((df + 1) / 2) / (√(π df) Γ(df / 2) scale) · (1 + z² / df)^(-(df + 1) / 2), z = (x - loc) / scale
"""

from __future__ import annotations

import math

from nnc.numerics.conversion import AnyArray, Array, pair
from nnc.numerics.elementwise import exp, log, log1p
from nnc.numerics.scipy_names.special import gammaln
from nnc.numerics.scipy_names.stats.standard import standardized

__all__ = ["logpdf", "pdf"]


def logpdf(x: AnyArray, df: AnyArray, loc: AnyArray = 0.0, scale: AnyArray = 1.0) -> Array:
    """ln pdf(x)

    >>> nnc.scipy.stats.t.logpdf(0.0, 1.0)
    Variable(f32[], constant)
    -1.1447298526763916
    """
    z, width = standardized(x, loc, scale)
    freedom = pair(z, df)[1]
    half = (freedom + 1.0) / 2.0
    factor = gammaln(half) - gammaln(freedom / 2.0) - 0.5 * log(freedom * math.pi)
    return factor - log(width) - half * log1p(z * z / freedom)


def pdf(x: AnyArray, df: AnyArray, loc: AnyArray = 0.0, scale: AnyArray = 1.0) -> Array:
    """The density at x.

    >>> round(nnc.scipy.stats.t.pdf(1.0, 2.0).item(), 4)
    0.1925
    """
    return exp(logpdf(x, df, loc, scale))
