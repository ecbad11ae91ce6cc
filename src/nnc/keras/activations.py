"""Activations under Keras' names, as functions of operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nnc import numerics as n
from nnc.core.precautions.origin import caller_origin
from nnc.dynamic.eager import as_operand
from nnc.errors import ArgumentError
from nnc.keras.named import named

Activation = Callable[[Any], Any]

# Of SELU (Klambauer et al. 2017).
SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805


def linear(x: Any) -> Any:
    """x"""
    return x


def relu(x: Any, negative_slope: float = 0.0, max_value: float | None = None, threshold: float = 0.0) -> Any:
    """max(x, 0); below the threshold negative_slope · (x - threshold), and no more than max_value."""
    if threshold == 0.0 and negative_slope == 0.0:
        y = n.relu(as_operand(x))
    else:
        x = as_operand(x)
        y = n.where(x >= threshold, x, negative_slope * (x - threshold))
    return y if max_value is None else n.minimum(y, max_value)


def relu6(x: Any) -> Any:
    """min(max(x, 0), 6)"""
    return relu(x, max_value=6.0)


def sigmoid(x: Any) -> Any:
    """1 / (1 + e^-x)"""
    return n.sigmoid(as_operand(x))


def tanh(x: Any) -> Any:
    """tanh x"""
    return n.tanh(as_operand(x))


def softmax(x: Any, axis: int = -1) -> Any:
    """e^x / Σ e^x along the axis"""
    return n.softmax(as_operand(x), axis=axis)


def log_softmax(x: Any, axis: int = -1) -> Any:
    """x - ln Σ e^x along the axis"""
    return n.log_softmax(as_operand(x), axis=axis)


def gelu(x: Any, approximate: bool = False) -> Any:
    """x · Φ(x); approximate: x / 2 · (1 + tanh(√(2/π) (x + 0.044715 x³)))"""
    x = as_operand(x)
    if approximate:
        return 0.5 * x * (1.0 + n.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))
    return 0.5 * x * (1.0 + n.erf(x * 0.7071067811865476))


def silu(x: Any) -> Any:
    """x · σ(x)"""
    x = as_operand(x)
    return x * n.sigmoid(x)


def elu(x: Any, alpha: float = 1.0) -> Any:
    """x above 0, alpha · (e^x - 1) below"""
    x = as_operand(x)
    return n.where(x > 0, x, alpha * n.expm1(n.minimum(x, 0.0)))


def selu(x: Any) -> Any:
    """1.0507 · elu(x, 1.6733)"""
    return SELU_SCALE * elu(x, SELU_ALPHA)


def leaky_relu(x: Any, negative_slope: float = 0.2) -> Any:
    """x above 0, negative_slope · x below"""
    x = as_operand(x)
    return n.where(x > 0, x, negative_slope * x)


def softplus(x: Any) -> Any:
    """ln(1 + e^x)"""
    return n.softplus(as_operand(x))


def softsign(x: Any) -> Any:
    """x / (1 + |x|)"""
    x = as_operand(x)
    return x / (1.0 + n.abs(x))


def exponential(x: Any) -> Any:
    """e^x"""
    return n.exp(as_operand(x))


def hard_sigmoid(x: Any) -> Any:
    """min(max(x / 6 + 1/2, 0), 1)"""
    return n.clip(as_operand(x) / 6.0 + 0.5, 0.0, 1.0)


def hard_silu(x: Any) -> Any:
    """x · hard_sigmoid(x)"""
    x = as_operand(x)
    return x * hard_sigmoid(x)


def mish(x: Any) -> Any:
    """x · tanh(softplus(x))"""
    x = as_operand(x)
    return x * n.tanh(n.softplus(x))


swish, hard_swish = silu, hard_silu
NAMES: dict[str, Activation] = {
    function.__name__: function
    for function in (
        linear, relu, relu6, sigmoid, tanh, softmax, log_softmax, gelu, silu, elu, selu, leaky_relu, softplus, softsign,
        exponential, hard_sigmoid, hard_silu, mish,
    )
} | {"swish": silu, "hard_swish": hard_silu}  # fmt: skip


def get(value: Any) -> Activation:
    """The activation of that name; nothing at all of None; any function as it is.

    >>> from nnc import keras
    >>> keras.activations.get("relu")([-1.0, 1.0]).tolist()
    [0.0, 1.0]
    """
    if value is None:
        return linear
    if isinstance(value, str):
        return named("activation", value, NAMES)
    if not callable(value):
        need = 'a name such as "relu", or a function'
        raise ArgumentError("keras", got=f"activation={value!r}", need=need, origin=caller_origin())
    function: Activation = value
    return function
