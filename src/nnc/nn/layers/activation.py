"""Activations: pointwise functions as layers."""

from __future__ import annotations

from dataclasses import dataclass

from nnc.nn.layer import Layer, Scope, T
from nnc.ops import gelu, relu, sigmoid, softmax, tanh


@dataclass(frozen=True, slots=True)
class ReLU(Layer):
    """y = max(x, 0)."""

    def build(self, scope: Scope[T], x: T) -> T:
        """Apply to `x`."""
        return relu(x)


@dataclass(frozen=True, slots=True)
class Sigmoid(Layer):
    """y = 1 / (1 + e^-x)."""

    def build(self, scope: Scope[T], x: T) -> T:
        """Apply to `x`."""
        return sigmoid(x)


@dataclass(frozen=True, slots=True)
class Tanh(Layer):
    """y = tanh x."""

    def build(self, scope: Scope[T], x: T) -> T:
        """Apply to `x`."""
        return tanh(x)


@dataclass(frozen=True, slots=True)
class GELU(Layer):
    """y = x · Φ(x)."""

    def build(self, scope: Scope[T], x: T) -> T:
        """Apply to `x`."""
        return gelu(x)


@dataclass(frozen=True, slots=True)
class Softmax(Layer):
    """y = e^x / sum e^x over the last axis."""

    def build(self, scope: Scope[T], x: T) -> T:
        """Apply to `x`."""
        return softmax(x)
