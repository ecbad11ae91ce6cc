"""Random numbers under the names of MLX, JAX, NumPy and PyTorch: `nnc.numerics.draws`, and NumPy's generators."""

from nnc.numerics.draws import (
    PRNGKey,
    bernoulli,
    categorical,
    choice,
    dropout,
    exponential,
    fold_in,
    gumbel,
    key,
    laplace,
    multivariate_normal,
    normal,
    permutation,
    rand,
    rand_like,
    randint,
    randn,
    randn_like,
    random,
    seed,
    split,
    standard_normal,
    uniform,
)
from nnc.numerics.generator import RandomGenerator, RandomState, default_rng
from nnc.numerics.truncated import truncated_normal

__all__ = [
    "RandomGenerator", "RandomState", "PRNGKey", "bernoulli", "categorical", "choice", "default_rng", "dropout",
    "exponential", "fold_in", "gumbel", "key", "laplace", "multivariate_normal", "normal", "permutation", "rand",
    "rand_like", "randint", "randn", "randn_like", "random", "seed", "split", "standard_normal", "truncated_normal",
    "uniform",
]  # fmt: skip
