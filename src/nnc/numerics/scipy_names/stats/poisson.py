"""Poisson's distribution of the mean `mu`, from `loc` on.

pmf(k) = mu^k e^-mu / k!
"""

from __future__ import annotations

from nnc.numerics.conversion import AnyArray, Array, floats
from nnc.numerics.elementwise import exp, floor, logical_and, xlogy
from nnc.numerics.order import where
from nnc.numerics.scipy_names.special import gammaln
from nnc.numerics.scipy_names.stats.standard import within

__all__ = ["logpmf", "pmf"]


def logpmf(k: AnyArray, mu: AnyArray, loc: AnyArray = 0) -> Array:
    """ln pmf(k)

    >>> nnc.scipy.stats.poisson.logpmf([0, 2], 1.0).tolist()
    [-1.0, -1.6931471824645996]
    """
    count, mean, start = floats(k, mu, loc)
    count = count - start
    inside = logical_and(count >= 0.0, floor(count) == count)
    safe = where(inside, count, 0.0)
    return within(inside, xlogy(safe, mean) - gammaln(safe + 1.0) - mean)


def pmf(k: AnyArray, mu: AnyArray, loc: AnyArray = 0) -> Array:
    """The probability of k.

    >>> round(nnc.scipy.stats.poisson.pmf(2, 1.0).item(), 4)
    0.1839
    """
    return exp(logpmf(k, mu, loc))
