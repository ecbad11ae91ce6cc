"""How weights begin, under Keras' names; each takes a shape and gives an array.

Fans are Keras': of a kernel [spatial…, in, out] the last two axes, each times the number of spatial places.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nnc.arguments import Finite, Rate, Seed, Size, checked, shown
from nnc.core.values.dtype import F32, DType
from nnc.core.values.spec import check_shape
from nnc.dynamic.transforms.randomness import next_counter
from nnc.errors import ArgumentError, MemoryLimitError
from nnc.keras.named import Remembered, named, snake_case
from nnc.nn.layers import initializers
from nnc.nn.state.generators import generator_for

__all__ = [
    "Constant", "GlorotNormal", "GlorotUniform", "HeNormal", "HeUniform", "Initializer", "LecunNormal", "LecunUniform",
    "Ones", "Orthogonal", "RandomNormal", "RandomUniform", "TruncatedNormal", "VarianceScaling", "Zeros", "get",
]  # fmt: skip

Shape: TypeAlias = Sequence[Size]


def drawn(
    subject: str,
    draw: Callable[[np.random.Generator, tuple[int, ...]], ArrayLike],
    seed: int,
    shape: Shape,
    kind: DType,
) -> NDArray[Any]:
    """What is drawn of a seed's generator, as `kind`; MemoryLimitError where that is too much."""
    sizes = check_shape(shape)
    try:
        with np.errstate(over="ignore"):
            values = np.asarray(draw(generator_for(seed, "keras"), sizes))
            if values.dtype.kind in "biuf":
                return values.astype(kind.numpy, copy=False)
    except (MemoryError, ValueError, OverflowError):
        got, need = f"{sizes}", "an array that this machine can hold, of numbers that f64 has"
        raise MemoryLimitError(subject, got=got, need=need) from None
    raise ArgumentError(subject, got=f"values of {values.dtype}", need="real numbers")


class Initializer(Remembered):
    """`initializer(shape)` is an array: the same of the same `seed`, of none what `nnc.seed` decides."""

    def __init__(self, seed: Seed | None = None) -> None:
        self.seed = seed

    @checked
    def __call__(self, shape: Shape, dtype: Any = None) -> NDArray[np.float32]:
        """Values of this shape."""
        seed = int(next_counter()) if self.seed is None else self.seed
        return drawn(type(self).__name__, self.values, seed, shape, F32)

    def values(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Any:
        """What subclasses draw."""
        raise NotImplementedError


class Zeros(Initializer):
    """All zeros."""

    def values(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Any:
        return np.zeros(shape)


class Ones(Initializer):
    """All ones."""

    def values(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Any:
        return np.ones(shape)


class Constant(Initializer):
    """All of one value."""

    def __init__(self, value: Finite = 0.0) -> None:
        super().__init__()
        self.value = value

    def values(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Any:
        return np.full(shape, self.value)


class RandomNormal(Initializer):
    """Normal of this mean and deviation."""

    def __init__(self, mean: Finite = 0.0, stddev: Rate = 0.05, seed: Seed | None = None) -> None:
        super().__init__(seed)
        self.mean, self.stddev = mean, stddev

    def values(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Any:
        return generator.normal(self.mean, self.stddev, shape)


class TruncatedNormal(RandomNormal):
    """Normal of this mean and deviation, drawn anew beyond two deviations."""

    def values(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Any:
        return self.mean + self.stddev * _within_two(generator, shape)


class RandomUniform(Initializer):
    """Uniform in minval..maxval."""

    def __init__(self, minval: Finite = -0.05, maxval: Finite = 0.05, seed: Seed | None = None) -> None:
        super().__init__(seed)
        self.minval, self.maxval = minval, maxval

    def values(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Any:
        return generator.uniform(self.minval, self.maxval, shape)


class VarianceScaling(Initializer):
    """Of variance scale / n, where n is the fan "fan_in", "fan_out", or their mean, "fan_avg"."""

    def __init__(
        self,
        scale: Rate = 1.0,
        mode: Literal["fan_in", "fan_out", "fan_avg"] = "fan_in",
        distribution: Literal["truncated_normal", "untruncated_normal", "uniform", "normal"] = "truncated_normal",
        seed: Seed | None = None,
    ) -> None:
        super().__init__(seed)
        self.scale, self.mode, self.distribution = scale, mode, distribution

    def values(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Any:
        fan_in, fan_out = fans(shape)
        count = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}[self.mode]
        variance = self.scale / max(1.0, count)
        if self.distribution == "uniform":
            bound = math.sqrt(3.0 * variance)
            return generator.uniform(-bound, bound, shape)
        if self.distribution == "untruncated_normal":
            return generator.normal(0.0, math.sqrt(variance), shape)
        return math.sqrt(variance) / initializers.CUT_DEVIATION * _within_two(generator, shape)


class _Scaled(VarianceScaling):
    way: ClassVar[tuple[Any, ...]]

    def __init_subclass__(cls, of: tuple[float, str, str]) -> None:
        super().__init_subclass__()
        cls.way = of

    def __init__(self, seed: Seed | None = None) -> None:
        scale, mode, distribution = self.way
        super().__init__(scale, mode, distribution, seed)


class GlorotUniform(_Scaled, of=(1.0, "fan_avg", "uniform")):
    """Uniform in ±√(6 / (fan_in + fan_out))."""


class GlorotNormal(_Scaled, of=(1.0, "fan_avg", "truncated_normal")):
    """Truncated normal of variance 2 / (fan_in + fan_out)."""


class HeUniform(_Scaled, of=(2.0, "fan_in", "uniform")):
    """Uniform in ±√(6 / fan_in)."""


class HeNormal(_Scaled, of=(2.0, "fan_in", "truncated_normal")):
    """Truncated normal of variance 2 / fan_in."""


class LecunUniform(_Scaled, of=(1.0, "fan_in", "uniform")):
    """Uniform in ±√(3 / fan_in)."""


class LecunNormal(_Scaled, of=(1.0, "fan_in", "truncated_normal")):
    """Truncated normal of variance 1 / fan_in."""


class Orthogonal(Initializer):
    """An orthogonal matrix, times `gain`."""

    def __init__(self, gain: Finite = 1.0, seed: Seed | None = None) -> None:
        super().__init__(seed)
        self.gain = gain

    def values(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Any:
        drawn = np.empty(shape, np.float32)
        initializers.orthogonal(generator, drawn)
        return self.gain * drawn


def _within_two(generator: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Normal, drawn anew beyond two deviations."""
    drawn = generator.normal(size=shape)
    while (outside := np.abs(drawn) > 2.0).any():
        drawn[outside] = generator.normal(size=int(outside.sum()))
    return drawn


def fans(shape: tuple[int, ...]) -> tuple[float, float]:
    """(fan_in, fan_out) of a kernel [spatial…, in, out]."""
    if len(shape) < 2:
        size = float(math.prod(shape))
        return size, size
    places = math.prod(shape[:-2])
    return float(shape[-2] * places), float(shape[-1] * places)


KINDS: tuple[type[Initializer], ...] = (
    Zeros, Ones, Constant, RandomNormal, TruncatedNormal, RandomUniform, GlorotUniform, GlorotNormal, HeUniform,
    HeNormal, LecunUniform, LecunNormal, Orthogonal,
)  # fmt: skip
NAMES: dict[str, Callable[[], Initializer]] = {snake_case(kind.__name__): kind for kind in KINDS}
NAMES |= {"normal": RandomNormal, "uniform": RandomUniform}


@checked
def get(value: str | Callable[..., Any] | None) -> Callable[..., Any] | None:
    """The initializer of that name, one made of a class, or any function of a shape as it is.

    >>> from nnc import keras
    >>> keras.initializers.get("zeros")((2,))
    array([0., 0.], dtype=float32)
    """
    if value is None:
        return None
    made = named("initializer", value, NAMES) if isinstance(value, str) else value
    initializer: Any = made() if isinstance(made, type) else made
    if not callable(initializer):
        raise ArgumentError("keras", got=f"initializer={shown(value)}", need="a function of a shape")
    return initializer  # type: ignore[no-any-return]  # a function
