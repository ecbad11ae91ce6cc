"""Activations under Keras' names: functions of `nnc.ops` and `nnc.nn.functional`, with its arguments."""

from __future__ import annotations

from collections.abc import Callable

from nnc import numerics as n
from nnc import ops
from nnc.arguments import Finite, checked
from nnc.core.precautions.origin import caller_origin
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.eager import as_operand
from nnc.errors import ArgumentError
from nnc.keras.named import named
from nnc.nn import functional as fn
from nnc.nn.functional import Values

Activation = Callable[..., Values]


def linear(x: Values) -> Values:
    """x"""
    return x


@checked
def relu(
    x: Values, negative_slope: Finite = 0.0, max_value: Finite | None = None, threshold: Finite = 0.0
) -> ArrayOperand:
    """max(x, 0); below the threshold negative_slope · (x - threshold), and no more than max_value."""
    y = as_operand(x)
    if threshold == 0.0:
        y = fn.leaky_relu(y, negative_slope) if negative_slope else ops.relu(y)
    else:
        y = n.where(y >= threshold, y, negative_slope * (y - threshold))
    return y if max_value is None else n.minimum(y, max_value)


def relu6(x: Values) -> ArrayOperand:
    """min(max(x, 0), 6)"""
    return fn.relu6(x)


def sigmoid(x: Values) -> ArrayOperand:
    """1 / (1 + e^-x)"""
    return ops.sigmoid(as_operand(x))


def tanh(x: Values) -> ArrayOperand:
    """tanh x"""
    return ops.tanh(as_operand(x))


@checked
def softmax(x: Values, axis: int = -1) -> ArrayOperand:
    """e^x / Σ e^x along the axis"""
    return fn.softmax(x, axis)


@checked
def log_softmax(x: Values, axis: int = -1) -> ArrayOperand:
    """x - ln Σ e^x along the axis"""
    return fn.log_softmax(x, axis)


@checked
def gelu(x: Values, approximate: bool = False) -> ArrayOperand:
    """x · Φ(x); approximate: x / 2 · (1 + tanh(√(2/π) (x + 0.044715 x³)))"""
    return (ops.gelu_tanh if approximate else ops.gelu)(as_operand(x))


def silu(x: Values) -> ArrayOperand:
    """x · σ(x)"""
    return fn.silu(x)


@checked
def elu(x: Values, alpha: Finite = 1.0) -> ArrayOperand:
    """x above 0, alpha · (e^x - 1) below"""
    return fn.elu(x, alpha)


def selu(x: Values) -> ArrayOperand:
    """1.0507 · elu(x, 1.6733) (Klambauer et al. 2017)"""
    return fn.selu(x)


@checked
def leaky_relu(x: Values, negative_slope: Finite = 0.2) -> ArrayOperand:
    """x above 0, negative_slope · x below"""
    return fn.leaky_relu(x, negative_slope)


def softplus(x: Values) -> ArrayOperand:
    """ln(1 + e^x)"""
    return ops.softplus(as_operand(x))


def softsign(x: Values) -> ArrayOperand:
    """x / (1 + |x|)"""
    return fn.softsign(x)


def exponential(x: Values) -> ArrayOperand:
    """e^x"""
    return ops.exp(as_operand(x))


def hard_sigmoid(x: Values) -> ArrayOperand:
    """min(max(x / 6 + 1/2, 0), 1)"""
    return fn.hardsigmoid(x)


def hard_silu(x: Values) -> ArrayOperand:
    """x · hard_sigmoid(x)"""
    return fn.hardswish(x)


def mish(x: Values) -> ArrayOperand:
    """x · tanh(softplus(x))"""
    return fn.mish(x)


swish, hard_swish = silu, hard_silu
NAMES: dict[str, Activation] = {
    function.__name__: function
    for function in (
        linear, relu, relu6, sigmoid, tanh, softmax, log_softmax, gelu, silu, elu, selu, leaky_relu, softplus, softsign,
        exponential, hard_sigmoid, hard_silu, mish,
    )
} | {"swish": silu, "hard_swish": hard_silu}  # fmt: skip


def get(value: object) -> Activation:
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
