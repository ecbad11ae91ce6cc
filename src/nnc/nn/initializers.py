"""Initial values of parameters: functions that fill one, and JAX's that draw by a key, under the same names.

    nn.Initialized(layer, (("*.weight", nn.initializers.orthogonal),))          a layer fills its parameter
    w = nn.initializers.glorot_uniform()(key, (3, 4))                           as `jax.nn.initializers`, an array

Called with a generator and values they fill these (`nnc.nn.layers.initializers`); called with a key and a shape they
give an array of operators, so it compiles and is mapped. Without either they are JAX's constructors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, TypeAlias

import numpy as np

from nnc import numerics as n
from nnc.arguments import Finite, Positive, Rate, checked
from nnc.core.precautions.origin import caller_origin
from nnc.core.values.dtype import F32, AnyDType
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.errors import ArgumentError, ShapeError
from nnc.nn.layers import initializers as fills
from nnc.nn.state.generators import Values
from nnc.numerics.conversion import sizes_of

__all__ = [
    "constant", "glorot_normal", "glorot_uniform", "he_normal", "he_uniform", "identity", "kaiming_normal",
    "kaiming_uniform", "lecun_normal", "lecun_uniform", "normal", "ones", "orthogonal", "truncated_normal", "uniform",
    "variance_scaling", "xavier_normal", "xavier_uniform", "zeros",
]  # fmt: skip

Mode: TypeAlias = Literal["fan_in", "fan_out", "fan_avg"]
Distribution: TypeAlias = Literal["truncated_normal", "normal", "uniform"]
Door: TypeAlias = Callable[..., Any]
EXAMPLE = """>>> nn.initializers.{}()(nnc.random.key(0), (3, 3)).shape
    (3, 3)
    """


def _door(name: str, fill: Door, draw: Door) -> Door:
    """A function that fills values by a generator, draws by a key, or gives itself where it is given neither."""

    def door(*args: Any, **named: Any) -> Any:  # noqa: ANN401  # a generator and values, or a key, a shape and a type
        if not args and not named.keys() & {"key", "shape"}:
            return door if not named else partial(door, **named)
        return _either(name, fill, draw, *args, **named)

    door.__name__ = door.__qualname__ = name
    door.__doc__ = f"{(fill.__doc__ or '').strip()}\n\n    {EXAMPLE.format(name)}"
    return door


def _either(name: str, fill: Door, draw: Door, *args: Any, **named: Any) -> Any:  # noqa: ANN401  # as a door
    """Fill values, or draw by a key."""
    if not args or not isinstance(args[0], np.random.Generator):
        return _drawn(name, draw, *args, **named)
    if named:
        fix = f"{name} itself, and the layer's values times a factor"
        raise ArgumentError(name, got=f"{', '.join(named)} for a layer", need="a generator and values", fix=fix)
    return fill(*args)


def _drawn(name: str, draw: Door, key: Any, shape: Any = None, dtype: AnyDType = F32, **options: Any) -> ArrayOperand:  # noqa: ANN401  # as they come
    if not isinstance(key, ArrayOperand) or shape is None:
        got, fix = "no key and shape" if shape is None else f"a {type(key).__name__}", f"{name}()(key, (3, 4))"
        raise ArgumentError(name, got=got, need="a key of nnc.random and a shape", fix=fix, origin=caller_origin())
    result: ArrayOperand = draw(key, sizes_of(shape), dtype, **options)
    return result


def _scaled(
    scale: float, mode: Mode, distribution: Distribution, key: ArrayOperand, shape: tuple[int, ...], dtype: AnyDType
) -> ArrayOperand:  # fmt: skip
    """Of the variance scale / fan; fans are those of the last two axes, times the sizes of the others."""
    if len(shape) < 2:
        got = f"a shape of {len(shape)} axes"
        raise ShapeError("variance_scaling", got=got, need="two axes or more", origin=caller_origin())
    window = math.prod(shape[:-2])
    inward, outward = shape[-2] * window, shape[-1] * window
    fan = {"fan_in": inward, "fan_out": outward, "fan_avg": (inward + outward) / 2}[mode]
    deviation = math.sqrt(scale / max(fan, 1))
    if distribution == "uniform":
        return n.random.uniform(key, shape, dtype, -1.0, 1.0) * (deviation * math.sqrt(3.0))
    if distribution == "normal":
        return n.random.normal(key, shape, dtype) * deviation
    return n.random.truncated_normal(-2.0, 2.0, shape, dtype, key=key) * (deviation / fills.CUT_DEVIATION)


def _orthogonal(
    key: ArrayOperand, shape: tuple[int, ...], dtype: AnyDType, scale: float = 1.0, column_axis: int = -1
) -> ArrayOperand:  # fmt: skip
    if len(shape) < 2 or column_axis != -1:
        got = f"a shape of {len(shape)} axes, column_axis={column_axis}"
        raise ShapeError("orthogonal", got=got, need="two axes or more, columns the last", origin=caller_origin())
    rows, columns = math.prod(shape[:-1]), shape[-1]
    drawn = n.random.normal(key, (max(rows, columns), min(rows, columns)), dtype)
    q, r = n.linalg.qr(drawn)
    q = q * n.where(n.linalg.diagonal(r) < 0.0, -1.0, 1.0)
    return ((q if rows >= columns else q.T) * scale).reshape(shape)


def _eye(key: ArrayOperand, shape: tuple[int, ...], dtype: AnyDType) -> ArrayOperand:
    if len(shape) != 2:
        raise ShapeError("identity", got=f"{len(shape)} axes", need="a matrix", origin=caller_origin())
    return n.eye(*shape, dtype=dtype)


def _family(scale: float, mode: Mode, distribution: Distribution) -> Door:
    return partial(_scaled, scale, mode, distribution)


zeros = _door("zeros", fills.zeros, lambda key, shape, dtype: n.zeros(shape, dtype=dtype))
ones = _door("ones", fills.ones, lambda key, shape, dtype: n.ones(shape, dtype=dtype))
identity = _door("identity", fills.identity, _eye)
orthogonal = _door("orthogonal", fills.orthogonal, _orthogonal)
he_uniform = _door("he_uniform", fills.he_uniform, _family(2.0, "fan_in", "uniform"))
he_normal = _door("he_normal", fills.he_normal, _family(2.0, "fan_in", "truncated_normal"))
lecun_uniform = _door("lecun_uniform", fills.lecun_uniform, _family(1.0, "fan_in", "uniform"))
lecun_normal = _door("lecun_normal", fills.lecun_normal, _family(1.0, "fan_in", "truncated_normal"))
glorot_uniform = _door("glorot_uniform", fills.glorot_uniform, _family(1.0, "fan_avg", "uniform"))
glorot_normal = _door("glorot_normal", fills.glorot_normal, _family(1.0, "fan_avg", "truncated_normal"))
kaiming_normal, kaiming_uniform, xavier_normal, xavier_uniform = he_normal, he_uniform, glorot_normal, glorot_uniform


@checked
def constant(value: Finite, dtype: AnyDType = F32) -> Door:
    """All of one value.

    >>> nn.initializers.constant(0.5)(nnc.random.key(0), (2,)).tolist()
    [0.5, 0.5]
    """
    return partial(_either, "constant", fills.constant(value), partial(_constant, value))


@checked
def normal(stddev: Rate = 0.01, dtype: AnyDType = F32, *, mean: Finite = 0.0) -> Door:
    """Normal of this deviation.

    >>> nn.initializers.normal(0.02)(nnc.random.key(0), (2, 3)).shape
    (2, 3)
    """
    return partial(_either, "normal", fills.normal(stddev, mean), partial(_normal, stddev, mean))


@checked
def uniform(scale: Finite = 0.01, high: Finite | None = None) -> Door:
    """Uniform in 0..scale, or in scale..high.

    >>> nn.initializers.uniform(-1.0, 1.0)(nnc.random.key(0), (2, 3)).shape
    (2, 3)
    """
    bounds = (0.0, scale) if high is None else (scale, high)
    return partial(_either, "uniform", fills.uniform(*bounds), partial(_uniform, *bounds))


@checked
def truncated_normal(stddev: Rate = 0.01, dtype: AnyDType = F32) -> Door:
    """Normal of this deviation, drawn anew beyond two of them.

    >>> nn.initializers.truncated_normal(0.02)(nnc.random.key(0), (2, 3)).shape
    (2, 3)
    """
    return partial(_either, "truncated_normal", fills.truncated_normal(stddev), partial(_truncated, stddev))


@checked
def variance_scaling(scale: Positive, mode: Mode, distribution: Distribution) -> Door:
    """Of the variance scale / fan: the rows of a weight [in, out], its columns, or their mean (He et al. 2015).

    >>> nn.initializers.variance_scaling(2.0, "fan_in", "normal")(nnc.random.key(0), (3, 4)).shape
    (3, 4)
    """
    draw = partial(_scaled, scale, mode, distribution)
    return partial(_either, "variance_scaling", partial(_fill_scaled, scale, mode, distribution), draw)


# Functions of modules, not closures: layers are pickled with them.


def _constant(value: float, key: ArrayOperand, shape: tuple[int, ...], dtype: AnyDType) -> ArrayOperand:
    return n.full(shape, value, dtype=dtype)


def _normal(deviation: float, mean: float, key: ArrayOperand, shape: tuple[int, ...], dtype: AnyDType) -> ArrayOperand:
    return n.random.normal(key, shape, dtype, mean, deviation)


def _uniform(low: float, high: float, key: ArrayOperand, shape: tuple[int, ...], dtype: AnyDType) -> ArrayOperand:
    return n.random.uniform(key, shape, dtype, low, high)


def _truncated(deviation: float, key: ArrayOperand, shape: tuple[int, ...], dtype: AnyDType) -> ArrayOperand:
    return n.random.truncated_normal(-2.0, 2.0, shape, dtype, key=key) * deviation


def _fill_scaled(
    scale: float, mode: Mode, distribution: Distribution, generator: np.random.Generator, values: Values
) -> None:
    key = n.random.key(int(generator.integers(1 << 31)))
    values[...] = _scaled(scale, mode, distribution, key, values.shape, F32).numpy().astype(values.dtype)
