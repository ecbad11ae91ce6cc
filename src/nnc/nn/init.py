"""Starting values under PyTorch's names: functions that give a parameter other values, and give it back.

    nn.init.xavier_uniform_(layer.weight)
    nn.init.zeros_(layer.bias)

Weights lie [out, in, spatial…] as PyTorch has them, but [spatial…, in, out] in convolutions and layers that find their
sizes (`nn.Dense`): what depends on fans, such as `kaiming_uniform_`, knows which. Values are drawn by `nnc.seed`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nnc.arguments import Finite, Rate, checked
from nnc.dynamic import eager
from nnc.dynamic.state import assign
from nnc.dynamic.transforms.randomness import next_counter
from nnc.dynamic.variable import Variable
from nnc.errors import ArgumentError, ShapeError
from nnc.nn.layers.initializers import orthogonal
from nnc.nn.state.generators import generator_for
from nnc.nn.state.weight_order import is_in_first

__all__ = [
    "calculate_gain", "constant_", "eye_", "kaiming_normal_", "kaiming_uniform_", "normal_", "ones_", "orthogonal_",
    "trunc_normal_", "uniform_", "xavier_normal_", "xavier_uniform_", "zeros_",
]  # fmt: skip

Fan: TypeAlias = Literal["fan_in", "fan_out"]
Nonlinearity: TypeAlias = Literal[
    "linear", "sigmoid", "tanh", "relu", "leaky_relu", "selu", "conv1d", "conv2d", "conv3d"
]
Draw: TypeAlias = Callable[[np.random.Generator], NDArray[np.float64]]


def _filled(tensor: Variable, draw: Draw) -> Variable:
    """The parameter with other values."""
    values = np.asarray(draw(generator_for(int(next_counter()), "init")), np.float32)
    filled = eager.tensor(np.broadcast_to(values, tensor.shape).copy(), tensor.dtype, device=tensor.device)
    assign(tensor, filled)
    if tensor.owner is not tensor:
        assign(tensor.owner, filled)
    return tensor


@checked
def constant_(tensor: Variable, val: Finite) -> Variable:
    """All of one value."""
    return _filled(tensor, lambda generator: np.array(float(val)))


@checked
def zeros_(tensor: Variable) -> Variable:
    """All zeros."""
    return constant_(tensor, 0.0)


@checked
def ones_(tensor: Variable) -> Variable:
    """All ones."""
    return constant_(tensor, 1.0)


@checked
def uniform_(tensor: Variable, a: Finite = 0.0, b: Finite = 1.0) -> Variable:
    """Uniform in a..b."""
    # NumPy would compare in the narrower type of its own numbers.
    if not 0.0 <= float(b) - float(a) < math.inf:
        raise ArgumentError("uniform_", got=f"a={a}, b={b}", need="a ≤ b, a finite number apart")
    return _filled(tensor, lambda generator: generator.uniform(a, b, tensor.shape))


@checked
def normal_(tensor: Variable, mean: Finite = 0.0, std: Rate = 1.0) -> Variable:
    """Normal of this mean and deviation.

    >>> nnc.seed(0)
    >>> layer = nn.Linear(100, 100)
    >>> bool(abs(nn.init.normal_(layer.weight, std=0.02).std().item() - 0.02) < 0.001)
    True
    """
    return _filled(tensor, lambda generator: generator.normal(mean, std, tensor.shape))


@checked
def trunc_normal_(tensor: Variable, mean: Finite = 0.0, std: Rate = 1.0, a: Finite = -2.0, b: Finite = 2.0) -> Variable:
    """Normal of this mean and deviation, drawn anew outside of a..b."""
    a, b = float(a), float(b)
    if a >= b:
        raise ArgumentError("trunc_normal_", got=f"a={a}, b={b}", need="a < b")

    def drawn(generator: np.random.Generator) -> NDArray[np.float64]:
        values = generator.normal(mean, std, tensor.shape)
        for _ in range(1000):
            outside = (values < a) | (values > b)
            if not outside.any():
                return values
            values[outside] = generator.normal(mean, std, int(outside.sum()))
        return np.clip(values, a, b)

    return _filled(tensor, drawn)


@checked
def eye_(tensor: Variable) -> Variable:
    """1 where row and column of a matrix are the same, else 0."""
    if tensor.ndim != 2:
        raise ShapeError("eye_", got=str(tensor.spec), need="a matrix")
    return _filled(tensor, lambda generator: np.eye(tensor.shape[0], tensor.shape[1]))


@checked
def xavier_uniform_(tensor: Variable, gain: Finite = 1.0) -> Variable:
    """Uniform in ±gain · √(6 / (fan_in + fan_out)) (Glorot & Bengio 2010)."""
    bound = gain * math.sqrt(6.0 / sum(_fans("xavier_uniform_", tensor)))
    return uniform_(tensor, -bound, bound)


@checked
def xavier_normal_(tensor: Variable, gain: Finite = 1.0) -> Variable:
    """Normal of deviation gain · √(2 / (fan_in + fan_out)) (Glorot & Bengio 2010)."""
    return normal_(tensor, 0.0, abs(gain) * math.sqrt(2.0 / sum(_fans("xavier_normal_", tensor))))


@checked
def kaiming_uniform_(
    tensor: Variable, a: Finite = 0.0, mode: Fan = "fan_in", nonlinearity: Nonlinearity = "leaky_relu"
) -> Variable:
    """Uniform in ±gain · √(3 / fan) (He et al. 2015); the gain is that of `nonlinearity`, of slope a."""
    fan = _fans("kaiming_uniform_", tensor)[mode == "fan_out"]
    bound = calculate_gain(nonlinearity, a) * math.sqrt(3.0 / fan)
    return uniform_(tensor, -bound, bound)


@checked
def kaiming_normal_(
    tensor: Variable, a: Finite = 0.0, mode: Fan = "fan_in", nonlinearity: Nonlinearity = "leaky_relu"
) -> Variable:
    """Normal of deviation gain / √fan (He et al. 2015)."""
    fan = _fans("kaiming_normal_", tensor)[mode == "fan_out"]
    return normal_(tensor, 0.0, calculate_gain(nonlinearity, a) / math.sqrt(fan))


@checked
def orthogonal_(tensor: Variable, gain: Finite = 1.0) -> Variable:
    """Orthonormal rows or columns, times the gain (Saxe et al. 2014)."""
    if tensor.ndim < 2:
        raise ShapeError("orthogonal_", got=str(tensor.spec), need="two axes or more")

    def drawn(generator: np.random.Generator) -> NDArray[np.float64]:
        values = np.empty(tensor.shape)
        orthogonal(generator, values)
        return values * gain

    return _filled(tensor, drawn)


@checked
def calculate_gain(nonlinearity: Nonlinearity, param: Finite | None = None) -> float:
    """By how much a nonlinearity shrinks values: √2 for ReLU, 5/3 for tanh, √(2 / (1 + slope²)) for leaky ReLU.

    >>> nn.init.calculate_gain("tanh")
    1.6666666666666667
    """
    slope = 0.01 if param is None else param
    gains = {"tanh": 5.0 / 3.0, "relu": math.sqrt(2.0), "selu": 0.75, "leaky_relu": math.sqrt(2.0 / (1.0 + slope**2))}
    return gains.get(nonlinearity, 1.0)


def _fans(subject: str, tensor: Variable) -> tuple[int, int]:
    if tensor.ndim < 2:
        raise ShapeError(subject, got=str(tensor.spec), need="two axes or more")
    return _calculate_fan_in_and_fan_out(tensor)


def _calculate_fan_in_and_fan_out(tensor: Variable) -> tuple[int, int]:
    """fan_in and fan_out, at least 1: PyTorch's tutorials call it by this name."""
    shape = tensor.shape
    last = is_in_first(tensor)
    window, inward, outward = (shape[:-2], shape[-2], shape[-1]) if last else (shape[2:], shape[1], shape[0])
    return max(math.prod(window) * inward, 1), max(math.prod(window) * outward, 1)
