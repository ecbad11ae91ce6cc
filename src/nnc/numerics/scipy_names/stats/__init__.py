"""Distributions as `jax.scipy.stats` has them, a module each: `norm.logpdf(x, loc, scale)`, `poisson.logpmf(k, mu)`."""

from nnc.numerics.scipy_names.stats import bernoulli as bernoulli
from nnc.numerics.scipy_names.stats import beta as beta
from nnc.numerics.scipy_names.stats import expon as expon
from nnc.numerics.scipy_names.stats import gamma as gamma
from nnc.numerics.scipy_names.stats import laplace as laplace
from nnc.numerics.scipy_names.stats import multivariate_normal as multivariate_normal
from nnc.numerics.scipy_names.stats import norm as norm
from nnc.numerics.scipy_names.stats import poisson as poisson
from nnc.numerics.scipy_names.stats import t as t
from nnc.numerics.scipy_names.stats import uniform as uniform
