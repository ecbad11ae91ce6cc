"""NumPy's generators on keys: `rng = nnc.random.default_rng(0); rng.normal(size=3); rng.integers(10, size=(2, 4))`.

    draw n of a generator is that of the key fold_in(key(seed), n)

A generator is for eager code: it counts its draws. In a compiled function the count of its first call would stay.
"""

from __future__ import annotations

from itertools import count
from typing import Any

import numpy as np

from nnc.arguments import shown
from nnc.core.precautions.origin import caller_origin
from nnc.core.values.dtype import F32, I64, AnyDType
from nnc.dynamic.transforms.randomness import SEEDS, next_counter
from nnc.dynamic.variable import Variable
from nnc.errors import ArgumentError, AttributeValueError, ShapeError
from nnc.numerics import draws
from nnc.numerics.conversion import AnyArray, Array, Sizes, as_array
from nnc.numerics.numpy_names.hosted import hosted


class RandomGenerator:
    """Draws of a seed, one after another; of no seed other ones each time."""

    def __init__(self, seed: int | None = None) -> None:
        self._key = draws.key(int(next_counter()) % SEEDS if seed is None else seed)
        # A step of a counter is one that no other thread divides.
        self._numbers = count()

    def _next(self) -> Array:
        return draws.fold_in(self._key, next(self._numbers))

    def random(self, size: Sizes = (), dtype: AnyDType = F32) -> Array:
        """Numbers in [0, 1)."""
        return draws.uniform(size, dtype=dtype, key=self._next())

    def uniform(self, low: float = 0.0, high: float = 1.0, size: Sizes = ()) -> Array:
        """Numbers in [low, high)."""
        return draws.uniform(size, low, high, key=self._next())

    def normal(self, loc: float = 0.0, scale: float = 1.0, size: Sizes = ()) -> Array:
        """Normally distributed numbers of this mean and deviation."""
        return draws.normal(size, loc, scale, key=self._next())

    def standard_normal(self, size: Sizes = (), dtype: AnyDType = F32) -> Array:
        """Normally distributed numbers of mean 0 and deviation 1."""
        return draws.normal(size, dtype=dtype, key=self._next())

    def exponential(self, scale: float = 1.0, size: Sizes = ()) -> Array:
        """-scale · ln(1 - u)"""
        return draws.exponential(size, scale, key=self._next())

    def integers(
        self, low: int, high: int | None = None, size: Sizes = (), dtype: AnyDType = I64, endpoint: bool = False
    ) -> Array:
        """Integers of [low, high), or of [0, low); with `endpoint` also the end."""
        first, end = (0, low) if high is None else (low, high)
        return draws.randint(low=first, high=end + endpoint, shape=size, dtype=dtype, key=self._next())

    def choice(self, a: int | AnyArray, size: Sizes = (), replace: bool = True, p: AnyArray | None = None) -> Array:
        """Numbers below a, or rows of it, by chance."""
        return draws.choice(a, shape=size, replace=replace, p=p, key=self._next())

    def permutation(self, x: int | AnyArray, axis: int = 0) -> Array:
        """The numbers below x, or its rows, in another order."""
        return draws.permutation(x, key=self._next(), axis=axis)

    def shuffle(self, x: Any) -> None:  # noqa: ANN401  # an array, or a list
        """Put the rows of an array, or what a list has, into another order in place."""
        if not isinstance(x, Variable | list | np.ndarray):
            raise ArgumentError("shuffle", got=f"x={shown(x)}", need="an array or a list", origin=caller_origin())
        if isinstance(x, Variable) and not x.ndim:
            raise ShapeError("shuffle", got=str(x.spec), need="an axis", origin=caller_origin())
        order = self.permutation(len(x))
        if isinstance(x, list):
            x[:] = [x[place] for place in order.tolist()]
        elif isinstance(x, np.ndarray):
            x[...] = x[order.cpu().numpy()]
        else:
            x[...] = x[order]

    # ---- on the host, by NumPy's generator of the key: their results are constants

    def gamma(self, shape: Any, scale: Any = 1.0, size: Sizes | None = None) -> Array:  # noqa: ANN401  # numbers or arrays
        """p(x) ∝ x^(shape - 1) · e^(-x / scale)"""
        return self._hosted("gamma", shape, scale, size)

    def beta(self, a: Any, b: Any, size: Sizes | None = None) -> Array:  # noqa: ANN401  # as above
        """p(x) ∝ x^(a - 1) · (1 - x)^(b - 1)"""
        return self._hosted("beta", a, b, size)

    def poisson(self, lam: Any = 1.0, size: Sizes | None = None) -> Array:  # noqa: ANN401  # as above
        """p(k) = lam^k · e^(-lam) / k!"""
        return self._hosted("poisson", lam, size)

    def binomial(self, n: Any, p: Any, size: Sizes | None = None) -> Array:  # noqa: ANN401  # as above
        """How many of n trials succeed, each with probability p."""
        return self._hosted("binomial", n, p, size)

    def dirichlet(self, alpha: AnyArray, size: Sizes | None = None) -> Array:
        """p(x) ∝ Π x_k^(alpha_k - 1), of x that sum to 1."""
        return self._hosted("dirichlet", alpha, size)

    def multivariate_normal(self, mean: AnyArray, cov: AnyArray, size: Sizes | None = None) -> Array:
        """Normally distributed rows of this mean and covariance."""
        return self._hosted("multivariate_normal", mean, cov, size, "raise")

    def _hosted(self, name: str, *args: object) -> Array:
        numbers = np.random.default_rng(abs(int(self._next().item())))
        try:
            return as_array(hosted(getattr(numbers, name), name=name)(*args))
        except MemoryError:
            got, need = "a size of more", "as many as memory holds"
            raise ArgumentError(name, got=got, need=need, origin=caller_origin()) from None


class RandomState(RandomGenerator):
    """NumPy's older generator: `randn`, `rand`, `randint`, `random_sample` beside what `default_rng` gives.

    >>> rng = nnc.random.RandomState(0)
    >>> rng.randn(2, 3).shape, rng.randint(0, 10, size=4).shape, rng.rand().shape
    ((2, 3), (4,), ())
    """

    def rand(self, *sizes: int) -> Array:
        """Numbers in [0, 1)."""
        return self.random(sizes)

    def randn(self, *sizes: int) -> Array:
        """Normally distributed numbers of mean 0 and deviation 1."""
        return self.standard_normal(sizes)

    def random_sample(self, size: Sizes = ()) -> Array:
        """Numbers in [0, 1)."""
        return self.random(size)

    def randint(self, low: int, high: int | None = None, size: Sizes = (), dtype: AnyDType = I64) -> Array:
        """Integers of [low, high), or of [0, low)."""
        return self.integers(low, high, size, dtype)

    def seed(self, seed: int | None = None) -> None:
        """Begin anew with this seed."""
        RandomGenerator.__init__(self, seed)


def default_rng(seed: int | None = None) -> RandomGenerator:
    """A generator of its own, which draws the same numbers for the same seed."""
    if seed is not None and not -(1 << 63) <= seed < 1 << 63:
        raise AttributeValueError("default_rng", got="a seed of more bits", need="an integer of 64 bits")
    return RandomGenerator(None if seed is None else int(seed))


class Generator:
    """PyTorch's source of random numbers: `nnc.randn(3, generator=nnc.Generator().manual_seed(0))`, loaders and splits.

    >>> nnc.Generator().manual_seed(3).initial_seed()
    3
    """

    def __init__(self, device: str = "cpu") -> None:
        self.manual_seed(int(next_counter()) % SEEDS)

    def manual_seed(self, seed: int) -> Generator:
        """Begin anew with this seed."""
        self._seed, self.numpy = int(seed), np.random.default_rng(int(seed))
        # A step of a counter is one that no other thread divides.
        self._numbers = count()
        return self

    def next_key(self) -> Array:
        """The key of its next draw: draw n has `fold_in(key(seed), n)`."""
        return draws.fold_in(draws.key(self._seed % SEEDS), next(self._numbers))

    def initial_seed(self) -> int:
        """The seed that it began with."""
        return self._seed


def drawing(generator: Generator | None) -> np.random.Generator:
    """NumPy's generator of it; a new one by `nnc.seed` where there is none."""
    return np.random.default_rng(int(next_counter())) if generator is None else generator.numpy
