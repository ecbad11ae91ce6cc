"""Special functions of each element, as `scipy.special`, `jax.scipy.special` and `torch.special` name them.

    gammaln(x)        `lgamma` in PyTorch         digamma(x), beta(a, b), ndtr(x), entr(p), rel_entr(p, q), zeta(s, q)

What is no operator is computed in f64 by its series and rounded to the element type of its operands; gradients are
those of the series.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Annotated

from nnc import ops
from nnc.arguments import Range, checked
from nnc.array_api import elementwise as standard
from nnc.core.values.dtype import F64
from nnc.dynamic.arrays.promotion import continuous
from nnc.errors import DTypeError
from nnc.numerics.conversion import AnyArray, Array, Axes, as_array, floats, pair
from nnc.numerics.elementwise import erf as erf
from nnc.numerics.elementwise import erfc as erfc
from nnc.numerics.elementwise import erfinv as erfinv
from nnc.numerics.elementwise import exp2 as exp2
from nnc.numerics.elementwise import expm1 as expm1
from nnc.numerics.elementwise import log1p as log1p
from nnc.numerics.elementwise import logit as logit
from nnc.numerics.elementwise import sigmoid as expit
from nnc.numerics.elementwise import sinc as sinc
from nnc.numerics.elementwise import xlogy as xlogy

__all__ = [
    "beta", "betaln", "digamma", "entr", "erf", "erfc", "erfinv", "exp2", "expit", "expm1", "factorial", "gamma",
    "gammaln", "kl_div", "log1p", "log_ndtr", "log_softmax", "logit", "logsumexp", "multigammaln", "ndtr", "ndtri",
    "polygamma", "psi", "rel_entr", "sinc", "softmax", "xlog1py", "xlogy", "zeta",
]  # fmt: skip

# So many steps bring an argument where series of its inverse end quickly.
SHIFT = 8
# B₂ₖ for k = 1, 2, …: Bernoulli's numbers.
BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)
HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)
# Below it the tail of the normal distribution is taken by its asymptotic series.
TAIL = -20.0

Series = Callable[..., Array]
Dimensions = Annotated[int, Range(1, 1000)]
Order = Annotated[int, Range(0, 100)]


def _wide(series: Series) -> Series:
    """The function computed in f64 of operands that meet, rounded to their element type; integers are f32."""

    @wraps(series)
    def call(x: AnyArray, *others: AnyArray) -> Array:
        given = floats(x, *others)
        home = given[-1].dtype
        if not home.is_float:
            raise DTypeError(series.__name__, got=str(home), need="real numbers", fix="nnc.real(x)")
        return ops.cast(series(*(ops.cast(each, F64) for each in given)), home)

    return call


def _like(x: Array, value: float) -> Array:
    return ops.scalar_like(x, value)


def _powers(z: Array, factors: tuple[float, ...]) -> Array:
    """Σ factors[k] · z^-2k"""
    inverse = ops.reciprocal(ops.square(z))
    total = ops.fill_like(z, factors[-1])
    for factor in reversed(factors[:-1]):
        total = total * inverse + factor
    return total


def _reflected(x: Array) -> tuple[Array, Array, Array]:
    """Whether x lies below 1/2; 1 - x there, else x; and the distance of x to the nearest integer there, else 1/2."""
    below = ops.less(x, _like(x, 0.5))
    away = x - ops.stop_gradient(standard.round(x))
    return below, ops.where(below, 1.0 - x, x), ops.where(below, away, ops.fill_like(x, 0.5))


@_wide
def gammaln(x: Array) -> Array:
    """ln |Γ(x)|, by Stirling's series; ∞ at 0, -1, -2, …

    >>> nnc.special.gammaln([1.0, 5.0])
    Variable(f32[2], constant)
    [0.     3.1781]
    """
    below, y, away = _reflected(x)
    small = ops.less(y, _like(y, float(SHIFT)))
    z = ops.where(small, y + float(SHIFT), y)
    product = ops.where(small, y, ops.fill_like(y, 1.0))
    for step in range(1, SHIFT):
        product = product * ops.where(small, y + float(step), ops.fill_like(y, 1.0))
    factors = tuple(value / ((2 * k + 2) * (2 * k + 1)) for k, value in enumerate(BERNOULLI))
    above = (z - 0.5) * ops.log(z) - z + HALF_LOG_TWO_PI + _powers(z, factors) / z - ops.log(product)
    above = ops.where(ops.equal(z, _like(z, math.inf)), z, above)
    mirrored = math.log(math.pi) - ops.log(ops.abs(ops.sin(away * math.pi))) - above
    return ops.where(below, mirrored, above)


@_wide
def digamma(x: Array) -> Array:
    """Γ'(x) / Γ(x), the slope of `gammaln`; nan at -1, -2, … and -∞ at 0.

    >>> nnc.special.digamma([1.0])
    Variable(f32[1], constant)
    [-0.5772]
    """
    below, y, away = _reflected(x)
    z = y + float(SHIFT)
    factors = tuple(value / (2 * k + 2) for k, value in enumerate(BERNOULLI))
    above = ops.log(z) - 0.5 / z - _powers(z, factors) / ops.square(z)
    for step in range(SHIFT):
        above = above - ops.reciprocal(y + float(step))
    pole = ops.equal(away, _like(away, 0.0))
    safe = ops.where(pole, ops.fill_like(away, 0.25), away)
    mirrored = above - math.pi * ops.cos(safe * math.pi) / ops.sin(safe * math.pi)
    at_pole = ops.where(ops.equal(x, _like(x, 0.0)), ops.fill_like(x, -math.inf), ops.fill_like(x, math.nan))
    return ops.where(below, ops.where(pole, at_pole, mirrored), above)


@_wide
def gamma(x: Array) -> Array:
    """Γ(x), (x - 1)! of integers; nan at -1, -2, …

    >>> nnc.special.gamma([5.0])
    Variable(f32[1], constant)
    [24.]
    """
    size = ops.exp(gammaln(x))
    whole = ops.floor(x)
    negative = ops.less(x, _like(x, 0.0))
    odd = ops.equal(whole - 2.0 * ops.floor(whole * 0.5), _like(x, 1.0))
    signed = ops.where(ops.logical_and(negative, odd), -size, size)
    return ops.where(ops.logical_and(negative, ops.equal(whole, x)), ops.fill_like(x, math.nan), signed)


def factorial(n: AnyArray) -> Array:
    """n! = Γ(n + 1); 0 of negative numbers.

    >>> nnc.special.factorial([3.0, 5.0]).tolist()
    [6.0, 120.0]
    """
    x = continuous(as_array(n))
    negative = ops.less(x, _like(x, 0.0))
    return ops.where(negative, ops.fill_like(x, 0.0), gamma(ops.where(negative, ops.fill_like(x, 0.0), x) + 1.0))


@_wide
def betaln(a: Array, b: Array) -> Array:
    """ln B(a, b) = ln Γ(a) + ln Γ(b) - ln Γ(a + b)

    >>> nnc.special.betaln(1.0, 2.0)
    Variable(f32[], constant)
    -0.6931471824645996
    """
    return gammaln(a) + gammaln(b) - gammaln(a + b)


@_wide
def beta(a: Array, b: Array) -> Array:
    """B(a, b) = Γ(a) Γ(b) / Γ(a + b)

    >>> nnc.special.beta(2.0, 2.0)
    Variable(f32[], constant)
    0.1666666716337204
    """
    return gamma(a) * gamma(b) / gamma(a + b)


@checked
def multigammaln(a: AnyArray, d: Dimensions) -> Array:
    """ln of Γ over d dimensions: d (d - 1) / 4 · ln π + Σ ln Γ(a - j / 2), j of 0 to d - 1.

    >>> nnc.special.multigammaln(3.0, 2)
    Variable(f32[], constant)
    1.5501949787139893
    """
    x = continuous(as_array(a))
    total = gammaln(x) + d * (d - 1) / 4.0 * math.log(math.pi)
    for j in range(1, d):
        total = total + gammaln(x - j / 2.0)
    return total


@_wide
def zeta(x: Array, q: Array) -> Array:
    """ζ(x, q) = Σ (q + k)^-x of k = 0, 1, …, for x > 1 and q > 0; nan elsewhere.

    >>> nnc.special.zeta(2.0, 1.0)
    Variable(f32[], constant)
    1.6449340581893921
    """
    inside = ops.logical_and(ops.greater(x, _like(x, 1.0)), ops.greater(q, _like(q, 0.0)))
    s, first = ops.where(inside, x, ops.fill_like(x, 2.0)), ops.where(inside, q, ops.fill_like(q, 1.0))
    total = ops.fill_like(s, 0.0)
    steps = 2 * SHIFT
    for step in range(steps):
        total = total + ops.power(first + float(step), -s)
    z = first + float(steps)
    tail = ops.power(z, 1.0 - s) / (s - 1.0) + 0.5 * ops.power(z, -s)
    term = s * ops.power(z, -s - 1.0)
    for k, value in enumerate(BERNOULLI):
        tail = tail + term * (value / math.factorial(2 * k + 2))
        term = term * (s + (2.0 * k + 1.0)) * (s + (2.0 * k + 2.0)) / ops.square(z)
    return ops.where(inside, total + tail, ops.fill_like(x, math.nan))


@checked
def polygamma(n: Order, x: AnyArray) -> Array:
    """The n-th derivative of `digamma`: (-1)^(n + 1) n! ζ(n + 1, x) for n ≥ 1, of x > 0.

    >>> nnc.special.polygamma(1, [1.0])
    Variable(f32[1], constant)
    [1.6449]
    """
    if n == 0:
        return digamma(x)
    given = continuous(as_array(x))
    sign = math.copysign(1.0, n % 2 - 0.5)
    return zeta(ops.fill_like(given, float(n + 1)), given) * (sign * math.exp(math.lgamma(n + 1.0)))


# ---- the normal distribution


@_wide
def ndtr(x: Array) -> Array:
    """The share of the normal distribution below x.

    >>> nnc.special.ndtr([0.0, 1.96])
    Variable(f32[2], constant)
    [0.5   0.975]
    """
    return 0.5 * ops.erfc(x * -math.sqrt(0.5))


@_wide
def log_ndtr(x: Array) -> Array:
    """ln of `ndtr`, also far below, where that is 0.

    >>> nnc.special.log_ndtr([0.0, -50.0])
    Variable(f32[2], constant)
    [-6.9315e-01 -1.2548e+03]
    """
    far, high = ops.less(x, _like(x, TAIL)), ops.greater(x, _like(x, 0.0))
    near = ops.where(far, ops.fill_like(x, -1.0), x)
    above = ops.log1p(-0.5 * ops.erfc(ops.where(high, near, ops.fill_like(x, 1.0)) * math.sqrt(0.5)))
    middle = ops.log(0.5 * ops.erfc(ops.where(high, ops.fill_like(x, -1.0), near) * -math.sqrt(0.5)))
    tail = ops.where(far, x, ops.fill_like(x, TAIL))
    rest = _powers(tail, (1.0, -1.0, 3.0, -15.0, 105.0, -945.0, 10395.0))
    below = ops.log(rest) - 0.5 * ops.square(tail) - ops.log(-tail) - HALF_LOG_TWO_PI
    return ops.where(far, below, ops.where(high, above, middle))


@_wide
def ndtri(p: Array) -> Array:
    """x with ndtr(x) = p: `erfinv`, and steps of Newton's; ±∞ at 1 and 0.

    >>> nnc.special.ndtri([0.5, 0.975])
    Variable(f32[2], constant)
    [0.   1.96]
    """
    upper = ops.greater(p, _like(p, 0.5))
    rest = ops.where(upper, 1.0 - p, p)
    inside = ops.greater(rest, _like(p, 0.0))
    tail = ops.where(inside, rest, ops.fill_like(p, 0.5))
    # Each step has one more derivative right, whatever the slope of its start.
    x = ops.stop_gradient(erfinv(2.0 * ops.maximum(tail, ops.fill_like(tail, 1e-15)) - 1.0)) * math.sqrt(2.0)
    for _ in range(6):
        share = log_ndtr(x)
        x = x - (share - ops.log(tail)) * ops.exp(share + 0.5 * ops.square(x) + HALF_LOG_TWO_PI)
    edge = ops.where(ops.equal(rest, _like(p, 0.0)), ops.fill_like(p, -math.inf), ops.fill_like(p, math.nan))
    x = ops.where(inside, x, edge)
    return ops.where(upper, -x, x)


# ---- entropies


@_wide
def entr(x: Array) -> Array:
    """-x ln x; 0 at 0 and -∞ below.

    >>> nnc.special.entr([0.0, 1.0, 0.5])
    Variable(f32[3], constant)
    [0.     0.     0.3466]
    """
    below = ops.less(x, _like(x, 0.0))
    return ops.where(below, ops.fill_like(x, -math.inf), -xlogy(x, ops.where(below, ops.fill_like(x, 1.0), x)))


@_wide
def rel_entr(p: Array, q: Array) -> Array:
    """p ln (p / q); 0 where p is 0, and ∞ where either is negative or q is 0.

    >>> nnc.special.rel_entr([0.5, 0.0], [0.25, 0.5])
    Variable(f32[2], constant)
    [0.3466 0.    ]
    """
    zero = _like(p, 0.0)
    both = ops.logical_and(ops.greater(p, zero), ops.greater(q, zero))
    ones = ops.fill_like(p, 1.0)
    inside = p * (ops.log(ops.where(both, p, ones)) - ops.log(ops.where(both, q, ones)))
    nothing = ops.logical_and(ops.equal(p, zero), ops.logical_not(ops.less(q, zero)))
    return ops.where(both, inside, ops.where(nothing, ops.fill_like(p, 0.0), ops.fill_like(p, math.inf)))


@_wide
def kl_div(p: Array, q: Array) -> Array:
    """`rel_entr`(p, q) - p + q

    >>> nnc.special.kl_div([0.5], [0.25])
    Variable(f32[1], constant)
    [0.0966]
    """
    return rel_entr(p, q) - p + q


@_wide
def xlog1py(x: Array, y: Array) -> Array:
    """x ln (1 + y), and 0 where x is 0.

    >>> nnc.special.xlog1py([0.0, 2.0], [-1.0, 1.0])
    Variable(f32[2], constant)
    [0.     1.3863]
    """
    none = ops.equal(x, _like(x, 0.0))
    return x * ops.log1p(ops.where(none, ops.fill_like(y, 0.0), y))


# ---- along axes, of all elements unless they are given, as in SciPy


def logsumexp(a: AnyArray, axis: Axes = None, b: AnyArray | None = None, keepdims: bool = False) -> Array:
    """ln Σ b · e^a over the axes.

    >>> nnc.special.logsumexp([0.0, 0.0], b=[1.0, 3.0])
    Variable(f32[], constant)
    1.3862943649291992
    """
    x = continuous(as_array(a))
    if b is None:
        return ops.logsumexp(x, axis, keepdims=keepdims)
    scores, weights = pair(x, b)
    largest = ops.stop_gradient(scores.max(axis, keepdims=True))
    total = ops.log((weights * ops.exp(scores - largest)).sum(axis, keepdims=True)) + largest
    return total if keepdims else total.squeeze(axis)


def softmax(x: AnyArray, axis: Axes = None) -> Array:
    """e^x / Σ e^x over the axes.

    >>> nnc.special.softmax([[0.0, 0.0], [0.0, 0.0]]).tolist()
    [[0.25, 0.25], [0.25, 0.25]]
    """
    return ops.exp(log_softmax(x, axis))


def log_softmax(x: AnyArray, axis: Axes = None) -> Array:
    """x - ln Σ e^x over the axes.

    >>> nnc.special.log_softmax([0.0, 0.0])
    Variable(f32[2], constant)
    [-0.6931 -0.6931]
    """
    array = continuous(as_array(x))
    return array - ops.logsumexp(array, axis, keepdims=True)


psi = digamma
