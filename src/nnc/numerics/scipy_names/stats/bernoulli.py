"""The distribution of a number k - loc that is 1 with the probability p, else 0.

pmf(1) = p, pmf(0) = 1 - p
"""

from __future__ import annotations

from nnc.numerics.conversion import AnyArray, Array, floats
from nnc.numerics.elementwise import exp, logical_or, xlogy
from nnc.numerics.scipy_names.special import xlog1py
from nnc.numerics.scipy_names.stats.standard import within

__all__ = ["logpmf", "pmf"]


def logpmf(k: AnyArray, p: AnyArray, loc: AnyArray = 0) -> Array:
    """ln pmf(k)

    >>> nnc.scipy.stats.bernoulli.logpmf([0, 1], 0.25).tolist()
    [-0.28768208622932434, -1.3862943649291992]
    """
    count, share, start = floats(k, p, loc)
    count = count - start
    return within(logical_or(count == 0.0, count == 1.0), xlogy(count, share) + xlog1py(1.0 - count, -share))


def pmf(k: AnyArray, p: AnyArray, loc: AnyArray = 0) -> Array:
    """The probability of k.

    >>> round(nnc.scipy.stats.bernoulli.pmf(1, 0.25).item(), 4)
    0.25
    """
    return exp(logpmf(k, p, loc))
