"""Activations: pointwise functions as layers."""

from __future__ import annotations

from dataclasses import dataclass

from nnc.arguments import Finite, checked
from nnc.nn.layer import Layer, Scope, T
from nnc.ops import clamp, gelu, gelu_tanh, relu, sigmoid, softmax, tanh


@checked
@dataclass(frozen=True, slots=True)
class ReLU(Layer):
    """y = max(x, 0)."""

    def build(self, scope: Scope[T], x: T) -> T:
        return relu(x)


@checked
@dataclass(frozen=True, slots=True)
class Sigmoid(Layer):
    """y = 1 / (1 + e^-x)."""

    def build(self, scope: Scope[T], x: T) -> T:
        return sigmoid(x)


@checked
@dataclass(frozen=True, slots=True)
class Tanh(Layer):
    """y = tanh x."""

    def build(self, scope: Scope[T], x: T) -> T:
        return tanh(x)


@checked
@dataclass(frozen=True, slots=True)
class GELU(Layer):
    """y = x · Φ(x)."""

    def build(self, scope: Scope[T], x: T) -> T:
        return gelu(x)


@checked
@dataclass(frozen=True, slots=True)
class Softmax(Layer):
    """y = e^x / sum e^x over the last axis."""

    def build(self, scope: Scope[T], x: T) -> T:
        return softmax(x)


@checked
@dataclass(frozen=True, slots=True)
class GELUTanh(Layer):
    """y = x · (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2, as GPT-2 has it."""

    def build(self, scope: Scope[T], x: T) -> T:
        return gelu_tanh(x)


@checked
@dataclass(frozen=True, slots=True)
class Clamp(Layer):
    """y = min(max(x, low), high): with 0 and 6 the ReLU6 of mobile networks."""

    low: Finite = 0.0
    high: Finite = 6.0

    def build(self, scope: Scope[T], x: T) -> T:
        return clamp(x, self.low, self.high)
