"""Random numbers under the names of MLX, JAX, NumPy and PyTorch: `nnc.numerics.draws`, and NumPy's generators."""

from typing import TYPE_CHECKING, NoReturn

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
from nnc.vocabulary.answers import unknown_name
from nnc.vocabulary.names import RANDOM

__all__ = [
    "RandomGenerator", "RandomState", "PRNGKey", "bernoulli", "categorical", "choice", "default_rng", "dropout",
    "exponential", "fold_in", "gumbel", "key", "laplace", "multivariate_normal", "normal", "permutation", "rand",
    "rand_like", "randint", "randn", "randn_like", "random", "seed", "split", "standard_normal", "truncated_normal",
    "uniform",
]  # fmt: skip


if not TYPE_CHECKING:
    # A type checker goes by what there is.
    def __getattr__(name: str) -> NoReturn:
        raise unknown_name("module 'nnc.random'", name, RANDOM, lambda: __all__, "nnc.random.")
