"""Distributions as PyTorch has them, of differentiable parameters: `Normal(mean, std).log_prob(x)`.

    policy = nnc.distributions.Categorical(logits=net(state))
    action = policy.sample()
    loss = -policy.log_prob(action) * reward

`sample` draws without a gradient, `rsample` (of `Normal`, `Uniform`, `Exponential`, `Laplace`) with one. Shapes are
[*sample_shape, *batch_shape], and parameters are repeated to one shape. Draws go by `nnc.manual_seed`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nnc import numerics as xp
from nnc.arguments import explained
from nnc.core.precautions.origin import caller_origin
from nnc.core.values.dtype import I64
from nnc.dynamic.eager import no_grad
from nnc.errors import ArgumentError
from nnc.nn.modules.nested_values import PassedOn
from nnc.numerics.conversion import AnyArray, Array, as_array
from nnc.numerics.scipy_names.special import HALF_LOG_TWO_PI

__all__ = [
    "Bernoulli", "Categorical", "Distribution", "Exponential", "Independent", "Laplace", "Normal", "Uniform",
    "kl_divergence",
]  # fmt: skip

Sizes = tuple[int, ...] | list[int]


def _floats(*values: AnyArray) -> list[Array]:
    """Parameters as floats of one shape."""
    arrays = [as_array(value) for value in values]
    arrays = [array if array.dtype.is_continuous else array.float() for array in arrays]
    return xp.broadcast_arrays(*arrays)


class Distribution(PassedOn):
    """What all have: `sample`, `log_prob`, `entropy`, `mean`, `variance`, `stddev`.

    >>> isinstance(nnc.distributions.Normal(0.0, 1.0), nnc.distributions.Distribution)
    True
    """

    batch_shape: tuple[int, ...] = ()
    event_shape: tuple[int, ...] = ()
    mean: Array
    variance: Array

    @property
    def stddev(self) -> Array:
        """The square root of the variance."""
        return xp.sqrt(self.variance)

    def rsample(self, sample_shape: Sizes = ()) -> Array:
        """Draws through which gradients flow to the parameters."""
        kind = type(self).__name__
        need = "a distribution of continuous values"
        raise ArgumentError(f"{kind}.rsample", got=kind, need=need, fix="sample(), log_prob()", origin=caller_origin())

    def sample(self, sample_shape: Sizes = ()) -> Array:
        """Draws, without a gradient."""
        with no_grad():
            return self.rsample(sample_shape)

    def log_prob(self, value: AnyArray) -> Array:
        """The logarithm of the density, or of the probability, of these values."""
        raise NotImplementedError

    def entropy(self) -> Array:
        """-E[log p]."""
        raise NotImplementedError

    def _wide(self, sample_shape: Sizes) -> tuple[int, ...]:
        return (*sample_shape, *self.batch_shape, *self.event_shape)


class _Shifted(Distribution):
    """What is drawn around `loc`, as far as `scale` says."""

    def __init__(self, loc: AnyArray, scale: AnyArray) -> None:
        self.loc, self.scale = _floats(loc, scale)
        self.batch_shape = self.loc.shape

    @property
    def mean(self) -> Array:  # type: ignore[override]  # of the parameters
        """loc"""
        return self.loc


@explained
class Normal(_Shifted):
    """log p(x) = -(x - loc)² / 2 scale² - ln scale - ½ ln 2π

    >>> nnc.distributions.Normal(0.0, 1.0).log_prob(0.0).item()
    -0.9189385175704956
    """

    @property
    def variance(self) -> Array:  # type: ignore[override]  # of the parameters
        """scale²"""
        return self.scale * self.scale

    def rsample(self, sample_shape: Sizes = ()) -> Array:
        """loc + scale · ε"""
        return self.loc + self.scale * xp.randn(*self._wide(sample_shape))

    def log_prob(self, value: AnyArray) -> Array:
        distance = (as_array(value) - self.loc) / self.scale
        return distance * distance * -0.5 - xp.log(self.scale) - HALF_LOG_TWO_PI

    def entropy(self) -> Array:
        return xp.log(self.scale) + (0.5 + HALF_LOG_TWO_PI)

    def cdf(self, value: AnyArray) -> Array:
        """The probability of less."""
        return (xp.erf((as_array(value) - self.loc) / (self.scale * math.sqrt(2.0))) + 1.0) * 0.5


@explained
class Laplace(_Shifted):
    """log p(x) = -|x - loc| / scale - ln 2 scale

    >>> nnc.distributions.Laplace(0.0, 1.0).log_prob(0.0).item()
    -0.6931471824645996
    """

    @property
    def variance(self) -> Array:  # type: ignore[override]  # of the parameters
        """2 scale²"""
        return self.scale * self.scale * 2.0

    def rsample(self, sample_shape: Sizes = ()) -> Array:
        """loc - scale · sign(u) · ln(1 - 2 |u|), u uniform in -½..½"""
        u = xp.rand(*self._wide(sample_shape)) - 0.5
        return self.loc - self.scale * xp.sign(u) * xp.log1p(xp.abs(u) * -2.0)

    def log_prob(self, value: AnyArray) -> Array:
        return -xp.abs(as_array(value) - self.loc) / self.scale - xp.log(self.scale * 2.0)

    def entropy(self) -> Array:
        return xp.log(self.scale * 2.0) + 1.0


@explained
class Uniform(Distribution):
    """log p(x) = -ln(high - low) between low and high, -∞ elsewhere

    >>> nnc.distributions.Uniform(0.0, 2.0).log_prob(1.0).item()
    -0.6931471824645996
    """

    def __init__(self, low: AnyArray, high: AnyArray) -> None:
        self.low, self.high = _floats(low, high)
        self.batch_shape = self.low.shape

    @property
    def mean(self) -> Array:  # type: ignore[override]  # of the parameters
        """(low + high) / 2"""
        return (self.low + self.high) * 0.5

    @property
    def variance(self) -> Array:  # type: ignore[override]  # of the parameters
        """(high - low)² / 12"""
        return (self.high - self.low) ** 2 / 12.0

    def rsample(self, sample_shape: Sizes = ()) -> Array:
        """low + u · (high - low)"""
        return self.low + xp.rand(*self._wide(sample_shape)) * (self.high - self.low)

    def log_prob(self, value: AnyArray) -> Array:
        x = as_array(value)
        inside = (x >= self.low) & (x < self.high)
        return xp.where(inside, -xp.log(self.high - self.low), -math.inf)

    def entropy(self) -> Array:
        return xp.log(self.high - self.low)


@explained
class Exponential(Distribution):
    """log p(x) = ln rate - rate · x

    >>> nnc.distributions.Exponential(2.0).mean.item()
    0.5
    """

    def __init__(self, rate: AnyArray) -> None:
        (self.rate,) = _floats(rate)
        self.batch_shape = self.rate.shape

    @property
    def mean(self) -> Array:  # type: ignore[override]  # of the parameters
        """1 / rate"""
        return 1.0 / self.rate

    @property
    def variance(self) -> Array:  # type: ignore[override]  # of the parameters
        """1 / rate²"""
        return 1.0 / (self.rate * self.rate)

    def rsample(self, sample_shape: Sizes = ()) -> Array:
        """-ln(1 - u) / rate"""
        return -xp.log1p(-xp.rand(*self._wide(sample_shape))) / self.rate

    def log_prob(self, value: AnyArray) -> Array:
        return xp.log(self.rate) - self.rate * as_array(value)

    def entropy(self) -> Array:
        return 1.0 - xp.log(self.rate)


@explained
class Bernoulli(Distribution):
    """1 with probability p, of `probs` or `logits` ln(p / (1 - p)), else 0

    >>> nnc.distributions.Bernoulli(probs=0.5).log_prob(1.0).item()
    -0.6931471824645996
    """

    def __init__(self, probs: AnyArray | None = None, logits: AnyArray | None = None) -> None:
        _one_of("Bernoulli", probs, logits)
        given: Any = probs if logits is None else logits
        (self.given,) = _floats(given)
        self.from_logits = logits is not None
        self.batch_shape = self.given.shape

    @property
    def probs(self) -> Array:
        """The probability of 1."""
        return xp.sigmoid(self.given) if self.from_logits else self.given

    @property
    def logits(self) -> Array:
        """ln(p / (1 - p))"""
        return self.given if self.from_logits else xp.logit(self.given.clip(1e-7, 1.0 - 1e-7))

    @property
    def mean(self) -> Array:  # type: ignore[override]  # of the parameters
        """p"""
        return self.probs

    @property
    def variance(self) -> Array:  # type: ignore[override]  # of the parameters
        """p (1 - p)"""
        return self.probs * (1.0 - self.probs)

    def sample(self, sample_shape: Sizes = ()) -> Array:
        """Zeros and ones."""
        with no_grad():
            probs = self.probs.detach()
            return (xp.rand(*self._wide(sample_shape)) < probs).astype(probs.dtype)

    def log_prob(self, value: AnyArray) -> Array:
        logits = self.logits
        return as_array(value) * logits - xp.softplus(logits)

    def entropy(self) -> Array:
        return xp.softplus(self.logits) - self.probs * self.logits


@explained
class Categorical(Distribution):
    """Places 0..n-1 along the last axis, of `probs`, which are divided by their sum, or of `logits`

    >>> nnc.distributions.Categorical(probs=[1.0, 3.0]).log_prob(1).exp().item()
    0.75
    """

    def __init__(self, probs: AnyArray | None = None, logits: AnyArray | None = None) -> None:
        _one_of("Categorical", probs, logits)
        if logits is not None:
            self.logits = xp.log_softmax(_floats(logits)[0], -1)
        else:
            given = _floats(probs)[0]  # type: ignore[arg-type]  # one of them is given
            self.logits = xp.log((given / given.sum(-1, keepdims=True)).clip(1e-38, 1.0))
        self.batch_shape = self.logits.shape[:-1]

    @property
    def probs(self) -> Array:
        """Their probabilities."""
        return xp.exp(self.logits)

    def sample(self, sample_shape: Sizes = ()) -> Array:
        """Places, as integers."""
        with no_grad():
            noise = xp.rand(*sample_shape, *self.logits.shape).clip(1e-20, 1.0)
            return (self.logits.detach() - xp.log(-xp.log(noise))).argmax(-1)

    def log_prob(self, value: AnyArray) -> Array:
        places = as_array(value).astype(I64)
        shape = np.broadcast_shapes(places.shape, self.batch_shape)
        logits = xp.broadcast_to(self.logits, (*shape, self.logits.shape[-1]))
        return xp.take_along_axis(logits, xp.broadcast_to(places, shape).expand_dims(-1), -1).squeeze(-1)

    def entropy(self) -> Array:
        return -(self.probs * self.logits).sum(-1)


@explained
class Independent(Distribution):
    """The last axes of another's batch as one event: log-probabilities and entropies are summed over them.

    >>> base = nnc.distributions.Normal(nnc.zeros(3), nnc.ones(3))
    >>> nnc.distributions.Independent(base, 1).log_prob(nnc.zeros(3)).shape
    ()
    """

    def __init__(self, base_distribution: Distribution, reinterpreted_batch_ndims: int) -> None:
        rank, count = len(base_distribution.batch_shape), reinterpreted_batch_ndims
        if not 0 <= count <= rank:
            raise ArgumentError("Independent", got=f"{count} axes of {rank}", need="at most those of the batch")
        self.base_dist, self.count = base_distribution, count
        self.batch_shape = base_distribution.batch_shape[: rank - count]
        self.event_shape = base_distribution.batch_shape[rank - count :]

    @property
    def mean(self) -> Array:  # type: ignore[override]  # of the parameters
        """That of the other."""
        return self.base_dist.mean

    @property
    def variance(self) -> Array:  # type: ignore[override]  # of the parameters
        """That of the other."""
        return self.base_dist.variance

    def rsample(self, sample_shape: Sizes = ()) -> Array:
        """Draws of the other."""
        return self.base_dist.rsample(sample_shape)

    def sample(self, sample_shape: Sizes = ()) -> Array:
        """Draws of the other."""
        return self.base_dist.sample(sample_shape)

    def log_prob(self, value: AnyArray) -> Array:
        return self._summed(self.base_dist.log_prob(value))

    def entropy(self) -> Array:
        return self._summed(self.base_dist.entropy())

    def _summed(self, x: Array) -> Array:
        return x.sum(tuple(range(-self.count, 0))) if self.count else x


def _one_of(subject: str, probs: Any, logits: Any) -> None:  # noqa: ANN401  # arrays, numbers, lists
    if (probs is None) == (logits is None):
        got = "neither" if probs is None else "probs and logits"
        raise ArgumentError(subject, got=got, need="one of probs, logits", origin=caller_origin())


def kl_divergence(p: Distribution, q: Distribution) -> Array:
    """∫ p ln(p / q), of two normal, Bernoulli or categorical distributions, or independent ones of those.

    >>> normal = nnc.distributions.Normal
    >>> nnc.distributions.kl_divergence(normal(1.0, 1.0), normal(0.0, 1.0)).item()
    0.5
    """
    if isinstance(p, Independent) and isinstance(q, Independent) and p.count == q.count:
        return p._summed(kl_divergence(p.base_dist, q.base_dist))
    if isinstance(p, Normal) and isinstance(q, Normal):
        ratio = (p.scale / q.scale) ** 2
        return (ratio + ((p.loc - q.loc) / q.scale) ** 2 - 1.0 - xp.log(ratio)) * 0.5
    if isinstance(p, Categorical) and isinstance(q, Categorical):
        return (p.probs * (p.logits - q.logits)).sum(-1)
    if isinstance(p, Bernoulli) and isinstance(q, Bernoulli):
        return p.probs * (p.logits - q.logits) + xp.softplus(q.logits) - xp.softplus(p.logits)
    got = f"{type(p).__name__} and {type(q).__name__}"
    fix = "(p.log_prob(x) - q.log_prob(x)).mean() of x = p.sample((1000,))"
    raise ArgumentError("kl_divergence", got=got, need="two of one kind", fix=fix, origin=caller_origin())
